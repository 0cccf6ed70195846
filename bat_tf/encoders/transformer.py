"""The Transformer encoder, post-norm, as BAT's paper compares with it and BERT is."""

import keras

from bat_tf.encoders.stacked import TransformerStack
from bat_tf.layers.attention import MultiHeadSelfAttention
from bat_tf.layers.block import WeightedLayer, on_tokens, real_tokens
from bat_tf.layers.normalization import LayerNorm


@keras.saving.register_keras_serializable(package="bat_tf")
class TransformerBlock(WeightedLayer):
    """x = LN(x + MHA(x)); x = LN(x + W_2 f(W_1 x)).

    Its relatives have other layers in the place of MHA or of the feed-forward network.

    Args:
        num_heads: heads of the attention.
        d_ff: width of the hidden layer.
        activation: f, by its name in Keras.
        dropout: rate after the attention and after the feed-forward network.
        epsilon: of the layer normalisations.
        attention: a layer of (x, padding_mask) in the place of MHA.
        feed_forward: a layer of (x, padding_mask) in the place of W_2 f(W_1 x).
        parallel: whether both parts read x, with one LN for their sum.
        **kwargs: initializers, regularizers and constraints of kernels and biases, as
            in `keras.layers.Dense`; `name`, `dtype`, `trainable`.
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
        self.attention = attention or MultiHeadSelfAttention(
            num_heads, name="attention", **self.weight_settings()
        )
        self.feed_forward = feed_forward
        self.parallel = parallel
        shared = {"dtype": self.dtype_policy}
        self.attention_norm = None
        if not parallel:
            self.attention_norm = LayerNorm(epsilon, name="attention_norm", **shared)
        self.output_norm = LayerNorm(epsilon, name="output_norm", **shared)
        self.drop = keras.layers.Dropout(dropout, **shared)

    def build(self, shape):
        width = shape[-1]
        norms = (self.attention_norm, self.output_norm)
        for layer in (self.attention, *norms, self.feed_forward):
            if layer is not None and not layer.built:
                layer.build(shape)
        if self.feed_forward is None:
            self.hidden_dense = self.dense(
                "hidden", width, self.d_ff, activation=self.activation
            )
            self.output_dense = self.dense("output", self.d_ff, width)

    def call(self, x, padding_mask=None, mask=None, training=None):
        real = real_tokens(x, padding_mask, mask)
        if self.parallel:
            mixed = self.attend(x, real, training)
            return self.output_norm(x + mixed + self.transform(x, real, training))
        x = self.attention_norm(x + self.attend(x, real, training))
        return self.output_norm(x + self.transform(x, real, training))

    def attend(self, x, padding_mask, training):
        """The first sub-layer, without its residual."""
        mixed = self.attention(x, padding_mask, training=training)
        return self.drop(mixed, training=training)

    def transform(self, x, padding_mask, training):
        """The second sub-layer, without its residual."""
        if self.feed_forward is not None:
            y = self.feed_forward(x, padding_mask, training=training)
        else:
            y = on_tokens(lambda rows: self.output_dense(self.hidden_dense(rows)), x)
        return self.drop(y, training=training)


@keras.saving.register_keras_serializable(package="bat_tf")
class TransformerEncoder(TransformerStack):
    """Embeddings and positions → post-norm Transformer blocks.

    With the sizes of BAT's paper (128, 512, 4 heads, 4 layers) and a linear layer of 3
    classes it has 793,475 parameters beside the embeddings.

    Args:
        vocabulary_size: number of token ids.
        d_model: width of the states.
        **kwargs: see `TransformerStack`.

    Call arguments and returns: see `BATEncoder`.
    """

    def __init__(self, vocabulary_size, d_model=128, **kwargs):
        super().__init__(vocabulary_size, d_model, **kwargs)
        self.stack(TransformerBlock)
