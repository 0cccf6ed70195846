"""Multi-feature self-attention (MFSA) of BAT."""

import keras
from keras import ops

from bat_tf._internal.validation import check_number, sentence
from bat_tf.layers.attention import MultiHeadSelfAttention
from bat_tf.layers.block import InParts, WeightedLayer, on_tokens, real_tokens
from bat_tf.layers.normalization import LayerNorm


@keras.saving.register_keras_serializable(package="bat_tf")
class MultiFeatureSelfAttention(WeightedLayer):
    """Self-attention and convolutions side by side, added up and normalised.

        MFSA(x) = LN( MHA(x) + ReLU(Conv_1(x)) + ReLU(Conv_3(x)) )

    Attention sees the whole text, a convolution of width 1 the token alone and one of
    width 3 its neighbours.

    Padding: masked positions get no attention and are zero in front of convolutions,
    so that real tokens do not depend on how much padding follows them.

    Args:
        num_heads: heads of the attention.
        attention: whether attention is one of the features; False for ablations.
        kernel_sizes: odd widths of the convolutions; `()` leaves attention alone.
        normalize: whether the sum is normalised, as in the paper.
        dropout: rate on the output of the attention.
        released: whether to do as the authors' release does, where it differs from the
            paper: attention is scaled by 1/√d, not 1/√d_k; convolutions see padding;
            the limits of their initial kernels do not depend on their width; see also
            `LayerNorm`.
        **kwargs: initializers, regularizers and constraints of kernels and biases, as
            in `keras.layers.Dense`; `name`, `dtype`, `trainable`.

    Call arguments:
        x: states [B, T, D].
        padding_mask: bool [B, T]. Wins over Keras' mask and takes its place on the
            output. Without either there is no padding.

    Example:
        >>> import numpy as np
        >>> layer = MultiFeatureSelfAttention(num_heads=2)
        >>> layer(np.ones((1, 5, 8))).shape
        TensorShape([1, 5, 8])

    Reference:
        BAT, section 3.1, equation 4.
    """

    def __init__(
        self,
        num_heads,
        *,
        attention=True,
        kernel_sizes=(1, 3),
        normalize=True,
        dropout=0.0,
        released=False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.attention = attention
        self.kernel_sizes = odd_widths(kernel_sizes)
        self.normalize = normalize
        self.dropout = dropout
        self.released = released
        if not attention and not self.kernel_sizes:
            raise ValueError(
                "`kernel_sizes` must name a width when `attention` is off: "
                "one feature at least is needed."
            )
        self.mha = self.feature_norm = None
        if attention:
            scale = "model" if released else "head"
            self.mha = MultiHeadSelfAttention(
                num_heads, scale, name="attention", **self.weight_settings()
            )
        shared = {"dtype": self.dtype_policy}
        self.drop = keras.layers.Dropout(dropout, **shared)
        if normalize:
            self.feature_norm = LayerNorm(None, released, name="norm", **shared)

    def build(self, shape):
        for layer in (self.mha, self.feature_norm):
            if layer is not None:
                layer.build(shape)
        self.convolutions = []
        for size in self.kernel_sizes:
            settings = self.weight_settings()
            if self.released:
                parts = InParts(self.kernel_initializer, size, axis=0)
                settings["kernel_initializer"] = parts
            self.convolutions.append(convolution(shape, shape[-1], size, **settings))

    def call(self, x, padding_mask=None, mask=None, training=None):
        real = real_tokens(x, padding_mask, mask)
        seen = ops.ones_like(real) if self.released else real
        seen = x * ops.cast(ops.expand_dims(seen, -1), x.dtype)
        features = [convolve(layer, seen) for layer in self.convolutions]
        if self.mha is not None:
            features.insert(0, self.drop(self.mha(x, real), training=training))
        total = sum(features[1:], features[0])
        return total if self.feature_norm is None else self.feature_norm(total)


def odd_widths(kernel_sizes):
    """Returns the widths of convolutions as a tuple, if all are odd, else raises."""
    for size in kernel_sizes:
        if check_number("kernel_sizes", size, low=1, integer=True) % 2 == 0:
            raise ValueError(sentence("kernel_sizes", "odd widths", kernel_sizes))
    return tuple(kernel_sizes)


def convolution(shape, filters, size, **settings):
    """A layer for `convolve`, built: ReLU of a convolution over time.

    One of width 1 is a Dense: Keras quantizes a Dense to int8, but no Conv1D.
    """
    settings = {"activation": "relu", "name": f"conv{size}", **settings}
    if size == 1:
        layer = keras.layers.Dense(filters, **settings)
    else:
        layer = keras.layers.Conv1D(filters, size, padding="same", **settings)
    layer.build(shape)
    return layer


def convolve(layer, x):
    """Calls what `convolution` made on states [B, T, D]."""
    dense = isinstance(layer, keras.layers.Dense)
    return on_tokens(layer, x) if dense else layer(x)
