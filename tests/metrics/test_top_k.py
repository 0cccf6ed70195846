"""The metrics of the k best labels where a model has found those, and scored no others.

What they are with scores of all labels is in test_ranking_metrics.py.
"""

import cases
import numpy as np
import pytest
import scipy.sparse
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from label_cases import as_ids, score

import bat_tf.metrics
from bat_tf.metrics import MacroTopK, PropensityScoredTopK, TopK

# What the oracle calls them → our name.
SHORT = {"p": "precision", "r": "recall", "ndcg": "ndcg", "psp": "psp"}
COUNTS = [400, 90, 30, 15, 2]
NAMES = [
    *["precision_at_1", "precision_at_3", "recall_at_3", "ndcg_at_3", "psp_at_2"],
    *["macro_precision_at_2", "macro_recall_at_2", "macro_f_at_2", "macro_f_at_2_few"],
]


def make(name):
    return bat_tf.metrics.get(name, label_counts=COUNTS, num_examples=500)


def best(scores, number, seed=None):
    """What a model would find, in the order of the scores or in any other."""
    order = np.argsort(-np.asarray(scores), axis=1, kind="stable")[:, :number]
    if seed is not None:
        order = np.random.default_rng(seed).permuted(order, axis=1)
    return order, np.take_along_axis(np.asarray(scores), order, axis=1)


def batch(rows, seed):
    """Labels as a multi-hot and scores with ties."""
    random = np.random.default_rng(seed)
    hot = (random.random((rows, 5)) < 0.5).astype("float32")
    return hot, random.integers(0, 3, (rows, 5)).astype("float32")


@pytest.mark.parametrize("kind", ["ids", "multi-hot"])
def test_vectors(vectors, kind):
    case = vectors["metrics/multilabel"]
    inputs, expected = case["inputs"], case["expected"]
    y_true, scores = (np.array(inputs[key], "float32") for key in ("y_true", "scores"))
    y_true = as_ids(y_true) if kind == "ids" else y_true
    y_pred = best(scores, 6, seed=0)
    facts = {
        "label_counts": inputs["train_freq"],
        "num_examples": case["params"]["propensity_train_num"],
    }

    def found(name, **settings):
        metric = bat_tf.metrics.get(name, **facts, **settings)
        return score(metric, y_true, y_pred)

    for k in (1, 3, 5):
        for key, name in SHORT.items():
            found_one = found(f"{name}_at_{k}")
            cases.close(found_one, expected[f"{key}_at_{k}"], 1e-6)
        for corpus, a, b in (("wiki", 0.5, 0.4), ("amazon", 0.6, 2.6)):
            value = found(f"psp_at_{k}", propensity_a=a, propensity_b=b)
            cases.close(value, expected[f"psp_at_{k}_{corpus}"], 1e-6)
    for group in ("few", "medium", "many"):
        values = [
            found(f"macro_{name}_at_5_{group}") for name in ("precision", "recall", "f")
        ]
        cases.close(values, expected[f"macro_prf_at5_{group}"], 1e-6)


@settings(max_examples=40)
@given(st.integers(0, 999), st.sampled_from(NAMES))
def test_is_what_all_scores_give(seed, name):
    """In any order, and with ties for which a lower id has to win."""
    hot, scores = batch(rows=4, seed=seed)
    metric = make(name)
    expected = score(make(name), hot, scores)
    everything = np.tile(np.arange(5), (4, 1)), scores
    for y_pred in (best(scores, 3), best(scores, 4, seed), everything):
        assert score(metric, hot, y_pred) == pytest.approx(expected)
        metric.reset_state()


@pytest.mark.parametrize("name", NAMES)
class TestEveryMetric:
    def test_every_shape_of_labels(self, name):
        hot, scores = batch(rows=6, seed=7)
        y_pred, ids = best(scores, 3), as_ids(hot)
        expected = score(make(name), hot, scores)
        assert expected > 0
        ragged = tf.ragged.constant([row[row >= 0].tolist() for row in ids], tf.int64)
        twice = np.concatenate([ids, ids], axis=1)
        csr = scipy.sparse.csr_array(hot)
        sparse = tf.sparse.from_dense(hot)
        for labels in (hot, hot > 0, ids, ragged, csr, sparse, twice):
            cases.close(score(make(name), labels, y_pred), expected, 1e-6)

    @pytest.mark.parametrize("jit_compile", [False, True])
    def test_compiled(self, name, jit_compile):
        hot, scores = batch(rows=6, seed=2)
        ids, (found, values) = as_ids(hot), best(scores, 3)
        metric = make(name)
        shapes = [
            tf.TensorSpec([None, None], ids.dtype),
            (tf.TensorSpec([None, 3], found.dtype), tf.TensorSpec([None, 3])),
        ]
        update = tf.function(metric.update_state, shapes, jit_compile=jit_compile)
        update(ids, (found, values))
        cases.close(metric.result(), score(make(name), hot, scores), 1e-6)

    def test_batches_and_weights(self, name):
        hot, scores = batch(rows=6, seed=3)
        found, values = best(scores, 3)
        weight = np.array([1, 2, 0, 1, 3, 1], "float32")
        metric = make(name)
        for rows in (slice(0, 2), slice(2, 6)):
            metric.update_state(hot[rows], (found[rows], values[rows]), weight[rows])
        cases.close(metric.result(), score(make(name), hot, scores, weight), 1e-6)

    def test_places_without_a_label(self, name):
        """-1 stands last, whatever its score, and is never one of the labels."""
        hot, scores = batch(rows=4, seed=4)
        found, values = best(scores, 3)
        wide = np.full((4, 5), -1), np.full((4, 5), 9.0, "float32")
        wide[0][:, 2:], wide[1][:, 2:] = found, values
        for labels in (hot, as_ids(hot)):
            expected = score(make(name), labels, scores)
            cases.close(score(make(name), labels, wide), expected, 1e-6)
        nothing = np.full((4, 3), -1), np.zeros((4, 3), "float32")
        for labels in (hot, as_ids(hot)):
            assert score(make(name), labels, nothing) == 0

    def test_a_label_found_twice_counts_once(self, name):
        y_true = np.array([[0, 3, 4]])
        once = np.array([[3, 0, 1, 4]]), np.array([[4.0, 3, 2, 1]], "float32")
        twice = (
            np.array([[0, 3, 3, 0, 1, 4]]),
            np.array([[0.5, 4, 3.5, 3, 2, 1]], "float32"),
        )
        expected = score(make(name), y_true, once)
        cases.close(score(make(name), y_true, twice), expected, 1e-6)


