"""The encoder of "Born for Auto-Tagging"."""

import keras

from bat_tf.encoders.backbone import Backbone
from bat_tf.encoders.stacked import TransformerStack
from bat_tf.layers.block import WeightedLayer, on_tokens
from bat_tf.layers.normalization import LayerNorm
from bat_tf.layers.tournament import AttentionTournament, FeedForwardTournament


@keras.saving.register_keras_serializable(package="bat_tf")
class BATBlock(WeightedLayer):
    """One layer of BAT: ATS, then FFTS.

    Args:
        num_heads: heads of the attention.
        d_ff: width of the hidden layer of FFTS.
        dropout: rate after the attention and after the feed-forward network.
        norm: `"post"` or `"pre"`.
        attention: whether MFSA has attention.
        kernel_sizes: widths of MFSA's convolutions.
        residual: `"weighted"`, `"identity"` or `"none"` in FFTS.
        released: whether to do as the authors' release does.
        **kwargs: initializers, regularizers and constraints of kernels and biases, as
            in `keras.layers.Dense`; `name`, `dtype`, `trainable`.
    """

    def __init__(
        self,
        num_heads,
        d_ff,
        *,
        dropout=0.0,
        norm="post",
        attention=True,
        kernel_sizes=(1, 3),
        residual="weighted",
        released=False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.d_ff = d_ff
        self.dropout = dropout
        self.norm = norm
        self.attention = attention
        self.kernel_sizes = tuple(kernel_sizes)
        self.residual = residual
        self.released = released
        shared = {"norm": norm, "dropout": dropout, "released": released}
        self.ats = AttentionTournament(
            num_heads,
            attention=attention,
            kernel_sizes=kernel_sizes,
            name="ats",
            **shared,
            **self.weight_settings(),
        )
        self.ffts = FeedForwardTournament(
            d_ff, residual=residual, name="ffts", **shared, **self.weight_settings()
        )

    def build(self, shape):
        self.ats.build(shape)
        self.ffts.build(shape)

    def call(self, x, padding_mask=None, mask=None, training=None):
        mask = mask if padding_mask is None else padding_mask
        return self.ffts(self.ats(x, mask=mask, training=training), training=training)


@keras.saving.register_keras_serializable(package="bat_tf")
class BATEncoder(TransformerStack):
    """BAT: embeddings and positions → LN → blocks of ATS and FFTS.

    With d_model 128, d_ff 512, 4 heads, 4 layers and a linear layer of 3 classes it has
    1,123,971 parameters beside the embeddings.

    Args:
        vocabulary_size: number of token ids; None with a backbone.
        d_model: width of the states.
        norm: `"post"` (figure and release) or `"pre"`.
        attention: whether MFSA has attention.
        kernel_sizes: widths of MFSA's convolutions.
        residual: `"weighted"` (the paper), `"identity"` or `"none"` in FFTS.
        affine: whether an affine map, W x + b, stands between the sum of embedding and
            position and its LN. Section 3.1 has it; release and parameter count do not.
        released: whether to do as the authors' release does, where it differs from the
            paper, see `MultiFeatureSelfAttention` and `LayerNorm`.
        positions: whether to add sinusoidal positions; None: unless a backbone does.
        backbone: a `Backbone` whose states are the input, or the encoder of one.
        **kwargs: see `TransformerStack`.

    Call arguments:
        inputs: dict of `token_ids` and `padding_mask` [B, T], and each feature [B, T].
            If it has `backbone_states` [B, T, backbone_width], these stand in for what
            the backbone would say.

    Returns:
        List of states [B, T, D]: the embeddings, then one entry a block.

    Example:
        >>> import numpy as np
        >>> encoder = BATEncoder(100, d_model=16, d_ff=32, num_heads=2, num_layers=2)
        >>> ids = np.array([[5, 7, 0]])
        >>> states = encoder({"token_ids": ids, "padding_mask": ids > 0})
        >>> len(states), states[-1].shape
        (3, TensorShape([1, 3, 16]))

    Reference:
        BAT; the backbone is that of the release's CoNLL recipe.
    """

    def __init__(
        self,
        vocabulary_size=None,
        d_model=128,
        *,
        norm="post",
        attention=True,
        kernel_sizes=(1, 3),
        residual="weighted",
        affine=False,
        released=False,
        positions=None,
        backbone=None,
        **kwargs,
    ):
        if (vocabulary_size is None) == (backbone is None):
            raise ValueError(
                "`vocabulary_size` must be given, or `backbone`, not both. Received: "
                f"vocabulary_size={vocabulary_size!r}, backbone={backbone!r}."
            )
        positions = backbone is None if positions is None else positions
        super().__init__(vocabulary_size, d_model, positions=positions, **kwargs)
        self.norm = norm
        self.attention = attention
        self.kernel_sizes = tuple(kernel_sizes)
        self.residual = residual
        self.affine = affine
        self.released = released
        self.backbone = backbone
        if backbone is not None and not isinstance(backbone, Backbone):
            self.backbone = Backbone(backbone)
        shared = {"dtype": self.dtype_policy}
        self.input_norm = LayerNorm(None, released, name="input_norm", **shared)
        self.stack(
            BATBlock,
            norm=norm,
            attention=attention,
            kernel_sizes=kernel_sizes,
            residual=residual,
            released=released,
        )

    def build(self, shape):
        super().build(shape)
        self.input_norm.build((None, None, self.d_model))
        if self.affine:
            self.affine_map = self.dense("affine_map", self.d_model, self.d_model)
        if self.backbone is not None:
            self.backbone.build(shape)
            self.projection = self.dense(
                "projection", self.backbone_width, self.d_model
            )

    def first_states(self, inputs, training):
        """The embeddings, on top of what the backbone says, normalised."""
        given = None
        if self.backbone is not None:
            given = inputs.get("backbone_states")
            if given is None:
                given = self.backbone_input(inputs, training)
            given = self.projection(given)
        x = self.embedding(inputs, given, training=training)
        if self.affine:
            x = on_tokens(self.affine_map, x)
        return self.input_norm(x)

    @property
    def backbone_width(self):
        """The width of what `backbone_input` returns."""
        return self.backbone.width

    def backbone_input(self, inputs, training):
        """The backbone's states: [B, T, backbone_width]."""
        return self.backbone(inputs, training=training)
