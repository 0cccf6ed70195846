"""What attention layers share: one large matrix product, and the attention itself."""

import keras
from keras import ops


def project(x, kernel, bias=None):
    """X W + b over the last axis, as one product of two matrices.

    A product of [B, T, D] with [D, E] is a batch of small ones on the CPU; of
    [B·T, D] with [D, E] it is a single large one.
    """
    flat = ops.matmul(ops.reshape(x, (-1, kernel.shape[0])), kernel)
    if bias is not None:
        # `ops.add`, not `+`: a BiasAdd, which TensorFlow fuses with the product.
        flat = ops.add(flat, bias)
    return ops.reshape(flat, (*ops.shape(x)[:-1], kernel.shape[1]))


def attend(query, key, value, bias, scale):
    """softmax(q kᵀ · scale + bias) v for tensors [B, heads, T, depth]."""
    logits = ops.matmul(query * scale, ops.swapaxes(key, -1, -2))
    return ops.matmul(ops.softmax(logits + bias, axis=-1), value)


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


def padding_bias(padding_mask, dtype):
    """What to add to attention logits so that padding gets no weight: [B, 1, 1, T]."""
    lowest = -3e4 if dtype == "float16" else -1e9
    bias = ops.where(padding_mask, 0.0, lowest)
    return ops.cast(bias, dtype)[:, None, None, :]


@keras.saving.register_keras_serializable(package="bat_tf")
class MultiHeadSelfAttention(keras.layers.Layer):
    """Multi-head self-attention with query, key and value in one matrix product.

    Args:
        num_heads: number of heads; divides the width of the input.
        scale: `"head"` divides the logits by √(D / heads), as the Transformer does;
            `"model"` by √D, as the release of BAT does.
        use_bias: whether the four products have biases.

    Call arguments:
        x: states [B, T, D].
        padding_mask: bool [B, T]; False positions get no attention.

    Other kinds of attention redefine `mix`.
    """

    mixtures = 1  # how many tensors of the values' width `mix` returns, head by head

    def __init__(self, num_heads, scale="head", use_bias=True, **kwargs):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.scale = scale
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
        # Glorot's limits are those of three separate [D, D] kernels.
        glorot = keras.initializers.RandomUniform(
            -((3 / width) ** 0.5), (3 / width) ** 0.5
        )
        self.qkv_kernel = self.add_weight(
            name="qkv_kernel", shape=(width, 3 * width), initializer=glorot
        )
        self.qkv_bias = self.output_bias = None
        if self.use_bias:
            self.qkv_bias = self.add_weight(
                name="qkv_bias", shape=(3 * width,), initializer="zeros"
            )
        self.output_kernel = self.add_weight(
            name="output_kernel",
            shape=(self.mixtures * width, width),
            initializer="glorot_uniform",
        )
        if self.use_bias:
            self.output_bias = self.add_weight(
                name="output_bias", shape=(width,), initializer="zeros"
            )

    def call(self, x, padding_mask, training=None):
        qkv = project(x, self.qkv_kernel, self.qkv_bias)
        heads = split_heads(qkv, 3, self.num_heads)
        mixed = self.mix(*heads, padding_mask, training)
        return project(join_heads(mixed), self.output_kernel, self.output_bias)

    def mix(self, query, key, value, padding_mask, training):
        """What each query takes from the values, all [B, heads, T, depth]."""
        bias = padding_bias(padding_mask, self.compute_dtype)
        return attend(query, key, value, bias, self._factor)

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "scale": self.scale,
            "use_bias": self.use_bias,
        }
