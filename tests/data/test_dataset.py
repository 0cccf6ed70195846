from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from bat_tf._internal.validation import DataError
from bat_tf.data import Example, LabelSpace, Span, TextDataset, read
from bat_tf.data.dataset import longest_spans


def shop():
    return TextDataset(
        [
            Example("red shoes", spans=[(4, 9, "product")], id="a"),
            Example("Acme hat", spans=[(5, 8, "product"), (0, 4, "brand")]),
            Example("", spans=[]),
        ],
        name="shop",
    )


def numbered(count):
    return TextDataset(
        Example(str(n), labels=["even"] * (n % 2 == 0)) for n in range(count)
    )


def test_spans_are_sorted_and_plain():
    example = Example("Acme hat", spans=[[np.int64(5), 8, "product"], (0, 4, "brand")])
    assert example.spans == (Span(0, 4, "brand"), Span(5, 8, "product"))
    assert type(example.spans[1].start) is int


def test_a_repeated_label_counts_once():
    assert Example("x", labels=["b", "a", "b"]).labels == ("b", "a")


@pytest.mark.parametrize(
    "arguments, reason",
    [
        ({"text": 5, "spans": []}, "text must be a string"),
        ({"text": "\ud83d", "spans": []}, "lone surrogate"),
        ({"text": "a", "labels": ["\ud83d"]}, "a label holds half a character"),
        ({"text": "ab"}, "this one has neither"),
        ({"text": "ab", "spans": [], "labels": []}, "this one has both"),
        ({"text": "ab", "spans": {"a": 1}}, "spans must be a list"),
        ({"text": "ab", "spans": [[0, 1]]}, r'must be \[start, end, "kind"\]'),
        ({"text": "ab", "spans": [["0", 1, "k"]]}, "must be whole numbers"),
        ({"text": "ab", "spans": [[0.0, 1, "k"]]}, "must be whole numbers"),
        ({"text": "ab", "spans": [[False, True, "k"]]}, "must be whole numbers"),
        ({"text": "ab", "spans": [[0, 1, 7]]}, "kind of a span must be a name"),
        ({"text": "ab", "spans": [[0, 1, ""]]}, "kind of a span must be a name"),
        ({"text": "ab", "spans": [[1, 1, "k"]]}, "ends before it has begun"),
        ({"text": "東京", "spans": [[0, 6, "k"]]}, "has 2 characters.*not bytes"),
        ({"text": "ab", "spans": [[-1, 1, "k"]]}, "outside the text"),
        ({"text": "abc", "spans": [[0, 2, "k"], [1, 3, "m"]]}, "overlap.*longest"),
        ({"text": "ab", "labels": "news"}, "labels must be a list"),
        ({"text": "ab", "labels": ["news", None]}, "a label must be a name"),
    ],
)
def test_bad_examples_get_a_sentence(arguments, reason):
    with pytest.raises(ValueError, match=reason):
        Example(**arguments)


def test_a_dataset_is_a_sequence():
    data = shop()
    assert len(data) == 3 and data.task == "spans"
    assert data[1].text == "Acme hat" and data[-1].text == ""
    assert isinstance(data[:2], TextDataset) and data[:2].texts == data.texts[:2]
    assert data.take(1).texts == ["red shoes"] and data.take(99).texts == data.texts
    assert data.kinds == ["brand", "product"]
    assert [len(spans) for spans in data.spans] == [1, 2, 0]
    assert (data + data).texts == data.texts * 2
    noted = TextDataset(data, notices=["read as cp1252"])
    assert (noted + data).notices == noted.notices
    assert TextDataset([]).task is None


def test_a_dataset_has_one_task():
    with pytest.raises(
        ValueError, match=r"spans at 0, labels at 3. Keep two data sets"
    ):
        shop() + numbered(1)
    with pytest.raises(TypeError, match="`examples` must be Example objects"):
        TextDataset(["just a text"])


def test_split_repeats_with_the_seed():
    data = numbered(100)
    rest, held_out = data.split(0.1, seed=5)
    assert (len(rest), len(held_out)) == (90, 10)
    assert sorted(rest.texts + held_out.texts) == sorted(data.texts)
    assert held_out.texts == data.split(0.1, seed=5)[1].texts
    assert held_out.texts != data.split(0.1, seed=6)[1].texts


def test_split_keeps_equal_texts_together():
    texts = [f"text {number % 20}" for number in range(60)]
    data = TextDataset(Example(text, labels=[]) for text in texts)
    rest, held_out = data.split(0.1, seed=0)
    assert len(rest) + len(held_out) == 60 and len(held_out) >= 6
    assert not set(rest.texts) & set(held_out.texts)
    same = TextDataset([Example("again", labels=[])] * 10)
    assert [len(part) for part in same.split(0.2, seed=0)] == [8, 2]


def test_split_never_gives_an_empty_part():
    assert [len(part) for part in numbered(3).split(0.01, seed=0)] == [2, 1]
    assert [len(part) for part in numbered(3).split(1.0, seed=0)] == [1, 2]
    with pytest.raises(ValueError, match="needs two examples"):
        numbered(1).split(0.5, seed=0)
    with pytest.raises(ValueError, match="`fraction` must be a number >= 0 and <= 1"):
        numbered(9).split(20, seed=0)


