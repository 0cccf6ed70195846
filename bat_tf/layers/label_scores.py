"""A document's state → a score for each label, or for some of them."""

import keras
import numpy as np
from keras import ops

from bat_tf._numerics import at_least_float32
from bat_tf._validation import check_number


@keras.saving.register_keras_serializable(package="bat_tf")
class LabelScores(keras.layers.Layer):
    """An MLP from a state to labels: logit_j = w_j · relu(x K + b) + c_j.

    The output weights have a row for each label, so that a few labels cost no more than
    their rows.

    Args:
        num_labels: L.
        width: of the hidden layer; 0 for none.

    Call arguments:
        states: [B, D].
        labels: optional label ids, [C] for all states alike or [B, C]; only these are
            scored.

    Returns:
        Logits [B, L], or [B, C], at least float32.

    Example:
        >>> import numpy as np
        >>> layer = LabelScores(1000, width=8)
        >>> states = np.ones((2, 4))
        >>> layer(states).shape, layer(states, labels=np.array([7, 9])).shape
        (TensorShape([2, 1000]), TensorShape([2, 2]))

    Reference:
        S3's document experts, D-12: d → d → L.
    """

    def __init__(self, num_labels, width=0, **kwargs):
        super().__init__(**kwargs)
        self.num_labels = check_number("num_labels", num_labels, low=1, integer=True)
        self.width = check_number("width", width, low=0, integer=True)
        self.hidden = None
        if width:
            self.hidden = keras.layers.Dense(
                width, "relu", name="hidden", dtype=self.dtype_policy
            )

    def build(self, shape, *_):
        if self.hidden is not None:
            self.hidden.build(shape)
        self.label_kernel = self.add_weight(
            name="label_kernel",
            shape=(self.num_labels, self.width or shape[-1]),
            initializer="glorot_uniform",
        )
        self.label_bias = self.add_weight(
            name="label_bias", shape=(self.num_labels,), initializer="zeros"
        )

    def start_from_names(self, features, strength):
        """Begins with the guess that a text gets the labels whose names it is like.

        Args:
            features: [L, width], what `features` makes of the states of the names.
            strength: the logit, above the bias, of a text that is just like a name;
                it falls with the cosine between them.
        """
        lengths = np.linalg.norm(features, axis=1, keepdims=True)
        rows = features / np.maximum(lengths, 1e-6)
        self.label_kernel.assign(strength * rows / max(lengths.mean(), 1e-6))

    def call(self, states, labels=None):
        states = self.features(states)
        rows, bias = self.label_kernel, self.label_bias
        if labels is not None:
            labels = ops.convert_to_tensor(labels)
            rows, bias = ops.take(rows, labels, axis=0), ops.take(bias, labels)
        rows = ops.swapaxes(ops.cast(rows, states.dtype), -1, -2)
        if len(rows.shape) == 3:  # a set of rows for each state
            logits = ops.squeeze(ops.matmul(states[:, None], rows), 1)
        else:
            logits = ops.matmul(states, rows)
        return at_least_float32(logits) + at_least_float32(bias)

    def features(self, states):
        """What the rows of the labels are multiplied with: [B, width]."""
        states = ops.cast(states, self.compute_dtype)
        return states if self.hidden is None else self.hidden(states)

    def get_config(self):
        return {
            **super().get_config(),
            "num_labels": self.num_labels,
            "width": self.width,
        }
