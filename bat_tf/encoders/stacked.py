"""What encoders share that put blocks on embeddings: the stack."""

import keras

from bat_tf._internal.configured import Configured
from bat_tf._internal.validation import check_number
from bat_tf.layers.block import Weighted
from bat_tf.layers.embeddings import TokenEmbedding


class StackedEncoder(Configured, keras.layers.Layer):
    """Embeddings → `blocks`, which a subclass makes after it called `embed`.

    Keras' mask of every state is the padding mask: whatever is put on an encoder, a
    stock loss included, knows which tokens are padding.

    Args:
        vocabulary_size: number of token ids.
        word_dropout: share of tokens that training hides, see `TokenEmbedding`.
        feature_sizes: name → number of values of each feature of the tokens.
        **kwargs: `name`, `dtype`, `trainable`.

    Call arguments and returns: see `BATEncoder`.
    """

    def __init__(
        self, vocabulary_size, *, word_dropout=0.0, feature_sizes=None, **kwargs
    ):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.vocabulary_size = vocabulary_size
        self.word_dropout = word_dropout
        self.feature_sizes = dict(feature_sizes or {})

    def embed(self, width, dropout, positions):
        """Makes the embeddings, for the vocabulary and the features of the encoder.

        Args:
            width: of the embeddings.
            dropout: rate on them.
            positions: whether the blocks have to be told where a token stands.
        """
        self.embedding = TokenEmbedding(
            self.vocabulary_size,
            width,
            feature_sizes=self.feature_sizes,
            positions=positions,
            dropout=dropout,
            word_dropout=self.word_dropout,
            name="embedding",
            dtype=self.dtype_policy,
        )

    def build(self, shape):
        self.embedding.build(shape)
        width = self.embedding.d_model
        for block in self.blocks:
            block.build((None, None, width))
            width = self.d_model

    def call(self, inputs, training=None):
        mask = inputs["padding_mask"]
        states = [self.first_states(inputs, training)]
        for block in self.blocks:
            states.append(block(states[-1], mask=mask, training=training))
        return states

    def first_states(self, inputs, training):
        """What the first block reads."""
        return self.embedding(inputs, training=training)

    def compute_mask(self, inputs, previous_mask):
        return [inputs["padding_mask"]] * (1 + len(self.blocks))


class TransformerStack(Weighted, StackedEncoder):
    """What the Transformer and its relatives share: embeddings, positions, blocks.

    A subclass calls `stack` with what makes its blocks.

    Args:
        vocabulary_size: number of token ids.
        d_model: width of the states.
        d_ff: width of the hidden layers.
        num_heads: heads of the attention.
        num_layers: number of blocks.
        dropout: rate after each part and after the embeddings.
        positions: whether to add sinusoidal positions.
        **kwargs: `word_dropout` and `feature_sizes`, see `StackedEncoder`; and
            initializers, regularizers and constraints of the blocks' kernels and
            biases, as in `keras.layers.Dense`.

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
        positions=True,
        **kwargs,
    ):
        super().__init__(vocabulary_size=vocabulary_size, **kwargs)
        self.d_model = d_model
        self.d_ff = check_number("d_ff", d_ff, low=1, integer=True)
        self.num_heads = check_number("num_heads", num_heads, low=1, integer=True)
        self.num_layers = check_number("num_layers", num_layers, low=1, integer=True)
        self.dropout = dropout
        self.positions = positions
        self.embed(d_model, dropout, positions)

    def stack(self, block, parts=None, **settings):
        """Makes the blocks.

        Args:
            block: the class of a block.
            parts: argument of a block → what makes the layer that stands there, in
                the place of the usual one.
            **settings: of the block, beyond those that all blocks have.
        """
        self.blocks = []
        for number in range(1, self.num_layers + 1):
            made = {
                name: make(name=name, **self.weight_settings())
                for name, make in (parts or {}).items()
            }
            self.blocks.append(
                block(
                    self.num_heads,
                    self.d_ff,
                    dropout=self.dropout,
                    name=f"block_{number}",
                    **self.weight_settings(),
                    **made,
                    **settings,
                )
            )
