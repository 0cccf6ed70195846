import keras
import numpy as np
import pytest
from cases import close
from hypothesis import given, settings
from hypothesis import strategies as st
from layer_cases import inputs, mask

from bat_tf.encoders import InformerEncoder
from bat_tf.encoders.informer import (
    ProbSparseAttention,
    attend_actively,
    random_grid,
    sample_count,
    sparsity,
)
from bat_tf.layers.attention import attend, padding_bias


def heads(batch, length, seed=0, depth=4):
    return np.random.default_rng(seed).normal(size=(3, batch, 2, length, depth))


def test_parameters_are_those_of_the_comparison():
    encoder = InformerEncoder(50)
    encoder.build(None)
    assert encoder.count_params() + 3 * 129 - 50 * 128 == 793_731


@pytest.mark.parametrize("name", ["probsparse_u2", "probsparse_full"])
def test_attention_equals_the_oracle(vectors, name):
    case = vectors[f"layers/{name}"]
    query, key, value = (np.array(case["inputs"][n], "f4") for n in "qkv")
    real = np.array(case["inputs"]["mask"])
    sample = np.array(case["inputs"]["sample_index"], "i4")
    sample = np.broadcast_to(sample, (2, *sample.shape))
    counted = np.stack([row[index] for row, index in zip(real, sample, strict=True)])
    lengths = real.sum(-1)
    measure = sparsity(query, key, sample, counted, lengths)
    active, most = np.minimum(case["params"]["u"], lengths), case["params"]["u"]
    found = attend_actively(query, key, value, real, measure, active, most, 0.5)
    rows = np.broadcast_to(real[:, None, :, None], found.shape)
    close(np.array(found)[rows], np.array(case["expected"]["y"])[rows])


@given(
    lengths=st.lists(st.integers(1, 20), min_size=1, max_size=3),
    padding=st.integers(0, 5),
    seed=st.integers(0, 99),
)
@settings(max_examples=15)
def test_all_queries_active_is_full_attention(lengths, padding, seed):
    real = np.pad(mask(*lengths), [(0, 0), (0, padding)])
    query, key, value = heads(*real.shape, seed).astype("f4")
    layer = ProbSparseAttention(2, factor=20)
    layer.build((None, None, 8))
    found = np.array(layer.mix(query, key, value, real, True))
    full = np.array(attend(query, key, value, padding_bias(real, "float32"), 0.5))
    rows = np.broadcast_to(real[:, None, :, None], full.shape)
    np.testing.assert_allclose(found[rows], full[rows], atol=1e-5)


def test_the_others_get_the_mean_of_real_values():
    real = mask(30, 12)
    query, key, value = heads(2, 30).astype("f4")
    layer = ProbSparseAttention(2, factor=2)
    layer.build((None, None, 8))
    found = np.array(layer.mix(query, key, value, real, False))
    for row, length in enumerate((30, 12)):
        mean = value[row, :, :length].mean(1, keepdims=True)
        passive = np.abs(found[row, :, :length] - mean).max(-1) < 1e-5
        active = sample_count(length, 2)
        assert (passive.sum(-1) == length - active).all()


def test_numbers_depend_on_seed_and_place_alone():
    small, large = (np.array(random_grid(n, n // 2, (5, 6))) for n in (20, 400))
    np.testing.assert_array_equal(small, large[:20, :10])
    assert large.min() >= 0 and large.max() < 1
    assert np.abs(np.histogram(large, 10, (0, 1))[0] / large.size - 0.1).max() < 0.01
    for axis in (0, 1):  # neighbours know nothing of each other
        pairs = np.stack([large, np.roll(large, 1, axis)]).reshape(2, -1)
        assert abs(np.corrcoef(pairs)[0, 1]) < 0.02
    for seed in ((5, 7), (6, 6)):
        other = np.array(random_grid(400, 200, seed))
        assert abs(np.corrcoef(large.ravel(), other.ravel())[0, 1]) < 0.02


def test_training_draws_and_inference_does_not():
    keras.utils.set_random_seed(1)
    encoder = InformerEncoder(20, 8, d_ff=8, num_heads=2, num_layers=1, factor=1)
    batch = inputs(60, 50)
    outputs = [np.array(encoder(batch, training=True)[-1]) for _ in range(3)]
    assert any(np.abs(outputs[0] - other).max() > 1e-3 for other in outputs[1:])
    np.testing.assert_array_equal(encoder(batch)[-1], encoder(batch)[-1])


def test_last_state_is_normalised():
    last = np.array(InformerEncoder(20, 8, d_ff=8, num_heads=2)(inputs(9))[-1])
    np.testing.assert_allclose(last.mean(-1), 0, atol=1e-5)
    np.testing.assert_allclose(last.std(-1), 1, atol=1e-3)


def test_wrong_settings_are_explained():
    with pytest.raises(ValueError, match="`factor` must be an integer >= 1"):
        InformerEncoder(20, factor=0)