def test_summary_says_what_is_there_and_what_is_not():
    data = TextDataset(
        shop(), "shop", skipped=[DataError("shop.jsonl", 7, "not JSON.")]
    )
    assert data.summary().splitlines() == [
        "shop",
        "  3 examples, 5.7 characters on average, 9 at most",
        "  3 spans: product 2, brand 1",
        "  1 left out, first: shop.jsonl, line 7: not JSON.",
    ]
    assert repr(numbered(3)) == "<TextDataset: 3 examples, 2 labels (even 2)>"
    many = TextDataset([Example("x", labels=[f"label {n}" for n in range(1200)])])
    assert repr(many).endswith("label 4 1, 1,195 more)>")
    assert repr(TextDataset([])) == "<TextDataset: 0 examples, 0 spans (none)>"


texts = st.text(st.characters(exclude_categories=["Cs"]))
names = st.text(st.characters(exclude_categories=["Cs"], min_codepoint=1), min_size=1)


@settings(deadline=None)
@given(texts, st.lists(names), st.none() | texts)
def test_save_and_read_are_inverse_for_any_text(tmp_path_factory, text, labels, name):
    path = tmp_path_factory.mktemp("save") / "data.jsonl"
    data = TextDataset([Example(text, labels=labels, id=name)])
    data.save(path)
    assert list(read(path)) == list(data)


def test_save_writes_spans_and_compresses(tmp_path):
    shop().save(tmp_path / "shop.jsonl.gz")
    assert list(read(tmp_path / "shop.jsonl.gz")) == list(shop())


def test_a_failing_save_leaves_the_older_file(tmp_path, monkeypatch):
    path = tmp_path / "shop.jsonl"
    shop().save(path)
    before = path.read_bytes()
    monkeypatch.setattr("bat_tf.data.dataset.json.dumps", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        shop().save(path)
    assert path.read_bytes() == before


spans = st.builds(
    lambda start, length, kind: Span(start, start + length, kind),
    st.integers(0, 20),
    st.integers(1, 10),
    st.sampled_from("ab"),
)


@settings(deadline=None)
@given(st.lists(spans))
def test_longest_spans_keeps_no_overlap_and_drops_only_for_a_longer_one(given_spans):
    kept, dropped = longest_spans(given_spans)
    assert sorted(kept + dropped) == sorted(given_spans)
    assert all(a.end <= b.start for a, b in pairwise(kept))
    for span in dropped:
        rivals = [k for k in kept if k.start < span.end and span.start < k.end]
        assert any(k.end - k.start >= span.end - span.start for k in rivals)


def test_labels_may_come_as_a_sparse_matrix():
    space = LabelSpace(["art", "news", "sport"])
    rows = [("news", "sport"), (), ("art",)]
    matrix = space.csr(rows)
    for given_matrix in (matrix, matrix.tocoo(), scipy.sparse.csr_array(matrix)):
        data = TextDataset.from_csr("abc", given_matrix, space, name="tiny")
        assert data.texts == ["a", "b", "c"] and data.labels == rows
        assert data.name == "tiny"
    matrix.data[0] = 0  # kept by SciPy, and yet no label
    assert TextDataset.from_csr("abc", matrix, space.names)[0].labels == ("sport",)


def test_a_matrix_of_a_million_labels_stays_sparse():
    names = [str(number) for number in range(1_000_000)]
    matrix = scipy.sparse.csr_matrix((np.ones(50), (range(50), range(50))), (50, 10**6))
    data = TextDataset.from_csr(["a"] * 50, matrix, names)
    assert data.counts().total() == 50 and data[49].labels == ("49",)


@pytest.mark.parametrize(
    "labels, names, error, reason",
    [
        (np.eye(2), ["a", "b"], TypeError, "a SciPy sparse matrix.*ndarray"),
        (scipy.sparse.eye(3), ["a", "b"], ValueError, r"shape \(2, 2\).*\(3, 3\)"),
        (scipy.sparse.eye(2), ["a"], ValueError, r"of shape \(2, 1\): texts, names"),
        (scipy.sparse.eye(2), ["a", "a"], ValueError, r"all different. .*\['a'\]"),
    ],
)
def test_a_matrix_that_does_not_fit_is_a_sentence(labels, names, error, reason):
    with pytest.raises(error, match=reason):
        TextDataset.from_csr(["x", "y"], labels, names)


def test_labels_can_be_narrowed_to_a_space():
    rows = [["a", "b"], ["c"], ["a"]]
    data = TextDataset(Example("x", labels=row, id="1") for row in rows)
    space = LabelSpace.fit(data.labels, min_count=2)
    assert data.keep_labels(space).labels == [("a",), (), ("a",)]
    assert data.keep_labels(space)[0].id == "1" and len(data.counts()) == 3
    assert data.keep_labels(["a", "b", "c"]).labels == data.labels
    assert list(shop().keep_labels(["product"])) == list(shop())
    with pytest.raises(TypeError, match="`names` must be a list of names"):
        data.keep_labels("abc")
