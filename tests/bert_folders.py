"""Folders of the BERT family with random weights, in every form that the hub has."""

import json

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

WORDS, WIDTH, HIDDEN, LAYERS, HEADS, POSITIONS = 20, 8, 12, 2, 2, 14
DISTILBERT = {  # its names for BERT's
    "encoder.layer": "transformer.layer",
    "attention.self.query": "attention.q_lin",
    "attention.self.key": "attention.k_lin",
    "attention.self.value": "attention.v_lin",
    "attention.output.dense": "attention.out_lin",
    "attention.output.LayerNorm": "sa_layer_norm",
    "intermediate.dense": "ffn.lin1",
    "output.dense": "ffn.lin2",
    "output.LayerNorm": "output_layer_norm",
}


def random_tensors(types=2, seed=0):
    """The tensors of a tiny BERT, by the names of its files."""
    rng = np.random.default_rng(seed)
    shapes = {
        "embeddings.word_embeddings": (WORDS, WIDTH),
        "embeddings.position_embeddings": (POSITIONS, WIDTH),
        "embeddings.token_type_embeddings": (types, WIDTH),
        "embeddings.LayerNorm": (WIDTH,),
    }
    if not types:
        del shapes["embeddings.token_type_embeddings"]
    for number in range(LAYERS):
        layer = f"encoder.layer.{number}"
        for name in ("self.query", "self.key", "self.value", "output.dense"):
            shapes[f"{layer}.attention.{name}"] = (WIDTH, WIDTH)
        shapes[f"{layer}.attention.output.LayerNorm"] = (WIDTH,)
        shapes[f"{layer}.intermediate.dense"] = (HIDDEN, WIDTH)
        shapes[f"{layer}.output.dense"] = (WIDTH, HIDDEN)
        shapes[f"{layer}.output.LayerNorm"] = (WIDTH,)
    tensors = {}
    for name, shape in shapes.items():
        tensors[f"{name}.weight"] = rng.normal(size=shape)
        if "_embeddings" not in name:
            tensors[f"{name}.bias"] = rng.normal(size=shape[0])
    return tensors


def config_of(family="bert", **settings):
    """What `config.json` says of it."""
    config = {
        "model_type": family,
        "vocab_size": WORDS,
        "hidden_size": WIDTH,
        "intermediate_size": HIDDEN,
        "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "max_position_embeddings": POSITIONS,
        "type_vocab_size": 2,
        "layer_norm_eps": 1e-5,
    }
    if family == "distilbert":
        config = {
            "model_type": family,
            "vocab_size": WORDS,
            "dim": WIDTH,
            "hidden_dim": HIDDEN,
            "n_heads": HEADS,
            "n_layers": LAYERS,
            "max_position_embeddings": POSITIONS,
            "activation": "gelu",
        }
    return {**config, **settings}


def write_folder(
    folder, *, config=None, prefix="", dtype="float32", older=False, shards=1, **more
):
    """Writes a folder; returns the tensors that are in it, under BERT's own names.

    Args:
        folder: where to.
        config: what is in `config.json`.
        prefix: in front of every name.
        dtype: of the weights.
        older: whether norms have `gamma` and `beta`.
        shards: number of files.
        **more: tensors of other heads.
    """
    config = config or config_of()
    tensors = random_tensors(0 if config["model_type"] == "distilbert" else 2)
    dtype = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    tensors = {name: values.astype(dtype) for name, values in tensors.items()}
    written = {}
    for name, values in tensors.items():
        if config["model_type"] == "distilbert":
            for ours, theirs in DISTILBERT.items():
                name = name.replace(ours, theirs)
        if older and "LayerNorm" in name:
            name = name.replace(".weight", ".gamma").replace(".bias", ".beta")
        written[prefix + name] = values
    written |= {name: values.astype(dtype) for name, values in more.items()}
    (folder / "config.json").write_text(json.dumps(config))
    if shards == 1:
        save_file(written, folder / "model.safetensors")
    else:
        names = sorted(written)
        places = {}
        for number in range(shards):
            file = f"model-{number + 1:05}-of-{shards:05}.safetensors"
            own = names[number::shards]
            save_file({name: written[name] for name in own}, folder / file)
            places |= dict.fromkeys(own, file)
        index = {"metadata": {}, "weight_map": places}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return tensors
