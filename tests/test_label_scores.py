"""Scores of some labels are those of all, and nothing else is learnt from them."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bat_tf.layers import LabelScores

STATES = np.random.default_rng(0).normal(size=(3, 4)).astype("float32")


@pytest.mark.parametrize("width", [0, 6])
def test_some_labels(width):
    layer = LabelScores(9, width)
    every = layer(STATES)
    layer.label_bias.assign(np.arange(9.0))
    chosen = np.array([7, 2])
    np.testing.assert_allclose(
        layer(STATES, chosen), np.asarray(layer(STATES))[:, chosen], rtol=1e-6
    )
    np.testing.assert_allclose(layer(STATES) - every, np.tile(np.arange(9.0), (3, 1)))
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(layer(STATES, chosen))
    gradient = tf.convert_to_tensor(tape.gradient(total, layer.label_kernel.value))
    assert set(np.flatnonzero(np.any(gradient, axis=1))) == {2, 7}


def test_reloads_and_computes_in_half_precision():
    layer = LabelScores(9, 6, dtype="mixed_float16")
    assert layer(STATES).dtype == "float32"
    again = keras.layers.deserialize(keras.layers.serialize(layer))
    assert again.get_config() == layer.get_config()


def test_starts_from_how_like_a_text_is_to_the_names():
    layer = LabelScores(3)
    layer(STATES)
    names = 5 * STATES
    layer.start_from_names(names, strength=2.0)
    unit = STATES / np.linalg.norm(STATES, axis=1, keepdims=True)
    usual = np.linalg.norm(names, axis=1).mean()
    np.testing.assert_allclose(layer(usual * unit), 2.0 * unit @ unit.T, rtol=1e-5)
