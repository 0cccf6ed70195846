"""The encoder of XML-CNN: convolutions of several widths side by side."""

import keras
from keras import ops

from bat_tf._validation import sentence
from bat_tf.encoders.shell import StackedEncoder
from bat_tf.layers.mfsa import convolve


@keras.saving.register_keras_serializable(package="bat_tf")
class Convolutions(keras.layers.Layer):
    """ReLU of convolutions over time, side by side: [B, T, D] → [B, T, widths · E].

    Padding: masked tokens are zero in front of the convolutions, as what lies beyond
    the ends of a text is.

    Args:
        filters: E of each width.
        kernel_sizes: widths, in tokens. An even one sees one token more of those that
            follow than of those before.
    """

    def __init__(self, filters, kernel_sizes, **kwargs):
        super().__init__(**kwargs)
        self.filters = filters
        self.kernel_sizes = tuple(kernel_sizes)
        if not self.kernel_sizes or min(self.kernel_sizes) < 1:
            expected = "one width or more, each at least 1"
            raise ValueError(sentence("kernel_sizes", expected, kernel_sizes))

    def build(self, shape):
        width = shape[-1]
        # [size · D, E]: the kernels of `size` neighbours, one below the other.
        self.kernels, self.biases = [], []
        for size in self.kernel_sizes:
            limit = (6 / (size * (width + self.filters))) ** 0.5  # Glorot
            kernel = self.add_weight(
                name=f"conv{size}_kernel",
                shape=(size * width, self.filters),
                initializer=keras.initializers.RandomUniform(-limit, limit),
            )
            bias = self.add_weight(
                name=f"conv{size}_bias", shape=(self.filters,), initializer="zeros"
            )
            self.kernels.append(kernel)
            self.biases.append(bias)

    def call(self, x, padding_mask, training=None):
        real = ops.expand_dims(ops.cast(padding_mask, "bool"), -1)
        seen = ops.where(real, x, ops.zeros_like(x))
        found = [
            ops.relu(convolve(seen, kernel, bias))
            for kernel, bias in zip(self.kernels, self.biases, strict=True)
        ]
        return ops.concatenate(found, axis=-1)

    def get_config(self):
        config = {"filters": self.filters, "kernel_sizes": list(self.kernel_sizes)}
        return {**super().get_config(), **config}


@keras.saving.register_keras_serializable(package="bat_tf")
class CNNEncoder(StackedEncoder):
    """Embeddings → convolutions over time.

    With a `LabelClassifier` of `pooling="chunks"`, `hidden_width=512` and
    `head_dropout=0.5` it is XML-CNN: `examples/configs/yso_xml_cnn.yaml`.

    Padding: masked tokens change nothing about the others, whatever the widths.

    Args:
        vocabulary_size: number of token ids.
        filters: of each width; 128 for small, 32 for large label sets. The states are
            as wide as the filters of all widths together, `d_model`.
        kernel_sizes: widths of the convolutions, in tokens.
        embedding_width: width of the embeddings, which are the states of layer 0.
        num_layers: number of such layers.
        dropout: rate on the embeddings.
        word_dropout: share of tokens that training hides, see `TokenEmbedding`.
        feature_sizes: name → number of values of each feature of the tokens.

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
        XML-CNN, Liu et al. 2017; a baseline of S3. There, a convolution has no state
        where it would reach beyond an end of the text; here every token has one.
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
        word_dropout=0.0,
        feature_sizes=None,
        **kwargs,
    ):
        settings = {
            "vocabulary_size": vocabulary_size,
            "filters": filters,
            "kernel_sizes": list(kernel_sizes),
            "embedding_width": embedding_width,
            "num_layers": num_layers,
            "dropout": dropout,
            "word_dropout": word_dropout,
            "feature_sizes": feature_sizes,
        }
        d_model = filters * len(settings["kernel_sizes"])
        super().__init__(**kwargs)
        self.embed(settings, d_model, embedding_width, dropout, positions=False)
        self.blocks = [
            Convolutions(
                filters,
                kernel_sizes,
                name=f"convolutions_{number}",
                dtype=self.dtype_policy,
            )
            for number in range(1, num_layers + 1)
        ]
