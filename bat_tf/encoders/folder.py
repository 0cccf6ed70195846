"""Folders of the BERT family, as the hub stores them: settings and tensors."""

from pathlib import Path

import numpy as np

from bat_tf._internal.files import read_json
from bat_tf._internal.validation import check_choice, check_folder, check_number

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
KINDS = ("F64", "F32", "F16", "BF16")

# Arguments of an encoder → what config.json calls them.
_SIZES = {
    "vocabulary_size": "vocab_size",
    "d_model": "hidden_size",
    "d_ff": "intermediate_size",
    "num_heads": "num_attention_heads",
    "num_layers": "num_hidden_layers",
    "max_positions": "max_position_embeddings",
}
_DISTILBERT_SIZES = {
    **_SIZES,
    "d_model": "dim",
    "d_ff": "hidden_dim",
    "num_heads": "n_heads",
    "num_layers": "n_layers",
}
# Parts of an encoder → what the tensors are called.
_NAMES = {
    "words": "embeddings.word_embeddings",
    "places": "embeddings.position_embeddings",
    "types": "embeddings.token_type_embeddings",
    "input_norm": "embeddings.LayerNorm",
    "block": "encoder.layer.{}.",
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "mixed": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "hidden": "intermediate.dense",
    "output": "output.dense",
    "output_norm": "output.LayerNorm",
}
_DISTILBERT_NAMES = {
    **_NAMES,
    "block": "transformer.layer.{}.",
    "query": "attention.q_lin",
    "key": "attention.k_lin",
    "value": "attention.v_lin",
    "mixed": "attention.out_lin",
    "attention_norm": "sa_layer_norm",
    "hidden": "ffn.lin1",
    "output": "ffn.lin2",
    "output_norm": "output_layer_norm",
}
_BERT = _SIZES, _NAMES
FAMILIES = {
    "bert": _BERT,
    "roberta": _BERT,
    "xlm-roberta": _BERT,
    "camembert": _BERT,
    "electra": _BERT,
    "distilbert": (_DISTILBERT_SIZES, _DISTILBERT_NAMES),
}
# These count positions from behind their padding id, and read no word pieces.
ROBERTAS = ("roberta", "xlm-roberta", "camembert")


