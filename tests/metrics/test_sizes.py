"""Metrics find out by themselves how many labels or classes there are."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import cases
import keras
import numpy as np
import pytest

import bat_tf.metrics
from bat_tf.metrics import LabelFScore, TokenFScore

HERE = Path(__file__).parent

LABELS = ["micro_f1", "macro_f1", "mlc_f1", "jaccard", "subset_accuracy"]
HOT = (np.random.default_rng(0).random((12, 4)) < 0.4).astype("float32")
X = np.where(HOT > 0, 1.0, -1.0) * [1, 1, 1, -1]


@keras.saving.register_keras_serializable(package="tests")
def nothing(y_true, y_pred):
    return keras.ops.mean(0.0 * y_pred, axis=-1)


def scorer(metrics, **settings):
    inputs = keras.Input((4,))
    dense = keras.layers.Dense(4, kernel_initializer="identity")
    model = keras.Model(inputs, dense(inputs))
    model.compile("sgd", nothing, metrics=metrics, **settings)
    return model


@pytest.mark.slow
@pytest.mark.parametrize("jit_compile", [False, True])
def test_inside_fit_as_if_they_had_been_told(tmp_path, jit_compile):
    metrics = [bat_tf.metrics.get(name) for name in LABELS]
    model = scorer(metrics, jit_compile=jit_compile)
    history = model.fit(X, HOT, batch_size=5, verbose=0).history
    for name in LABELS:
        told = bat_tf.metrics.get(name, num_labels=4)
        told.update_state(HOT, X)
        assert history[name] == [pytest.approx(float(told.result()))]
    assert all(metric.num_labels == 4 for metric in metrics)
    model.save(tmp_path / "model.keras")
    fresh = keras.saving.load_model(tmp_path / "model.keras")
    scores = fresh.evaluate(X, HOT, verbose=0, return_dict=True)
    assert {name: scores[name] for name in LABELS} == pytest.approx(
        {name: history[name][0] for name in LABELS}
    )


def test_a_threshold_set_before_the_first_batch_counts():
    metric = bat_tf.metrics.get("micro_f1", threshold=[9.0, 0.0, 0.0, 0.0])
    metric.threshold = [0.0, 9.0, 9.0, 9.0]
    metric.update_state(HOT, X)
    told = LabelFScore(4, threshold=[0.0, 9.0, 9.0, 9.0])
    told.update_state(HOT, X)
    assert float(metric.result()) == float(told.result())
    with pytest.raises(ValueError, match="4 numbers, one for each label"):
        metric.threshold = [1.0, 2.0]
    with pytest.raises(ValueError, match=r"\[B, 4\]"):
        metric.update_state(HOT[:, :3], X[:, :3])


@pytest.mark.parametrize("name", [*LABELS, "token_macro_f1"])
def test_before_the_first_batch(name):
    metric = bat_tf.metrics.get(name)
    assert float(metric.result()) == 0
    metric.reset_state()
    cases.round_trip(metric)


def test_what_does_not_fit_is_said_at_the_first_batch():
    with pytest.raises(ValueError, match="labels from 0 to 3"):
        LabelFScore(label_ids=[7]).update_state(HOT, X)
    with pytest.raises(ValueError, match="classes 0 to 2"):
        TokenFScore(exclude=[3]).update_state([[0]], np.zeros((1, 1, 3)))


@pytest.mark.parametrize("name", ["token_macro_f1", "token_macro_f2_no_none"])
def test_one_hot_tags_are_integers(name):
    rng = np.random.default_rng(0)
    tags, scores = rng.integers(-1, 3, (3, 6)), rng.normal(size=(3, 6, 3))
    hot = np.eye(3)[tags] * (tags >= 0)[..., None]
    found = []
    for y_true, y_pred in (
        (tags, scores),
        (hot, scores),
        (hot > 0, scores),
        (hot.astype(int), scores.argmax(-1)),
    ):
        metric = bat_tf.metrics.get(name)
        metric.update_state(y_true, y_pred)
        found.append(float(metric.result()))
    assert len(set(found)) == 1 and found[0] > 0
    spans = [bat_tf.metrics.get("span_f1", tag_names=["O", "B-x", "I-x"]) for _ in "ab"]
    spans[0].update_state(tags, scores)
    spans[1].update_state(hot, scores)
    assert float(spans[0].result()) == float(spans[1].result())


@pytest.mark.slow
def test_replicas_add_up():
    code = """
        import keras, numpy as np, tensorflow as tf
        cpu = tf.config.list_physical_devices("CPU")[0]
        two = [tf.config.LogicalDeviceConfiguration()] * 2
        tf.config.set_logical_device_configuration(cpu, two)
        from test_sizes import HOT, LABELS, X, scorer
        import bat_tf.metrics
        with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
            model = scorer([bat_tf.metrics.get(name) for name in LABELS])
        found = model.fit(X, HOT, batch_size=4, verbose=0).history
        for name in LABELS:
            told = bat_tf.metrics.get(name, num_labels=4)
            told.update_state(HOT, X)
            np.testing.assert_allclose(found[name], [told.result()], rtol=1e-6)
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{HERE}{os.pathsep}{HERE.parent}"},
    )
    assert run.returncode == 0, run.stderr[-2000:]
