"""One state of a text, whatever padding follows it."""

import keras
import numpy as np
import pytest

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


def test_an_unknown_mode_gets_the_list():
    with pytest.raises(ValueError, match="'first', 'mean', 'max', 'attention'"):
        Pooling("median")
