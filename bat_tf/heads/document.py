"""A document's state → a score for each label, or for some of them."""

import keras
import numpy as np
from keras import ops

from bat_tf._internal.numerics import at_least_float32
from bat_tf._internal.validation import check_number
from bat_tf.heads.head import Head, chosen_labels, states_mask
from bat_tf.layers.pooling import Pooling


@keras.saving.register_keras_serializable(package="bat_tf")
class DocumentHead(Head):
    """Scores labels from the pooled states of a text, as ME-XML's document experts do.

        x = pool(states)     logit_j = w_j · relu(x K + b) + c_j

    The output weights have a row for each label, so that a few labels cost no more than
    their rows.

    Args:
        num_labels: L.
        layers: which states it pools, side by side.
        pooling: see `Pooling`.
        num_chunks: see `Pooling`.
        width: of the hidden layer; 0 for none.
        dropout: rate in front of the layer that scores labels.
        learnt_threshold: whether it has one more score, the threshold of each text,
            which is taken off all others: for TLPR.

    Call arguments: see `Head`. With `candidates` among the inputs, [C], only these
    labels are scored.

    Returns:
        Logits [B, L], or [B, C], at least float32.

    Example:
        >>> import numpy as np
        >>> head = DocumentHead(1000, width=8)
        >>> states = [np.ones((2, 3, 4))]
        >>> inputs = {"padding_mask": np.ones((2, 3), bool)}
        >>> head(states, inputs).shape
        TensorShape([2, 1000])
        >>> head(states, {**inputs, "candidates": np.array([7, 9])}).shape
        TensorShape([2, 2])

    Reference:
        ME-XML: D-12 is `layers=[12], width=d`.
    """

    def __init__(
        self,
        num_labels,
        *,
        layers=(-1,),
        pooling="mean",
        num_chunks=8,
        width=0,
        dropout=0.0,
        learnt_threshold=False,
        **kwargs,
    ):
        super().__init__(layers, **kwargs)
        self.num_labels = check_number("num_labels", num_labels, low=1, integer=True)
        self.width = check_number("width", width, low=0, integer=True)
        self.pooling = pooling
        self.num_chunks = num_chunks
        self.dropout = dropout
        self.learnt_threshold = bool(learnt_threshold)
        self.pool = Pooling(
            pooling, num_chunks, name="pooling", dtype=self.dtype_policy
        )
        self.drop = keras.layers.Dropout(dropout, name="dropout")
        self.hidden = None
        if width:
            self.hidden = keras.layers.Dense(
                width, "relu", name="hidden", dtype=self.dtype_policy
            )

    def build(self, states_shape, inputs_shape=None):
        states = self.read_shape(states_shape)
        self.pool.build(states)
        width = states[-1] * (self.num_chunks if self.pooling == "chunks" else 1)
        if self.hidden is not None:
            self.hidden.build((None, width))
        rows = self.num_labels + self.learnt_threshold
        self.label_kernel = self.add_weight(
            name="label_kernel",
            shape=(rows, self.width or width),
            initializer="glorot_uniform",
        )
        self.label_bias = self.add_weight(
            name="label_bias", shape=(rows,), initializer="zeros"
        )
        super().build(states_shape)

    def document(self, states, inputs):
        """The pooled states of its layers: [B, D]."""
        return self.pool(self.read(states), states_mask(inputs))

    def features(self, states, inputs):
        """What the rows of the labels are multiplied with: [B, width]."""
        state = self.document(states, inputs)
        return state if self.hidden is None else self.hidden(state)

    def call(self, states, inputs, training=None):
        x = self.drop(self.features(states, inputs), training=training)
        rows, bias = self.label_kernel, self.label_bias
        labels = chosen_labels(inputs)
        if labels is not None:
            rows, bias = ops.take(rows, labels, axis=0), ops.take(bias, labels)
        logits = at_least_float32(ops.matmul(x, ops.transpose(rows)))
        logits = logits + at_least_float32(bias)
        if self.learnt_threshold:
            logits = logits[:, :-1] - logits[:, -1:]
        return logits

    def start_from_counts(self, labels):
        """Begins at how frequent labels are: log(n / (N - n)).

        Args:
            labels: a `LabelSpace` with counts.
        """
        # Behind the labels there may be a threshold, which begins at 0.
        bias = np.pad(log_odds(labels), (0, int(self.learnt_threshold)))
        self.label_bias.assign(bias)

    def start_from_names(self, features, strength):
        """Begins with the guess that a text gets the labels whose names it is like.

        Args:
            features: [L, width], what `features` makes of the states of the names.
            strength: the logit, above the bias, of a text that is just like a name;
                it falls with the cosine between them.
        """
        lengths = np.linalg.norm(features, axis=1, keepdims=True)
        rows = features / np.maximum(lengths, 1e-6)
        rows = strength * rows / max(lengths.mean(), 1e-6)
        self.label_kernel.assign(
            np.pad(rows, [(0, int(self.learnt_threshold)), (0, 0)])
        )


def log_odds(labels):
    """How frequent labels are, as logits: log(n / (N - n)), finite for every n."""
    counts = np.maximum(labels.counts, 0.5)
    return np.log(counts / np.maximum(labels.num_examples - counts, 0.5))
