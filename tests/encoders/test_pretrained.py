import json
from pathlib import Path

import keras
import layer_cases
import numpy as np
import pytest
import tensorflow as tf
from layer_cases import inputs
from oracles import bert_states
from safetensors.numpy import load_file

from bat_tf.encoders import Backbone, BATEncoder, BertEncoder
from bat_tf.text import TextTokenizer

SMALL = {"d_model": 8, "d_ff": 16, "num_heads": 2, "num_layers": 2}


def build(**settings):
    return BertEncoder(20, **{**SMALL, **settings})


@pytest.fixture(scope="module")
def encoder(minilm):
    return BertEncoder.from_folder(minilm)


@pytest.fixture(scope="module")
def packed(minilm):
    reference = json.loads(
        (Path(__file__).parents[1] / "minilm_states.json").read_text(encoding="utf-8")
    )
    tokens = TextTokenizer.from_folder(minilm)(reference["texts"])
    return reference, {name: np.array(values) for name, values in tokens.items()}


def test_every_layer_agrees_with_the_reference(encoder, packed):
    """Values of the reference implementation; `made_with` in the file says which."""
    reference, tokens = packed
    found = encoder(tokens)
    assert len(found) == len(reference["states"]) == 7
    for states, expected_rows in zip(found, reference["states"], strict=True):
        for row, expected in enumerate(expected_rows):
            real = tokens["padding_mask"][row]
            ours = np.array(states)[row][real][:, ::48]
            np.testing.assert_allclose(ours, expected, atol=1e-5)


def test_token_ids_agree_with_the_reference(packed):
    reference, tokens = packed
    for row, expected in enumerate(reference["token_ids"]):
        assert (
            tokens["token_ids"][row][tokens["padding_mask"][row]].tolist() == expected
        )


def test_every_layer_agrees_with_a_plain_derivation(minilm, encoder, packed):
    tensors = load_file(minilm / "model.safetensors")
    expected = bert_states(tensors, packed[0]["token_ids"][0], 12, 1e-12)
    real = packed[1]["padding_mask"][0]
    found = encoder(packed[1])
    assert len(found) == len(expected) == 7
    for ours, plain in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.array(ours)[0][real], plain, atol=1e-5)


def test_padding_changes_nothing():
    layer_cases.check_padding(build(), inputs(5, 3, 1))


def test_compiled_equals_eager():
    encoder = build()
    encoder(inputs(5, 3))
    layer_cases.check_compiled(encoder, inputs(5, 3))


def test_saves_and_loads(tmp_path):
    layer_cases.check_saving(build(), inputs(5, 3), tmp_path / "bert.keras")


def test_text_longer_than_the_positions_is_refused():
    with pytest.raises(ValueError, match="at most 4 long"):
        build(max_positions=4)(inputs(5))


def test_features_are_refused_not_ignored():
    with pytest.raises(ValueError, match="`feature_sizes` must be empty.*`backbone`"):
        build(feature_sizes={"case": 7})


@pytest.mark.parametrize("trainable", [False, True])
def test_bat_on_top_trains_the_backbone_only_if_asked(trainable):
    backbone = build()
    encoder = BATEncoder(
        backbone=Backbone(backbone, trainable=trainable),
        feature_sizes={"case": 7},
        **SMALL,
    )
    batch = inputs(5, 3, case=7)
    encoder(batch)
    weights = [weight.value for weight in backbone.weights]
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(weights)
        total = keras.ops.sum(keras.ops.square(encoder(batch)[-1][..., :2]))
    gradients = tape.gradient(total, weights)
    assert all((gradient is not None) == trainable for gradient in gradients)
    own = encoder.trainable_weights
    assert any(weight is backbone.weights[0] for weight in own) == trainable


def test_half_precision():
    layer_cases.check_half_precision(build, inputs(5, 3))


def test_frozen_layers_do_not_learn_and_can_be_given():
    encoder = build(frozen_layers=1)
    ids = np.array([[2, 5, 7, 0]])
    inputs = {"token_ids": ids, "padding_mask": ids > 0}
    states = encoder(inputs)
    paths = {v.path.split("/")[1] for v in encoder.trainable_variables}
    assert paths == {"block_2"}
    given = {**inputs, "backbone_states": encoder.backbone_input(inputs, False)}
    rest = encoder(given)
    assert len(rest) == len(states) - 1
    np.testing.assert_allclose(rest[-1], states[-1], rtol=1e-6)
    step = {"perturbation": np.full((1, 4, encoder.d_model), 0.1, "float32")}
    moved = encoder({**inputs, **step})[-1]
    assert np.abs(moved - states[-1]).max() > 1e-3
    np.testing.assert_allclose(encoder({**given, **step})[-1], moved, rtol=1e-5)
    again = BertEncoder.from_config(encoder.get_config())
    again.build(None)
    assert len(again.trainable_variables) == len(encoder.trainable_variables)
    with pytest.raises(ValueError, match="frozen_layers"):
        build(frozen_layers=3)
