"""What every loss and every metric must do, whatever it computes.

A test file derives from `LossCases` or `MetricCases`, says by which names, how to make
the object and what a batch looks like, and inherits the tests:

    @pytest.mark.parametrize("name", ["ce", "pbp"])
    class TestProperties(cases.LossCases):
        def make(self, name, /, **settings): ...
        def batch(self, rows, seed): ...
"""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf


def with_xla(settings, chosen):
    """Each setting without XLA and with it; with it by default the chosen ones alone.

    XLA takes ten seconds for a model, and its layers are compiled one by one anyway.
    """
    slow = [s for s in settings if s not in chosen]
    return [
        *((setting, False) for setting in settings),
        *((setting, True) for setting in chosen),
        *(pytest.param(setting, True, marks=pytest.mark.slow) for setting in slow),
    ]


def close(actual, expected, tolerance=2e-5):
    """Asserts equality within `tolerance` of max(1, |expected|)."""
    actual, expected = np.asarray(actual, "float64"), np.asarray(expected, "float64")
    assert actual.shape == expected.shape
    error = np.abs(actual - expected) / np.maximum(1, np.abs(expected))
    assert np.all(error <= tolerance), f"off by {np.max(error)}: {actual}, {expected}"


def value_and_gradient(loss, y_true, y_pred, sample_weight=None, jit_compile=False):
    """Runs a loss eagerly or under XLA; returns NumPy arrays."""

    def run(y_true, y_pred):
        with tf.GradientTape() as tape:
            tape.watch(y_pred)
            value = loss(y_true, y_pred, sample_weight)
        return value, tape.gradient(value, y_pred)

    if jit_compile:
        run = tf.function(run, jit_compile=True)
    value, gradient = run(tf.constant(y_true), tf.convert_to_tensor(y_pred))
    return value.numpy(), tf.cast(gradient, "float64").numpy()


class LogitsOnly(keras.layers.Layer):
    """A layer whose weight is its output, so that a step shows the gradient."""

    def __init__(self, logits, **kwargs):
        super().__init__(**kwargs)
        self.logits = self.add_weight(shape=logits.shape, initializer="zeros")
        self.logits.assign(logits)

    def call(self, inputs):
        return self.logits + 0.0


def fit_step(losses, y_true, logits, jit_compile=False):
    """Fits one step of SGD with learning rate 1 and reads value and gradient from it.

    Args:
        losses: name → loss; all are trained at once, each on logits of its own.
        y_true: targets of one batch.
        logits: scores of that batch.
        jit_compile: whether XLA compiles the step.

    Returns:
        name → (value, gradient).
    """
    logits = np.asarray(logits, "float32")
    inputs = keras.Input((1,), batch_size=len(logits))
    heads = {name: LogitsOnly(logits, name=name) for name in losses}
    outputs = {name: head(inputs) for name, head in heads.items()}
    model = keras.Model(inputs, outputs)
    optimizer = keras.optimizers.SGD(1.0)
    optimizer.build(model.trainable_variables)  # or the step is traced twice
    model.compile(optimizer, loss=dict(losses), jit_compile=jit_compile)
    x, y = np.zeros((len(logits), 1)), {name: np.asarray(y_true) for name in losses}
    history = model.fit(x, y, batch_size=len(logits), shuffle=False, verbose=0).history
    single = len(losses) == 1
    return {
        name: (
            history["loss" if single else f"{name}_loss"][0],
            logits - head.logits.numpy(),
        )
        for name, head in heads.items()
    }


def round_trip(thing):
    """Returns a fresh object from the JSON of a serialised one."""
    text = json.dumps(keras.saving.serialize_keras_object(thing))
    fresh = keras.saving.deserialize_keras_object(json.loads(text))
    assert type(fresh) is type(thing)
    assert fresh.get_config() == thing.get_config()
    return fresh


