"""BERT-family encoders with weights from a local folder of safetensors."""

import warnings

import keras
import numpy as np
from keras import ops

from bat_tf._internal.validation import check_choice, check_number, sentence
from bat_tf.encoders.folder import ROBERTAS, BertFolder
from bat_tf.encoders.transformer import TransformerBlock
from bat_tf.layers.block import Weighted
from bat_tf.layers.normalization import LayerNorm


@keras.saving.register_keras_serializable(package="bat_tf")
def gelu_tanh(x):
    """GELU by a hyperbolic tangent, as GPT-2 has it."""
    return ops.gelu(x, approximate=True)


ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": gelu_tanh,
    "gelu_fast": gelu_tanh,
    "gelu_pytorch_tanh": gelu_tanh,
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}


@keras.saving.register_keras_serializable(package="bat_tf")
class BertEncoder(Weighted, keras.layers.Layer):
    """A BERT-family encoder out of the library's own Transformer blocks.

    Every layer's states are returned. The weights usually come from `from_folder`; a
    model that owns the encoder saves them with its own.

    Args:
        vocabulary_size: number of token ids.
        d_model: width of the states.
        d_ff: width of the hidden layers.
        num_heads: heads of the attention.
        num_layers: number of blocks.
        max_positions: number of learnt positions.
        position_offset: position of the first token: 0 for BERT, 2 for RoBERTa.
        activation: as `config.json` calls it: `"gelu"`, which is exact, `"gelu_new"`
            (also `"gelu_fast"` and `"gelu_pytorch_tanh"`), which is not, `"relu"`,
            `"silu"` or `"swish"`.
        epsilon: of the layer normalisations.
        dropout: rate in the blocks and after the embeddings.
        frozen_layers: how many of the first blocks do not learn, and the embeddings
            with them; 0 for none, and a share such as 0.5 of however many there are.
            Their states can be kept from epoch to epoch, see `fit(cache_backbone=True)`
            of the models.
        feature_sizes: must be empty; other encoders add features of tokens here.
        **kwargs: see `TransformerStack`.

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
        activation="gelu",
        epsilon=1e-12,
        dropout=0.0,
        frozen_layers=0,
        feature_sizes=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.supports_masking = True
        if feature_sizes:
            raise ValueError(
                sentence(
                    "feature_sizes",
                    "empty: pretrained weights know no features",
                    dict(feature_sizes),
                    "Use a `BATEncoder` with this encoder as its `backbone`.",
                )
            )
        self.vocabulary_size = vocabulary_size
        self.d_model = d_model
        self.d_ff = d_ff
        self.num_heads = num_heads
        self.num_layers = num_layers
        self.max_positions = max_positions
        self.position_offset = position_offset
        self.activation = check_choice("activation", activation, list(ACTIVATIONS))
        self.epsilon = epsilon
        self.dropout = dropout
        if isinstance(frozen_layers, float) and 0 < frozen_layers < 1:
            frozen_layers = round(frozen_layers * num_layers)
        self.frozen_layers = check_number(
            "frozen_layers", frozen_layers, 0, num_layers, integer=True
        )
        self.feature_sizes = {}
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
                activation=ACTIVATIONS[activation],
                dropout=dropout,
                epsilon=epsilon,
                name=f"block_{number}",
                **self.weight_settings(),
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

    def compute_mask(self, inputs, previous_mask):
        return [inputs["padding_mask"]] * (1 + len(self.blocks))

    @property
    def backbone_width(self):
        """The width of what `backbone_input` returns."""
        return self.d_model

    def backbone_input(self, inputs, training):
        """The states of the last frozen block: [B, T, D]."""
        return self._first_states(inputs, training)[-1]

    @classmethod
    def from_folder(cls, folder, **kwargs):
        """Loads an encoder from a folder as the hub stores it.

        BERT, DistilBERT, ELECTRA, RoBERTa, XLM-R and CamemBERT load, whatever head they
        come with; `config.json` decides sizes, activation, ε and positions.

        Args:
            folder: with `config.json` and `model.safetensors`, or shards of it.
            **kwargs: `dropout`, `frozen_layers`, `name`, `dtype`, `trainable`.
        """
        folder = BertFolder(folder)
        if folder.family in ROBERTAS and not (folder.path / "vocab.txt").exists():
            warnings.warn(
                f"The weights in {folder.path} load, but their texts cannot be "
                f"tokenised yet: {folder.family} reads BPE or SentencePiece, and "
                "`TextTokenizer` has WordPiece alone. Give the model token ids of your "
                "own, or take a model with a vocab.txt.",
                stacklevel=2,
            )
        encoder = cls(**{**folder.settings, **kwargs})
        encoder.build(None)
        encoder._load(folder)
        return encoder

    def _load(self, folder):
        """Takes the weights out of a `BertFolder`."""

        def norm(layer, *place):
            layer.gamma.assign(folder.read(*place))
            layer.beta.assign(folder.read(*place, kind="bias"))

        def dense(layer, block, *parts):
            kernels = [folder.read(part, block).T for part in parts]
            layer.kernel.assign(np.concatenate(kernels, axis=1))
            biases = [folder.read(part, block, kind="bias") for part in parts]
            layer.bias.assign(np.concatenate(biases))

        self.words.embeddings.assign(folder.read("words"))
        types = folder.read("types")[0] if folder.num_types else 0.0
        self.places.embeddings.assign(folder.read("places") + types)
        norm(self.input_norm, "input_norm")
        for number, block in enumerate(self.blocks):
            dense(block.attention.qkv_dense, number, "query", "key", "value")
            dense(block.attention.output_dense, number, "mixed")
            norm(block.attention_norm, "attention_norm", number)
            dense(block.hidden_dense, number, "hidden")
            dense(block.output_dense, number, "output")
            norm(block.output_norm, "output_norm", number)
