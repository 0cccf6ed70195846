"""What encoders share that put blocks on embeddings: the stack, and its config."""

import keras

from bat_tf._validation import check_number
from bat_tf.layers.embeddings import TokenEmbedding


class StackedEncoder(keras.layers.Layer):
    """Embeddings → `blocks`, which a subclass makes after it called `embed`.

    Call arguments and returns: see `BATEncoder`.
    """

    def embed(
        self, settings, d_model, embedding_width, embedding_dropout, positions=True
    ):
        """Makes the embeddings and keeps the config.

        Args:
            settings: the subclass' own arguments; they are its config.
            d_model: width of the states.
            embedding_width: width of the embeddings.
            embedding_dropout: rate on them.
            positions: whether the blocks have to be told where a token stands.
        """
        sizes = dict(settings["feature_sizes"] or {})
        self._settings = {**settings, "feature_sizes": sizes}
        self.d_model = d_model
        self.embedding_width = embedding_width
        self.embedding = TokenEmbedding(
            settings["vocabulary_size"],
            embedding_width,
            feature_sizes=sizes,
            positions=positions,
            dropout=embedding_dropout,
            word_dropout=settings["word_dropout"],
            name="embedding",
            dtype=self.dtype_policy,
        )

    def build(self, shape):
        self.embedding.build(shape)
        width = self.embedding_width
        for block in self.blocks:
            block.build((None, None, width))
            width = self.d_model

    def call(self, inputs, training=None):
        states = [self.embedding(inputs, training=training)]
        for block in self.blocks:
            mask = inputs["padding_mask"]
            states.append(block(states[-1], mask, training=training))
        return states

    def get_config(self):
        return {**super().get_config(), **self._settings}


class EncoderShell(StackedEncoder):
    """What the Transformer and its relatives share: embeddings, positions, blocks.

    A subclass calls `stack` with what makes its blocks and with its own settings.

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
        settings = {
            "vocabulary_size": vocabulary_size,
            "d_model": d_model,
            "d_ff": check_number("d_ff", d_ff, low=1, integer=True),
            "num_heads": check_number("num_heads", num_heads, low=1, integer=True),
            "num_layers": check_number("num_layers", num_layers, low=1, integer=True),
            "dropout": dropout,
            "word_dropout": word_dropout,
            "feature_sizes": feature_sizes,
        }
        super().__init__(**kwargs)
        self.embed(settings, d_model, d_model, dropout)

    def stack(self, block, **settings):
        """Makes the blocks.

        Args:
            block: a class or function that is called with the number of heads, the
                hidden width, `dropout`, `name`, `dtype` and `settings`.
            **settings: what the encoder has beyond the shell; part of its config.
        """
        self._settings.update(settings)
        self.blocks = [
            block(
                self._settings["num_heads"],
                self._settings["d_ff"],
                dropout=self._settings["dropout"],
                name=f"block_{number}",
                dtype=self.dtype_policy,
                **settings,
            )
            for number in range(1, self._settings["num_layers"] + 1)
        ]
