import numpy as np
import pytest
from layer_cases import mask, states

from bat_tf.layers import MultiFeatureSelfAttention


@pytest.mark.parametrize("size", [1, 3, 5])
def test_convolution_equals_a_plain_derivation(size):
    layer = MultiFeatureSelfAttention(2, attention=False, kernel_sizes=(size,))
    x, real = states(), mask(5, 3)
    found = layer(x, real)
    kernel = np.array(layer.kernels[0]).reshape(size, 8, 8)
    half = size // 2
    seen = np.pad(x * real[..., None], [(0, 0), (half, half), (0, 0)])
    expected = sum(seen[:, s : s + 5] @ kernel[s] for s in range(size))
    np.testing.assert_allclose(found, np.maximum(expected, 0), atol=1e-5)


def test_features_add_up():
    x, real = states(), mask(5, 3)
    whole = MultiFeatureSelfAttention(2)
    total = whole(x, real)
    parts = []
    for settings in (
        {"kernel_sizes": ()},
        {"attention": False, "kernel_sizes": (1,)},
        {"attention": False, "kernel_sizes": (3,)},
    ):
        part = MultiFeatureSelfAttention(2, **settings)
        part.build(x.shape)
        weights = {weight.path.split("/", 1)[-1]: weight for weight in whole.weights}
        for weight in part.weights:
            weight.assign(weights[weight.path.split("/", 1)[-1]])
        parts.append(np.array(part(x, real)))
    np.testing.assert_allclose(sum(parts), total, atol=1e-5)


def test_nothing_to_add_up_is_refused():
    with pytest.raises(ValueError, match="one feature at least"):
        MultiFeatureSelfAttention(2, attention=False, kernel_sizes=())
    with pytest.raises(ValueError, match="odd widths"):
        MultiFeatureSelfAttention(2, kernel_sizes=(2,))
