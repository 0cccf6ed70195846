"""The encoder of XML-CNN: convolutions of several widths side by side."""

import keras
from keras import ops

from bat_tf._internal.validation import sentence
from bat_tf.encoders.stacked import StackedEncoder
from bat_tf.layers.block import Weighted, WeightedLayer, real_tokens
from bat_tf.layers.mfsa import convolution, convolve


@keras.saving.register_keras_serializable(package="bat_tf")
class Convolutions(WeightedLayer):
    """ReLU of convolutions over time, side by side: [B, T, D] → [B, T, widths · E].

    Padding: masked tokens are zero in front of the convolutions, as what lies beyond
    the ends of a text is.

    Args:
        filters: E of each width.
        kernel_sizes: widths, in tokens. An even one sees one token more of those that
            follow than of those before.
        **kwargs: initializers, regularizers and constraints of kernels and biases, as
            in `keras.layers.Dense`; `name`, `dtype`, `trainable`.
    """

    def __init__(self, filters, kernel_sizes, **kwargs):
        super().__init__(**kwargs)
        self.filters = filters
        self.kernel_sizes = tuple(kernel_sizes)
        if not self.kernel_sizes or min(self.kernel_sizes) < 1:
            expected = "one width or more, each at least 1"
            raise ValueError(sentence("kernel_sizes", expected, kernel_sizes))

    def build(self, shape):
        self.convolutions = [
            convolution(shape, self.filters, size, **self.weight_settings())
            for size in self.kernel_sizes
        ]

    def compute_output_shape(self, shape):
        return (*shape[:-1], self.filters * len(self.kernel_sizes))

    def call(self, x, padding_mask=None, mask=None, training=None):
        real = ops.expand_dims(real_tokens(x, padding_mask, mask), -1)
        seen = ops.where(real, x, ops.zeros_like(x))
        found = [convolve(layer, seen) for layer in self.convolutions]
        return ops.concatenate(found, axis=-1)


@keras.saving.register_keras_serializable(package="bat_tf")
class CNNEncoder(Weighted, StackedEncoder):
    """Embeddings → convolutions over time.

    With a `LabelClassifier` of `pooling="chunks"`, `hidden_width=512` and
    `head_dropout=0.5` it is XML-CNN: `examples/recipes/extreme_xml_cnn.yaml`.

    Padding: masked tokens change nothing about the others, whatever the widths.

    Args:
        vocabulary_size: number of token ids.
        filters: of each width; 128 for small, 32 for large label sets. The states are
            as wide as the filters of all widths together, `d_model`.
        kernel_sizes: widths of the convolutions, in tokens.
        embedding_width: width of the embeddings, which are the states of layer 0.
        num_layers: number of such layers.
        dropout: rate on the embeddings.
        **kwargs: see `StackedEncoder`; and initializers, regularizers and constraints
            of the convolutions, as in `keras.layers.Dense`.

    Call arguments:
        inputs: see `BATEncoder`.

    Returns:
        List of states: embeddings [B, T, embedding_width], then [B, T, d_model] for
        each layer.

    Example:
        >>> import numpy as np
        >>> encoder = CNNEncoder(100, filters=4, embedding_width=8)
        >>> ids = np.array([[5, 7, 0]])
        >>> states = encoder({"token_ids": ids, "padding_mask": ids > 0})
        >>> [tuple(state.shape) for state in states]
        [(1, 3, 8), (1, 3, 12)]

    Reference:
        XML-CNN, Liu et al. 2017; a baseline of ME-XML. There, a convolution has no
        state where it would reach beyond an end of the text; here every token has one.
    """

    def __init__(
        self,
        vocabulary_size,
        filters=128,
        *,
        kernel_sizes=(2, 4, 8),
        embedding_width=300,
        num_layers=1,
        dropout=0.0,
        **kwargs,
    ):
        super().__init__(vocabulary_size=vocabulary_size, **kwargs)
        self.filters = filters
        self.kernel_sizes = tuple(kernel_sizes)
        self.embedding_width = embedding_width
        self.num_layers = num_layers
        self.dropout = dropout
        self.d_model = filters * len(self.kernel_sizes)
        self.embed(embedding_width, dropout, positions=False)
        self.blocks = [
            Convolutions(
                filters,
                kernel_sizes,
                name=f"convolutions_{number}",
                **self.weight_settings(),
            )
            for number in range(1, num_layers + 1)
        ]
