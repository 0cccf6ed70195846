"""The Transformer encoder, post-norm, as S0 compares BAT with it and as BERT is."""

import keras

from bat_tf.encoders.shell import EncoderShell
from bat_tf.layers.attention import MultiHeadSelfAttention, project
from bat_tf.layers.normalization import LayerNorm


@keras.saving.register_keras_serializable(package="bat_tf")
class TransformerBlock(keras.layers.Layer):
    """x = LN(x + MHA(x)); x = LN(x + W_2 f(W_1 x)).

    Its relatives have other layers in the place of MHA or of the feed-forward network.

    Args:
        num_heads: heads of the attention.
        d_ff: width of the hidden layer.
        activation: name of f.
        dropout: rate after the attention and after the feed-forward network.
        epsilon: of the layer normalisations.
        attention: a layer of (x, padding_mask) in the place of MHA.
        feed_forward: a layer of (x, padding_mask) in the place of W_2 f(W_1 x).
        parallel: whether both parts read x, with one LN for their sum.
    """

    def __init__(
        self,
        num_heads,
        d_ff,
        *,
        activation="relu",
        dropout=0.0,
        epsilon=1e-6,
        attention=None,
        feed_forward=None,
        parallel=False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.d_ff = d_ff
        self.activation = activation
        self.dropout = dropout
        self.epsilon = epsilon
        self._parts = {"attention": attention, "feed_forward": feed_forward}
        shared = {"dtype": self.dtype_policy}
        self.attention = attention or MultiHeadSelfAttention(
            num_heads, name="attention", **shared
        )
        self.feed_forward = feed_forward
        self.parallel = parallel
        self.attention_norm = None
        if not parallel:
            self.attention_norm = LayerNorm(epsilon, name="attention_norm", **shared)
        self.output_norm = LayerNorm(epsilon, name="output_norm", **shared)
        self.drop = keras.layers.Dropout(dropout, **shared)
        self._function = keras.activations.get(activation)

    def build(self, shape):
        width = shape[-1]
        parts = (self.attention, self.attention_norm, self.output_norm)
        for layer in (*parts, self.feed_forward):
            if layer is not None:
                layer.build(shape)
        if self.feed_forward is not None:
            return
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
        if self.parallel:
            mixed = self.attend(x, padding_mask, training)
            return self.output_norm(
                x + mixed + self.transform(x, padding_mask, training)
            )
        x = self.attention_norm(x + self.attend(x, padding_mask, training))
        return self.output_norm(x + self.transform(x, padding_mask, training))

    def attend(self, x, padding_mask, training):
        """The first sub-layer, without its residual."""
        mixed = self.attention(x, padding_mask, training=training)
        return self.drop(mixed, training=training)

    def transform(self, x, padding_mask, training):
        """The second sub-layer, without its residual."""
        if self.feed_forward is not None:
            y = self.feed_forward(x, padding_mask, training=training)
        else:
            hidden = self._function(project(x, *self.hidden_weights))
            y = project(hidden, *self.output_weights)
        return self.drop(y, training=training)

    def get_config(self):
        parts = {
            name: part and keras.saving.serialize_keras_object(part)
            for name, part in self._parts.items()
        }
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "d_ff": self.d_ff,
            "activation": self.activation,
            "dropout": self.dropout,
            "epsilon": self.epsilon,
            "parallel": self.parallel,
            **parts,
        }

    @classmethod
    def from_config(cls, config):
        config = dict(config)
        for name in ("attention", "feed_forward"):
            if config.get(name):
                config[name] = keras.saving.deserialize_keras_object(config[name])
        return cls(**config)


@keras.saving.register_keras_serializable(package="bat_tf")
class TransformerEncoder(EncoderShell):
    """Embeddings and positions → post-norm Transformer blocks.

    With the sizes of S0 (128, 512, 4 heads, 4 layers) and a linear layer of 3 classes
    it has 793,475 parameters beside the embeddings.

    Args:
        vocabulary_size: number of token ids.
        d_model: width of the states.
        **kwargs: `d_ff`, `num_heads`, `num_layers`, `dropout`, `word_dropout` and
            `feature_sizes`, see `EncoderShell`.

    Call arguments and returns: see `BATEncoder`.
    """

    def __init__(self, vocabulary_size, d_model=128, **kwargs):
        super().__init__(vocabulary_size, d_model, **kwargs)
        self.stack(TransformerBlock)
