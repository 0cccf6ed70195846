"""One state of a text, whatever padding follows it."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from bat_tf.layers import Pooling
from bat_tf.layers.pooling import POOLINGS


def states_and_mask(padding=0):
    rng = np.random.default_rng(0)
    states = rng.normal(size=(2, 4, 3)).astype("float32")
    mask = np.array([[True, True, True, True], [True, True, False, False]])
    junk = np.full((2, padding, 3), 1e4, "float32")
    more = np.zeros((2, padding), bool)
    return np.concatenate([states, junk], 1), np.concatenate([mask, more], 1)


@pytest.mark.parametrize("mode", POOLINGS)
def test_padding_changes_nothing(mode):
    layer = Pooling(mode)
    short = layer(*states_and_mask())
    long = layer(*states_and_mask(padding=5))
    np.testing.assert_allclose(short, long, rtol=1e-6)


def test_values():
    states, mask = states_and_mask()
    np.testing.assert_allclose(Pooling("first")(states, mask), states[:, 0])
    np.testing.assert_allclose(
        Pooling("mean")(states, mask)[1], states[1, :2].mean(0), rtol=1e-6
    )
    np.testing.assert_allclose(Pooling("max")(states, mask)[1], states[1, :2].max(0))


@pytest.mark.parametrize("mode", POOLINGS)
def test_a_text_without_tokens_is_zero(mode):
    states, mask = states_and_mask()
    assert not np.any(Pooling(mode)(states, np.zeros_like(mask)))


@pytest.mark.parametrize("mode", POOLINGS)
@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_half_precision_stays_finite(mode, policy):
    states, mask = states_and_mask()
    pooled = Pooling(mode, dtype=policy)(300 * states, mask)
    assert np.isfinite(np.asarray(keras.ops.cast(pooled, "float32"))).all()


def chunked(states, mask, chunks):
    """The definition of XML-CNN's pooling, one text and one chunk at a time."""
    rows = []
    for text, real in zip(states, mask, strict=True):
        text, parts = text[real], []
        for i in range(chunks):
            start = math.floor(i * len(text) / chunks)
            end = math.ceil((i + 1) * len(text) / chunks)
            parts.append(text[start:end].max(0))
        rows.append(np.concatenate(parts))
    return np.stack(rows)


@pytest.mark.parametrize("chunks", [1, 2, 3, 8])
@pytest.mark.parametrize("compiled", [False, True])
def test_chunks_are_those_of_the_definition(chunks, compiled):
    rng = np.random.default_rng(1)
    states = rng.normal(size=(13, 13, 3)).astype("float32")
    mask = np.arange(13) <= np.arange(13)[:, None]
    mask[12, [0, 4]] = False  # padding need not be at the end
    layer = Pooling("chunks", num_chunks=chunks)
    call = tf.function(layer, jit_compile=compiled)
    found = call(tf.constant(states), tf.constant(mask))
    np.testing.assert_allclose(found, chunked(states, mask, chunks))


def test_chunks_are_saved_and_the_gradient_is_of_the_largest(tmp_path):
    states, mask = states_and_mask()
    inputs = keras.Input((None, 3)), keras.Input((None,), dtype="bool")
    model = keras.Model(inputs, Pooling("chunks", num_chunks=2)(*inputs))
    assert model.output_shape == (None, 6)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(again((states, mask)), model((states, mask)))
    with tf.GradientTape() as tape:
        tape.watch(states := tf.constant(states))
        total = tf.reduce_sum(Pooling("chunks", num_chunks=4)(states, mask))
    gradient = tape.gradient(total, states).numpy()
    # Four chunks: each token once in the long text, each of two twice in the short.
    np.testing.assert_array_equal(gradient[0], np.ones((4, 3)))
    np.testing.assert_array_equal(gradient[1], [[2] * 3, [2] * 3, [0] * 3, [0] * 3])


def test_bad_settings_are_named():
    with pytest.raises(ValueError, match="`num_chunks` must be"):
        Pooling("chunks", num_chunks=0)


def test_an_unknown_mode_gets_the_list():
    with pytest.raises(
        ValueError, match="'first', 'mean', 'max', 'attention', 'chunks'"
    ):
        Pooling("median")
