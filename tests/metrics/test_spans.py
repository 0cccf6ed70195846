import cases
import numpy as np
import oracles
import pytest
import seqeval.metrics
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from seqeval.scheme import IOB2

import bat_tf.metrics
from bat_tf.metrics import SpanF1

BIO = ["O", "B-name", "I-name", "B-place", "I-place"]
PLAIN = ["none", "name", "place"]


@pytest.mark.parametrize("name", ["bio", "plain"])
class TestProperties(cases.MetricCases):
    def make(self, name, /, **settings):
        names = BIO if name == "bio" else PLAIN
        return bat_tf.metrics.get("span_f1", tag_names=names, scheme=name, **settings)

    def batch(self, rows, seed):
        random = np.random.default_rng(seed)
        tags = random.integers(-1, 3, (rows, 9))
        guess = np.where(random.random((rows, 9)) < 0.7, np.maximum(tags, 0), 1)
        return tags, guess


def names_of(tags, valid, names):
    return [
        [names[tag] for tag, keep in zip(row, kept, strict=True) if keep]
        for row, kept in zip(tags, valid, strict=True)
    ]


@st.composite
def tag_pairs(draw, size):
    rows, length = draw(st.integers(1, 4)), draw(st.integers(1, 9))

    def table(low):
        row = st.lists(st.integers(low, size - 1), min_size=length, max_size=length)
        return np.array(draw(st.lists(row, min_size=rows, max_size=rows)))

    y_true, y_pred = table(-1), table(0)
    # Most predictions agree, else long spans are hardly ever found.
    agree = np.random.default_rng(draw(st.integers(0, 99))).random(y_true.shape) < 0.8
    return y_true, np.where((y_true >= 0) & agree, y_true, y_pred)


@settings(max_examples=100, deadline=None)
@given(
    tag_pairs(len(BIO)),
    st.sampled_from(["micro", "macro", "weighted"]),
    st.sampled_from([0, 1]),
)
def test_equals_seqeval_strict(pair, average, zero_division):
    """On every sequence, illegal ones included."""
    y_true, y_pred = pair
    metric = SpanF1(BIO, average=average, zero_division=zero_division)
    metric.update_state(y_true, y_pred)
    valid = y_true >= 0
    true, predicted = (names_of(tags, valid, BIO) for tags in (y_true, y_pred))
    if not any(metric.per_class()["actual"] + metric.per_class()["predicted"]):
        assert not oracles.span_counts(true, predicted, "bio")
        assert float(metric.result()) == zero_division
        return
    settings = {"mode": "strict", "scheme": IOB2, "zero_division": zero_division}
    scores = metric.scores()
    for key in ("precision", "recall", "f1"):
        reference = getattr(seqeval.metrics, f"{key}_score")
        expected = reference(true, predicted, average=average, **settings)
        cases.close(scores["f_score" if key == "f1" else key], expected, 1e-6)


@settings(max_examples=40, deadline=None)
@given(tag_pairs(len(PLAIN)))
def test_plain_equals_the_oracle(pair):
    y_true, y_pred = pair
    metric = SpanF1(PLAIN, scheme="plain")
    metric.update_state(y_true, y_pred)
    valid = y_true >= 0
    true, predicted = (names_of(tags, valid, PLAIN) for tags in (y_true, y_pred))
    expected = oracles.span_counts(true, predicted, "plain")
    table = metric.per_class()
    for index, kind in enumerate(metric.kinds):
        keys = ("true_positives", "predicted", "actual")
        counts = [table[key][index] for key in keys]
        assert counts == expected.get(kind, [0, 0, 0])


def test_per_kind_scores():
    metric = SpanF1(BIO)
    metric.update_state([[1, 2, 0, 3, 1]], [[1, 2, 0, 1, 1]])
    assert metric.kinds == ["name", "place"]
    table = metric.per_class()
    cases.close(table["precision"], [2 / 3, 0], 1e-6)
    cases.close(table["recall"], [1, 0], 1e-6)
    cases.close(table["f_score"], [0.8, 0], 1e-6)
    assert table["predicted"].tolist() == [3, 0]
    assert table["actual"].tolist() == [2, 1]


def test_pieces_of_words_and_padding_are_not_there():
    whole, pieces = SpanF1(BIO), SpanF1(BIO)
    whole.update_state([[1, 2, 0, 3]], [[1, 2, 0, 3]])
    # In the place of the ignored pieces the model may say anything.
    pieces.update_state([[1, -1, 2, 0, -1, 3, -1]], [[1, 0, 2, 0, 1, 3, 4]])
    for metric in (whole, pieces):
        assert metric.per_class()["true_positives"].tolist() == [1, 1]
        assert float(metric.result()) == 1


def test_keras_mask_is_the_same_as_ignoring():
    predicted = tf.one_hot([[1, 2, 2, 2]], 5)
    predicted._keras_mask = tf.constant([[True, True, False, False]])
    metric = SpanF1(BIO)
    metric.update_state([[1, 2, 0, 3]], predicted)
    assert float(metric.result()) == 1


def test_order_of_the_tag_names_is_free():
    usual, other = SpanF1(BIO), SpanF1(BIO[::-1])
    tags, guess = np.array([[1, 2, 0, 3, 4, 1]]), np.array([[1, 2, 0, 3, 0, 2]])
    usual.update_state(tags, guess)
    other.update_state(4 - tags, 4 - guess)
    assert float(usual.result()) == float(other.result()) > 0
    assert other.kinds == ["place", "name"]


def test_span_does_not_run_into_the_next_row():
    metric = SpanF1(PLAIN, scheme="plain")
    metric.update_state([[0, 1], [1, 0]], [[0, 1], [1, 0]])
    assert metric.per_class()["actual"].tolist() == [2, 0]


class TestSentences:
    @pytest.mark.parametrize("names", [["O", "E-name"], ["O", "name"], ["O", "B-"]])
    def test_tag_of_another_scheme(self, names):
        with pytest.raises(ValueError, match='have the scheme "plain"'):
            SpanF1(names)

    def test_no_kind(self):
        with pytest.raises(ValueError, match="one kind or more"):
            SpanF1(["O"])

    def test_weight_of_a_token(self):
        with pytest.raises(ValueError, match="one weight per row"):
            SpanF1(BIO).update_state([[1, 0]], [[1, 0]], [[1.0, 2.0]])

    def test_one_row_without_a_batch(self):
        with pytest.raises(ValueError, match=r"of shape \[B, T\]"):
            SpanF1(BIO).update_state([1, 0], [1, 0])
