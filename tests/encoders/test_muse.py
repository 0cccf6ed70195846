import numpy as np
import pytest
from cases import close
from layer_cases import mask, states

from bat_tf.encoders import MuseEncoder
from bat_tf.encoders.muse import MuseAttention, convolve_dynamically, dynamic_weights
from bat_tf.layers.attention import join_heads, split_heads


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def plain_convolution(x, kernel, heads):
    """The formula as it is written, one token, head and place after the other."""
    size, depth = kernel.shape[1] // heads, x.shape[-1] // heads
    y = np.zeros_like(x)
    for batch, time in np.ndindex(*x.shape[:2]):
        weights = softmax((x[batch, time] @ kernel).reshape(heads, size))
        for head, place in np.ndindex(heads, size):
            other = time + place - size // 2
            if 0 <= other < x.shape[1]:
                part = slice(head * depth, (head + 1) * depth)
                y[batch, time, part] += weights[head, place] * x[batch, other, part]
    return y


def test_parameters_are_those_of_the_comparison():
    encoder = MuseEncoder(50)
    encoder.build(None)
    assert encoder.count_params() + 3 * 129 - 50 * 128 == 894_859


def test_dynamic_convolution_equals_the_oracle(vectors):
    case = vectors["layers/dynamic_conv_k3"]
    x, kernel = (np.array(case["inputs"][name], "f4") for name in ("x", "weight"))
    heads = case["params"]["heads"]
    weights = dynamic_weights(x, kernel, heads)
    found = join_heads(convolve_dynamically(split_heads(x, 1, heads)[0], weights))
    close(found, case["expected"]["y"])
    close(plain_convolution(x.astype("f8"), kernel, heads), case["expected"]["y"])


@pytest.mark.parametrize("kernel_sizes", [(3, 15), (7, 3, 5)])
def test_branches_equal_separate_convolutions(kernel_sizes):
    layer, x, real = MuseAttention(2, kernel_sizes=kernel_sizes), states(), mask(5, 3)
    layer.build(x.shape)
    shares = np.random.default_rng(1).normal(size=len(kernel_sizes))
    layer.shares.assign(shares)
    value = split_heads(x, 1, 2)[0]
    both = np.array(join_heads(layer.mix(value, value, value, real, False)))
    seen = x * real[..., None]
    expected = sum(
        share * plain_convolution(seen, kernel.numpy(), 2)
        for share, kernel in zip(softmax(shares), layer.kernels, strict=True)
    )
    np.testing.assert_allclose(both[..., 8:][real], expected[real], atol=1e-5)


def test_branches_start_equal():
    layer = MuseAttention(2)
    layer.build((None, None, 8))
    np.testing.assert_array_equal(softmax(layer.shares.numpy()), [0.5, 0.5])


def test_wrong_settings_are_explained():
    with pytest.raises(ValueError, match="`kernel_sizes` must be odd widths"):
        MuseEncoder(20, kernel_sizes=(2, 3))
    with pytest.raises(ValueError, match="`kernel_sizes` must be one width at least"):
        MuseEncoder(20, kernel_sizes=())
