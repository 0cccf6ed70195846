import numpy as np
import pytest
from layer_cases import mask, states

from bat_tf.layers import MultiFeatureSelfAttention


@pytest.mark.parametrize("size", [1, 3, 5])
def test_convolution_equals_a_plain_derivation(size):
    settings = {"attention": False, "normalize": False}
    layer = MultiFeatureSelfAttention(2, kernel_sizes=(size,), **settings)
    x, real = states(), mask(5, 3)
    found = layer(x, real)
    kernel = np.array(layer.convolutions[0].kernel).reshape(size, 8, 8)
    half = size // 2
    seen = np.pad(x * real[..., None], [(0, 0), (half, half), (0, 0)])
    expected = sum(seen[:, s : s + 5] @ kernel[s] for s in range(size))
    np.testing.assert_allclose(found, np.maximum(expected, 0), atol=1e-5)


def test_features_add_up():
    x, real = states(), mask(5, 3)
    whole = MultiFeatureSelfAttention(2, normalize=False)
    total = whole(x, real)
    parts = []
    for settings in (
        {"kernel_sizes": ()},
        {"attention": False, "kernel_sizes": (1,)},
        {"attention": False, "kernel_sizes": (3,)},
    ):
        part = MultiFeatureSelfAttention(2, normalize=False, **settings)
        part.build(x.shape)
        weights = {weight.path.split("/", 1)[-1]: weight for weight in whole.weights}
        for weight in part.weights:
            weight.assign(weights[weight.path.split("/", 1)[-1]])
        parts.append(np.array(part(x, real)))
    np.testing.assert_allclose(sum(parts), total, atol=1e-5)


@pytest.mark.parametrize("released", [False, True])
def test_equation_4_normalises_the_sum(released):
    """MFSA(x) = LN(F), with the LN of the paper or of the release."""
    x, real = states(), mask(5, 3)
    layer = MultiFeatureSelfAttention(2, released=released)
    found = np.array(layer(x, real))
    bare = MultiFeatureSelfAttention(2, normalize=False, released=released)
    bare.build(x.shape)
    scale, shift = (np.linspace(*ends, 8) for ends in ((0.5, 2), (-1, 1)))
    norm = layer.feature_norm
    norm.gamma.assign(scale)
    norm.beta.assign(shift)
    own = [weight for weight in layer.weights if "norm" not in weight.path]
    bare.set_weights([weight.numpy() for weight in own])
    total = np.array(bare(x, real), "f8")
    centred = total - total.mean(-1, keepdims=True)
    variance = centred.var(-1, keepdims=True)
    root = np.sqrt(variance) + 1e-4 if released else np.sqrt(variance + 1e-6)
    np.testing.assert_allclose(found, centred / root, atol=1e-5)
    found = layer(x, real)
    np.testing.assert_allclose(found, centred / root * scale + shift, atol=1e-5)


def test_nothing_to_add_up_is_refused():
    with pytest.raises(ValueError, match="one feature at least"):
        MultiFeatureSelfAttention(2, attention=False, kernel_sizes=())
    with pytest.raises(ValueError, match="odd widths"):
        MultiFeatureSelfAttention(2, kernel_sizes=(2,))
