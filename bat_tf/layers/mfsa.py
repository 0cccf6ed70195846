"""Multi-feature self-attention (MFSA) of BAT."""

import keras
from keras import ops

from bat_tf._validation import check_choice
from bat_tf.layers.attention import MultiHeadSelfAttention, project


@keras.saving.register_keras_serializable(package="bat_tf")
class MultiFeatureSelfAttention(keras.layers.Layer):
    """Self-attention and convolutions side by side, added up.

        F = MHA(x) + ReLU(Conv_1(x)) + ReLU(Conv_3(x))

    Attention sees the whole text, a convolution of width 1 the token alone and one of
    width 3 its neighbours.

    Padding: masked positions get no attention and are zero in front of convolutions,
    so that real tokens do not depend on how much padding follows them.

    Args:
        num_heads: heads of the attention.
        attention: whether attention is one of the features; False for ablations.
        kernel_sizes: odd widths of the convolutions; `()` leaves attention alone.
        dropout: rate on the output of the attention.
        attention_scale: `"head"` (1/√d_k, the paper) or `"model"` (1/√d, the release).
        mask_convolutions: False reproduces the release, which lets padding in.

    Call arguments:
        x: states [B, T, D].
        padding_mask: bool [B, T].

    Example:
        >>> import numpy as np
        >>> layer = MultiFeatureSelfAttention(num_heads=2)
        >>> layer(np.ones((1, 5, 8)), np.ones((1, 5), bool)).shape
        TensorShape([1, 5, 8])

    Reference:
        S0, section 3.1.
    """

    def __init__(
        self,
        num_heads,
        *,
        attention=True,
        kernel_sizes=(1, 3),
        dropout=0.0,
        attention_scale="head",
        mask_convolutions=True,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_choice("attention_scale", attention_scale, ("head", "model"))
        self.num_heads = num_heads
        self.kernel_sizes = tuple(kernel_sizes)
        self.attention_scale = attention_scale
        self.mask_convolutions = mask_convolutions
        self.dropout = dropout
        self.attention = None
        if attention:
            self.attention = MultiHeadSelfAttention(
                num_heads, attention_scale, dtype=self.dtype_policy, name="attention"
            )
        self.drop = keras.layers.Dropout(dropout, dtype=self.dtype_policy)
        if not attention and not self.kernel_sizes:
            raise ValueError(
                "`kernel_sizes` must name a width when `attention` is off: "
                "one feature at least is needed."
            )
        for size in self.kernel_sizes:
            if size % 2 == 0 or size < 1:
                raise ValueError(
                    f"`kernel_sizes` must be odd widths. Received: {kernel_sizes!r}."
                )

    def build(self, shape):
        width = shape[-1]
        if self.attention is not None:
            self.attention.build(shape)
        # [size · D, D]: the kernels of `size` neighbours, one below the other.
        self.kernels, self.biases = [], []
        for size in self.kernel_sizes:
            limit = (3 / (width * size)) ** 0.5  # Glorot for [size, D, D]
            kernel = self.add_weight(
                name=f"conv{size}_kernel",
                shape=(size * width, width),
                initializer=keras.initializers.RandomUniform(-limit, limit),
            )
            bias = self.add_weight(
                name=f"conv{size}_bias", shape=(width,), initializer="zeros"
            )
            self.kernels.append(kernel)
            self.biases.append(bias)

    def call(self, x, padding_mask, training=None):
        features = []
        if self.attention is not None:
            mixed = self.attention(x, padding_mask)
            features.append(self.drop(mixed, training=training))
        mask = ops.cast(ops.expand_dims(padding_mask, -1), x.dtype)
        seen = x * mask if self.mask_convolutions else x
        for kernel, bias in zip(self.kernels, self.biases, strict=True):
            features.append(ops.relu(convolve(seen, kernel, bias)))
        total = features[0]
        for feature in features[1:]:
            total = total + feature
        return total

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "attention": self.attention is not None,
            "kernel_sizes": list(self.kernel_sizes),
            "dropout": self.dropout,
            "attention_scale": self.attention_scale,
            "mask_convolutions": self.mask_convolutions,
        }


def convolve(x, kernel, bias):
    """A 'same' convolution over time: [B, T, D] with [size · D, E] → [B, T, E].

    Width 1 is a plain product. Wider ones could be, too, with the neighbours side by
    side, but in a graph the copies cost more than the product saves; XLA is as fast
    either way.
    """
    width = x.shape[-1]
    size = kernel.shape[0] // width
    if size == 1:
        return project(x, kernel, bias)
    kernel = ops.reshape(kernel, (size, width, -1))
    return ops.add(ops.conv(x, kernel, padding="same"), bias)
