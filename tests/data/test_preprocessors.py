"""Strings and targets in every form that people have them → one batch."""

from collections import UserList

import keras
import numpy as np
import pytest
import scipy.sparse
import tensorflow as tf

from bat_tf.data import Example, LabelSpace, Span, TextDataset
from bat_tf.data.preprocessors import (
    LabelPreprocessor,
    Preprocessor,
    TagPreprocessor,
)
from bat_tf.data.texts import as_texts, holds_texts
from bat_tf.text import TextTokenizer

TEXTS = ["red shoes", "a goal in may", "rain"]
NAMES = [["sport"], ["news", "sport"], []]
HOT = np.array([[0, 1], [1, 1], [0, 0]])
SPANS = [[[4, 9, "product"], [0, 3, "colour"]], [], []]


class Series(UserList):
    """What pandas' Series has that a list lacks: an index that begins anywhere."""

    def __iter__(self):
        return iter(self.data)

    def __getitem__(self, index):
        raise KeyError(index)

    def to_numpy(self):
        found = np.empty(len(self), object)
        found[:] = self.data
        return found


class Table:
    """What pandas' DataFrame has."""

    def __init__(self, values, columns):
        self.values, self.columns, self.shape = values, columns, values.shape

    def to_numpy(self):
        return self.values


@pytest.fixture(scope="module")
def tokenizer():
    tokenizer = TextTokenizer("words")
    tokenizer.adapt(TEXTS)
    return tokenizer


@pytest.fixture
def labelling(tokenizer):
    return LabelPreprocessor(tokenizer, ["news", "sport"])


@pytest.fixture
def tagging(tokenizer):
    return TagPreprocessor(tokenizer, ["colour", "product"], max_length=8, overlap=2)


@pytest.mark.parametrize(
    "texts",
    [
        TEXTS,
        tuple(TEXTS),
        np.array(TEXTS),
        np.array(TEXTS, object),
        np.array(TEXTS)[:, None],
        np.array(TEXTS, np.dtypes.StringDType()),
        np.char.encode(TEXTS),
        tf.constant(TEXTS),
        Series(TEXTS),
        UserList(TEXTS),
    ],
)
def test_texts_in_every_form(labelling, texts):
    assert holds_texts(texts) and as_texts(texts).texts == TEXTS
    expected = labelling(TEXTS)
    for name, found in labelling(texts).items():
        np.testing.assert_array_equal(found, expected[name])


@pytest.mark.parametrize(
    "targets",
    [
        NAMES,
        HOT,
        HOT.tolist(),
        HOT.astype("float32"),
        HOT > 0,
        scipy.sparse.csr_matrix(HOT),
        tf.sparse.from_dense(HOT),
        [[1], [0, 1], []],
        [{"sport"}, {"news", "sport"}, set()],
        Series(NAMES),
        Table(HOT[:, ::-1], ["sport", "news"]),
        np.array([[1, -1, -1], [0, 1, -1], [-1, -1, -1]]),
        tf.ragged.constant([[1], [0, 1], []], dtype=tf.int32),
        tf.constant(HOT),
        HOT.astype("uint8"),
    ],
)
def test_labels_in_every_form(labelling, targets):
    _, ids = labelling(TEXTS, targets)
    found = [sorted(i for i in row if i >= 0) for row in ids.numpy().tolist()]
    assert found == [[1], [0, 1], []]


def test_one_name_a_text_and_probabilities(labelling):
    for one in (
        ["news", "sport", "news"],
        [0, 1, 0],
        Series(["news", "sport", "news"]),
    ):
        # Ids as wide as a multi-hot would be mistaken for one.
        _, ids = labelling(TEXTS, one)
        assert ids.numpy().tolist() == [[0, -1, -1], [1, -1, -1], [0, -1, -1]]
    soft = np.array([[0.9, 0.1], [0.5, 0.5], [0.0, 1.0]])
    np.testing.assert_allclose(labelling(TEXTS, soft)[1], soft)


