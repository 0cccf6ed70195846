"""MUSE: attention, dynamic convolutions and a feed-forward network side by side."""

from functools import partial

import keras
import tensorflow as tf
from keras import ops

from bat_tf._internal.validation import sentence
from bat_tf.encoders.stacked import TransformerStack
from bat_tf.encoders.transformer import TransformerBlock
from bat_tf.layers.attention import MultiHeadSelfAttention, join_heads
from bat_tf.layers.block import on_tokens
from bat_tf.layers.mfsa import odd_widths


def dynamic_weights(x, kernel, num_heads):
    """softmax_K(x W): what each token weighs its window by, [B, heads, T, K]."""
    size = kernel.shape[-1] // num_heads
    logits = on_tokens(lambda rows: ops.matmul(rows, kernel), x)
    logits = ops.reshape(logits, (*ops.shape(x)[:-1], num_heads, size))
    return tf.nn.softmax(ops.transpose(logits, (0, 2, 1, 3)), axis=-1)


def convolve_dynamically(x, weights):
    """Σ_j w_{t,j} x_{t+j-K//2}: a convolution whose kernel depends on the place.

    Args:
        x: [B, heads, T, depth]; zero at padding.
        weights: [B, heads, T, K] with odd K, shared by the channels of a head.
    """
    batch, heads, length, size = ops.shape(weights)
    # A matrix whose row t has the weights of t from column t on: written with T + K
    # entries a row and read with one less, each row moves by one. A product with it is
    # faster than K shifted copies of x, and it is no larger than the attention's.
    wide = ops.pad(weights, [(0, 0)] * 3 + [(0, length)])
    flat = ops.reshape(wide, (batch, heads, length * (length + size)))
    band = ops.reshape(
        flat[..., : length * (length + size - 1)],
        (batch, heads, length, length + size - 1),
    )
    half = size // 2
    return ops.matmul(band, ops.pad(x, [(0, 0), (0, 0), (half, half), (0, 0)]))


@keras.saving.register_keras_serializable(package="bat_tf")
class MuseAttention(MultiHeadSelfAttention):
    """Attention and dynamic convolutions of the same values, joined by one product.

        A(x) = W_o [MHA(x), Σ_K α_K DynamicConv_K(v)],  v = W_v x + b_v

    with α a softmax over the kernel sizes.

    Padding: gets no attention, and its values are zero in the convolutions.

    Args:
        num_heads: heads of the attention and of the convolutions.
        kernel_sizes: odd widths of the convolutions.

    Call arguments: see `MultiHeadSelfAttention`.
    """

    mixtures = 2

    def __init__(self, num_heads, *, kernel_sizes=(3, 15), **kwargs):
        super().__init__(num_heads, **kwargs)
        self.kernel_sizes = odd_widths(kernel_sizes)
        if not self.kernel_sizes:
            raise ValueError(sentence("kernel_sizes", "one width at least", ()))

    def build(self, shape):
        width = shape[-1]
        super().build(shape)
        self.kernels = [
            self.add_kernel(f"conv{size}_kernel", (width, self.num_heads * size))
            for size in self.kernel_sizes
        ]
        self.shares = self.add_weight(
            name="shares", shape=(len(self.kernels),), initializer="zeros"
        )

    def mix(self, query, key, value, padding_mask, training):
        """What attention and the convolutions take from the values, head by head."""
        mixed = super().mix(query, key, value, padding_mask, training)
        weights = self._window(join_heads(value))
        seen = ops.where(padding_mask[:, None, :, None], value, 0.0)
        return ops.concatenate([mixed, convolve_dynamically(seen, weights)], axis=1)

    def _window(self, value):
        """Σ_K α_K softmax_K(v W_K), narrow windows in the middle of the widest.

        Convolutions are linear in their kernels: mixing these first makes one of them.
        """
        shares = tf.nn.softmax(ops.convert_to_tensor(self.shares))
        widest = max(self.kernel_sizes)
        total = 0.0
        for place, kernel in enumerate(self.kernels):
            weights = dynamic_weights(value, kernel, self.num_heads) * shares[place]
            edge = (widest - self.kernel_sizes[place]) // 2
            total = total + ops.pad(weights, [(0, 0)] * 3 + [(edge, edge)])
        return total


@keras.saving.register_keras_serializable(package="bat_tf")
class MuseEncoder(TransformerStack):
    """Embeddings and positions → blocks of attention, convolutions and a network.

    With the paper's sizes and a linear layer of 3 classes it has 894,859 parameters
    beside the embeddings.

    Args:
        vocabulary_size: number of token ids.
        d_model: width of the states.
        kernel_sizes: odd widths of the dynamic convolutions.
        **kwargs: see `TransformerStack`.

    Call arguments and returns: see `BATEncoder`.

    Reference:
        Zhao et al., MUSE: parallel multi-scale attention, 2019. The authors let padding
        into the convolutions; here its values are zero.
    """

    def __init__(self, vocabulary_size, d_model=128, *, kernel_sizes=(3, 15), **kwargs):
        super().__init__(vocabulary_size, d_model, **kwargs)
        self.kernel_sizes = tuple(kernel_sizes)
        attention = partial(MuseAttention, self.num_heads, kernel_sizes=kernel_sizes)
        self.stack(TransformerBlock, {"attention": attention}, parallel=True)
