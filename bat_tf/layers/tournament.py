"""The two tournament sublayers of BAT: features compete, the stronger one passes."""

import keras

from bat_tf._internal.validation import check_choice, check_number
from bat_tf.layers.block import WeightedLayer, on_tokens
from bat_tf.layers.mfsa import MultiFeatureSelfAttention
from bat_tf.layers.normalization import LayerNorm

NORMS = ("post", "pre")
RESIDUALS = ("weighted", "identity", "none")


@keras.saving.register_keras_serializable(package="bat_tf")
class AttentionTournament(WeightedLayer):
    """ATS: multi-feature self-attention against the input it came from.

        post:  a = LN( MFSA(x) + x )
        pre:   a = x + F(LN(x)), with F the features of MFSA before their LN

    Padding: see `MultiFeatureSelfAttention`.

    Args:
        num_heads: heads of the attention.
        norm: `"post"` (the paper's figure and release) or `"pre"`.
        attention: whether MFSA has attention.
        kernel_sizes: widths of MFSA's convolutions.
        dropout: rate on the output of the attention.
        released: whether to do as the authors' release does, see
            `MultiFeatureSelfAttention` and `LayerNorm`.
        **kwargs: initializers, regularizers and constraints of kernels and biases, as
            in `keras.layers.Dense`; `name`, `dtype`, `trainable`.

    Call arguments:
        x: states [B, T, D].
        padding_mask: bool [B, T]. Wins over Keras' mask and takes its place on the
            output. Without either there is no padding.

    Example:
        In a model of your own, with any loss of Keras or of this library:

        >>> model = keras.Sequential([
        ...     keras.layers.Embedding(100, 32, mask_zero=True),
        ...     AttentionTournament(4),
        ...     FeedForwardTournament(64),
        ...     keras.layers.Dense(3),
        ... ])
        >>> import numpy as np
        >>> model(np.array([[5, 7, 0]])).shape
        TensorShape([1, 3, 3])

    Reference:
        BAT, section 3.1; the text says "Pre-LN", figure and release are post-norm.
    """

    def __init__(
        self,
        num_heads,
        *,
        norm="post",
        attention=True,
        kernel_sizes=(1, 3),
        dropout=0.0,
        released=False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.norm = check_choice("norm", norm, NORMS)
        self.attention = attention
        self.kernel_sizes = tuple(kernel_sizes)
        self.dropout = dropout
        self.released = released
        self.mfsa = MultiFeatureSelfAttention(
            num_heads,
            attention=attention,
            kernel_sizes=kernel_sizes,
            normalize=norm == "post",
            dropout=dropout,
            released=released,
            name="mfsa",
            **self.weight_settings(),
        )
        # Under "pre" of the input, under "post" of the sum.
        self.layer_norm = LayerNorm(
            None, released, name="layer_norm", dtype=self.dtype_policy
        )

    def build(self, shape):
        self.mfsa.build(shape)
        self.layer_norm.build(shape)

    def call(self, x, padding_mask=None, mask=None, training=None):
        mask = mask if padding_mask is None else padding_mask
        if self.norm == "pre":
            seen = self.layer_norm(x)
            return x + self.mfsa(seen, mask=mask, training=training)
        return self.layer_norm(self.mfsa(x, mask=mask, training=training) + x)


@keras.saving.register_keras_serializable(package="bat_tf")
class FeedForwardTournament(WeightedLayer):
    """FFTS: a feed-forward network against a weighted copy of its input.

        post:  y = LN( W_2 ReLU(W_1 a) + r(a) )
        pre:   y = W_2 ReLU(W_1 LN(a)) + r(LN(a))

    with the weighted residual r(a) = ReLU(Conv_1(a)). There is no identity path beside
    it.

    Args:
        d_ff: width of the hidden layer.
        norm: `"post"` or `"pre"`.
        residual: `"weighted"` (the paper), `"identity"` or `"none"`, for ablations.
            Under `"pre"`, identity means the input itself, not normalised.
        dropout: rate on the output of the network.
        released: whether to normalise as the authors' release does, see `LayerNorm`.
        **kwargs: initializers, regularizers and constraints of kernels and biases, as
            in `keras.layers.Dense`; `name`, `dtype`, `trainable`.

    Call arguments:
        x: states [B, T, D].
        padding_mask: bool [B, T]. Each token is on its own here: the mask is only
            passed on, as by `keras.layers.Dense`.

    Reference:
        BAT, section 3.1.
    """

    def __init__(
        self,
        d_ff,
        *,
        norm="post",
        residual="weighted",
        dropout=0.0,
        released=False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.d_ff = check_number("d_ff", d_ff, low=1, integer=True)
        self.norm = check_choice("norm", norm, NORMS)
        self.residual = check_choice("residual", residual, RESIDUALS)
        self.dropout = dropout
        self.released = released
        shared = {"dtype": self.dtype_policy}
        self.drop = keras.layers.Dropout(dropout, **shared)
        # Under "pre" of the input, under "post" of the sum.
        self.layer_norm = LayerNorm(None, released, name="layer_norm", **shared)

    def build(self, shape):
        width = shape[-1]
        self.layer_norm.build(shape)
        self.hidden_dense = self.dense("hidden", width, self.d_ff, activation="relu")
        self.output_dense = self.dense("output", self.d_ff, width)
        self.residual_dense = None
        if self.residual == "weighted":
            self.residual_dense = self.dense(
                "residual", width, width, activation="relu"
            )

    def call(self, x, padding_mask=None, mask=None, training=None):
        a = self.layer_norm(x) if self.norm == "pre" else x
        y = on_tokens(lambda rows: self._transform(rows, training), a)
        if self.residual == "identity":
            y = y + x
        return y if self.norm == "pre" else self.layer_norm(y)

    def _transform(self, rows, training):
        y = self.drop(self.output_dense(self.hidden_dense(rows)), training=training)
        return y if self.residual_dense is None else y + self.residual_dense(rows)
