import numpy as np
import pytest
from layer_cases import mask, states

from bat_tf.layers import AttentionTournament, FeedForwardTournament


def load_block(weights, attention, feed_forward):
    """Puts the oracle's matrices into the layers, query, key and value side by side."""
    w = {name: np.array(value, "f4") for name, value in weights.items()}
    mfsa, mha = attention.mfsa, attention.mfsa.mha
    w["qkv"] = np.concatenate([w["wq"], w["wk"], w["wv"]], 1)
    w["qkv_b"] = np.concatenate([w["bq"], w["bk"], w["bv"]])
    w["wo_b"] = w["bo"]
    for layer, name in (
        (mha.qkv_dense, "qkv"),
        (mha.output_dense, "wo"),
        (mfsa.convolutions[0], "c1"),
        (mfsa.convolutions[1], "c3"),
        (feed_forward.hidden_dense, "f1"),
        (feed_forward.output_dense, "f2"),
        (feed_forward.residual_dense, "cr"),
    ):
        layer.kernel.assign(w[name].reshape(layer.kernel.shape))
        layer.bias.assign(w[f"{name}_b"])
    for norm, name in (
        (mfsa.feature_norm, "ln1"),
        (attention.layer_norm, "ln2"),
        (feed_forward.layer_norm, "ln3"),
    ):
        norm.gamma.assign(w[f"{name}_g"])
        norm.beta.assign(w[f"{name}_b"])


@pytest.mark.parametrize("flavour", ["paper", "official"])
def test_block_equals_the_oracle(vectors, flavour):
    case = vectors[f"layers/bat_block/{flavour}"]
    x = np.array(case["inputs"]["x"], "f4")
    real = np.array(case["inputs"]["mask"], bool)
    release = flavour == "official"
    attention = AttentionTournament(case["params"]["heads"], released=release)
    d_ff = len(case["inputs"]["weights"]["f1_b"])
    feed_forward = FeedForwardTournament(d_ff, released=release)
    attention.build(x.shape)
    feed_forward.build(x.shape)
    load_block(case["inputs"]["weights"], attention, feed_forward)
    found = np.array(feed_forward(attention(x, real)))
    expected = np.array(case["expected"]["y"])
    np.testing.assert_allclose(found[real], expected[real], atol=2e-5)


def test_pre_norm_keeps_the_input_beside_the_features():
    layer = AttentionTournament(2, norm="pre")
    x, real = states(), mask(5, 5)
    layer.build(x.shape)
    for weight in layer.mfsa.weights:
        weight.assign(np.zeros(weight.shape))
    np.testing.assert_allclose(layer(x, real), x)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_residuals_differ(norm):
    x = states()
    outputs = {}
    for residual in ("weighted", "identity", "none"):
        layer = FeedForwardTournament(16, norm=norm, residual=residual)
        layer.build(x.shape)
        for dense in (layer.hidden_dense, layer.output_dense):
            dense.kernel.assign(np.zeros(dense.kernel.shape))
        outputs[residual] = np.array(layer(x))
    assert np.all(outputs["none"] == 0)
    assert np.all(np.abs(outputs["identity"]).sum(-1) > 0)
    assert np.abs(outputs["weighted"] - outputs["identity"]).max() > 0.1


def test_wrong_settings_are_explained():
    with pytest.raises(ValueError, match="`residual` must be one of 'weighted'"):
        FeedForwardTournament(16, residual="gated")
    with pytest.raises(ValueError, match="`norm` must be one of 'post', 'pre'"):
        AttentionTournament(2, norm="sandwich")
