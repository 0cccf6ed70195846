"""Folders of the BERT family load in every form, and what is wrong in one is named."""

import json
import os
import warnings
from pathlib import Path

import numpy as np
import pytest
from bert_folders import HEADS, POSITIONS, WIDTH, config_of, write_folder
from layer_cases import inputs
from oracles import bert_states
from safetensors.numpy import load_file, save_file

from bat_tf import LabelClassifier, TextDataset
from bat_tf.data import Example
from bat_tf.encoders import BATEncoder, BertEncoder
from bat_tf.encoders.folder import FAMILIES
from bat_tf.text import TextTokenizer

HEAD = {"cls.predictions.bias": np.ones(20), "classifier.weight": np.ones((3, WIDTH))}
ROBERTA = {"prefix": "roberta.", "lm_head.dense.weight": np.ones((WIDTH, WIDTH))}
FORMS = {
    "as sentence encoders are": {},
    "as BERT-base is": {
        "prefix": "bert.",
        "older": True,
        "bert.pooler.dense.weight": np.ones((WIDTH, WIDTH)),
        **HEAD,
    },
    "gamma and beta without a prefix": {"older": True},
    "float16": {"dtype": "float16", **HEAD},
    "bfloat16": {"dtype": "bfloat16", "older": True},
    "shards": {"shards": 3, "prefix": "bert."},
    "buffers": {"embeddings.position_ids": np.arange(14.0)},
    "relu": {"config": config_of(hidden_act="relu")},
    "silu": {"config": config_of(hidden_act="silu")},
    "gelu_new": {"config": config_of(hidden_act="gelu_new", layer_norm_eps=0.1)},
    "electra": {"config": config_of("electra"), "prefix": "electra."},
    "roberta": {"config": config_of("roberta", pad_token_id=1), **ROBERTA},
    "roberta bare": {"config": config_of("roberta", pad_token_id=3)},
    "xlm-roberta": {"config": config_of("xlm-roberta", pad_token_id=1), **ROBERTA},
    "camembert": {"config": config_of("camembert", pad_token_id=1), **ROBERTA},
    "distilbert": {"config": config_of("distilbert"), "prefix": "distilbert.", **HEAD},
    "distilbert bare": {"config": config_of("distilbert")},
}
quiet = pytest.mark.filterwarnings("ignore:The weights in")


@quiet
@pytest.mark.parametrize("form", FORMS)
def test_states_are_those_of_a_plain_derivation(form, tmp_path):
    tensors = write_folder(tmp_path, **FORMS[form])
    config = FORMS[form].get("config", config_of())
    batch = inputs(5, 3)
    found = BertEncoder.from_folder(tmp_path)(batch)
    for row, length in enumerate((5, 3)):
        expected = bert_states(
            tensors,
            batch["token_ids"][row, :length],
            HEADS,
            config.get("layer_norm_eps", 1e-12),
            config["pad_token_id"] + 1 if "pad_token_id" in config else 0,
            config.get("hidden_act", "gelu"),
        )
        assert len(found) == len(expected) == 3
        for ours, plain in zip(found, expected, strict=True):
            np.testing.assert_allclose(ours[row, :length], plain, atol=5e-5)


@quiet
def test_roberta_has_fewer_positions_than_its_table(tmp_path):
    write_folder(tmp_path, **FORMS["roberta"])
    encoder = BertEncoder.from_folder(tmp_path)
    encoder(inputs(POSITIONS - 2))
    with pytest.raises(ValueError, match=f"at most {POSITIONS - 2} long"):
        encoder(inputs(POSITIONS - 1))


def test_settings_of_ones_own_and_reloading(tmp_path):
    write_folder(tmp_path, config=config_of(hidden_act="gelu_new"))
    encoder = BertEncoder.from_folder(tmp_path, dropout=0.1, frozen_layers=1, name="b")
    again = BertEncoder.from_config(encoder.get_config())
    assert again.get_config() == encoder.get_config()
    again.build(None)
    again.set_weights(encoder.get_weights())
    batch = inputs(5, 3)
    np.testing.assert_allclose(again(batch)[-1], encoder(batch)[-1], atol=1e-6)
    assert BATEncoder(backbone=encoder, d_model=8, num_heads=2)(batch)[-1].shape[2] == 8