def test_documents_without_labels():
    y_pred = np.array([[1, 0], [1, 0]]), np.array([[2.0, 1], [2, 1]], "float32")
    y_true = np.array([[1, -1, -1], [-1, -1, -1]])
    assert score(TopK(1), y_true, y_pred) == 0.5
    assert score(TopK(1, score="recall"), y_true, y_pred) == 0.5
    assert score(TopK(1, score="ndcg"), y_true, y_pred) == 0.5
    # Nothing could be found there: it is in neither of the two sums.
    assert score(PropensityScoredTopK(1, [5, 2], 7), y_true, y_pred) == 1


def test_multi_hot_as_a_list_and_of_unknown_width():
    y_true, y_pred = [[0.0, 1.0, 0.0]], ([[1, 0]], [[2.0, 1.0]])
    assert score(TopK(1), y_true, y_pred) == 1
    metric = TopK(2)
    shapes = [
        tf.TensorSpec([None, None]),
        (tf.TensorSpec([None, 2], "int32"), tf.TensorSpec([None, 2])),
    ]
    tf.function(metric.update_state, shapes)(y_true, y_pred)
    assert float(metric.result()) == 0.5


def test_a_million_labels():
    """Scores of all labels would be 4 MB a document; here nothing is that large."""
    width = 1_000_000
    y_pred = np.array([[width - 1, 7]] * 3), np.ones((3, 2), "float32")
    ids = np.array([[width - 1, -1], [8, 5], [7, width - 1]])
    assert score(TopK(2), ids, y_pred) == 0.5
    # Among equals the lower id is first.
    assert score(TopK(1), ids, y_pred) == pytest.approx(1 / 3)
    metric = MacroTopK(2, np.ones(width), score="recall", skip_absent=True)
    assert score(metric, ids, y_pred) == pytest.approx(2 / 4)
    update = tf.function(TopK(2).update_state, autograph=False)
    shapes = tf.TensorSpec([4, 2], "int32"), tf.TensorSpec([4, 2])
    graph = update.get_concrete_function(shapes[0], shapes).graph
    sizes = [
        output.shape.num_elements() or 0
        for operation in graph.get_operations()
        for output in operation.outputs
        if output.shape.rank is not None
    ]
    assert max(sizes) <= 4 * 2 * 2


class TestSentences:
    @pytest.mark.parametrize(
        ("y_pred", "words"),
        [
            (([[0]],), r"tuple \(ids, scores\).*a tuple of 1"),
            (([[0]], [[1.0, 2.0]]), r"both of shape \[B, M\].*\(1, 1\), \(1, 2\)"),
            (([0], [1.0]), r"both of shape \[B, M\]"),
            (([[0.0]], [[1.0]]), "integers and floats.*float32"),
            (([[3]], [[1.0]]), "below 3, or -1.*Received: 3"),
            (([[-2]], [[1.0]]), "below 3, or -1.*Received: -2"),
        ],
    )
    def test_what_was_found(self, y_pred, words):
        with pytest.raises(ValueError, match=f"`y_pred` must be.*{words}"):
            MacroTopK(1, [1, 2, 3]).update_state([[0]], y_pred)

    def test_fewer_than_k(self):
        y_pred = [[0, 1]], [[2.0, 1.0]]
        with pytest.raises(ValueError, match="the 5 best labels.*fill up with ids"):
            TopK(5).update_state([[0]], y_pred)

    def test_wrong_id_in_a_graph(self):
        update = tf.function(MacroTopK(1, [1, 2, 3]).update_state)
        with pytest.raises(tf.errors.InvalidArgumentError, match="below 3, or -1"):
            update(tf.constant([[0]]), (tf.constant([[3]]), tf.constant([[1.0]])))

    def test_labels_outside(self):
        y_pred = [[0]], [[2.0]]
        with pytest.raises(ValueError, match="`y_true` must be label ids below 2"):
            MacroTopK(1, [1, 2]).update_state([[2]], y_pred)
        with pytest.raises(ValueError, match="`y_true`"):
            MacroTopK(1, [1, 2]).update_state(np.zeros((1, 3)), y_pred)
