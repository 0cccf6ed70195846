"""Each private name of Keras and TensorFlow still does what it is used for."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bat_tf._internal import keras_private


def test_keras_keeps_masks_on_tensors():
    states = keras.layers.Embedding(9, 2, mask_zero=True)(np.array([[3, 0]]))
    assert keras_private.keras_mask(states).numpy().tolist() == [[True, False]]
    assert keras_private.keras_mask(keras.ops.add(states, 1)) is None
    scores = np.array([[[4.0, 0.0], [0.0, 4.0]]], "float32")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    masked = keras_private.with_keras_mask(scores, np.array([[True, False]]))
    found = float(loss(np.zeros((1, 2)), masked))
    assert found == pytest.approx(float(loss(np.zeros((1, 1)), scores[:, :1])))


def test_a_layer_knows_the_layers_inside():
    inner = keras.layers.Dense(2)
    outer = keras.layers.TimeDistributed(inner)
    assert list(keras_private.layers_inside(outer)) == [outer, inner]


@pytest.mark.parametrize("direction", ["up", "down"])
def test_callbacks_ask_a_metric_for_its_direction(direction):
    metric = keras.metrics.MeanAbsoluteError(name="mine")
    keras_private.set_direction(metric, direction)
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", metrics=[metric])
    stopping = keras.callbacks.EarlyStopping("mine", patience=2)
    model.fit(np.ones((2, 1)), np.ones((2, 1)), verbose=0, callbacks=[stopping])
    assert (stopping.monitor_op(2.0, 1.0)) == (direction == "up")


def test_a_graph_knows_whether_it_is_for_xla():
    found = []

    def trace(x):
        found.append(bool(keras_private.in_xla()))
        return x + 1

    for jit_compile in (False, True):
        tf.function(trace, jit_compile=jit_compile)(tf.constant(1.0))
    assert found == [False, True]


@pytest.mark.parametrize("steps", [1, 2])
def test_what_xla_compiles_finds_its_batch_outside(steps):
    found = []

    class Looks(keras.losses.Loss):
        def __call__(self, y_true, y_pred, sample_weight=None):
            outside = keras_private.outside_xla(tf.reshape(y_true, (-1, 1, 2)))
            found.append((outside.op.type, tuple(outside.shape), outside.dtype))
            return keras.ops.mean(y_pred)

    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", Looks(), jit_compile=True, steps_per_execution=steps)
    model.fit(np.ones((8, 3)), np.ones((8, 2), "int32"), batch_size=4, verbose=0)
    kind = "IteratorGetNext" if steps == 1 else "OptionalGetValue"
    assert set(found) == {(kind, (4, 2), tf.int32)}
    alone = []
    function = tf.function(
        lambda x: alone.append(keras_private.outside_xla(x)) or x, jit_compile=True
    )
    function(tf.ones((2, 2)))
    assert alone == [None]


def test_an_optimizer_finds_its_variable_again():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])
    found = []

    class Noting(keras.optimizers.SGD):
        def update_step(self, gradient, variable, learning_rate):
            found.append((keras_private.variable_index(self, variable), variable.shape))

    model.compile(Noting(), "mse", run_eagerly=True)
    model.fit(np.ones((2, 2)), np.ones((2, 3)), verbose=0)
    assert found == [(0, (2, 3)), (1, (3,))]


def test_fit_starts_at_the_epoch_that_a_callback_names():
    class Later(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            keras_private.start_at(self.model, 3)

    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    assert keras_private.start_at(model) == 0
    data = np.ones((2, 1)), np.ones((2, 1))
    assert model.fit(*data, epochs=5, callbacks=[Later()], verbose=0).epoch == [3, 4]


def test_metrics_are_built_from_the_specification_of_a_batch():
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse", metrics=["mae"])
    batch = tf.TensorSpec((4, 2)), tf.TensorSpec((4, 1))
    keras_private.build_from_batch(model, batch)
    assert "mae" in model.get_metrics_result()
