"""Token ids → states: words, features of words, positions."""

import keras
import numpy as np
from keras import ops

from bat_tf._internal.configured import Configured
from bat_tf.layers.block import another

UNKNOWN_ID = 1  # what word dropout puts in the place of a token


def sinusoid(length, width):
    """Sinusoidal positions [length, width], sines and cosines interleaved.

    They are computed, not looked up, so that no text is too long.

    >>> print(sinusoid(2, 2).numpy().round(3))
    [[0.    1.   ]
     [0.841 0.54 ]]
    """
    channels = np.arange(width)
    rates = 10000.0 ** (-2.0 * (channels // 2) / width)
    # cos(x) = sin(x + π/2) makes one function of all channels.
    shifts = (channels % 2) * np.pi / 2
    places = ops.cast(ops.arange(length), "float32")[:, None]
    return ops.sin(places * rates.astype("float32") + shifts.astype("float32"))


@keras.saving.register_keras_serializable(package="bat_tf")
class TokenEmbedding(Configured, keras.layers.Layer):
    """Adds up the embeddings of a token and of its features, and its position.

    Args:
        vocabulary_size: number of token ids; None if states come from elsewhere and
            only features and positions are added to them.
        d_model: width of the embeddings.
        feature_sizes: name → number of values, see `TextTokenizer.feature_sizes`.
        positions: whether to add sinusoidal positions.
        dropout: rate on the sum.
        word_dropout: share of tokens that training replaces by the unknown one, so
            that the model learns what to do with words it has never seen. Their
            features stay.
        embeddings_initializer: of every table; by default normal with deviation
            1/√d_model.
        embeddings_regularizer: of every table.

    Call arguments:
        inputs: dict with `token_ids` [B, T] and each feature [B, T]; `perturbation`
            [B, T, D], if there is one, is added to the sum. `padding_mask` [B, T], if
            there is one, becomes Keras' mask of the states.
        states: [B, T, D] to start from in place of token embeddings.
    """

    def __init__(
        self,
        vocabulary_size,
        d_model,
        *,
        feature_sizes=None,
        positions=True,
        dropout=0.0,
        word_dropout=0.0,
        embeddings_initializer=None,
        embeddings_regularizer=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.vocabulary_size = vocabulary_size
        self.d_model = d_model
        self.feature_sizes = dict(feature_sizes or {})
        self.positions = positions
        self.dropout = dropout
        self.word_dropout = word_dropout
        self.seed_generator = keras.random.SeedGenerator()
        self.drop = keras.layers.Dropout(dropout, dtype=self.dtype_policy)
        self.embeddings_initializer = keras.initializers.get(
            embeddings_initializer
            or keras.initializers.RandomNormal(stddev=d_model**-0.5)
        )
        self.embeddings_regularizer = keras.regularizers.get(embeddings_regularizer)
        sizes = {**self.feature_sizes}
        if vocabulary_size is not None:
            sizes["token_ids"] = vocabulary_size
        self.tables = {
            name: keras.layers.Embedding(
                size,
                d_model,
                embeddings_initializer=another(self.embeddings_initializer),
                embeddings_regularizer=self.embeddings_regularizer,
                dtype=self.dtype_policy,
                name=f"{name}_embedding",
            )
            for name, size in sorted(sizes.items())
        }

    def build(self, shape):
        for table in self.tables.values():
            table.build(None)

    def compute_mask(self, inputs, previous_mask):
        return inputs.get("padding_mask")

    def call(self, inputs, states=None, training=None):
        parts = [] if states is None else [ops.cast(states, self.compute_dtype)]
        for name, table in self.tables.items():
            ids = inputs[name]
            if name == "token_ids" and self.word_dropout and training:
                draw = keras.random.uniform(ops.shape(ids), seed=self.seed_generator)
                ids = ops.where(draw < self.word_dropout, UNKNOWN_ID, ids)
            # Times √d, as in the Transformer: positions would drown smaller values.
            parts.append(table(ids) * self.d_model**0.5)
        total = sum(parts[1:], parts[0])
        if self.positions:
            places = sinusoid(ops.shape(total)[1], self.d_model)
            total = total + ops.cast(places, self.compute_dtype)
        if "perturbation" in inputs:
            total = total + ops.cast(inputs["perturbation"], self.compute_dtype)
        return self.drop(total, training=training)