class BertFolder:
    """What is in a folder of the BERT family.

    Args:
        path: the folder, with `config.json` and `model.safetensors`, or shards and the
            index that names them.

    Attributes:
        family: the `model_type` of `config.json`.
        settings: arguments of a `BertEncoder`.
    """

    def __init__(self, path):
        self.path = check_folder(path, ["config.json"], "a BERT-family model")
        where = self.path / "config.json"
        config = read_json(where)
        try:
            self._read_config(config)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
        self._files = self._find_tensors()
        self._prefix = self._find_prefix()
        self._check_shapes()

    def _read_config(self, config):
        known = list(FAMILIES)
        remedy = "Other architectures cannot be loaded."
        self.family = check_choice(
            "model_type", config.get("model_type"), known, remedy
        )
        sizes, self._names = FAMILIES[self.family]
        missing = [name for name in sizes.values() if name not in config]
        if missing:
            raise ValueError(
                f"it does not say {', '.join(missing)}: it is not the configuration of "
                "a whole encoder. Copy or download the file again."
            )
        self.settings = {
            argument: check_number(name, config[name], 1, integer=True)
            for argument, name in sizes.items()
        }
        width = config.get("embedding_size", self.settings["d_model"])
        places = config.get("position_embedding_type") or "absolute"
        check_choice("position_embedding_type", places, ["absolute"])
        remedy = "Embeddings that are projected, as in ELECTRA-small, cannot be loaded."
        check_choice("embedding_size", width, [self.settings["d_model"]], remedy)
        check_choice("is_decoder", config.get("is_decoder", False), [False])
        distil = self.family == "distilbert"
        offset = 0
        if self.family in ROBERTAS:
            last = self.settings["max_positions"] - 2
            padding = config.get("pad_token_id", 1)
            offset = 1 + check_number("pad_token_id", padding, 0, last, integer=True)
        # DistilBERT's own is not in its config.json.
        epsilon = 1e-12 if distil else config.get("layer_norm_eps", 1e-12)
        self.settings |= {
            "position_offset": offset,
            "activation": config.get("activation" if distil else "hidden_act", "gelu"),
            "epsilon": check_number("layer_norm_eps", epsilon, 0),
        }
        self.num_types = 0 if distil else config.get("type_vocab_size", 2)
        check_number("type_vocab_size", self.num_types, 0, integer=True)

    # === Tensors ===

    def _find_tensors(self):
        """Name of a tensor → the open file that holds it."""
        paths = [self.path / WEIGHTS]
        if not paths[0].exists() and (self.path / INDEX).exists():
            paths = self._shards()
        elif not paths[0].exists():
            raise FileNotFoundError(
                f"{self.path} is not complete as a BERT-family model: {WEIGHTS} "
                f"missing, or {INDEX} and its shards. Copy or download the folder "
                "again, with the weights as safetensors."
            )
        found = {}
        for path in paths:
            file = open_tensors(path)
            found |= dict.fromkeys(file.keys(), (file, path))
        return found

    def _shards(self):
        names = read_json(self.path / INDEX).get("weight_map")
        if not isinstance(names, dict) or not names:
            raise ValueError(
                f"{self.path / INDEX} has no `weight_map`, which says where each "
                "tensor is. Copy or download the file again."
            )
        names = sorted(set(map(str, names.values())))
        for name in names:
            # A path may lead out of the folder.
            if Path(name).name != name or not (self.path / name).is_file():
                raise FileNotFoundError(
                    f"{self.path / INDEX} names the shard {name!r}, which is not in "
                    f"{self.path}. Copy or download the folder again as a whole."
                )
        return [self.path / name for name in names]

    def _find_prefix(self):
        """What stands in front of the encoder's own tensors."""
        anchor = f"{self._names['words']}.weight"
        ends = [name for name in self._files if f".{name}".endswith(f".{anchor}")]
        if len(ends) != 1:
            shown = ", ".join(sorted(ends or self._files)[:3])
            found = "more than one" if ends else "no"
            raise ValueError(
                f"{self.path} has {found} tensor {anchor}: it is not an encoder of the "
                f"BERT family. It has: {shown} …"
            )
        return ends[0].removesuffix(anchor)

    def _find(self, name):
        """The whole name of a tensor; older files call a norm's parts otherwise."""
        whole = self._prefix + name
        older = whole.replace(".weight", ".gamma").replace(".bias", ".beta")
        for known in (whole, older):
            if known in self._files:
                return known
        shown = ", ".join(sorted(self._files)[:3])
        raise ValueError(
            f"{self.path} has no tensor {whole}: it is not a whole encoder of the BERT "
            f"family. It has: {shown} …"
        )

    def _shapes(self):
        """(name, shape) of every tensor of the encoder."""
        own, names = self.settings, self._names
        width, wide = own["d_model"], own["d_ff"]
        yield f"{names['words']}.weight", (own["vocabulary_size"], width)
        yield f"{names['places']}.weight", (own["max_positions"], width)
        if self.num_types:
            yield f"{names['types']}.weight", (self.num_types, width)
        norm = [("weight", (width,)), ("bias", (width,))]
        yield from ((f"{names['input_norm']}.{part}", shape) for part, shape in norm)
        shapes = dict.fromkeys(("query", "key", "value", "mixed"), (width, width))
        shapes |= {"hidden": (wide, width), "output": (width, wide)}
        for number in range(own["num_layers"]):
            block = names["block"].format(number)
            for part, shape in shapes.items():
                yield f"{block}{names[part]}.weight", shape
                yield f"{block}{names[part]}.bias", shape[:1]
            for part in ("attention_norm", "output_norm"):
                yield from ((f"{block}{names[part]}.{p}", shape) for p, shape in norm)

    def _check_shapes(self):
        """Raises where the tensors are not those of the settings; reads none."""
        used = set()
        for name, expected in self._shapes():
            whole = self._find(name)
            file, path = self._files[whole]
            part = file.get_slice(whole)
            shape, kind = tuple(part.get_shape()), part.get_dtype()
            if shape != expected or kind not in KINDS:
                raise ValueError(
                    f"The tensor {whole} in {path} is {kind} of shape {shape}; by "
                    f"config.json it is {expected}, and of {', '.join(KINDS)}. Copy or "
                    "download the folder again as a whole."
                )
            used.add(whole)
        stack = self._names["block"].partition(".")[0]
        roots = (f"{self._prefix}embeddings.", f"{self._prefix}{stack}.")
        buffers = ("position_ids", "token_type_ids")
        rest = [
            name
            for name in sorted(self._files)
            if name.startswith(roots)
            and name not in used
            and not name.endswith(buffers)
        ]
        if rest:
            raise ValueError(
                f"{self.path} has tensors that config.json does not account for: "
                f"{', '.join(rest[:3])} … It is another encoder than config.json says."
            )

    def read(self, part, block=None, kind="weight"):
        """The values of a part, float32."""
        name = f"{self._names[part]}.{kind}"
        if block is not None:
            name = self._names["block"].format(block) + name
        whole = self._find(name)
        return np.asarray(self._files[whole][0].get_tensor(whole), "float32")


def open_tensors(path):
    """An open safetensors file, whose header fits its size; no tensor is read yet."""
    from safetensors import SafetensorError, safe_open

    try:
        return safe_open(path, framework="np")
    except (SafetensorError, OSError) as error:
        raise OSError(
            f"{path} could not be read as safetensors: {error}. "
            "Copy or download the file again as a whole."
        ) from error
