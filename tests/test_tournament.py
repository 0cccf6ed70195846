import numpy as np
import pytest
from layer_cases import mask, states

from bat_tf.layers import AttentionTournament, FeedForwardTournament


def load_block(weights, attention, feed_forward):
    """Puts the oracle's separate matrices into the fused ones."""
    w = {name: np.array(value, "f4") for name, value in weights.items()}
    mha, mfsa = attention.mfsa.attention, attention.mfsa
    mha.qkv_kernel.assign(np.concatenate([w["wq"], w["wk"], w["wv"]], 1))
    mha.qkv_bias.assign(np.concatenate([w["bq"], w["bk"], w["bv"]]))
    mha.output_kernel.assign(w["wo"])
    mha.output_bias.assign(w["bo"])
    for place, name in enumerate(("c1", "c3")):
        mfsa.kernels[place].assign(w[name].reshape(-1, w[name].shape[-1]))
        mfsa.biases[place].assign(w[f"{name}_b"])
    for norm, name in (
        (attention.inner_norm, "ln1"),
        (attention.outer_norm, "ln2"),
        (feed_forward.outer_norm, "ln3"),
    ):
        norm.gamma.assign(w[f"{name}_g"])
        norm.beta.assign(w[f"{name}_b"])
    for pair, name in (
        (feed_forward.hidden, "f1"),
        (feed_forward.output_weights, "f2"),
        (feed_forward.residual_weights, "cr"),
    ):
        pair[0].assign(w[name].reshape(pair[0].shape))
        pair[1].assign(w[f"{name}_b"])


@pytest.mark.parametrize("flavour", ["paper", "official"])
def test_block_equals_the_oracle(vectors, flavour):
    case = vectors[f"layers/bat_block/{flavour}"]
    x = np.array(case["inputs"]["x"], "f4")
    real = np.array(case["inputs"]["mask"], bool)
    release = flavour == "official"
    norm = "release" if release else "paper"
    attention = AttentionTournament(
        case["params"]["heads"],
        attention_scale="model" if release else "head",
        mask_convolutions=not release,
        layer_norm=norm,
    )
    d_ff = len(case["inputs"]["weights"]["f1_b"])
    feed_forward = FeedForwardTournament(d_ff, layer_norm=norm)
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
        for weight in [*layer.hidden, *layer.output_weights]:
            weight.assign(np.zeros(weight.shape))
        outputs[residual] = np.array(layer(x))
    assert np.all(outputs["none"] == 0)
    assert np.all(np.abs(outputs["identity"]).sum(-1) > 0)
    assert np.abs(outputs["weighted"] - outputs["identity"]).max() > 0.1


def test_wrong_settings_are_explained():
    with pytest.raises(ValueError, match="`residual` must be one of 'weighted'"):
        FeedForwardTournament(16, residual="gated")
    with pytest.raises(ValueError, match="`norm` must be one of 'post', 'pre'"):
        AttentionTournament(2, norm="sandwich")
