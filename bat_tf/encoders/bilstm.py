"""The encoder of AttentionXML: a bidirectional LSTM."""

import keras
from keras import ops

from bat_tf._validation import sentence
from bat_tf.encoders.shell import StackedEncoder


@keras.saving.register_keras_serializable(package="bat_tf")
class BiLSTMEncoder(StackedEncoder):
    """Embeddings → layers of LSTM that read the text from both ends.

    With an `ExpertClassifier` of the expert `A-1` it is AttentionXML's model:
    `examples/configs/yso_attention_xml.yaml`.

    Padding: masked tokens leave the state of both directions as it is, and their own
    states are 0.

    Args:
        vocabulary_size: number of token ids.
        d_model: width of the states; each direction has half of it.
        embedding_width: width of the embeddings, which are the states of layer 0.
        num_layers: number of bidirectional layers.
        embedding_dropout: rate on the embeddings.
        dropout: rate on the states of each layer.
        word_dropout: share of tokens that training hides, see `TokenEmbedding`.
        feature_sizes: name → number of values of each feature of the tokens.

    Call arguments:
        inputs: see `BATEncoder`.

    Returns:
        List of states: embeddings [B, T, embedding_width], then [B, T, d_model] for
        each layer.

    Example:
        >>> import numpy as np
        >>> encoder = BiLSTMEncoder(100, d_model=16, embedding_width=8)
        >>> ids = np.array([[5, 7, 0]])
        >>> states = encoder({"token_ids": ids, "padding_mask": ids > 0})
        >>> [tuple(state.shape) for state in states]
        [(1, 3, 8), (1, 3, 16)]

    Reference:
        AttentionXML, You et al. 2019; a baseline of S3. There, the embeddings are those
        of GloVe and stay as they are; here they are learnt.
    """

    def __init__(
        self,
        vocabulary_size,
        d_model=512,
        *,
        embedding_width=300,
        num_layers=1,
        embedding_dropout=0.2,
        dropout=0.5,
        word_dropout=0.0,
        feature_sizes=None,
        **kwargs,
    ):
        if d_model % 2:
            expected = "even: each direction has half of it"
            raise ValueError(sentence("d_model", expected, d_model))
        settings = {
            "vocabulary_size": vocabulary_size,
            "d_model": d_model,
            "embedding_width": embedding_width,
            "num_layers": num_layers,
            "embedding_dropout": embedding_dropout,
            "dropout": dropout,
            "word_dropout": word_dropout,
            "feature_sizes": feature_sizes,
        }
        super().__init__(**kwargs)
        # An LSTM knows what came before: no positions.
        self.embed(
            settings, d_model, embedding_width, embedding_dropout, positions=False
        )
        shared = {"dtype": self.dtype_policy}
        self.blocks = [
            keras.layers.Bidirectional(
                keras.layers.LSTM(d_model // 2, return_sequences=True, **shared),
                name=f"lstm_{number}",
                **shared,
            )
            for number in range(1, num_layers + 1)
        ]
        self.drop = keras.layers.Dropout(dropout, **shared)

    def call(self, inputs, training=None):
        mask = ops.cast(inputs["padding_mask"], "bool")
        states = [self.embedding(inputs, training=training)]
        for block in self.blocks:
            mixed = block(states[-1], mask=mask, training=training)
            # The result of a function, unlike that of a layer, has no mask of Keras on
            # it, which the layers that are given `padding_mask` would warn about.
            mixed = ops.where(mask[..., None], mixed, ops.zeros_like(mixed))
            states.append(self.drop(mixed, training=training))
        return states
