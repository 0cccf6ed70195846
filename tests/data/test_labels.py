import json
import time
import tracemalloc

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bat_tf.data import LabelSpace, read
from bat_tf.data.labels import unique_names


def space():
    return LabelSpace.fit(
        [["sport", "news"], ["news", "news"], []], names=["sport", "art", "news"]
    )


def test_fit_sorts_and_counts():
    labels = space()
    assert labels.names == ("art", "news", "sport")
    assert labels.counts.tolist() == [0, 2, 1] and labels.counts.dtype == np.int64
    assert labels.num_examples == 3
    assert len(labels) == 3 and "art" in labels and "arts" not in labels


def test_ids_do_not_depend_on_the_order_of_the_data():
    rows = [["c"], ["a", "b"], ["b"]]
    assert LabelSpace.fit(rows) == LabelSpace.fit(reversed(rows))
    assert LabelSpace.fit(iter(rows)).ids(["c", "a"]) == [2, 0]


def test_the_constructor_keeps_the_order_given():
    labels = LabelSpace(["zero", "one", "two"])
    assert labels.ids(["two", "zero"]) == [2, 0]
    assert labels.counts is None


def test_an_unknown_label_names_similar_ones_and_a_remedy():
    with pytest.raises(ValueError, match=r"no label 'sprot' .* Did you mean 'sport'\?"):
        space().id_of("sprot")
    with pytest.raises(ValueError, match="Correct the data, or make a new LabelSpace"):
        space().ids(["news", "山"])
    with pytest.raises(ValueError, match="no label 'opera'"):
        LabelSpace.fit([["opera"]], names=["news"])


@pytest.mark.parametrize(
    "arguments, error, reason",
    [
        ([["b", "a", "b"]], ValueError, r"Received more than once: \['b'\]"),
        (["news"], TypeError, 'Write \\["news"\\], not "news"'),
        ([["news", 3]], TypeError, "`names` must be a list of names"),
        ([["news", ""]], TypeError, "`names` must be a list of names"),
        ([["a", "b"], [1]], ValueError, "`counts` must be 2 counts >= 0"),
        ([["a"], [-1]], ValueError, "`counts` must be 1 counts >= 0"),
        ([["a"], [1], -5], ValueError, "`num_examples` must be an integer >= 0"),
    ],
)
def test_bad_arguments_get_a_sentence(arguments, error, reason):
    with pytest.raises(error, match=reason):
        LabelSpace(*arguments)


def test_fit_refuses_names_where_rows_of_names_belong():
    with pytest.raises(TypeError, match="`labels` must be a list of names"):
        LabelSpace.fit(["sport", "news"])


def test_save_and_load(tmp_path):
    path = tmp_path / "labels.json"
    space().save(path)
    assert LabelSpace.load(path) == space()
    assert LabelSpace.load(path) != LabelSpace(["art", "news", "sport"])


@pytest.mark.parametrize("content", ["[1, 2]", '{"labels": []}', "{", '{"names": [3]}'])
def test_a_file_that_holds_something_else_is_a_sentence(tmp_path, content):
    path = tmp_path / "labels.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"labels\.json does not hold a LabelSpace"):
        LabelSpace.load(path)


def test_keras_serialises_it():
    config = keras.saving.serialize_keras_object(space())
    assert config["registered_name"] == "bat_tf>LabelSpace"
    again = keras.saving.deserialize_keras_object(json.loads(json.dumps(config)))
    assert again == space()
    assert again.ids(["sport"]) == [2]


def test_labels_with_codes_for_names_have_texts(tmp_path):
    texts = {"art": "Painting and sculpture", "other": "of another catalogue"}
    labels = LabelSpace.fit([["art"], ["news"]], texts=texts)
    assert labels.texts == ("Painting and sculpture", "news")
    labels.save(tmp_path / "labels.json")
    assert LabelSpace.load(tmp_path / "labels.json") == labels
    assert labels != LabelSpace.fit([["art"], ["news"]])
    for bad in ({"arts": "no such label"}, ["Painting", "News"], {"art": ""}):
        with pytest.raises((TypeError, ValueError), match="`texts` must be"):
            LabelSpace(["art", "news"], texts=bad)


