"""The two tournament sublayers of BAT: features compete, the stronger one passes."""

import keras
from keras import ops

from bat_tf._validation import check_choice
from bat_tf.layers.attention import project
from bat_tf.layers.mfsa import MultiFeatureSelfAttention
from bat_tf.layers.normalization import LayerNorm

NORMS = ("post", "pre")
RESIDUALS = ("weighted", "identity", "none")


@keras.saving.register_keras_serializable(package="bat_tf")
class AttentionTournament(keras.layers.Layer):
    """ATS: multi-feature self-attention against the input it came from.

        post:  a = LN_2( LN_1(MFSA(x)) + x )
        pre:   a = x + MFSA(LN_1(x))

    Padding: see `MultiFeatureSelfAttention`.

    Args:
        num_heads: heads of the attention.
        norm: `"post"` (the paper's figure and release) or `"pre"`.
        layer_norm: `"paper"` or `"release"`, see `LayerNorm`.
        **kwargs: settings of `MultiFeatureSelfAttention`.

    Reference:
        S0, section 3.1; the text says "Pre-LN", figure and release are post-norm.
    """

    def __init__(self, num_heads, *, norm="post", layer_norm="paper", **kwargs):
        layer = {key: kwargs.pop(key) for key in ("name", "dtype") if key in kwargs}
        trainable = kwargs.pop("trainable", True)
        super().__init__(trainable=trainable, **layer)
        self.norm = check_choice("norm", norm, NORMS)
        self.layer_norm = layer_norm
        shared = {"dtype": self.dtype_policy}
        self.mfsa = MultiFeatureSelfAttention(
            num_heads, **kwargs, **shared, name="mfsa"
        )
        self.inner_norm = LayerNorm(flavour=layer_norm, name="inner_norm", **shared)
        self.outer_norm = None
        if norm == "post":
            self.outer_norm = LayerNorm(flavour=layer_norm, name="outer_norm", **shared)

    def build(self, shape):
        self.mfsa.build(shape)
        self.inner_norm.build(shape)
        if self.outer_norm is not None:
            self.outer_norm.build(shape)

    def call(self, x, padding_mask, training=None):
        if self.norm == "pre":
            return x + self.mfsa(self.inner_norm(x), padding_mask, training=training)
        features = self.inner_norm(self.mfsa(x, padding_mask, training=training))
        return self.outer_norm(features + x)

    def get_config(self):
        mfsa = self.mfsa.get_config()
        for key in ("name", "dtype", "trainable"):
            mfsa.pop(key)
        return {
            **super().get_config(),
            **mfsa,
            "norm": self.norm,
            "layer_norm": self.layer_norm,
        }


@keras.saving.register_keras_serializable(package="bat_tf")
class FeedForwardTournament(keras.layers.Layer):
    """FFTS: a feed-forward network against a weighted copy of its input.

        post:  y = LN_3( W_2 ReLU(W_1 a) + r(a) )
        pre:   y = W_2 ReLU(W_1 LN(a)) + r(LN(a))

    with the weighted residual r(a) = ReLU(Conv_1(a)). There is no identity path beside
    it.

    Args:
        d_ff: width of the hidden layer.
        norm: `"post"` or `"pre"`.
        residual: `"weighted"` (the paper), `"identity"` or `"none"`, for ablations.
            Under `"pre"`, identity means the input itself, not normalised.
        dropout: rate on the output of the network.
        layer_norm: `"paper"` or `"release"`.

    Reference:
        S0, section 3.2.
    """

    def __init__(
        self,
        d_ff,
        *,
        norm="post",
        residual="weighted",
        dropout=0.0,
        layer_norm="paper",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.d_ff = d_ff
        self.norm = check_choice("norm", norm, NORMS)
        self.residual = check_choice("residual", residual, RESIDUALS)
        self.dropout = dropout
        self.layer_norm = layer_norm
        shared = {"dtype": self.dtype_policy}
        self.drop = keras.layers.Dropout(dropout, **shared)
        self.outer_norm = LayerNorm(flavour=layer_norm, name="outer_norm", **shared)

    def build(self, shape):
        width = shape[-1]
        self.outer_norm.build(shape)

        def weights(name, rows, columns):
            kernel = self.add_weight(
                name=f"{name}_kernel",
                shape=(rows, columns),
                initializer="glorot_uniform",
            )
            bias = self.add_weight(
                name=f"{name}_bias", shape=(columns,), initializer="zeros"
            )
            return kernel, bias

        self.hidden = weights("hidden", width, self.d_ff)
        self.output_weights = weights("output", self.d_ff, width)
        if self.residual == "weighted":
            self.residual_weights = weights("residual", width, width)

    def call(self, x, training=None):
        a = self.outer_norm(x) if self.norm == "pre" else x
        hidden = ops.relu(project(a, *self.hidden))
        y = self.drop(project(hidden, *self.output_weights), training=training)
        if self.residual == "weighted":
            y = y + ops.relu(project(a, *self.residual_weights))
        elif self.residual == "identity":
            y = y + x
        return y if self.norm == "pre" else self.outer_norm(y)

    def get_config(self):
        return {
            **super().get_config(),
            "d_ff": self.d_ff,
            "norm": self.norm,
            "residual": self.residual,
            "dropout": self.dropout,
            "layer_norm": self.layer_norm,
        }
