"""The labels of a batch of documents, in every shape that people have them in.

| what comes                      | what it is                                      |
|---------------------------------|-------------------------------------------------|
| float or bool `[B, L]`          | multi-hot, or probabilities for the soft losses |
| integer `[B, P]`                | label ids, -1 where a row has no more           |
| integer `tf.RaggedTensor`       | label ids                                       |
| `tf.SparseTensor`, SciPy sparse | multi-hot `[B, L]`                              |

The type decides, never the values: a row `[1, 0]` of integers is the labels 1 and 0, of
floats it is the first of two labels.
"""

import numpy as np
import scipy.sparse
import tensorflow as tf
from keras import ops

from bat_tf._validation import sentence


def are_ids(labels):
    """Whether `labels` name the labels by their ids, rather than as a multi-hot."""
    if isinstance(labels, tf.RaggedTensor):
        return True
    if isinstance(labels, tf.SparseTensor) or scipy.sparse.issparse(labels):
        return False
    return tf.as_dtype(as_labels(labels).dtype).is_integer


def as_labels(labels):
    """Labels as a tensor of their own dtype; sparse and ragged ones as they are."""
    sparse = isinstance(labels, (tf.RaggedTensor, tf.SparseTensor))
    if sparse or scipy.sparse.issparse(labels):
        return labels
    labels = ops.convert_to_tensor(labels)
    if len(labels.shape) != 2:
        raise ValueError(
            sentence(
                "y_true",
                "of two dimensions: multi-hot [B, L] (float or bool) or ids [B, P] "
                "(integers, -1 where empty)",
                tuple(labels.shape),
            )
        )
    return labels


def padded_ids(labels, num_labels):
    """Ids [B, P] (int32, -1 where empty) of labels that `are_ids`."""
    labels = as_labels(labels)
    if isinstance(labels, tf.RaggedTensor):
        labels = labels.to_tensor(default_value=-1)
    labels = ops.cast(labels, "int32")
    _check_ids(labels, num_labels)
    return labels


def multi_hot(labels, num_labels, dtype="float32"):
    """Labels of any shape as a multi-hot [B, L]; probabilities stay what they are.

    Args:
        labels: see the table at the top of this file.
        num_labels: L.
        dtype: of the result.
    """
    if are_ids(labels):
        ids = padded_ids(labels, num_labels)
        return ops.cast(multi_hot_of_ids(ids, num_labels), dtype)
    if scipy.sparse.issparse(labels):
        labels = labels.toarray()
    elif isinstance(labels, tf.SparseTensor):
        labels = tf.sparse.to_dense(tf.sparse.reorder(labels))
    labels = as_labels(labels)
    width = labels.shape[-1]
    if width is not None and width != num_labels:
        expected = f"as wide as the scores, {num_labels} labels"
        raise ValueError(sentence("y_true", expected, tuple(labels.shape)))
    return ops.cast(labels, dtype)


def multi_hot_of_ids(ids, num_labels):
    """Returns padded ids [B, P] as a bool multi-hot [B, L]."""
    rows = tf.shape(ids)[0]
    named = (ids >= 0) & (ids < num_labels)
    # What names no label adds nothing to the first column.
    place = tf.where(named, ids, 0)
    row = tf.broadcast_to(tf.range(rows)[:, None], tf.shape(ids))
    times = tf.scatter_nd(
        tf.stack([row, place], axis=-1), tf.cast(named, "int32"), [rows, num_labels]
    )
    return times > 0


def wrong_ids(ids, num_labels):
    """Returns whether each row [B] of padded ids holds something that is no id."""
    wrong = tf.reduce_any((ids < -1) | (ids >= num_labels), axis=-1)
    if num_labels > 2 and ids.shape[-1] == num_labels:
        # As ids, such rows would name the labels 0 and 1 again and again.
        wrong |= tf.reduce_all((ids == 0) | (ids == 1))
    return wrong


def positive_pairs(labels):
    """Returns the pairs (row, label) that a whole data set holds, as two int arrays.

    Args:
        labels: see the table at the top of this file; also a list of lists of ids.
    """
    if scipy.sparse.issparse(labels):
        return labels.nonzero()
    if isinstance(labels, tf.SparseTensor):
        present = labels.indices.numpy()[labels.values.numpy() != 0]
        return present[:, 0], present[:, 1]
    if isinstance(labels, (list, tuple)) and not _is_even(labels):
        labels = tf.ragged.constant(labels, dtype="int32", ragged_rank=1)
    if isinstance(labels, tf.RaggedTensor):
        return labels.value_rowids().numpy(), labels.flat_values.numpy()
    labels = np.asarray(labels)
    if np.issubdtype(labels.dtype, np.integer):
        rows, places = np.nonzero(labels >= 0)
        return rows, labels[rows, places]
    return np.nonzero(labels)


def _is_even(rows):
    """Whether a list of lists is a table with at least one column."""
    return len({len(row) for row in rows}) == 1 and len(rows[0]) > 0


def _check_ids(ids, num_labels):
    """Says so where an id is no label; inside a graph, when the step runs.

    XLA leaves assertions out; a caller can ask `wrong_ids` there.
    """
    expected = f"label ids below {num_labels}, or -1"
    remedy = (
        "-1 fills up rows with fewer labels. A multi-hot is of floats or bools, not of "
        "integers."
    )
    if tf.executing_eagerly():
        wrong = wrong_ids(ids, num_labels).numpy()
        if wrong.any():
            received = np.asarray(ids)[wrong][0].tolist()
            raise ValueError(sentence("y_true", expected, received, remedy))
        return
    said = f"`y_true` must be {expected}. {remedy} Received:"
    tf.debugging.Assert(~tf.reduce_any(wrong_ids(ids, num_labels)), [said, ids])
