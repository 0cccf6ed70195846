"""Scores of some labels are those of all, and nothing else is learnt from them."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bat_tf.heads import DocumentHead

STATES = np.random.default_rng(0).normal(size=(3, 1, 4)).astype("float32")
INPUTS = {"padding_mask": np.ones((3, 1), bool)}


def some(*labels):
    return {**INPUTS, "candidates": np.array(labels)}


@pytest.mark.parametrize("width", [0, 6])
def test_some_labels(width):
    head = DocumentHead(9, width=width)
    every = head([STATES], INPUTS)
    head.label_bias.assign(np.arange(9.0))
    np.testing.assert_allclose(
        head([STATES], some(7, 2)),
        np.asarray(head([STATES], INPUTS))[:, [7, 2]],
        rtol=1e-6,
    )
    shifted = head([STATES], INPUTS) - every
    np.testing.assert_allclose(shifted, np.tile(np.arange(9.0), (3, 1)), atol=1e-6)
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(head([STATES], some(7, 2)))
    gradient = tf.convert_to_tensor(tape.gradient(total, head.label_kernel.value))
    assert set(np.flatnonzero(np.any(gradient, axis=1))) == {2, 7}


def test_reloads_and_computes_in_half_precision():
    head = DocumentHead(9, width=6, dtype="mixed_float16")
    assert head([STATES], INPUTS).dtype == "float32"
    again = keras.layers.deserialize(keras.layers.serialize(head))
    assert again.get_config() == head.get_config()


@pytest.mark.parametrize("learnt_threshold", [False, True])
def test_starts_from_how_like_a_text_is_to_the_names(learnt_threshold):
    head = DocumentHead(3, learnt_threshold=learnt_threshold)
    head([STATES], INPUTS)
    states = STATES[:, 0]
    names = 5 * states
    head.start_from_names(names, strength=2.0)
    unit = states / np.linalg.norm(states, axis=1, keepdims=True)
    usual = np.linalg.norm(names, axis=1).mean()
    found = head([usual * unit[:, None]], INPUTS)
    np.testing.assert_allclose(found, 2.0 * unit @ unit.T, rtol=1e-5)
