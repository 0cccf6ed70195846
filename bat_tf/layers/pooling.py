"""The states of a text's tokens → one state of the text."""

import keras
from keras import ops

from bat_tf._numerics import LARGE_NEGATIVE
from bat_tf._validation import check_choice

POOLINGS = ("first", "mean", "max", "attention")


@keras.saving.register_keras_serializable(package="bat_tf")
class Pooling(keras.layers.Layer):
    """One state for a text out of the states of its tokens.

    Padding: masked tokens take no part. A text without tokens has the state 0.

    Args:
        mode: `"first"` is the first token, `[CLS]` of a BERT-family backbone; `"mean"`
            and `"max"` are over all tokens; `"attention"` is a mean whose weights are
            the softmax of a learnt score of each token.
            With dropout in the encoder, do without `"max"`: the largest of many noisy
            states is mostly noise, which is gone when the model is used.

    Call arguments:
        states: [B, T, D].
        padding_mask: bool [B, T].

    Example:
        >>> import numpy as np
        >>> states = np.array([[[1.0, 4.0], [3.0, 2.0], [9.0, 9.0]]])
        >>> mask = np.array([[True, True, False]])
        >>> Pooling("mean")(states, mask).numpy().tolist()
        [[2.0, 3.0]]
    """

    def __init__(self, mode="mean", **kwargs):
        super().__init__(**kwargs)
        self.mode = check_choice("mode", mode, POOLINGS)

    def build(self, shape):
        if self.mode == "attention":
            self.query = self.add_weight(
                name="query", shape=(shape[-1], 1), initializer="glorot_uniform"
            )

    def call(self, states, padding_mask):
        mask = ops.expand_dims(padding_mask, -1)
        if self.mode == "first":
            return states[:, 0] * ops.cast(mask[:, 0], states.dtype)
        if self.mode == "max":
            lowest = ops.cast(-3e4 if states.dtype == "float16" else -1e9, states.dtype)
            largest = ops.max(ops.where(mask, states, lowest), axis=1)
            return ops.where(ops.any(mask, axis=1), largest, 0.0)
        if self.mode == "mean":
            weights = ops.cast(mask, "float32")
        else:
            scores = ops.cast(ops.matmul(states, self.query), "float32")
            weights = ops.softmax(ops.where(mask, scores, LARGE_NEGATIVE), axis=1)
            weights = weights * ops.cast(mask, "float32")
        # A sum of hundreds of states is no number for float16.
        total = ops.sum(ops.cast(states, "float32") * weights, axis=1)
        mean = ops.divide_no_nan(total, ops.sum(weights, axis=1))
        return ops.cast(mean, states.dtype)

    def get_config(self):
        return {**super().get_config(), "mode": self.mode}
