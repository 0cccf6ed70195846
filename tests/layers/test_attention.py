import numpy as np
import pytest
from layer_cases import mask, states

from bat_tf.layers import attention


def test_attention_equals_the_oracle(vectors):
    case = vectors["layers/full_attention"]
    query, key, value = (np.array(case["inputs"][n], "f4") for n in "qkv")
    real = np.array(case["inputs"]["mask"], bool)
    bias = attention.padding_bias(real, "float32")
    found = attention.attend(query, key, value, bias, query.shape[-1] ** -0.5)
    expected = np.array(case["expected"]["y"])
    rows = np.broadcast_to(real[:, None, :, None], expected.shape)
    np.testing.assert_allclose(np.array(found)[rows], expected[rows], atol=2e-5)


def test_heads_are_split_and_joined():
    x = states(2, 5, 24)
    parts = attention.split_heads(x, 3, 2)
    joined = np.concatenate([attention.join_heads(part) for part in parts], -1)
    np.testing.assert_array_equal(joined, x)


def test_a_row_without_tokens_stays_finite():
    layer = attention.MultiHeadSelfAttention(2)
    real = mask(5, 1)
    real[1] = False
    assert np.isfinite(layer(states(), real)).all()


def test_heads_must_divide_the_width():
    with pytest.raises(ValueError, match="`num_heads` must divide the width 8"):
        attention.MultiHeadSelfAttention(3)(states(), mask(5, 5))
