"""Rows of ragged values and columns of logits, for layers that need some of them."""

import tensorflow as tf
from keras import ops


def rows_of(values, splits, rows):
    """Some rows of ragged values, one after the other; copied whole, not by element."""
    return tf.raw_ops.RaggedGather(
        params_nested_splits=[splits],
        params_dense_values=values,
        indices=rows,
        OUTPUT_RAGGED_RANK=1,
    ).output_dense_values


def owners(counts):
    """The numbers 0, 1, 2 …, each as often as `counts` says.

    `tf.repeat` does it by a mask as wide as the largest count.

    >>> owners(tf.constant([2, 0, 1])).numpy().tolist()
    [0, 0, 2]
    """
    ends, total = tf.cumsum(counts), tf.reduce_sum(counts)
    # The owner of a place is the number of those that ended before it.
    ended = tf.math.unsorted_segment_sum(tf.ones_like(ends), ends, total + 1)
    return tf.cumsum(ended)[:total]


def of_some(logits, labels):
    """The columns of logits [B, L] of some labels [C]."""
    return logits if labels is None else ops.take(logits, labels, axis=1)
