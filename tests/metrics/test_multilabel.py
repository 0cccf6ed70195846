import cases
import keras
import numpy as np
import pytest
import scipy.sparse
import sklearn.metrics
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from label_cases import BATCHES, as_ids, score

import bat_tf.metrics
from bat_tf.metrics import LabelFScore, SampleF1, SampleJaccard, SubsetAccuracy
from bat_tf.thresholds import Thresholds

NAMES = ["subset_accuracy", "mlc_f1", "jaccard", "micro_f1", "macro_f1", "macro_f2"]


@pytest.mark.parametrize("name", NAMES)
class TestProperties(cases.MetricCases):
    def make(self, name, /, **settings):
        return bat_tf.metrics.get(name, num_labels=5, **settings)

    def batch(self, rows, seed):
        random = np.random.default_rng(seed)
        hot = random.random((rows, 5)) < 0.4
        scores = np.where(hot, 1, -1) * random.choice([-1, 1, 1, 1], (rows, 5))
        scores[0] = np.where(hot[0], 1, -1)  # one row is right ...
        scores[1] = np.where(hot[1], -1, 1)  # ... and one is not
        return as_ids(hot), scores.astype("float32")

    def shape(self, array):
        return [None, 5 if array.dtype == "float32" else None]

    def test_every_shape_of_labels_is_the_same(self, name):
        ids, scores = self.batch(rows=6, seed=8)
        hot = np.zeros((6, 5), "float32")
        for row, label in np.argwhere(ids >= 0):
            hot[row, ids[row, label]] = 1
        expected = self.score(name, ids, scores)
        ragged = tf.ragged.constant([row[row >= 0].tolist() for row in ids], tf.int64)
        sparse = tf.sparse.from_dense(hot)
        csr = scipy.sparse.csr_array(hot)
        for labels in (hot, hot > 0, ragged, sparse, csr, ids.astype("int32")):
            assert self.score(name, labels, scores) == expected

    @pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
    def test_dtype_of_scores(self, name, dtype):
        ids, scores = self.batch(rows=6, seed=9)
        expected = self.score(name, ids, scores)
        assert self.score(name, ids, tf.cast(scores, dtype)) == expected

    def test_threshold_is_strict_per_label_and_moves_with_the_scores(self, name):
        ids, scores = self.batch(rows=6, seed=10)
        shift = np.arange(5, dtype="float32")
        expected = self.score(name, ids, scores)
        metric = self.make(name, threshold=shift)
        assert score(metric, ids, scores + shift) == expected
        fresh = cases.round_trip(metric)
        assert score(fresh, ids, scores + shift) == expected
        at_the_threshold = self.make(name, threshold=1)  # nothing is above
        assert score(at_the_threshold, ids, scores) == self.score(
            name, ids, -np.ones((6, 5), "float32")
        )


def test_vectors(vectors):
    case = vectors["metrics/multilabel"]
    y_true, scores = (
        np.array(case["inputs"][k], "float32") for k in ("y_true", "scores")
    )
    expected = case["expected"]

    def value(name, **settings):
        metric = bat_tf.metrics.get(name, num_labels=9, **settings)
        return score(metric, as_ids(y_true), scores)

    cases.close(value("subset_accuracy"), expected["subset_accuracy"], 1e-6)
    cases.close(value("mlc_f1"), expected["mlc_f1"], 1e-6)
    cases.close(value("micro_f1"), expected["micro_f1"], 1e-6)
    cases.close(value("micro_f1", beta=2), expected["micro_f2"], 1e-6)
    cases.close(value("macro_f1"), expected["macro_f1_zd0"], 1e-6)
    cases.close(value("macro_f1", zero_division=1), expected["macro_f1_zd1"], 1e-6)
    cases.close(value("macro_f2"), expected["macro_f2_zd0"], 1e-6)
    for group, ids in case["params"]["groups"].items():
        for average in ("micro", "macro"):
            found = value(f"{average}_f1", label_ids=ids)
            cases.close(found, expected[f"{average}_f1_{group}"], 1e-6)


@settings(max_examples=40)
@given(
    BATCHES,
    st.sampled_from([0.5, 1, 2]),
    st.sampled_from(["macro", "micro", "weighted"]),
    st.sampled_from([0.0, 1.0]),
    st.booleans(),
)
def test_equals_scikit_learn(rows, beta, average, zero_division, weighted):
    y_true, scores = np.moveaxis(np.array(rows, "float32"), -1, 0)
    chosen, width = (scores > 0).astype(int), scores.shape[1]
    weight = np.arange(len(rows)) % 3 + 1.0 if weighted else None
    if width > 1:  # or scikit-learn takes it for two classes
        metric = LabelFScore(
            width, average=average, beta=beta, zero_division=zero_division
        )
        expected = sklearn.metrics.fbeta_score(
            *(y_true.astype(int), chosen),
            beta=beta,
            average=average,
            zero_division=zero_division,
            sample_weight=weight,
        )
        cases.close(score(metric, y_true, scores, weight), expected, 1e-6)
        expected = sklearn.metrics.f1_score(
            *(y_true.astype(int), chosen),
            average="samples",
            zero_division=1.0,
            sample_weight=weight,
        )
        cases.close(score(SampleF1(width), y_true, scores, weight), expected, 1e-6)
        expected = sklearn.metrics.jaccard_score(
            *(y_true.astype(int), chosen),
            average="samples",
            zero_division=1.0,
            sample_weight=weight,
        )
        cases.close(score(SampleJaccard(), y_true, scores, weight), expected, 1e-6)
    expected = sklearn.metrics.accuracy_score(
        y_true.astype(int), chosen, sample_weight=weight
    )
    cases.close(score(SubsetAccuracy(width), y_true, scores, weight), expected, 1e-6)