# === What cannot be tokenised ===


@pytest.mark.parametrize("family", ["roberta", "xlm-roberta", "camembert"])
def test_that_texts_cannot_be_tokenised_is_said(family, tmp_path):
    write_folder(tmp_path, config=config_of(family, pad_token_id=1))
    with pytest.warns(UserWarning, match="cannot be tokenised yet: .*SentencePiece"):
        BertEncoder.from_folder(tmp_path)
    kind = {"roberta": "vocab.json"}.get(family, "sentencepiece.bpe.model")
    (tmp_path / kind).write_text("{}")
    with pytest.raises(ValueError, match="cannot be tokenised yet"):
        TextTokenizer.from_folder(tmp_path)
    kind = {"roberta": "BPE"}.get(family, "Unigram")
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": {"type": kind}}))
    with pytest.raises(ValueError, match="cannot be tokenised yet"):
        TextTokenizer.from_folder(tmp_path)


def test_bert_is_quiet(tmp_path):
    write_folder(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        BertEncoder.from_folder(tmp_path)


# === What is wrong ===


def refused(folder, kind, match):
    with pytest.raises(kind, match=match):
        BertEncoder.from_folder(folder)


def test_other_architectures_get_a_list(tmp_path):
    for family in ("t5", "gpt2", None):
        write_folder(tmp_path, config={**config_of(), "model_type": "bert"})
        config = {"model_type": family} if family else {}
        (tmp_path / "config.json").write_text(json.dumps(config))
        names = ".*".join(f"'{name}'" for name in FAMILIES)
        refused(tmp_path, ValueError, f"config.json: `model_type` must be .*{names}")


@pytest.mark.parametrize(
    "settings, match",
    [
        ({"position_embedding_type": "relative_key"}, "`position_embedding_type`"),
        ({"is_decoder": True}, "`is_decoder`"),
        ({"embedding_size": 4}, "`embedding_size` .* as in ELECTRA-small, cannot be"),
        ({"hidden_size": "8"}, "`hidden_size` must be an integer >= 1"),
        ({"num_hidden_layers": 0}, "`num_hidden_layers` must be an integer >= 1"),
        ({"layer_norm_eps": None}, "`layer_norm_eps` must be a number"),
        ({"pad_token_id": None, "model_type": "roberta"}, "`pad_token_id` must be"),
        ({"pad_token_id": 1.5, "model_type": "roberta"}, "`pad_token_id` must be an"),
        ({"pad_token_id": 13, "model_type": "roberta"}, "`pad_token_id` .* <= 12"),
        ({"hidden_act": "quick_gelu"}, "`activation` must be one of 'gelu'"),
        ({"vocab_size": 10**12}, r"shape \(20, 8\); by config.json it is \(10000"),
        ({"num_hidden_layers": 3}, "no tensor encoder.layer.2.attention.self.query"),
        ({"num_hidden_layers": 1}, "does not account for: encoder.layer.1.attention"),
        ({"type_vocab_size": 1}, r"token_type_embeddings.weight .* is F32 of shape"),
        ({"intermediate_size": 13}, r"is F32 of shape \(12, 8\); by config.json"),
        ({"num_attention_heads": 3}, "`num_heads` must divide the width 8"),
    ],
)
def test_settings_that_do_not_fit_the_file(settings, match, tmp_path):
    write_folder(tmp_path, config=config_of(**settings))
    refused(tmp_path, ValueError, match)


def test_config_that_says_too_little_or_nothing(tmp_path):
    write_folder(tmp_path)
    config = tmp_path / "config.json"
    config.write_text('{"model_type": "bert", "vocab_size": 20}')
    refused(tmp_path, ValueError, "config.json: it does not say hidden_size, interm")
    config.write_text('{"model_type": ')
    refused(tmp_path, ValueError, r"config\.json is not JSON")
    config.write_text("[1]")
    refused(tmp_path, ValueError, "must hold a JSON object")
    config.unlink()
    refused(tmp_path, FileNotFoundError, r"config\.json missing")


def test_weights_that_are_not_there(tmp_path):
    refused(tmp_path / "nowhere", FileNotFoundError, "is not a folder; expected a BERT")
    write_folder(tmp_path)
    weights = tmp_path / "model.safetensors"
    whole = weights.read_bytes()
    for broken in (whole[: len(whole) // 2], whole[:5], b""):
        weights.write_bytes(broken)
        refused(tmp_path, OSError, "could not be read as safetensors")
    weights.unlink()
    (tmp_path / "pytorch_model.bin").touch()
    refused(tmp_path, FileNotFoundError, "model.safetensors missing")


def test_tensors_of_another_kind(tmp_path):
    write_folder(tmp_path)
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    name = "embeddings.word_embeddings.weight"
    save_file({**tensors, name: tensors[name].astype("int8")}, path)
    refused(tmp_path, ValueError, f"{name} in .* is I8 of shape")
    save_file({**tensors, f"decoder.{name}": tensors[name]}, path)
    refused(tmp_path, ValueError, f"more than one tensor {name}")
    save_file({"weight": tensors[name]}, path)
    refused(tmp_path, ValueError, f"no tensor {name}: .* It has: weight")


def test_shards_that_are_not_there(tmp_path):
    write_folder(tmp_path, shards=2)
    index = tmp_path / "model.safetensors.index.json"
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    refused(tmp_path, FileNotFoundError, "names the shard 'model-00002-of-00002")
    (tmp_path.parent / "elsewhere.safetensors").touch()
    index.write_text('{"weight_map": {"a": "../elsewhere.safetensors"}}')
    refused(tmp_path, FileNotFoundError, "names the shard '../elsewhere")
    index.write_text('{"weight_map": []}')
    refused(tmp_path, ValueError, "has no `weight_map`")
    index.write_text("{")
    refused(tmp_path, ValueError, "index.json is not JSON")


def test_vocabularies_that_are_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"vocab\.txt or tokenizer\.json"):
        TextTokenizer.from_folder(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(ValueError, match="tokenizer.json is not JSON"):
        TextTokenizer.from_folder(tmp_path)


@pytest.mark.parametrize("encoder", ["bert", "bat"])
def test_vocabularies_of_another_model(encoder, tmp_path):
    write_folder(tmp_path)
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *map(chr, range(97, 113))]
    data = TextDataset([Example("a b", labels=["x"]), Example("c", labels=["y"])])
    settings = {"encoder": encoder, "backbone": tmp_path, "labels": ["x", "y"]}
    (tmp_path / "vocab.txt").write_text("\n".join(pieces))
    model = LabelClassifier.for_data(data, **settings)
    assert np.isfinite(model.predict(["a c", "b"], verbose=0)).all()
    (tmp_path / "vocab.txt").write_text("\n".join([*pieces, "q"]))
    with pytest.raises(ValueError, match="`tokenizer` must be one of at most 20 tok"):
        LabelClassifier.for_data(data, **settings)


# === Real ones ===


@pytest.mark.parametrize("name", ["bge-small-en-v1.5", "bge-small-zh-v1.5"])
def test_real_folders_answer_as_elsewhere(name):
    folder = os.environ.get("BAT_TF_MODELS")
    if not folder:
        pytest.skip("needs real models: set BAT_TF_MODELS to the folder of them")
    folder = Path(folder) / name
    encoder, tokenizer = (
        kind.from_folder(folder) for kind in (BertEncoder, TextTokenizer)
    )
    for case in json.loads((folder / "expected.json").read_text("utf-8")):
        tokens = tokenizer([case["text"]])
        assert tokens["token_ids"].numpy()[0].tolist() == case["ids"]
        places = np.stack([tokens["starts"], tokens["ends"]], -1)[0]
        assert places.tolist() == case["offsets"]
        last = np.array(encoder(tokens)[-1])[0]
        np.testing.assert_allclose(last[0, :8], case["cls"], atol=1e-4)
