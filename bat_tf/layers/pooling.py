"""The states of a text's tokens → one state of the text."""

import keras
import tensorflow as tf
from keras import ops

from bat_tf._internal.numerics import LARGE_NEGATIVE
from bat_tf._internal.validation import check_choice, check_number
from bat_tf.layers.attention import lowest
from bat_tf.layers.block import MaskedLayer, real_tokens

POOLINGS = ("first", "mean", "max", "attention", "chunks")


@keras.saving.register_keras_serializable(package="bat_tf")
class Pooling(MaskedLayer):
    """One state for a text out of the states of its tokens.

    Padding: masked tokens take no part. A text without tokens has the state 0.

    Args:
        mode: `"first"` is the first token, `[CLS]` of a BERT-family backbone; `"mean"`
            and `"max"` are over all tokens; `"attention"` is a mean whose weights are
            the softmax of a learnt score of each token.
            With dropout in the encoder, do without `"max"`: the largest of many noisy
            states is mostly noise, which is gone when the model is used.
            `"chunks"` is the dynamic max pooling of XML-CNN: of p chunks of the n
            tokens, chunk i from ⌊i n/p⌋ up to ⌈(i+1) n/p⌉, the largest of each, side
            by side. Chunks of a text with less than p tokens overlap.
        num_chunks: p of `"chunks"`.
        query_initializer: of what `"attention"` scores tokens by.
        query_regularizer: of the same.

    Call arguments:
        x: states [B, T, D].
        padding_mask: bool [B, T]; wins over Keras' mask. Without either there is no
            padding. What comes out has no mask.

    Returns:
        [B, D], or [B, p · D] of `"chunks"`.

    Example:
        >>> import numpy as np
        >>> states = np.array([[[1.0, 4.0], [3.0, 2.0], [9.0, 9.0]]])
        >>> mask = np.array([[True, True, False]])
        >>> Pooling("mean")(states, mask).numpy().tolist()
        [[2.0, 3.0]]
        >>> Pooling("chunks", num_chunks=2)(states, mask).numpy().tolist()
        [[1.0, 4.0, 3.0, 2.0]]

    Reference:
        `"chunks"`: Liu et al., Deep learning for extreme multi-label text
        classification, SIGIR 2017; a baseline of ME-XML.
    """

    def __init__(
        self,
        mode="mean",
        num_chunks=8,
        *,
        query_initializer="glorot_uniform",
        query_regularizer=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.mode = check_choice("mode", mode, POOLINGS)
        self.num_chunks = check_number("num_chunks", num_chunks, low=1, integer=True)
        self.query_initializer = keras.initializers.get(query_initializer)
        self.query_regularizer = keras.regularizers.get(query_regularizer)

    def build(self, shape):
        if self.mode == "attention":
            self.query = self.add_weight(
                name="query",
                shape=(shape[-1], 1),
                initializer=self.query_initializer,
                regularizer=self.query_regularizer,
            )

    def compute_mask(self, inputs, previous_mask):
        return None

    def compute_output_shape(self, shape):
        chunks = self.num_chunks if self.mode == "chunks" else 1
        return (shape[0], chunks * shape[-1])

    def call(self, x, padding_mask=None, mask=None):
        padding_mask = real_tokens(x, padding_mask, mask)
        mask = ops.expand_dims(padding_mask, -1)
        if self.mode == "first":
            return x[:, 0] * ops.cast(mask[:, 0], x.dtype)
        if self.mode == "max":
            return _largest(x, mask, axis=1)
        if self.mode == "chunks":
            return self._chunks(x, padding_mask)
        if self.mode == "mean":
            weights = ops.cast(mask, "float32")
        else:
            scores = ops.cast(ops.matmul(x, self.query), "float32")
            weights = tf.nn.softmax(ops.where(mask, scores, LARGE_NEGATIVE), axis=1)
            weights = weights * ops.cast(mask, "float32")
        # A sum of hundreds of states is no number for float16.
        total = ops.sum(ops.cast(x, "float32") * weights, axis=1)
        mean = ops.divide_no_nan(total, ops.sum(weights, axis=1))
        return ops.cast(mean, x.dtype)

    def _chunks(self, states, padding_mask):
        batch, length, _ = ops.shape(states)
        width, chunks = states.shape[-1], self.num_chunks
        numbers = ops.arange(chunks)
        real = ops.sum(ops.cast(padding_mask, "int32"), axis=1, keepdims=True)
        starts = numbers * real // chunks
        ends = -(-(numbers + 1) * real // chunks)
        # Each chunk's own tokens are gathered, about T in all, and not p times T. None
        # has more than ⌈T/p⌉ + 1 of them: its two ends may both reach into a token.
        places = starts[..., None] + ops.arange(-(-length // chunks) + 1)
        inside = ops.reshape(places < ends[..., None], (batch, -1))
        places = ops.reshape(ops.minimum(places, length - 1), (batch, -1))
        # The i-th real token, wherever padding is.
        order = ops.argsort(
            ops.where(padding_mask, 0, length) + ops.arange(length), axis=1
        )
        places = ops.take_along_axis(order, places, axis=1)
        found = ops.take_along_axis(states, places[..., None], axis=1)
        found = ops.reshape(found, (batch, chunks, -1, width))
        inside = ops.reshape(inside, (batch, chunks, -1, 1))
        return ops.reshape(_largest(found, inside, axis=2), (batch, chunks * width))


def _largest(states, mask, axis):
    """The maximum where the mask is True, and 0 where it is nowhere."""
    floor = ops.cast(lowest(states.dtype), states.dtype)
    largest = ops.max(ops.where(mask, states, floor), axis=axis)
    return ops.where(ops.any(mask, axis=axis), largest, 0.0)
