"""The encoder of AttentionXML: a bidirectional LSTM."""

import keras
from keras import ops

from bat_tf._internal.validation import sentence
from bat_tf.encoders.stacked import StackedEncoder


@keras.saving.register_keras_serializable(package="bat_tf")
class BiLSTMEncoder(StackedEncoder):
    """Embeddings → layers of LSTM that read the text from both ends.

    With an `ExpertClassifier` of the expert `A-1` it is AttentionXML's model:
    `examples/recipes/extreme_attention_xml.yaml`.

    Padding: masked tokens leave the state of both directions as it is, and their own
    states are 0.

    Args:
        vocabulary_size: number of token ids.
        d_model: width of the states; each direction has half of it.
        embedding_width: width of the embeddings, which are the states of layer 0.
        num_layers: number of bidirectional layers.
        embedding_dropout: rate on the embeddings.
        dropout: rate on the states of each layer.
        **kwargs: see `StackedEncoder`.

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
        AttentionXML, You et al. 2019; a baseline of ME-XML. There, the embeddings are
        those of GloVe and stay as they are; here they are learnt.
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
        **kwargs,
    ):
        if d_model % 2:
            expected = "even: each direction has half of it"
            raise ValueError(sentence("d_model", expected, d_model))
        super().__init__(vocabulary_size, **kwargs)
        self.d_model = d_model
        self.embedding_width = embedding_width
        self.num_layers = num_layers
        self.embedding_dropout = embedding_dropout
        self.dropout = dropout
        # An LSTM knows what came before: no positions.
        self.embed(embedding_width, embedding_dropout, positions=False)
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
            mixed = ops.where(mask[..., None], mixed, ops.zeros_like(mixed))
            states.append(self.drop(mixed, training=training))
        return states
