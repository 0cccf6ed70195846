import cases
import numpy as np
import pytest
import scipy.sparse
import sklearn.metrics
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from label_cases import BATCHES, as_ids, score

import bat_tf.metrics
from bat_tf.metrics import (
    LabelRankingAveragePrecision,
    LabelRankingLoss,
    MacroTopK,
    PropensityScoredTopK,
    TopK,
)

# What the oracle calls them → our name.
SHORT = {"p": "precision", "r": "recall", "ndcg": "ndcg", "psp": "psp"}
COUNTS = [400, 90, 30, 15, 2]
NAMES = [
    *[
        "average_precision",
        "ranking_loss",
        "precision_at_1",
        "precision_at_3",
        "recall_at_3",
        "ndcg_at_3",
        "psp_at_2",
    ],
    *["macro_precision_at_2", "macro_recall_at_2", "macro_f_at_2", "macro_f_at_2_few"],
]


@pytest.mark.parametrize("name", NAMES)
class TestProperties(cases.MetricCases):
    def make(self, name, /, **settings):
        return bat_tf.metrics.get(
            *[name],
            num_labels=5,
            label_counts=COUNTS,
            num_examples=500,
            **settings,
        )

    def batch(self, rows, seed):
        random = np.random.default_rng(seed)
        hot = random.random((rows, 5)) < 0.5
        hot[0] = [False, True, False, True, False]
        scores = hot + random.normal(0, 1, (rows, 5))
        scores[0] = [4, 2, 3, 5, 1]
        return as_ids(hot), np.round(scores, 1).astype("float32")

    def shape(self, array):
        return [None, 5 if array.dtype == "float32" else None]

    def test_is_a_scalar_that_goes_up(self, name):
        if name != "ranking_loss":
            return super().test_is_a_scalar_that_goes_up(name)
        assert self.make(name)._direction == "down"

    def test_every_shape_of_labels_is_the_same(self, name):
        ids, scores = self.batch(rows=6, seed=8)
        hot = np.asarray(bat_tf._internal.targets.multi_hot(ids, 5))
        expected = self.score(name, ids, scores)
        ragged = tf.ragged.constant([row[row >= 0].tolist() for row in ids], tf.int64)
        twice = np.concatenate([ids, ids], axis=1)
        csr = scipy.sparse.csr_array(hot)
        for labels in (hot, hot > 0, ragged, csr, twice, ids.astype("int32")):
            cases.close(self.score(name, labels, scores), expected, 1e-6)

    def test_no_labels_at_all(self, name):
        empty = self.make(name)
        assert score(empty, np.zeros((2, 0), int), np.ones((2, 5), "float32")) == 0
        assert float(self.make(name).result()) == 0


@pytest.mark.parametrize("kind", ["ids", "multi-hot"])
def test_vectors(vectors, kind):
    case = vectors["metrics/multilabel"]
    inputs, expected = case["inputs"], case["expected"]
    y_true, scores = (np.array(inputs[key], "float32") for key in ("y_true", "scores"))
    y_true = as_ids(y_true) if kind == "ids" else y_true
    facts = {
        "label_counts": inputs["train_freq"],
        "num_examples": case["params"]["propensity_train_num"],
    }

    def check(key, name, **settings):
        metric = bat_tf.metrics.get(name, **facts, **settings)
        cases.close(score(metric, y_true, scores), expected[key], 1e-6)

    for rule in ("zero", "one", "skip"):
        key = f"avg_precision_empty_{rule}"
        check(key, "average_precision", empty_rows=rule)
    check("ranking_loss_tie1", "ranking_loss")
    for k in (1, 3, 5):
        for key, name in SHORT.items():
            check(f"{key}_at_{k}", f"{name}_at_{k}")
        for corpus, a, b in (("wiki", 0.5, 0.4), ("amazon", 0.6, 2.6)):
            settings = {"propensity_a": a, "propensity_b": b}
            check(f"psp_at_{k}_{corpus}", f"psp_at_{k}", **settings)
    for group in ("few", "medium", "many"):
        metrics = [
            bat_tf.metrics.get(f"macro_{name}_at_5_{group}", **facts)
            for name in ("precision", "recall", "f")
        ]
        found = [score(metric, y_true, scores) for metric in metrics]
        cases.close(found, expected[f"macro_prf_at5_{group}"], 1e-6)
    cases.close(
        bat_tf.metrics.get("psp_at_1", **facts).inverse_propensity,
        case["params"]["inverse_propensity"],
        1e-8,
    )


