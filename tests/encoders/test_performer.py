import keras
import numpy as np
import pytest
from cases import close
from layer_cases import inputs, mask, states

from bat_tf.encoders import PerformerEncoder
from bat_tf.encoders.performer import (
    FavorAttention,
    attend_linearly,
    orthogonal_features,
    relu_features,
    softmax_features,
)
from bat_tf.layers.attention import attend, padding_bias


def tensors(case):
    parts = [np.array(case["inputs"][name], "f4") for name in "qkv"]
    return parts, np.array(case["inputs"]["mask"], bool)


def compare(found, case, real):
    rows = np.broadcast_to(real[:, None, :, None], found.shape)
    close(np.array(found)[rows], np.array(case["expected"]["y"])[rows])


def test_parameters_are_those_of_the_comparison():
    encoder = PerformerEncoder(50)
    encoder.build(None)
    assert encoder.count_params() + 3 * 129 - 50 * 128 == 791_427


def test_relu_features_equal_the_oracle(vectors):
    case = vectors["layers/favor_relu"]
    (query, key, value), real = tensors(case)
    query, key = relu_features(query), relu_features(key)
    compare(attend_linearly(query, key, value, real), case, real)


def test_softmax_features_equal_the_oracle(vectors):
    case = vectors["layers/favor_softmax"]
    (query, key, value), real = tensors(case)
    projection = np.array(case["inputs"]["projection"], "f4")
    query = softmax_features(query, projection)
    key = softmax_features(key, projection, real)
    compare(attend_linearly(query, key, value, real), case, real)


def test_many_softmax_features_are_full_attention(vectors):
    keras.utils.set_random_seed(1)
    case = vectors["layers/full_attention"]
    (query, key, value), real = tensors(case)
    query, key = query / 2, key / 2  # the larger they are, the rougher the estimate
    full = attend(query, key, value, padding_bias(real, "float32"), 0.5)
    errors = []
    for count in (8, 4096):
        projection = orthogonal_features((count, 4))
        found = attend_linearly(
            softmax_features(query, projection),
            softmax_features(key, projection, real),
            value,
            real,
        )
        errors.append(np.abs(np.array(found - full))[0].mean())
    assert errors[1] < 0.05 and errors[1] < errors[0] / 3


def test_features_are_orthogonal_and_as_long_as_gaussian_ones():
    keras.utils.set_random_seed(1)
    rows = np.array(orthogonal_features((2050, 16)))
    assert rows.shape == (2050, 16)
    block = rows[:16]
    lengths = np.linalg.norm(block, axis=1)
    np.testing.assert_allclose(block @ block.T, np.diag(lengths**2), atol=1e-4)
    squares = np.square(np.linalg.norm(rows, axis=1))
    assert abs(squares.mean() - 16) < 0.5 and abs(squares.var() - 32) < 6  # χ²(16)
    assert np.abs(rows.mean(0)).max() < 0.1  # no side is preferred


@pytest.mark.parametrize("features", ["relu", "softmax"])
def test_weights_add_up_to_one(features):
    layer = FavorAttention(2, features=features)
    layer.build((None, None, 8))
    x = states(2, 2 * 5, 4).reshape(2, 2, 5, 4)
    found = layer.mix(x, x[::-1], np.ones_like(x), mask(5, 3), False)
    np.testing.assert_allclose(found, 1, atol=1e-5)


def test_redrawn_features_are_for_training_alone():
    settings = {"features": "softmax", "num_features": 8, "redraw": True}
    encoder = PerformerEncoder(20, 8, d_ff=8, num_heads=2, num_layers=1, **settings)
    batch = inputs(9, 6)
    first, second = (np.array(encoder(batch, training=True)[-1]) for _ in range(2))
    assert np.abs(first - second).max() > 0
    np.testing.assert_array_equal(encoder(batch)[-1], encoder(batch)[-1])


def test_long_texts_do_not_overflow_float16():
    layer = FavorAttention(2, dtype="mixed_float16")
    x = 30 + states(1, 4096, 8)
    assert np.isfinite(np.array(layer(x, np.ones((1, 4096), bool)), "f4")).all()


def test_wrong_settings_are_explained():
    with pytest.raises(ValueError, match="`features` must be one of 'relu', 'softmax'"):
        PerformerEncoder(20, features="cosine")
    with pytest.raises(ValueError, match="`num_features` must be an integer >= 1"):
        PerformerEncoder(20, num_features=0)
