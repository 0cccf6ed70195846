import keras
import numpy as np
from layer_cases import states

from bat_tf.layers import LayerNorm


def test_papers_form_is_keras_layer_normalization():
    x = states() * 7 + 3
    expected = keras.layers.LayerNormalization(epsilon=1e-6)(x)
    np.testing.assert_allclose(LayerNorm()(x), expected, atol=1e-5)


def test_released_form_adds_epsilon_to_the_deviation():
    x = states()
    deviation = x.std(-1, keepdims=True) + 1e-4
    expected = (x - x.mean(-1, keepdims=True)) / deviation
    np.testing.assert_allclose(LayerNorm(released=True)(x), expected, atol=1e-5)


def test_large_states_do_not_overflow_in_float16():
    x = states() * 3000
    assert np.isfinite(np.array(LayerNorm(dtype="mixed_float16")(x))).all()
