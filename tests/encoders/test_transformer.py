"""The Transformer, and what it shares with all encoders of the same shell."""

import keras
import layer_cases
import numpy as np
import pytest
import tensorflow as tf
from layer_cases import inputs

from bat_tf import encoders
from bat_tf.encoders import TransformerEncoder
from bat_tf.encoders.transformer import TransformerBlock

SMALL = {"d_model": 8, "d_ff": 16, "num_heads": 2, "num_layers": 2}
# Small enough for choices to be made: who is active, who finds a place.
VARIANTS = {
    "transformer": {},
    "admin": {},
    "muse": {"kernel_sizes": (3, 7)},
    "switch": {"num_experts": 3, "balance_weight": 1.0},
    "performer": {},
    "performer/softmax": {"features": "softmax", "num_features": 6},
    "informer": {"factor": 1},
}
# Those of products and sums alone.
PLAIN = ("admin", "muse", "performer", "performer/softmax")
every = pytest.mark.parametrize("variant", VARIANTS)


def build(variant="transformer", **settings):
    name = variant.split("/")[0]
    settings = {**SMALL, **VARIANTS[variant], **settings}
    return encoders.get(name, vocabulary_size=20, **settings)


def reseed(encoder):
    """Puts the random generators back to where they were."""
    for variable in encoder.non_trainable_variables:
        if variable.path.endswith("seed_generator_state"):
            variable.assign([7, 0])


def train_loss(encoder, batch):
    """What training sees of the real tokens, losses of layers included."""
    last = tf.cast(encoder(batch, training=True)[-1], "float32")
    real = tf.cast(batch["padding_mask"], "float32")[..., None]
    total = tf.reduce_sum(real * tf.sin(3 * last)) / tf.reduce_sum(real)
    return total + sum(encoder.losses)


def train_gradients(encoder, batch):
    reseed(encoder)
    with tf.GradientTape() as tape:
        total = train_loss(encoder, batch)
    weights = [weight.value for weight in encoder.trainable_weights]
    return [tf.convert_to_tensor(g).numpy() for g in tape.gradient(total, weights)]


def tagger(encoder, batch):
    """A Keras model around an encoder; as if somebody else had written it."""
    tensors = {
        name: keras.Input((None,), name=name, dtype=str(values.dtype))
        for name, values in batch.items()
    }
    logits = keras.layers.Dense(3, dtype="float32")(encoder(tensors)[-1])
    return keras.Model(tensors, logits)


def test_parameters_are_those_of_the_comparison():
    encoder = TransformerEncoder(50)
    encoder.build(None)
    assert encoder.count_params() + 3 * 129 - 50 * 128 == 793_475


@every
def test_one_state_for_the_embeddings_and_each_layer(variant):
    states = build(variant)(inputs(5, 3))
    assert [state.shape for state in states] == [(2, 5, 8)] * 3


@every
def test_padding_changes_nothing(variant):
    layer_cases.check_padding(build(variant), inputs(9, 3, 1))


@every
@pytest.mark.parametrize("extra", [1, 16])
def test_padding_changes_no_gradient(variant, extra):
    encoder, batch = build(variant), inputs(9, 3, 1)
    longer = {name: np.pad(part, [(0, 0), (0, extra)]) for name, part in batch.items()}
    longer["token_ids"] = np.where(longer["padding_mask"], longer["token_ids"], 4)
    before, after = (train_gradients(encoder, part) for part in (batch, longer))
    for one, other in zip(before, after, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=2e-5)


@every
def test_rows_without_tokens_stay_finite(variant):
    batch = inputs(5, 3)
    batch["padding_mask"] = batch["padding_mask"] & np.array([[True], [False]])
    encoder = build(variant)
    assert np.isfinite(encoder(batch)[-1]).all()
    assert all(np.isfinite(part).all() for part in train_gradients(encoder, batch))


@every
def test_inference_is_deterministic(variant):
    encoder, batch = build(variant, dropout=0.5), inputs(9, 6)
    np.testing.assert_array_equal(encoder(batch)[-1], encoder(batch)[-1])


@pytest.mark.slow
@every
def test_compiled_equals_eager(variant):
    encoder, batch = build(variant, num_layers=1), inputs(9, 3)
    expected = train_gradients(encoder, batch)
    weights = [weight.value for weight in encoder.trainable_weights]

    def gradients(token_ids, padding_mask):
        inputs = {"token_ids": token_ids, "padding_mask": padding_mask}
        with tf.GradientTape() as tape:
            total = train_loss(encoder, inputs)
        return [tf.convert_to_tensor(part) for part in tape.gradient(total, weights)]

    # Of a batch of texts neither number nor length is known when it is traced.
    shapes = [tf.TensorSpec((None, None), dtype) for dtype in ("int64", "bool")]
    reseed(encoder)
    step = tf.function(gradients, shapes, jit_compile=True)
    found = step(batch["token_ids"], batch["padding_mask"])
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=2e-5)


@every
@pytest.mark.parametrize("precision", ["mixed_float16", "mixed_bfloat16"])
def test_half_precision(variant, precision):
    encoder, batch = build(variant, dtype=precision), inputs(9, 3)
    assert encoder(batch)[-1].dtype == precision.removeprefix("mixed_")
    assert all(np.isfinite(part).all() for part in train_gradients(encoder, batch))


@pytest.mark.slow
@pytest.mark.parametrize(
    "variant",
    [
        # What has choices to make in float16 is in the default run.
        pytest.param(name, marks=[pytest.mark.slow] * (name in PLAIN))
        for name in VARIANTS
    ],
)
def test_fits_in_half_precision(variant):
    keras.utils.set_random_seed(1)
    batch = inputs(9, 6, 4, 2)
    tags = (batch["token_ids"] % 3)[..., None]
    model = tagger(build(variant, num_layers=1, dtype="mixed_float16"), batch)
    optimizer = keras.optimizers.SGD(0.05)
    optimizer.build(model.trainable_variables)  # or the step is traced twice
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    # XLA and float16 together where there is more than products and sums.
    model.compile(optimizer, loss, jit_compile=variant in ("switch", "informer"))
    losses = model.fit(batch, tags, epochs=8, verbose=0).history["loss"]
    assert np.isfinite(losses).all() and losses[-1] < losses[0]


@every
def test_saves_and_loads(variant, tmp_path):
    encoder = build(variant, feature_sizes={"case": 7}, dropout=0.1)
    batch = inputs(9, 3, case=7)
    layer_cases.check_saving(encoder, batch, tmp_path / "encoder.keras")


@every
def test_blocks_survive_their_config(variant):
    block = build(variant).blocks[0]
    fresh = type(block).from_config(block.get_config())
    assert fresh.get_config() == block.get_config()
    x, real = layer_cases.states(), layer_cases.mask(5, 3)
    block(x, real)
    fresh(x, real)
    fresh.set_weights(block.get_weights())
    np.testing.assert_allclose(fresh(x, real), block(x, real), atol=1e-6)


def test_parallel_parts_read_the_same_input():
    block = TransformerBlock(2, 16, parallel=True)
    x, real = layer_cases.states(), layer_cases.mask(5, 5)
    found = block(x, real)
    both = block.attend(x, real, False) + block.transform(x, real, False)
    np.testing.assert_allclose(found, block.output_norm(x + both), atol=1e-6)


def test_settings_are_checked():
    with pytest.raises(ValueError, match="`num_layers` must be an integer >= 1"):
        build(num_layers=0)
    with pytest.raises(TypeError, match="takes no setting 'factor'"):
        build(factor=3)
