import keras
import numpy as np
import pytest
from layer_cases import mask, states

from bat_tf.layers import MultiFeatureSelfAttention
from bat_tf.layers.mfsa import neighbours


def test_neighbours_stand_side_by_side():
    x = np.arange(1, 4, dtype="f4").reshape(1, 3, 1)
    expected = [[[0, 1, 2], [1, 2, 3], [2, 3, 0]]]
    np.testing.assert_array_equal(neighbours(x, 3), expected)


@pytest.mark.parametrize("size", [1, 3, 5])
def test_convolution_equals_keras_conv1d(size):
    layer = MultiFeatureSelfAttention(2, attention=False, kernel_sizes=(size,))
    x, real = states(), mask(5, 5)
    found = layer(x, real)
    conv = keras.layers.Conv1D(8, size, padding="same", activation="relu")
    conv.build(x.shape)
    kernel = np.array(layer.kernels[0]).reshape(size, 8, 8)
    conv.set_weights([kernel, np.array(layer.biases[0])])
    np.testing.assert_allclose(found, conv(x), atol=1e-5)


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