def test_ids_of_any_width_where_they_are_declared(labelling):
    declared = LabelPreprocessor(labelling.tokenizer, labelling.labels, targets="ids")
    fresh = LabelPreprocessor.from_config(declared.get_config())
    assert fresh.get_config()["targets"] == "ids"
    rows = np.array([[1, -1], [0, 1], [-1, -1]])
    pipe = tf.data.Dataset.from_tensor_slices((TEXTS, rows)).batch(3).map(declared)
    for ids in (declared(TEXTS, rows)[1], next(iter(pipe))[1]):
        assert ids.shape == (3, 3)
        found = [sorted(i for i in row if i >= 0) for row in ids.numpy().tolist()]
        assert found == [[1], [0, 1], []]


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        ([["opera"], [], []], "no label 'opera'"),
        ([["news", 1], [], []], "`y` must be names of labels, their ids, or a multi"),
        ([None, [], []], "`y` must be names of labels, their ids, or a multi"),
        (SPANS, "`y` must be names of labels, their ids, or a multi"),
        (np.eye(3), "`y` must be of 2 columns"),
        (np.zeros((3, 2, 1)), "`y` must be of two dimensions"),
        (HOT * np.nan, r"`y` must be probabilities in \[0, 1\].*nan"),
        (Table(HOT, ["news", "sports"]), "`y` must be a table with a column for each"),
        ([[5], [0], [1]], "`y` must be label ids below 2"),
        ([[5], [0], []], "`y` must be label ids below 2"),
        ([[0.5], [0], []], "`y` must be label ids below 2"),
        ([[0, -1], [1, -1], [0, 1]], '`y` must be 0 or 1.*`targets="ids"`'),
        (HOT[:2], "`y` must be as long as `x`, 3 texts"),
    ],
)
def test_targets_that_cannot_be(labelling, targets, message):
    with pytest.raises(ValueError, match=message):
        labelling(TEXTS, targets)


@pytest.mark.parametrize("as_columns", [False, True])
def test_spans_become_tags(tagging, as_columns):
    spans = SPANS
    if as_columns:
        rows = [sorted(row) for row in SPANS]
        spans = {
            name: tf.ragged.constant([[span[i] for span in row] for row in rows])
            for i, name in enumerate(("starts", "ends"))
        }
        kinds = tf.RaggedTensor.from_row_splits(["colour", "product"], [0, 2, 2, 2])
        spans["kinds"] = kinds
    inputs, tags, weights = tagging(TEXTS, spans, [1.0, 2.0, 0.0])
    assert tags.numpy().tolist() == [[1, 3, -1, -1], [0, 0, 0, 0], [0, -1, -1, -1]]
    assert inputs["token_ids"].shape == tags.shape
    assert weights.tolist() == [1.0, 2.0, 0.0]


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ([[[0, 99, "product"]], [], []], r"`y\[0\]`: span .* is outside the text"),
        (
            [[], [[0, 2, "product"], [1, 3, "product"]], []],
            r"`y\[1\]`: spans .* overlap",
        ),
        ([[], [[2, 2, "product"]], []], r"`y\[1\]`: span .* ends before"),
        (NAMES, r"`y\[0\]`: a span must be \[start, end, \"kind\"\]"),
        (HOT, r"`y\[0\]`: spans must be a list"),
        ([[[0, 3, "size"]], [], []], "no label 'size'"),
    ],
)
def test_spans_that_cannot_be(tagging, spans, message):
    with pytest.raises(ValueError, match=message):
        tagging(TEXTS, spans)
    with pytest.raises(ValueError, match=message):
        tagging.encode(as_texts(TEXTS, spans))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([],), "`x` must be texts, one at least"),
        (({"text": TEXTS},), "`x` must be a list of texts"),
        (([None, *TEXTS],), r"`texts\[0\]` must be a str or bytes"),
        (
            (TEXTS, NAMES, ["a", "b", "c"]),
            "`sample_weight` must be a finite number for each",
        ),
    ],
)
def test_texts_that_cannot_be(arguments, message):
    assert holds_texts(arguments[0])
    with pytest.raises((TypeError, ValueError), match=message):
        as_texts(*arguments)


