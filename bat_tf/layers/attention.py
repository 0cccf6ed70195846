"""Multi-head self-attention, and the attention itself."""

import keras
import tensorflow as tf
from keras import ops

from bat_tf._internal.validation import check_choice, check_number
from bat_tf.layers.block import WeightedLayer, on_tokens, real_tokens


def attend(query, key, value, bias, scale):
    """softmax(q kᵀ · scale + bias) v for tensors [B, heads, T, depth]."""
    logits = ops.matmul(query * scale, ops.swapaxes(key, -1, -2))
    # Keras' own softmax warns of texts of one token.
    return ops.matmul(tf.nn.softmax(logits + bias, axis=-1), value)


def split_heads(states, num_groups, num_heads):
    """[B, T, groups · D] → a list of [B, heads, T, D / heads], one a group."""
    batch, length, width = ops.shape(states)
    depth = width // (num_groups * num_heads)
    parts = ops.reshape(states, (batch, length, num_groups, num_heads, depth))
    return ops.unstack(ops.transpose(parts, (2, 0, 3, 1, 4)), num_groups, axis=0)


def join_heads(states):
    """[B, heads, T, depth] → [B, T, heads · depth]."""
    batch, heads, length, depth = ops.shape(states)
    joined = ops.transpose(states, (0, 2, 1, 3))
    return ops.reshape(joined, (batch, length, heads * depth))


def lowest(dtype):
    """What stands for -inf in scores of a dtype: finite, for inf - inf is no number."""
    return -3e4 if dtype == "float16" else -1e9


def padding_bias(padding_mask, dtype):
    """What to add to attention logits so that padding gets no weight: [B, 1, 1, T]."""
    bias = ops.where(padding_mask, 0.0, lowest(dtype))
    return ops.cast(bias, dtype)[:, None, None, :]


@keras.saving.register_keras_serializable(package="bat_tf")
class MultiHeadSelfAttention(WeightedLayer):
    """Multi-head self-attention with query, key and value in one matrix product.

    Args:
        num_heads: number of heads; divides the width of the input.
        scale: `"head"` divides the logits by √(D / heads), as the Transformer does;
            `"model"` by √D, as the release of BAT does.
        use_bias: whether the four products have biases.
        **kwargs: see `WeightedLayer`. The kernels of query, key and value are drawn
            one by one, as if they were three layers.

    Call arguments:
        x: states [B, T, D].
        padding_mask: bool [B, T]; False positions get no attention. Wins over Keras'
            mask and takes its place on the output. Without either there is no padding.

    Example:
        >>> import numpy as np
        >>> MultiHeadSelfAttention(num_heads=2)(np.ones((1, 5, 8))).shape
        TensorShape([1, 5, 8])

    Other kinds of attention redefine `mix`.
    """

    mixtures = 1  # how many tensors of the values' width `mix` returns, head by head

    def __init__(self, num_heads, scale="head", use_bias=True, **kwargs):
        super().__init__(**kwargs)
        self.num_heads = check_number("num_heads", num_heads, low=1, integer=True)
        self.scale = check_choice("scale", scale, ("head", "model"))
        self.use_bias = use_bias

    def build(self, shape):
        width = shape[-1]
        if width % self.num_heads:
            raise ValueError(
                f"`num_heads` must divide the width {width}. "
                f"Received: {self.num_heads}."
            )
        depth = width if self.scale == "model" else width // self.num_heads
        self._factor = depth**-0.5
        mixed, settings = self.mixtures * width, {"use_bias": self.use_bias}
        self.qkv_dense = self.dense("qkv", width, 3 * width, parts=3, **settings)
        self.output_dense = self.dense("output", mixed, width, **settings)

    def call(self, x, padding_mask=None, mask=None, training=None):
        real = real_tokens(x, padding_mask, mask)
        heads = split_heads(on_tokens(self.qkv_dense, x), 3, self.num_heads)
        mixed = self.mix(*heads, real, training)
        return on_tokens(self.output_dense, join_heads(mixed))

    def mix(self, query, key, value, padding_mask, training):
        """What each query takes from the values, all [B, heads, T, depth]."""
        bias = padding_bias(padding_mask, self.compute_dtype)
        return attend(query, key, value, bias, self._factor)
