import keras
import layer_cases
import numpy as np
import pytest
from layer_cases import inputs

from bat_tf import encoders
from bat_tf.encoders import Backbone, BATEncoder
from bat_tf.layers import (
    AttentionTournament,
    FeedForwardTournament,
    MultiFeatureSelfAttention,
)

SMALL = {"d_model": 8, "d_ff": 16, "num_heads": 2, "num_layers": 2}


def build(**settings):
    return BATEncoder(20, **{**SMALL, **settings})


def test_parameters_are_those_of_the_release():
    encoder = BATEncoder(50)
    encoder(inputs(3))
    head = keras.layers.Dense(3)
    head.build((None, None, 128))
    total = encoder.count_params() + head.count_params()
    assert total - 50 * 128 == 1_123_971
    assert not encoder.affine
    with_map = BATEncoder(50, affine=True)
    with_map.build(None)
    assert with_map.count_params() == encoder.count_params() + 128 * 129


def test_affine_map_of_embedding_and_position():
    """Section 3.1: the first state is LN(W (e + p) + b)."""
    encoder, batch = build(affine=True), inputs(5)
    found = encoder(batch)[0]
    kernel, bias = encoder.affine_map.kernel, encoder.affine_map.bias
    bias.assign(np.linspace(-1, 1, 8))
    table = encoder.embedding.tables["token_ids"].embeddings.numpy()
    place = np.arange(5)[:, None] / 10000 ** (2 * (np.arange(8) // 2) / 8)
    place = np.where(np.arange(8) % 2, np.cos(place), np.sin(place))
    x = table[batch["token_ids"][0]] * 8**0.5 + place
    x = x @ kernel.numpy() + bias.numpy()
    x = x - x.mean(-1, keepdims=True)
    expected = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(encoder(batch)[0][0], expected, atol=2e-5)
    assert np.abs(found[0] - expected).max() > 0.01


def test_pieces_have_the_names_of_the_paper():
    block = build(num_layers=1).blocks[0]
    assert isinstance(block.ats, AttentionTournament)
    assert isinstance(block.ats.mfsa, MultiFeatureSelfAttention)
    assert isinstance(block.ffts, FeedForwardTournament)


@pytest.mark.parametrize(
    "name", ["bat", "transformer", "muse", "switch", "cnn", "bert"]
)
def test_settings_of_weights_reach_the_blocks(name):
    sizes = {"filters": 4} if name == "cnn" else SMALL
    encoder = encoders.get(
        name,
        vocabulary_size=20,
        **sizes,
        kernel_regularizer="l2",
        bias_initializer=keras.initializers.Constant(3.0),
        kernel_constraint=keras.constraints.MaxNorm(1.0),
    )
    encoder.build(None)
    kernels = [w for w in encoder.weights if w.name.endswith("kernel")]
    biases = [w for w in encoder.weights if w.name.endswith("bias")]
    assert len(encoder.losses) == len(kernels) > 1
    assert all(np.all(bias.numpy() == 3) for bias in biases) and biases
    assert all(kernel.constraint is not None for kernel in kernels)
    again = type(encoder).from_config(encoder.get_config())
    assert again.get_config() == encoder.get_config()
    assert isinstance(again.kernel_constraint, keras.constraints.MaxNorm)


def test_one_state_for_the_embeddings_and_each_layer():
    states = build()(inputs(5, 3))
    assert [state.shape for state in states] == [(2, 5, 8)] * 3


@pytest.mark.parametrize(
    "settings",
    [{}, {"norm": "pre"}, {"kernel_sizes": (1, 5)}, {"attention": False}],
    ids=str,
)
def test_padding_changes_nothing(settings):
    layer_cases.check_padding(build(**settings), inputs(5, 3, 1))


def test_release_lets_padding_into_its_convolutions():
    with pytest.raises(AssertionError):
        layer_cases.check_padding(build(released=True), inputs(5, 3))


def test_compiled_equals_eager():
    encoder = build()
    encoder(inputs(5, 3))
    layer_cases.check_compiled(encoder, inputs(5, 3))


def test_half_precision():
    layer_cases.check_half_precision(build, inputs(5, 3))


def test_saves_and_loads(tmp_path):
    encoder = build(feature_sizes={"case": 7}, dropout=0.1)
    layer_cases.check_saving(encoder, inputs(5, 3, case=7), tmp_path / "bat.keras")


def test_a_row_without_tokens_stays_finite():
    batch = inputs(5, 3)
    batch["padding_mask"] = batch["padding_mask"] & np.array([[True], [False]])
    assert np.isfinite(build()(batch)[-1]).all()


def test_dropout_follows_the_seed():
    outputs = []
    for _ in range(2):
        keras.utils.set_random_seed(3)
        outputs.append(np.array(build(dropout=0.3)(inputs(5), training=True)[-1]))
    np.testing.assert_array_equal(*outputs)
    assert np.abs(outputs[0] - build(dropout=0.3)(inputs(5))[-1]).max() > 0


def test_frozen_backbone_gets_no_gradient_and_is_saved(tmp_path):
    backbone = encoders.TransformerEncoder(20, **SMALL)
    encoder = BATEncoder(backbone=backbone, **{**SMALL, "d_model": 4})
    batch = inputs(5, 3)
    encoder(batch)
    assert not backbone.trainable_weights
    assert encoder.trainable_weights
    layer_cases.check_saving(encoder, batch, tmp_path / "backbone.keras")


def test_a_reloaded_backbone_is_still_frozen():
    backbone = encoders.TransformerEncoder(20, **SMALL)
    encoder = BATEncoder(backbone=backbone, **{**SMALL, "d_model": 4})
    encoder.build(None)
    again = BATEncoder.from_config(encoder.get_config())
    again.build(None)
    assert len(again.trainable_variables) == len(encoder.trainable_variables)
    assert not any(variable.trainable for variable in again.backbone.encoder.variables)


def test_states_of_the_backbone_can_be_given():
    backbone = encoders.TransformerEncoder(20, **SMALL)
    encoder = BATEncoder(backbone=backbone, **{**SMALL, "d_model": 4})
    batch = inputs(5, 3)
    given = {**batch, "backbone_states": encoder.backbone_input(batch, False)}
    for state, same in zip(encoder(batch), encoder(given), strict=True):
        np.testing.assert_allclose(state, same, atol=1e-6)


def test_backbone_states_mean_and_last_differ():
    backbone = encoders.TransformerEncoder(20, **SMALL)
    batch = inputs(5)
    states = [np.array(state) for state in backbone(batch)]
    for name, expected in (
        ("mean", np.mean(states, 0)),
        ("last", states[-1]),
        ("concat", np.concatenate(states, -1)),
    ):
        encoder = BATEncoder(backbone=Backbone(backbone, name), **SMALL)
        found = encoder.backbone_input(batch, training=False)
        np.testing.assert_allclose(found, expected, atol=1e-6)
        assert found.shape[-1] == encoder.backbone_width


def test_names_and_settings_are_checked():
    with pytest.raises(ValueError, match="'bat', 'transformer', 'bert'"):
        encoders.get("gru", vocabulary_size=9)
    with pytest.raises(TypeError, match="takes no setting 'depth'"):
        encoders.get("bat", depth=3)
    with pytest.raises(ValueError, match="`vocabulary_size` must be given"):
        BATEncoder()