def test_rare_labels_can_be_left_out():
    rows = [["a", "b"], ["a", "a"], ["b", "c"]]
    labels = LabelSpace.fit(rows, min_count=2)
    assert labels.names == ("a", "b") and labels.counts.tolist() == [2, 2]
    assert labels.num_examples == 3
    labels = LabelSpace.fit(rows, names=["a", "b", "c", "d"], min_count=1)
    assert labels.names == ("a", "b", "c")
    with pytest.raises(ValueError, match="`min_count` must be an integer >= 0"):
        LabelSpace.fit(rows, min_count=-1)
    with pytest.raises(ValueError, match="no label 'c'"):
        LabelSpace.fit(rows, names=["a", "b"], min_count=2)


def test_groups_by_training_count():
    labels = LabelSpace(list("abcdef"), counts=[0, 8, 9, 34, 35, 900])
    groups = {name: ids.tolist() for name, ids in labels.groups((8, 35)).items()}
    assert groups == {"head": [4, 5], "medium": [2, 3], "tail": [0, 1]}
    assert [len(ids) for ids in labels.groups((8, 9)).values()] == [4, 0, 2]
    with pytest.raises(ValueError, match="groups need the training counts"):
        LabelSpace(["a"]).groups((8, 35))
    for wrong in ((35, 8), (8, 8), 8, (1, 2, 3), ("a", 1)):
        with pytest.raises(ValueError, match=r"`boundaries` must be two numbers \(low"):
            labels.groups(wrong)


def test_groups_of_reuters(data_folder):
    labels = LabelSpace.fit(read("reuters21578").labels)
    assert [len(ids) for ids in labels.groups((8, 35)).values()] == [37, 25, 28]


@given(st.lists(st.lists(st.sampled_from(["art", "news", "sport"]))))
def test_arrays_of_labels_agree(rows):
    labels = space()
    dense = labels.multi_hot(rows)
    assert dense.shape == (len(rows), 3) and dense.dtype == np.float32
    for row, names in zip(dense, rows, strict=True):
        assert [labels.names[i] for i in np.flatnonzero(row)] == sorted(set(names))
    assert set(np.unique(dense)) <= {0, 1}
    sparse = labels.csr(iter(rows))
    assert sparse.format == "csr" and sparse.has_canonical_format
    np.testing.assert_array_equal(sparse.toarray(), dense)
    padded = labels.padded_ids(rows)
    # No width that could be that of a multi-hot, and a column without labels.
    assert padded.dtype == np.int32 and padded.shape[1] != 3
    assert (padded[:, -1] == -1).all()
    for ids, row in zip(padded, dense, strict=True):
        known = ids[ids >= 0]
        assert known.tolist() == np.flatnonzero(row).tolist()
        assert (ids[len(known) :] == -1).all()


@pytest.mark.parametrize("method", ["multi_hot", "padded_ids", "csr"])
def test_unknown_labels_are_errors_or_skipped_and_counted(method):
    rows = [["news", "opera"], ["opera", "opera", "山"], []]
    convert = getattr(space(), method)
    with pytest.raises(ValueError, match="no label 'opera' among"):
        convert(rows)
    with pytest.raises(ValueError, match="`unknown` must be one of 'error', 'skip'"):
        convert(rows, unknown="ignore")
    with pytest.raises(TypeError, match='Write \\["news"\\], not "news"'):
        convert(["news"], unknown="skip")
    found, expected = convert(rows, unknown="skip"), convert([["news"], [], []])
    assert (found != expected).sum() == 0 and found.shape == expected.shape


def test_names_that_labels_share_are_told_apart():
    names = ["jazz", "jazz", "", "rock", "jazz (1)", "", "7"]
    found = unique_names(names, range(7))
    assert found == ["jazz (0)", "jazz (1) (1)", "2", "rock", "jazz (1)", "5", "7"]
    found = unique_names(["", "x"], ["x", "y"])
    assert len(set(found)) == 2 and found[1] == "x"


def test_many_labels_stay_sparse_and_fast():
    """What grows with rows × labels takes minutes, or more memory than there is."""
    names = [f"label {number}" for number in range(25_000)]
    random = np.random.default_rng(0)
    rows = [
        [names[i] for i in ids] for ids in random.integers(25_000, size=(20_000, 3))
    ]
    tracemalloc.start()
    start = time.process_time()
    labels = LabelSpace.fit(rows, min_count=2)
    matrix = labels.csr(rows, unknown="skip")
    padded = labels.padded_ids(rows, unknown="skip")
    seconds, peak = time.process_time() - start, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert matrix.nnz == (padded >= 0).sum() and padded.shape == (20_000, 4)
    assert seconds < 5 and peak < 50e6
