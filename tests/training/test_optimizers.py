"""The one-kernel Adam takes the very steps of Keras' own."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bat_tf.training import optimizers
from bat_tf.training.schedules import BATSchedule

PAIRS = [
    (optimizers.Adam, keras.optimizers.Adam, {}),
    (optimizers.Adam, keras.optimizers.Adam, {"amsgrad": True}),
    (optimizers.Adam, keras.optimizers.Adam, {"clipnorm": 0.1}),
    (optimizers.AdamW, keras.optimizers.AdamW, {"weight_decay": 0.1}),
    (optimizers.AdamW, keras.optimizers.AdamW, {"use_ema": True}),
    (optimizers.Adam, keras.optimizers.Adam, {"gradient_accumulation_steps": 2}),
]


def trained(optimizer, jit_compile=False):
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(4, "tanh"), keras.layers.Dense(2)]
    model = keras.Sequential([keras.Input((3,)), *layers])
    model.compile(optimizer, "mse", jit_compile=jit_compile)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(64, 3)), rng.normal(size=(64, 2))
    model.fit(x, y, epochs=3, batch_size=8, shuffle=False, verbose=0)
    return model


@pytest.mark.parametrize(
    "jit_compile", [False, pytest.param(True, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(("ours", "theirs", "settings"), PAIRS)
def test_same_weights_as_keras(ours, theirs, settings, jit_compile):
    schedule = BATSchedule(16, warmup_steps=10, scale=0.2)
    model = trained(ours(schedule, **settings), jit_compile)
    expected = trained(theirs(schedule, **settings), jit_compile)
    for weight, other in zip(model.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_allclose(weight, other, rtol=1e-4, atol=1e-6)


def test_reloads_and_goes_on(tmp_path):
    model = trained(optimizers.AdamW(0.01, weight_decay=0.1))
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert type(again.optimizer) is optimizers.AdamW
    assert int(again.optimizer.iterations) == int(model.optimizer.iterations)
    x, y = np.ones((8, 3)), np.ones((8, 2))
    model.train_on_batch(x, y)
    again.train_on_batch(x, y)
    for weight, other in zip(model.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(weight, other)


def test_one_operation_a_variable():
    model = trained(optimizers.Adam(0.01))
    x, y = tf.ones((8, 3)), tf.ones((8, 2))

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x) - y) ** 2)
        variables = model.trainable_variables
        gradients = tape.gradient(loss, [v.value for v in variables])
        model.optimizer.apply(gradients, variables)

    operations = [op.type for op in step.get_concrete_function().graph.get_operations()]
    assert operations.count("ResourceApplyAdam") == len(model.trainable_variables)


def test_a_word_that_repeats_in_a_batch_counts_once():
    # Keras squares each occurrence's gradient by itself; the sum is what counts.
    ids, rows = tf.constant([2, 0, 2, 2]), keras.Variable(np.ones((3, 2), "float32"))
    dense = keras.Variable(np.ones((3, 2), "float32"))
    for variable, lookup in (
        (rows, lambda v: tf.gather(v.value, ids)),
        (dense, lambda v: tf.one_hot(ids, 3) @ v.value),
    ):
        optimizer = optimizers.Adam(0.1)
        for target in (1.0, 5.0, -2.0):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum((lookup(variable) - target) ** 2)
            optimizer.apply([tape.gradient(loss, variable.value)], [variable])
    np.testing.assert_allclose(rows.numpy(), dense.numpy(), rtol=1e-6)


def test_bat_optimizer_has_the_papers_constants():
    optimizer = optimizers.bat_optimizer(128, warmup_steps=100, scale=0.5)
    assert (optimizer.beta_1, optimizer.beta_2) == (0.9, 0.98)
    assert optimizer.epsilon == 1e-9
    schedule = BATSchedule(128, warmup_steps=100, scale=0.5)
    assert float(optimizer.learning_rate) == pytest.approx(float(schedule(0)))


def test_modules_have_their_own_rates(tmp_path):
    def weights(**settings):
        keras.utils.set_random_seed(0)
        layers = [keras.layers.Dense(4, name="low"), keras.layers.Dense(2, name="top")]
        model = keras.Sequential([keras.Input((3,)), *layers])
        start = model.get_weights()
        model.compile(optimizers.AdamW(0.01, weight_decay=0.0, **settings), "mse")
        model.train_on_batch(np.ones((8, 3)), np.ones((8, 2)))
        return model, [a - b for a, b in zip(model.get_weights(), start, strict=True)]

    _, plain = weights()
    model, moved = weights(module_rates={"low": 0.5, "low/bias": 0.0})
    for value, other, factor in zip(moved, plain, (0.5, 0.0, 1.0, 1.0), strict=True):
        np.testing.assert_allclose(value, factor * other, rtol=1e-3, atol=1e-7)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert again.optimizer.module_rates == {"low": 0.5, "low/bias": 0.0}
    with pytest.raises(ValueError, match="such as low, top. Received: 'lo'"):
        weights(module_rates={"lo": 0.5})
    with pytest.raises(ValueError, match="module_rates"):
        weights(module_rates={"low": -1.0})


@pytest.mark.parametrize("scale", [1.0, 1e-12])
def test_one_second_moment_keeps_the_proportions_of_the_gradient(scale):
    variable = keras.Variable(np.zeros((2, 2), "float32"))
    optimizers.share_second_moment(variable)
    optimizer = optimizers.Adam(0.1)
    gradient = np.array([[4.0, 0.0], [0.0, -2.0]], "float32")
    for _ in range(3):
        optimizer.apply([tf.constant(scale * gradient)], [variable])
    # Of the size that Adam's steps have, whatever the loss is measured in.
    expected = -0.3 * gradient / np.sqrt(np.mean(gradient**2))
    np.testing.assert_allclose(variable.numpy(), expected, rtol=1e-4)
    assert {v.shape for v in optimizer._velocities} == {()}


def test_a_module_inside_a_model_is_found_wherever_it_stands():
    inner = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="words")])
    model = keras.Sequential([keras.Input((3,)), inner, keras.layers.Dense(1)])
    optimizer = optimizers.Adam(module_rates={"words": 0.5})
    optimizer.build(model.trainable_variables)
    assert optimizer._factors == [0.5, 0.5, 1.0, 1.0]


def test_a_model_of_one_module_knows_it_by_name():
    def factors(**rates):
        inputs = keras.Input((3,))
        model = keras.Model(inputs, keras.layers.Dense(2, name="one")(inputs))
        optimizer = optimizers.Adam(module_rates=rates)
        optimizer.build(model.trainable_variables)
        return optimizer._factors

    assert factors(one=0.5) == factors(kernel=0.5, bias=0.5) == [0.5, 0.5]
    assert factors(**{"one/bias": 0.5}) == [1.0, 0.5]
    with pytest.raises(ValueError, match="such as bias, kernel"):
        factors(two=0.5)
