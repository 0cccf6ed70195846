"""Names of labels and kinds, whatever is in them, come back from every file."""

import json
import unicodedata

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import bat_tf
from bat_tf._internal import display
from bat_tf._internal.validation import DataError
from bat_tf.answers import Tag
from bat_tf.data import Example, LabelSpace, TextDataset, read
from bat_tf.metrics.report import TaggingReport, score_spans
from bat_tf.text import TextTokenizer

ODD = [
    *("two\nlines", "a\ttab", "\r", " ", " blank ", "\x1b[31mred", "\x7f", "\u2028"),
    *("👩\u200d👩\u200d👧", "é", "e\u0301", "Å", "\u212b", "ﬁ", "ﬁ".upper(), "İ"),
    *("[/b]", "[bold]x", "{0}", "%s", "$HOME", "../up", "a/b", "a|b", "a;b", "a,b"),
    *(
        '"quoted"',
        "'",
        "\\n",
        "\\",
        "null",
        "true",
        "1",
        "-1",
        "NaN",
        "O",
        "B-x",
        "x-x",
    ),
    *("I-x", "none", "y" * 10_000, "\ufeffbom", "\ufffd", "\U0010ffff", "\u202eabc"),
]
LETTERS = st.characters(exclude_categories=["Cs"], min_codepoint=1)
NAMES = st.lists(
    st.sampled_from(ODD) | st.text(LETTERS, min_size=1),
    min_size=2,
    max_size=12,
    unique=True,
)
QUIET = {
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "database": None,
}


@settings(max_examples=100, **QUIET)
@given(NAMES)
def test_names_come_back_from_files_and_configs(tmp_path_factory, names):
    folder = tmp_path_factory.mktemp("names")
    space = LabelSpace(names, counts=range(len(names)), num_examples=9)
    space.save(folder / "labels.json")
    assert LabelSpace.load(folder / "labels.json") == space
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(space)))
    assert keras.saving.deserialize_keras_object(config) == space
    assert (
        space.csr([[name] for name in names]).toarray().tolist()
        == np.eye(len(names)).tolist()
    )
    labelled = TextDataset(Example("x", labels=[name]) for name in names)
    marked = TextDataset(Example("x", spans=[(0, 1, name)]) for name in names)
    for data in (labelled, marked):
        data.save(folder / "rows.jsonl")
        assert list(read(folder / "rows.jsonl")) == list(data)
        assert data.summary() and repr(data)
    report = TaggingReport("x", 1, [], score_spans(marked.spans, marked.spans))
    assert str(report) and json.loads(json.dumps(report.to_dict()))
    for name in names:
        assert "\n" not in display.as_plain("x", [Tag(0, 1, name, 1.0, "x")])
        assert len(display.plain_labels("x", [(name, 1.0)]).splitlines()) == 1
        assert json.loads(display.json_labels("x", [(name, 1.0)]))["labels"] == [name]


def models(names):
    """A labeller and a tagger of these names, whose weights are random."""
    made = {"vocabulary": ["a", "word"], "lowercase": False}
    sizes = {"d_model": 4, "d_ff": 4, "num_heads": 1, "num_layers": 1}
    tokenizer = TextTokenizer("words", **made)
    labelled = TextDataset(Example("a word", labels=[name]) for name in names)
    labeller = bat_tf.LabelClassifier.for_data(
        labelled, "transformer", tokenizer, labels=LabelSpace(names), **sizes
    )
    yield labeller, lambda model: model.label(["a word"], threshold=-1.0)
    marked = TextDataset(Example("a", spans=[(0, 1, name)]) for name in names)
    tagger = bat_tf.BATTagger.for_data(
        marked, "transformer", TextTokenizer("words", **made), **sizes
    )
    bias = tagger.heads[0].weights[-1]
    bias.assign(np.arange(bias.shape[0])[::-1])
    yield tagger, lambda model: model.tag(["a word"])


def check_models(names, folder):
    for number, (model, ask) in enumerate(models(names)):
        model.compile("adam")
        expected = ask(model)
        assert set(model.names) == set(names)
        model.save(folder / f"{number}.keras")
        again = bat_tf.load(folder / f"{number}.keras")
        assert again.names == model.names
        assert ask(again) == expected
        served = bat_tf.load(model.export(folder / f"model{number}" / "1", check=False))
        assert list(served.names) == list(model.names)
        found = ask(served)
        assert [row[0] for row in found[0]] == [row[0] for row in expected[0]]
        assert len(expected[0]) == (len(names) if number == 0 else len(expected[0]))
        assets = {p.name: p for p in (folder / f"model{number}" / "1/assets").iterdir()}
        assert json.loads(assets["labels.json"].read_text()) == list(model.names)
        about = folder / f"model{number}" / "1/assets.extra/bat_tf.json"
        assert json.loads(about.read_text())["labels"] == list(model.names)


@pytest.mark.fault(
    "a label or a kind with line ends, tabs, emoji, 10,000 characters, or two that "
    "differ by Unicode normalisation alone",
    "it comes back as it was from `.keras`, exports, their answers and every file",
)
def test_odd_names_come_back_from_models(tmp_path):
    assert len(set(ODD)) == len(ODD)
    forms = {unicodedata.normalize("NFC", name) for name in ODD}
    assert len(forms) < len(ODD)  # two names that look the same
    check_models(ODD, tmp_path)


@pytest.mark.slow
@settings(max_examples=25, **QUIET)
@given(NAMES)
def test_drawn_names_come_back_from_models(tmp_path_factory, names):
    check_models(names, tmp_path_factory.mktemp("models"))


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ('{"text": "a", "spans": [[0, 1, "\\u0000"]]}', "the kind of a span must not"),
        ('{"text": "a", "labels": ["\\ud800"]}', "half a character"),
        ('{"text": "a", "labels": [""]}', "a label must be a name"),
    ],
)
def test_names_that_no_file_holds_are_refused_at_reading(tmp_path, row, reason):
    path = tmp_path / "rows.jsonl"
    path.write_text(row)
    with pytest.raises(DataError, match=f"line 1: .*{reason}"):
        read(path)


@pytest.mark.fault(
    "a label or a kind with NUL",
    'where it is read: "…line 1: a label must not hold NUL. Received: …"',
)
def test_nul_in_a_name_is_refused(tmp_path, sees):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "a", "labels": ["x\\u0000"]}')
    with pytest.raises(DataError) as found:
        read(path)
    sees(str(found.value))
    with pytest.raises(ValueError, match="a label must not hold NUL"):
        LabelSpace(["x\0"])


@pytest.mark.parametrize("kind", ["words", "characters", "wordpiece"])
def test_odd_tokens_of_a_vocabulary_come_back(kind, tmp_path):
    odd = [name for name in ODD if kind != "characters" or len(name) == 1]
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"][: 4 if kind == "wordpiece" else 2]
    tokenizer = TextTokenizer(kind, [*special, *odd, "\0", "a\0"])
    tokenizer.save_assets(tmp_path)
    again = TextTokenizer(kind)
    again.load_assets(tmp_path)
    assert again.vocabulary == tokenizer.vocabulary
    texts = tf.constant([name.encode() for name in ODD])
    np.testing.assert_array_equal(
        again(texts)["token_ids"], tokenizer(texts)["token_ids"]
    )
    with pytest.raises(ValueError, match="a token of the vocabulary holds half"):
        TextTokenizer(kind, [*special, "\ud800"])