class LossCases:
    """Properties of every loss; `y_pred` is always logits."""

    def make(self, name, /, **settings):
        raise NotImplementedError

    def batch(self, rows, seed):
        """Returns targets and float32 logits of `rows` rows."""
        raise NotImplementedError

    def test_is_a_finite_scalar_with_a_gradient(self, name):
        y_true, y_pred = self.batch(rows=3, seed=0)
        value, gradient = value_and_gradient(self.make(name), y_true, y_pred)
        assert value.shape == () and value.dtype == "float32"
        assert np.isfinite(value) and value > 0
        assert np.isfinite(gradient).all() and np.abs(gradient).max() > 0

    def test_is_finite_at_large_logits_and_the_same_compiled(self, name):
        loss, (y_true, y_pred) = self.make(name), self.batch(rows=16, seed=1)
        levels = np.array([-1e4, -88.0, -1e-6, 0.0, 88.0, 1e4], "float32")
        y_pred[4:] = np.random.default_rng(1).choice(levels, y_pred[4:].shape)
        value, gradient = value_and_gradient(loss, y_true, y_pred)
        assert np.isfinite(value) and np.isfinite(gradient).all()
        compiled = value_and_gradient(loss, y_true, y_pred, jit_compile=True)
        close(compiled[0], value)
        close(compiled[1], gradient)

    def test_gradient_is_the_slope(self, name):
        loss = self.make(name, dtype="float64")
        y_true, y_pred = self.batch(rows=4, seed=2)
        y_pred = y_pred.astype("float64")
        direction = np.random.default_rng(2).normal(size=y_pred.shape)
        _, gradient = value_and_gradient(loss, y_true, y_pred)
        step = 1e-6
        ahead, behind = (
            loss(tf.constant(y_true), y_pred + sign * step * direction)
            for sign in (1, -1)
        )
        slope = float(ahead - behind) / (2 * step)
        close(np.sum(gradient * direction), slope, 1e-5)

    def test_order_of_rows_does_not_matter(self, name):
        loss, (y_true, y_pred) = self.make(name), self.batch(rows=5, seed=4)
        order = np.array([3, 1, 4, 0, 2])
        value, gradient = value_and_gradient(loss, y_true, y_pred)
        other, permuted = value_and_gradient(loss, y_true[order], y_pred[order])
        close(other, value)
        close(permuted, gradient[order])

    def test_weight_two_is_the_row_twice_and_zero_is_no_row(self, name):
        loss = self.make(name, reduction="sum")
        y_true, y_pred = self.batch(rows=4, seed=5)
        times = np.array([1, 2, 0, 1])
        weighted = loss(y_true, y_pred, times.astype("float32"))
        repeated = loss(np.repeat(y_true, times, 0), np.repeat(y_pred, times, 0))
        close(weighted, repeated)

    @pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
    def test_low_precision_logits_lose_nothing_more(self, name, dtype):
        loss, (y_true, y_pred) = self.make(name), self.batch(rows=4, seed=6)
        y_pred = tf.cast(y_pred * 50, dtype)
        value, gradient = value_and_gradient(loss, y_true, y_pred)
        expected = loss(tf.constant(y_true), tf.cast(y_pred, "float32"))
        assert value.dtype == "float32"
        close(value, expected.numpy())
        assert np.isfinite(gradient).all()

    def test_serialises(self, name):
        y_true, y_pred = self.batch(rows=3, seed=7)
        loss = self.make(name, reduction="sum", name="mine")
        fresh = round_trip(loss)
        assert fresh.name == "mine"
        close(fresh(y_true, y_pred), loss(y_true, y_pred), 0)

    def test_keeps_its_dtype_when_reloaded(self, name):
        y_true, y_pred = self.batch(rows=3, seed=8)
        fresh = round_trip(self.make(name, dtype="bfloat16"))
        assert fresh.dtype == "bfloat16"
        assert fresh(y_true, y_pred).dtype == "bfloat16"


class MetricCases:
    """Properties of every metric that counts rows."""

    def make(self, name, /, **settings):
        raise NotImplementedError

    def batch(self, rows, seed):
        """Returns targets and predictions of `rows` rows."""
        raise NotImplementedError

    def shape(self, array):
        """What is known of an array's shape while the graph is made."""
        return [None, None, *array.shape[2:]]

    def score(self, name, y_true, y_pred, sample_weight=None):
        metric = self.make(name)
        metric.update_state(y_true, y_pred, sample_weight)
        return float(metric.result())

    def test_is_a_scalar_that_goes_up(self, name):
        y_true, y_pred = self.batch(rows=6, seed=0)
        metric = self.make(name)
        assert metric._direction == "up"
        metric.update_state(y_true, y_pred)
        assert metric.result().shape == () and 0 < float(metric.result()) < 1

    @pytest.mark.parametrize("cuts", [[1], [2, 3], [1, 2, 3, 4, 5]])
    def test_batches_are_the_whole(self, name, cuts):
        y_true, y_pred = self.batch(rows=6, seed=1)
        metric = self.make(name)
        for part in zip(np.split(y_true, cuts), np.split(y_pred, cuts), strict=True):
            metric.update_state(*part)
        assert float(metric.result()) == self.score(name, y_true, y_pred)

    @pytest.mark.parametrize("jit_compile", [False, True])
    def test_compiled_is_the_same(self, name, jit_compile):
        y_true, y_pred = self.batch(rows=6, seed=2)
        metric = self.make(name)
        shapes = [tf.TensorSpec(self.shape(a), a.dtype) for a in (y_true, y_pred)]
        update = tf.function(metric.update_state, shapes, jit_compile=jit_compile)
        update(y_true, y_pred)
        assert float(metric.result()) == self.score(name, y_true, y_pred)

    def test_order_of_rows_does_not_matter(self, name):
        y_true, y_pred = self.batch(rows=6, seed=3)
        assert self.score(name, y_true[::-1], y_pred[::-1]) == self.score(
            name, y_true, y_pred
        )

    def test_weight_two_is_the_row_twice_and_zero_is_no_row(self, name):
        y_true, y_pred = self.batch(rows=4, seed=4)
        times = np.array([1, 2, 0, 1])
        repeated = self.score(
            name, np.repeat(y_true, times, 0), np.repeat(y_pred, times, 0)
        )
        weight = times.astype("float32")
        assert self.score(name, y_true, y_pred, weight) == repeated

    def test_forgets_when_reset(self, name):
        y_true, y_pred = self.batch(rows=6, seed=5)
        metric = self.make(name)
        metric.update_state(y_true[:3], y_pred[:3])
        metric.reset_state()
        metric.update_state(y_true[3:], y_pred[3:])
        assert float(metric.result()) == self.score(name, y_true[3:], y_pred[3:])

    def test_serialises(self, name):
        y_true, y_pred = self.batch(rows=6, seed=6)
        metric = self.make(name)
        fresh = round_trip(metric)
        fresh.update_state(y_true, y_pred)
        assert float(fresh.result()) == self.score(name, y_true, y_pred)
