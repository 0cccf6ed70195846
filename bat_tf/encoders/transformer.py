"""The Transformer encoder, post-norm, as S0 compares BAT with it and as BERT is."""

import keras

from bat_tf.layers.attention import MultiHeadSelfAttention, project
from bat_tf.layers.embeddings import TokenEmbedding
from bat_tf.layers.normalization import LayerNorm


@keras.saving.register_keras_serializable(package="bat_tf")
class TransformerBlock(keras.layers.Layer):
    """x = LN(x + MHA(x)); x = LN(x + W_2 f(W_1 x)).

    Args:
        num_heads: heads of the attention.
        d_ff: width of the hidden layer.
        activation: name of f.
        dropout: rate after the attention and after the feed-forward network.
        epsilon: of the layer normalisations.
    """

    def __init__(
        self,
        num_heads,
        d_ff,
        *,
        activation="relu",
        dropout=0.0,
        epsilon=1e-6,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.d_ff = d_ff
        self.activation = activation
        self.dropout = dropout
        self.epsilon = epsilon
        shared = {"dtype": self.dtype_policy}
        self.attention = MultiHeadSelfAttention(num_heads, name="attention", **shared)
        self.attention_norm = LayerNorm(epsilon, name="attention_norm", **shared)
        self.output_norm = LayerNorm(epsilon, name="output_norm", **shared)
        self.drop = keras.layers.Dropout(dropout, **shared)
        self._function = keras.activations.get(activation)

    def build(self, shape):
        width = shape[-1]
        for layer in (self.attention, self.attention_norm, self.output_norm):
            layer.build(shape)
        sizes = {"hidden": (width, self.d_ff), "output": (self.d_ff, width)}
        for name, (rows, columns) in sizes.items():
            kernel = self.add_weight(
                name=f"{name}_kernel",
                shape=(rows, columns),
                initializer="glorot_uniform",
            )
            bias = self.add_weight(
                name=f"{name}_bias", shape=(columns,), initializer="zeros"
            )
            setattr(self, f"{name}_weights", (kernel, bias))

    def call(self, x, padding_mask, training=None):
        mixed = self.drop(self.attention(x, padding_mask), training=training)
        x = self.attention_norm(x + mixed)
        hidden = self._function(project(x, *self.hidden_weights))
        mixed = self.drop(project(hidden, *self.output_weights), training=training)
        return self.output_norm(x + mixed)

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "d_ff": self.d_ff,
            "activation": self.activation,
            "dropout": self.dropout,
            "epsilon": self.epsilon,
        }


@keras.saving.register_keras_serializable(package="bat_tf")
class TransformerEncoder(keras.layers.Layer):
    """Embeddings and positions → post-norm Transformer blocks.

    With the sizes of S0 (128, 512, 4 heads, 4 layers) and a linear layer of 3 classes
    it has 793,475 parameters beside the embeddings.

    Args:
        vocabulary_size: number of token ids.
        d_model: width of the states.
        d_ff: width of the hidden layers.
        num_heads: heads of the attention.
        num_layers: number of blocks.
        dropout: rate after each part and after the embeddings.
        word_dropout: share of tokens that training hides, see `TokenEmbedding`.
        feature_sizes: name → number of values of each feature of the tokens.

    Call arguments and returns: see `BATEncoder`.
    """

    def __init__(
        self,
        vocabulary_size,
        d_model=128,
        *,
        d_ff=512,
        num_heads=4,
        num_layers=4,
        dropout=0.0,
        word_dropout=0.0,
        feature_sizes=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self._settings = {
            "vocabulary_size": vocabulary_size,
            "d_model": d_model,
            "d_ff": d_ff,
            "num_heads": num_heads,
            "num_layers": num_layers,
            "dropout": dropout,
            "word_dropout": word_dropout,
            "feature_sizes": dict(feature_sizes or {}),
        }
        self.d_model = d_model
        shared = {"dtype": self.dtype_policy}
        self.embedding = TokenEmbedding(
            vocabulary_size,
            d_model,
            feature_sizes=feature_sizes,
            dropout=dropout,
            word_dropout=word_dropout,
            name="embedding",
            **shared,
        )
        self.blocks = [
            TransformerBlock(
                num_heads, d_ff, dropout=dropout, name=f"block_{number}", **shared
            )
            for number in range(1, num_layers + 1)
        ]

    def build(self, shape):
        self.embedding.build(shape)
        for block in self.blocks:
            block.build((None, None, self.d_model))

    def call(self, inputs, training=None):
        states = [self.embedding(inputs, training=training)]
        for block in self.blocks:
            mask = inputs["padding_mask"]
            states.append(block(states[-1], mask, training=training))
        return states

    def get_config(self):
        return {**super().get_config(), **self._settings}