@settings(max_examples=60)
@given(BATCHES, st.booleans())
def test_equals_scikit_learn(rows, weighted):
    """With ties, rows without labels or with all of them, and absent labels."""
    y_true, scores = np.moveaxis(np.array(rows, "float32"), -1, 0)
    weight = np.arange(len(rows)) % 3 + 1.0 if weighted else None
    if scores.shape[1] == 1:
        return  # scikit-learn takes it for two classes
    metric = LabelRankingLoss()
    expected = sklearn.metrics.label_ranking_loss(y_true, scores, sample_weight=weight)
    cases.close(score(metric, y_true, scores, weight), expected, 1e-6)
    metric = LabelRankingAveragePrecision(empty_rows="one")
    expected = sklearn.metrics.label_ranking_average_precision_score(
        y_true, scores, sample_weight=weight
    )
    cases.close(score(metric, y_true, scores, weight), expected, 1e-6)


@settings(max_examples=30)
@given(st.integers(0, 99), st.integers(1, 9))
def test_ndcg_equals_scikit_learn_without_ties(seed, k):
    random = np.random.default_rng(seed)
    y_true = (random.random((4, 6)) < 0.4).astype("float32")
    scores = random.permuted(np.tile(np.arange(6.0), (4, 1)), axis=1)
    expected = sklearn.metrics.ndcg_score(y_true, scores, k=k)
    cases.close(score(TopK(k, score="ndcg"), y_true, scores), expected, 1e-6)


def test_k_is_never_reduced():
    batch = [[0, 1]], [[3.0, 2, 1]]
    cases.close(score(TopK(5), *batch), 2 / 5, 1e-6)
    assert score(TopK(5, score="recall"), *batch) == 1
    assert score(TopK(5, score="ndcg"), *batch) == 1
    assert score(PropensityScoredTopK(5, [3, 2, 1], 6), *batch) == 1


def test_ties_among_the_first_k_go_to_the_lower_id():
    scores = np.zeros((1, 4), "float32")
    assert score(TopK(1), [[0]], scores) == 1
    assert score(TopK(3), [[3]], scores) == 0


def test_labels_that_the_test_lacks():
    batch = [[0]], [[3.0, 2, 1]]
    assert score(MacroTopK(1, [5, 5, 5]), *batch) == pytest.approx(1 / 3)
    assert score(MacroTopK(1, [5, 5, 5], skip_absent=True), *batch) == 1
    assert score(MacroTopK(1, [5, 5, 5], group="many"), *batch) == 0


def test_many_labels_stay_ids():
    """Labels as ids, out of a hundred thousand."""
    rows, width = 3, 100_000
    scores = np.zeros((rows, width), "float32")
    scores[:, -2:] = 1
    ids = np.array([[width - 1, -1], [width - 2, 5], [-1, -1]])
    assert score(TopK(2), ids, scores) == pytest.approx(1 / 3)
    metric = MacroTopK(2, np.ones(width), score="recall", skip_absent=True)
    assert score(metric, ids, scores) == pytest.approx(2 / 3)


def test_gigantic_and_low_precision_scores():
    scores = tf.constant([[1e4, -1e4, 0.0], [-1e4, 1e4, 1e4]], "bfloat16")
    assert score(LabelRankingLoss(), [[0], [1]], scores) == 0.25


class TestSentences:
    @pytest.mark.parametrize(
        "name", ["precision_at_0", "precision_at_", "precision_at_1.5", "p@3"]
    )
    def test_names(self, name):
        with pytest.raises(ValueError, match="`name` must be one of.*'precision_at_k'"):
            bat_tf.metrics.get(name)

    def test_what_is_needed(self):
        with pytest.raises(TypeError, match="needs the setting 'k'"):
            bat_tf.metrics.get("precision_at_k")
        with pytest.raises(TypeError, match="'label_counts', 'num_examples'"):
            bat_tf.metrics.get("psp_at_3")
        assert bat_tf.metrics.get("NDCG_at_k", k=3).k == 3

    def test_settings(self):
        with pytest.raises(ValueError, match="`empty_rows` must be one of 'zero'"):
            LabelRankingAveragePrecision(empty_rows="none")
        with pytest.raises(ValueError, match="`label_counts`.*LabelSpace"):
            MacroTopK(3, [[1, 2]])
        with pytest.raises(ValueError, match="`boundaries`.*smaller one first"):
            MacroTopK(3, [1, 2], boundaries=(9, 3))
        with pytest.raises(ValueError, match=r"`y_pred`.*\[B, 2\]"):
            MacroTopK(3, [1, 2]).update_state([[0]], [[1.0, 2.0, 3.0]])
        with pytest.raises(ValueError, match=r"`y_pred`.*\[B, L\]"):
            LabelRankingLoss().update_state([[0]], [1.0, 2.0, 3.0])
