"""What every layer and encoder must do: properties that the test files share."""

import keras
import numpy as np
import tensorflow as tf


def states(batch=2, length=5, width=8, seed=0):
    return np.random.default_rng(seed).normal(size=(batch, length, width)).astype("f4")


def mask(*lengths):
    return np.arange(max(lengths))[None, :] < np.array(lengths)[:, None]


def inputs(*lengths, size=20, seed=0, **features):
    """Encoder inputs of the given lengths; features are name=number of values."""
    rng = np.random.default_rng(seed)
    real = mask(*lengths)
    sizes = {"token_ids": size, **features}
    values = {name: rng.integers(1, n, real.shape) * real for name, n in sizes.items()}
    return {**values, "padding_mask": real}


def check_padding(encoder, batch):
    """Neither the content nor the amount of padding changes a real token."""
    real = batch["padding_mask"]
    before = np.array(encoder(batch)[-1])
    scrambled = {
        name: values if name == "padding_mask" else np.where(real, values, 3)
        for name, values in batch.items()
    }
    longer = {name: np.pad(values, [(0, 0), (0, 4)]) for name, values in batch.items()}
    for other in (scrambled, longer):
        after = np.array(encoder(other)[-1])[:, : real.shape[1]]
        np.testing.assert_allclose(before[real], after[real], atol=1e-5)


def check_compiled(encoder, batch):
    """XLA and plain graphs agree with eager mode, gradients included."""
    weights = [weight.value for weight in encoder.trainable_weights]

    def step():
        with tf.GradientTape() as tape:
            total = keras.ops.mean(keras.ops.square(encoder(batch)[-1]))
        return total, [tf.convert_to_tensor(g) for g in tape.gradient(total, weights)]

    expected, gradients = step()
    for jit_compile in (False, True):
        total, others = tf.function(step, jit_compile=jit_compile)()
        np.testing.assert_allclose(total, expected, rtol=1e-5)
        for one, other in zip(gradients, others, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=2e-5)


def check_half_precision(build, batch):
    for policy in ("mixed_float16", "mixed_bfloat16"):
        last = build(dtype=policy)(batch)[-1]
        assert np.isfinite(np.array(keras.ops.cast(last, "float32"))).all()


def check_saving(encoder, batch, path):
    """A model that owns the encoder survives a `.keras` file."""
    tensors = {
        name: keras.Input((None,), name=name, dtype=str(values.dtype))
        for name, values in batch.items()
    }
    model = keras.Model(tensors, encoder(tensors)[-1])
    before = model(batch)
    model.save(path)
    np.testing.assert_allclose(keras.saving.load_model(path)(batch), before, atol=1e-6)