def test_in_the_graph_of_a_pipeline(labelling):
    pipe = tf.data.Dataset.from_tensor_slices((TEXTS, HOT)).batch(3).map(labelling)
    ((inputs, targets),) = pipe
    for name, found in labelling(TEXTS).items():
        np.testing.assert_array_equal(inputs[name], found)
    np.testing.assert_array_equal(targets, HOT)


def test_long_texts_become_several_examples_with_their_weight(tagging):
    text = " ".join(["red shoes"] * 10)
    examples = tagging.encode(as_texts([text, "rain"], [[], []], [3.0, 1.0]))
    assert examples["token_ids"].row_lengths().numpy().tolist() == [8, 8, 4, 1]
    assert examples["weights"].numpy().tolist() == [3.0, 3.0, 3.0, 1.0]


@pytest.mark.parametrize("kind", ["tags", "labels"])
def test_saved_and_reloaded(kind, tagging, labelling, tmp_path):
    made = tagging if kind == "tags" else labelling
    made.save(tmp_path)
    again = Preprocessor.load(tmp_path)
    assert type(again) is type(made) and again.get_config() == made.get_config()
    for name, found in again(TEXTS).items():
        np.testing.assert_array_equal(found, made(TEXTS)[name])


def test_from_a_pipeline_of_texts():
    pairs = tf.data.Dataset.from_tensor_slices((TEXTS, HOT))
    for pipe in (pairs, pairs.batch(2)):
        found = as_texts(pipe)
        assert found.texts == TEXTS
        np.testing.assert_array_equal(found.targets, HOT)
    with pytest.raises(ValueError, match="a tf.data.Dataset that ends"):
        as_texts(pairs.repeat())
    with pytest.raises(ValueError, match="a tf.data.Dataset that holds texts"):
        as_texts(pairs.take(0))
    with pytest.raises(TypeError, match="a tf.data.Dataset of .text, target."):
        as_texts(pairs.map(lambda text, hot: ({"text": text}, hot)))
    names = tf.data.Dataset.from_tensor_slices((TEXTS, ["news", "sport", "news"]))
    assert as_texts(names).targets == ["news", "sport", "news"]
    places = tf.ragged.constant([[4, 8], [], [2]], dtype=tf.int32)
    columns = {"starts": places, "ends": places}
    columns["kinds"] = tf.ragged.constant([["a", "b"], [], ["c"]])
    spans = tf.data.Dataset.from_tensor_slices((TEXTS, columns))
    found = [[(4, 4, "a"), (8, 8, "b")], [], [(2, 2, "c")]]
    for pipe in (spans, spans.batch(2)):
        assert as_texts(pipe).targets == found


def test_what_is_no_texts():
    arrays = (np.ones((2, 3)), {"token_ids": np.ones((2, 3))}, None, [[1, 2]])
    assert not any(holds_texts(x) for x in arrays)
    assert not holds_texts(tf.data.Dataset.range(3))


def test_a_data_set_has_its_own_targets(tokenizer):
    data = TextDataset([Example("red shoes", spans=[Span(0, 3, "colour")])])
    with pytest.raises(ValueError, match="None beside a TextDataset"):
        as_texts(data, [[]])
    with pytest.raises(TypeError, match="a TextTokenizer"):
        LabelPreprocessor("words", LabelSpace(["a"]))
    config = keras.saving.serialize_keras_object(LabelPreprocessor(tokenizer, ["a"]))
    assert config["registered_name"] == "bat_tf>LabelPreprocessor"
