"""MUSE: attention, dynamic convolutions and a feed-forward network side by side."""

import keras
from keras import ops

from bat_tf._validation import check_number, sentence
from bat_tf.encoders.shell import EncoderShell
from bat_tf.encoders.transformer import TransformerBlock
from bat_tf.layers.attention import MultiHeadSelfAttention, join_heads, project


def dynamic_weights(x, kernel, num_heads):
    """softmax_K(x W): what each token weighs its window by, [B, heads, T, K]."""
    size = kernel.shape[-1] // num_heads
    logits = project(x, kernel)
    logits = ops.reshape(logits, (*ops.shape(x)[:-1], num_heads, size))
    return ops.softmax(ops.transpose(logits, (0, 2, 1, 3)), axis=-1)


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
        self.kernel_sizes = tuple(kernel_sizes)
        if not self.kernel_sizes:
            raise ValueError(sentence("kernel_sizes", "one width at least", ()))
        for size in self.kernel_sizes:
            check_number("kernel_sizes", size, low=1, integer=True)
            if size % 2 == 0:
                raise ValueError(sentence("kernel_sizes", "odd widths", kernel_sizes))

    def build(self, shape):
        width = shape[-1]
        super().build(shape)
        self.kernels = [
            self.add_weight(
                name=f"conv{size}_kernel",
                shape=(width, self.num_heads * size),
                initializer="glorot_uniform",
            )
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
        shares = ops.softmax(ops.convert_to_tensor(self.shares))
        widest = max(self.kernel_sizes)
        total = 0.0
        for place, kernel in enumerate(self.kernels):
            weights = dynamic_weights(value, kernel, self.num_heads) * shares[place]
            edge = (widest - self.kernel_sizes[place]) // 2
            total = total + ops.pad(weights, [(0, 0)] * 3 + [(edge, edge)])
        return total

    def get_config(self):
        return {**super().get_config(), "kernel_sizes": list(self.kernel_sizes)}


def muse_block(num_heads, d_ff, *, kernel_sizes, **kwargs):
    """A block y = LN(x + A(x) + FFN(x)) with A of `MuseAttention`."""
    attention = MuseAttention(
        num_heads, kernel_sizes=kernel_sizes, name="attention", dtype=kwargs["dtype"]
    )
    return TransformerBlock(
        num_heads, d_ff, attention=attention, parallel=True, **kwargs
    )


@keras.saving.register_keras_serializable(package="bat_tf")
class MuseEncoder(EncoderShell):
    """Embeddings and positions → blocks of attention, convolutions and a network.

    With the sizes of S0 and a linear layer of 3 classes it has 894,859 parameters
    beside the embeddings.

    Args:
        vocabulary_size: number of token ids.
        d_model: width of the states.
        kernel_sizes: odd widths of the dynamic convolutions.
        **kwargs: see `EncoderShell`.

    Call arguments and returns: see `BATEncoder`.

    Example:
        >>> import numpy as np
        >>> encoder = MuseEncoder(100, d_model=16, num_heads=2, num_layers=2)
        >>> ids = np.array([[5, 7, 0]])
        >>> states = encoder({"token_ids": ids, "padding_mask": ids > 0})
        >>> len(states), states[-1].shape
        (3, TensorShape([1, 3, 16]))

    Reference:
        Zhao et al., MUSE: parallel multi-scale attention, 2019. The authors let padding
        into the convolutions; here its values are zero.
    """

    def __init__(self, vocabulary_size, d_model=128, *, kernel_sizes=(3, 15), **kwargs):
        super().__init__(vocabulary_size, d_model, **kwargs)
        self.stack(muse_block, kernel_sizes=list(kernel_sizes))