def test_counting_goes_on_beyond_float32():
    metric, mean = LabelFScore(2), SubsetAccuracy(2)
    start = 2.0**24
    metric.count([start, start], [start, start], [start, start])
    mean.total.assign(start), mean.divisor.assign(start)
    for thing in (metric, mean):
        thing.update_state([[1.0, 0.0]], [[1.0, -1.0]])
    assert metric.per_class()["true_positives"].tolist() == [start + 1, start]
    assert float(mean.divisor) == start + 1 and float(mean.total) == start + 1


def test_state_does_not_grow_with_the_data():
    metric = LabelFScore(5)
    metric.update_state(np.zeros((9, 5)), np.zeros((9, 5)))
    assert [variable.shape for variable in metric.variables] == [(5,)] * 4


@keras.saving.register_keras_serializable(package="tests")
def no_loss(y_true, y_pred):
    return keras.ops.mean(y_pred, axis=-1)


@pytest.mark.parametrize(
    ("kind", "jit_compile"),
    [
        ("ids", False),
        pytest.param("ids", True, marks=pytest.mark.slow),
        ("multi-hot", False),
    ],
)
def test_in_fit_and_the_threshold_can_be_set_afterwards(tmp_path, kind, jit_compile):
    random = np.random.default_rng(0)
    hot = random.random((12, 4)) < 0.4
    x = np.where(hot, 3.0, 1.0).astype("float32")
    y = as_ids(hot) if kind == "ids" else hot.astype("float32")
    names = [
        *NAMES,
        "average_precision",
        "ranking_loss",
        "precision_at_2",
        "macro_f_at_2",
    ]
    facts = {"num_labels": 4, "label_counts": [9, 5, 2, 1], "num_examples": 12}
    inputs = keras.Input((4,))
    outputs = keras.layers.Dense(4, kernel_initializer="identity")(inputs)
    model = keras.Model(inputs, outputs)
    metrics = [bat_tf.metrics.get(name, **facts) for name in names]
    nothing_changes = keras.optimizers.SGD(0.0)
    model.compile(nothing_changes, no_loss, metrics=metrics, jit_compile=jit_compile)
    history = model.fit(x, y, batch_size=6, verbose=0, validation_data=(x, y)).history
    assert {f"{part}{name}" for part in ("", "val_") for name in names} <= set(history)
    # All scores are above 0: every label is chosen.
    cases.close(history["micro_f1"], [2 * hot.sum() / (48 + hot.sum())])
    cases.close(history["val_ranking_loss"], [0])
    for metric in metrics[: len(NAMES)]:
        metric.threshold = Thresholds([2.0] * 4)
    scores = model.evaluate(x, y, batch_size=6, verbose=0, return_dict=True)
    assert all(scores[name] == 1 for name in NAMES[:4])
    model.save(tmp_path / "model.keras")
    fresh = keras.saving.load_model(tmp_path / "model.keras")
    assert fresh.evaluate(x, y, batch_size=6, verbose=0, return_dict=True) == scores


class TestSentences:
    def test_width_does_not_fit(self):
        with pytest.raises(ValueError, match=r"`y_pred`.*\[B, 3\].*\(1, 4\)"):
            LabelFScore(3).update_state(np.zeros((1, 3)), np.zeros((1, 4)))
        with pytest.raises(ValueError, match=r"`y_true`.*3 labels"):
            LabelFScore(3).update_state(np.zeros((1, 4)), np.zeros((1, 3)))

    def test_id_is_no_label(self):
        with pytest.raises(ValueError, match="ids below 3.*7"):
            SampleF1(3).update_state([[7]], np.zeros((1, 3)))

    def test_weight_of_a_label(self):
        metric, zeros = SubsetAccuracy(3), np.zeros((2, 3))
        with pytest.raises(ValueError, match=r"`sample_weight`.*per row.*\(2, 3\)"):
            metric.update_state(zeros, zeros, zeros)

    @pytest.mark.parametrize("ids", [[], [3], [-1]])
    def test_groups_must_exist(self, ids):
        with pytest.raises(ValueError, match="`label_ids`.*from 0 to 2"):
            LabelFScore(3, label_ids=ids)

    @pytest.mark.parametrize("wrong", [[0.5, 0.5], float("nan"), "half", [[0.1]]])
    def test_threshold(self, wrong):
        with pytest.raises(ValueError, match="`threshold`"):
            SampleF1(3, threshold=wrong)

    def test_names(self):
        assert bat_tf.metrics.get("Micro_F1").name == "Micro_F1"
        with pytest.raises(ValueError, match="'micro_f1'.*'precision_at_k'"):
            bat_tf.metrics.get("f1")
