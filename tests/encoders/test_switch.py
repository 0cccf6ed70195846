import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny
from cases import close
from layer_cases import inputs, mask, states

from bat_tf.encoders import SwitchEncoder
from bat_tf.encoders.switch import SwitchFeedForward, capacity_of, route


def experts(**settings):
    keras.utils.set_random_seed(2)
    layer = SwitchFeedForward(16, **{"num_experts": 3, **settings})
    layer.build((None, None, 8))
    for weight in layer.trainable_weights:  # biases that do something
        weight.assign(weight + 0.1 * keras.random.normal(weight.shape))
    return layer


def plain(layer, x, real, factor=1.0):
    """The formula as it is written, token after token; and which ones overflowed."""
    router = layer.router.kernel.numpy(), layer.router.bias.numpy()
    hidden, output = (
        [part.numpy() for part in pair]
        for pair in (layer.hidden_weights, layer.output_weights)
    )
    capacity = int(np.ceil(factor * real.sum() / layer.num_experts))
    taken, y = np.zeros(layer.num_experts, int), np.zeros_like(x)
    overflow = np.zeros(real.shape, bool)
    for place in np.ndindex(*real.shape):
        if not real[place]:
            continue
        p = np.exp(x[place] @ router[0] + router[1])
        e = p.argmax()
        taken[e] += 1
        overflow[place] = taken[e] > capacity
        if not overflow[place]:
            inner = np.maximum(x[place] @ hidden[0][e] + hidden[1][e, 0], 0)
            y[place] = p[e] / p.sum() * (inner @ output[0][e] + output[1][e, 0])
    return y, overflow


def test_parameters_are_those_of_the_comparison():
    encoder = SwitchEncoder(50)
    encoder.build(None)
    assert encoder.count_params() + 3 * 129 - 50 * 128 == 26_634_827


def test_routes_equal_the_oracle(vectors):
    case = vectors["layers/switch_route"]
    logits = np.array(case["inputs"]["router_logits"], "f4")
    found = route(logits, np.array(case["inputs"]["valid"]), case["params"]["capacity"])
    for name in ("expert", "kept"):
        np.testing.assert_array_equal(found[name], case["expected"][name])
    close(found["gate"], case["expected"]["gate"])
    close(found["balance"], case["expected"]["aux_loss_without_coefficient"])


def test_capacity_is_of_real_tokens(vectors):
    case = vectors["layers/switch_route"]
    real = sum(case["inputs"]["valid"])
    for count in (real, tf.constant(real)):
        assert int(capacity_of(count, 3, 1.0)) == case["params"]["capacity"]


@pytest.mark.parametrize("factor", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("jit_compile", [None, False, True])
def test_equals_a_plain_derivation(factor, jit_compile):
    layer, x, real = experts(capacity_factor=factor), states(3, 7), mask(7, 4, 2)
    call = layer.call
    if jit_compile is not None:  # shapes that are known only when it runs
        shapes = [tf.TensorSpec((None, None, 8)), tf.TensorSpec((None, None), "bool")]
        call = tf.function(layer.call, shapes, jit_compile=jit_compile)
    expected, overflow = plain(layer, x, real, factor)
    assert overflow.any() == (factor == 0.5)
    found = np.array(call(tf.constant(x), tf.constant(real)))
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert not found[overflow].any()  # they keep the residual, and it alone


def test_gradient_is_the_slope():
    layer, x, real = experts(dtype="float64"), states(2, 5).astype("f8"), mask(5, 4)
    direction = np.random.default_rng(1).normal(size=x.shape)

    def total(x):
        return tf.reduce_sum(tf.sin(layer(x, real)))

    with tf.GradientTape() as tape:
        x = tf.constant(x)
        tape.watch(x)
        value = total(x)
    slope = (total(x + 1e-4 * direction) - total(x - 1e-4 * direction)) / 2e-4
    close(tf.reduce_sum(tape.gradient(value, x) * direction), slope, 1e-3)


def test_balance_is_one_when_experts_are_equally_likely():
    found = route(np.zeros((6, 3), "f4"), np.ones(6, bool), 2)
    close(found["balance"], 1.0)


def test_balance_joins_the_loss_of_training_alone():
    data = tiny.dataset(8)
    settings = {"num_experts": 3, "balance_weight": 0.5}
    model = tiny.tagger(data, encoder="switch", compiled=False, **settings)
    model.compile(keras.optimizers.SGD(0.0), loss="ce")
    batch, tags = next(iter(model.batches(data, 8)))
    fitted = model.fit(batch, tags, verbose=0).history["loss"][0]
    alone = model.evaluate(batch, tags, verbose=0)
    model(batch, training=True)
    assert len(model.losses) == 1 and float(model.losses[0]) >= 0.4
    close(fitted - alone, model.losses[0], 1e-5)


def test_balance_loss_does_not_pile_up():
    encoder = SwitchEncoder(20, 8, d_ff=8, num_layers=2, num_experts=3)
    for _ in range(2):
        encoder(inputs(5, 3), training=True)
        assert len(encoder.losses) == 2
    encoder(inputs(5, 3))
    assert not encoder.losses


def test_room_for_all_makes_texts_independent():
    encoder = SwitchEncoder(
        20, 8, d_ff=8, num_layers=2, num_experts=3, inference_capacity_factor=3
    )
    batch = inputs(5, 3)
    alone = {name: part[1:, :3] for name, part in batch.items()}
    np.testing.assert_allclose(
        encoder(batch)[-1][1:, :3], encoder(alone)[-1], atol=1e-5
    )


def test_routes_in_float32_whatever_the_precision():
    layer = experts(dtype="mixed_float16")
    assert layer.router.compute_dtype == "float32"
    assert layer(states(), mask(5, 3)).dtype == "float16"


def test_wrong_settings_are_explained():
    with pytest.raises(ValueError, match="`num_experts` must be an integer >= 1"):
        SwitchEncoder(20, num_experts=0)
    with pytest.raises(ValueError, match="`capacity_factor` must be a number >= 0"):
        SwitchEncoder(20, capacity_factor=-1.0)
