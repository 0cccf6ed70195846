"""The labels of a batch, in every shape that people have them in.

For scores `[B, L]` of documents:

| what comes                            | what it is                                  |
|---------------------------------------|---------------------------------------------|
| as wide as the scores, of any type    | multi-hot, or probabilities for soft losses |
| integers of another width, `[B, P]`   | label ids, -1 where a row has no more       |
| integer `tf.RaggedTensor`             | label ids                                   |
| `tf.SparseTensor`, SciPy sparse       | multi-hot `[B, L]`                          |

For scores `[B, T, L]` of tokens, dense labels have one more axis, and Keras' mask takes
tokens out.

The shape decides, as everywhere in Keras, never the values; `targets="ids"` or
`"multi_hot"` declares otherwise. Values that cannot be what the form says raise:
eagerly a sentence, in a graph when the step runs. XLA knows no assertions: there the
targets of `fit` are looked at before the part that it compiles, and whoever reads them
elsewhere is told which rows are wrong.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import tensorflow as tf
from keras import ops

from bat_tf._internal.keras_private import in_xla, keras_mask, outside_xla
from bat_tf._internal.numerics import at_least_float32
from bat_tf._internal.validation import check_choice, sentence

IDS, MULTI_HOT = FORMS = ("ids", "multi_hot")


class Labels(NamedTuple):
    """What was read: ids [N, P] (int32, -1 where empty) or a multi-hot [N, L].

    Attributes:
        values: the tensor; a multi-hot is of bools where it came as bools or integers.
        are_ids: which of the two it is.
        wrong: bool [N], the rows that cannot be; None if that is known not to happen.
    """

    values: Any
    are_ids: bool
    wrong: Any = None


def check_form(targets):
    """Returns what a user declares, `"ids"`, `"multi_hot"` or None, else raises."""
    return check_choice("targets", targets, (None, *FORMS))


def id_width(most, num_labels):
    """Columns for padded ids that no shape can mistake for a multi-hot.

    Args:
        most: how many labels a row has at the most; a number or an integer tensor.
        num_labels: L.
    """
    equal = most + 1 == num_labels
    return most + 1 + (tf.cast(equal, most.dtype) if tf.is_tensor(equal) else equal)


def form_of(labels, num_labels, declared=None):
    """`"ids"` or `"multi_hot"`; None where the width is known in the step alone."""
    own = IDS if isinstance(labels, tf.RaggedTensor) else None
    own = MULTI_HOT if _is_sparse(labels) else own
    if own and declared not in (None, own):
        kind = type(labels).__name__
        raise ValueError(sentence("targets", f"None or {own!r} for a {kind}", declared))
    if own or declared:
        return own or declared
    labels = ops.convert_to_tensor(labels)
    if not tf.as_dtype(labels.dtype).is_integer:
        return MULTI_HOT
    width = labels.shape[-1]
    return None if width is None else MULTI_HOT if width == num_labels else IDS


def read(
    labels, num_labels, declared=None, *, soft=True, valid=None, argument="y_true"
):
    """Labels of any shape, checked, as `Labels`.

    Args:
        labels: see the table at the top of this file; `[N, …]`.
        num_labels: L.
        declared: `"ids"`, `"multi_hot"`, or None: the shape decides.
        soft: whether a multi-hot may have values between 0 and 1.
        valid: bool [N]; where it is False, a row has no labels, whatever stands there.
        argument: what a sentence calls them.
    """
    form = form_of(labels, num_labels, declared)
    labels = dense(labels)
    if len(labels.shape) != 2:
        expected = (
            "of two dimensions: multi-hot [B, L] or ids [B, P] (integers, -1 where "
            "empty)"
        )
        raise ValueError(sentence(argument, expected, tuple(labels.shape)))
    kind = tf.as_dtype(labels.dtype)
    if not (kind.is_integer or kind.is_floating or kind.is_bool):
        raise ValueError(sentence(argument, "integers or real numbers", kind.name))
    if form == MULTI_HOT:
        return _read_multi_hot(labels, num_labels, soft, valid, argument)

    width = labels.shape[-1]

    def is_wrong(labels):
        ids = tf.cast(labels, tf.int64)
        wrong = (ids < -1) | (ids >= num_labels)
        if labels.dtype.is_floating:
            wrong |= tf.cast(ids, labels.dtype) != labels
        if declared is None and (width is None or width > num_labels):
            # More ids than labels: it is the multi-hot of other labels.
            full = tf.reduce_all(ids >= 0, axis=1, keepdims=True)
            wrong |= full & (tf.shape(ids)[1] > num_labels)
        if form is None:
            wide = tf.shape(ids)[-1] == num_labels
            wrong = tf.where(wide, (ids < 0) | (ids > 1), wrong)
        return wrong

    ids = tf.cast(labels, tf.int32)
    if form is None:
        own = tf.where(ids > 0, tf.range(tf.shape(ids)[1]), -1)
        ids = tf.where(tf.shape(ids)[1] == num_labels, own, ids)
    if valid is not None:
        ids = tf.where(valid[:, None], ids, -1)
    expected = f"label ids below {num_labels}, or -1"
    remedy = (
        "-1 fills up rows with fewer labels; none has more than there are. A multi-hot "
        f"has {num_labels} columns, one for each label."
    )
    wrong = _refused(labels, is_wrong, valid, argument, expected, remedy)
    return Labels(ids, True, wrong)


def _read_multi_hot(labels, num_labels, soft, valid, argument):
    width, kind = labels.shape[-1], labels.dtype
    if width is not None and width != num_labels:
        expected = f"of {num_labels} columns, one for each of {num_labels} labels"
        remedy = 'Label ids are integers, or declared: `targets="ids"`.'
        raise ValueError(sentence(argument, expected, tuple(labels.shape), remedy))
    soft = soft and kind.is_floating

    def is_wrong(labels):
        if kind.is_integer:
            return (labels < 0) | (labels > 1)
        # Positive between 0 and 1, 0 at both, negative outside.
        between = labels * (1 - labels)
        wrong = between < 0 if soft else tf.not_equal(between, 0)
        return wrong | tf.math.is_nan(between)

    values = labels > 0 if kind.is_integer else tf.stop_gradient(labels)
    if valid is not None:
        values = tf.where(valid[:, None], values, tf.zeros([], values.dtype))
    if kind.is_bool:
        return Labels(values, False)
    expected = f"{'probabilities in [0, 1]' if soft else '0 or 1'} for each label"
    remedy = (
        f"Targets of {num_labels} columns, as many as there are labels, are a "
        'multi-hot; label ids of that width are declared: `targets="ids"`.'
    )
    wrong = _refused(labels, is_wrong, valid, argument, expected, remedy)
    return Labels(values, False, wrong)


def _refused(labels, is_wrong, valid, argument, expected, remedy):
    """Says what is wrong with values, and returns in which rows they are."""
    wrong = is_wrong(labels)
    wrong = wrong if valid is None else wrong & valid[:, None]
    rows = tf.reduce_any(wrong, axis=-1)
    said = f"`{argument}` must be {expected}. {remedy} Received:"
    if tf.executing_eagerly():
        if np.any(rows):
            received = np.asarray(labels)[np.asarray(wrong)][0].item()
            raise ValueError(sentence(argument, expected, received, remedy))
    elif not in_xla():
        tf.debugging.Assert(~tf.reduce_any(rows), [said, labels], summarize=20)
    elif valid is None:
        outside = outside_xla(labels)
        if outside is not None:
            with outside.graph.as_default():
                wrong = tf.reduce_any(is_wrong(outside))
                tf.debugging.Assert(~wrong, [said, outside], summarize=20)
    return rows


def as_rows(labels, scores):
    """Labels and scores of documents as they are; of tokens, a row for each token.

    Args:
        labels: see the table at the top of this file.
        scores: `[B, L]` or `[B, T, L]`.

    Returns:
        labels `[N, …]`; scores `[N, L]`, float32 or better, 0 at tokens under Keras'
        mask; and where it is True as bool `[N]`, or None.
    """
    mask, scores = keras_mask(scores), at_least_float32(scores)
    if len(scores.shape) != 3:
        return labels, scores, None
    labels = dense(labels)
    own, tokens = tuple(labels.shape), tuple(scores.shape[:2])
    pairs = zip(own, tokens, strict=False)
    if len(own) != 3 or any(a != b for a, b in pairs if a and b):
        expected = (
            f"a multi-hot or ids (-1 where empty) for each token of `y_pred`, "
            f"{list(tokens)}, on a third axis"
        )
        raise ValueError(sentence("y_true", expected, own))
    if mask is not None:
        scores = ops.where(ops.expand_dims(mask, -1), scores, 0.0)
        mask = ops.reshape(mask, (-1,))
    rows = tf.reduce_prod(tf.shape(scores)[:2])
    labels, scores = (
        tf.reshape(x, [rows, x.shape[-1] or tf.shape(x)[-1]]) for x in (labels, scores)
    )
    return labels, scores, mask


def once(ids):
    """Ids [N, P] in their order, with -1 where a row has named the same one before."""
    ids = tf.sort(ids, axis=-1)
    again = tf.pad(ids[:, 1:] == ids[:, :-1], [[0, 0], [1, 0]])
    return tf.where(again, -1, ids)


def row_weights(sample_weight, scores, valid=None):
    """A weight for each row that `as_rows` makes of the scores [N], or None for 1.

    Args:
        sample_weight: `[B]` or `[B, 1]`, for tokens also `[B, T]` or `[B, T, 1]`; None
            for 1.
        scores: `[B, L]` or `[B, T, L]`.
        valid: what `as_rows` returned; False weighs nothing.
    """
    if sample_weight is None:
        return None if valid is None else ops.cast(valid, "float32")
    weight, shape = ops.convert_to_tensor(sample_weight), tuple(scores.shape)
    weight = weight if weight.dtype == "float64" else ops.cast(weight, "float32")
    tokens = len(shape) == 3
    if tokens and len(weight.shape) == 3 and weight.shape[2] == 1:
        weight = weight[:, :, 0]
    fits = len(weight.shape) < 2 or tuple(weight.shape[1:]) == (1,)
    if not fits and not (tokens and len(weight.shape) == 2):
        expected = "one weight per row, of shape [B] or [B, 1]"
        expected += ", or per token, [B, T]" if tokens else ""
        remedy = (
            "A label has no weight of its own here; `label_ids` of the F scores and "
            "`label_mask` of the losses leave labels out."
        )
        received = tuple(weight.shape)
        raise ValueError(sentence("sample_weight", expected, received, remedy))
    if tokens:
        weight = weight[:, None] if len(weight.shape) == 1 else weight
        weight = ops.broadcast_to(weight, ops.shape(scores)[:2])
    weight = ops.reshape(weight, (-1,))
    return weight if valid is None else weight * ops.cast(valid, weight.dtype)


def dense(labels):
    """Labels of any shape as a dense tensor; ids are filled up with -1."""
    if isinstance(labels, tf.RaggedTensor):
        return labels.to_tensor(default_value=-1)
    if isinstance(labels, tf.SparseTensor):
        if not tf.executing_eagerly() and in_xla():
            remedy = "Pass `y.toarray()`, or compile with `jit_compile=False`."
            raise ValueError(
                sentence("y_true", "dense for XLA", "a SparseTensor", remedy)
            )
        return tf.sparse.to_dense(tf.sparse.reorder(labels))
    if scipy.sparse.issparse(labels):
        labels = labels.toarray()
    return ops.convert_to_tensor(labels)


def multi_hot(labels, num_labels, declared=None, argument="y_true"):
    """Labels of any shape as floats [B, L]; probabilities stay what they are."""
    found = read(labels, num_labels, declared, argument=argument)
    return ops.cast(as_multi_hot(found, num_labels), "float32")


def as_multi_hot(found, num_labels):
    """The values of `Labels` as a multi-hot [N, L]."""
    values = found.values
    return multi_hot_of_ids(values, num_labels) if found.are_ids else values


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


def positive_pairs(labels, num_labels, declared=None):
    """Returns the pairs (row, label) that a whole data set holds, as two int arrays.

    Nothing is made as large as a dense multi-hot.

    Args:
        labels: see the table at the top of this file; also a list of lists of ids.
        num_labels: L.
        declared: `"ids"`, `"multi_hot"`, or None: the shape decides.
    """
    if isinstance(labels, (list, tuple)) and not _is_even(labels):
        labels = tf.ragged.constant(labels, dtype="int32", ragged_rank=1)
    form = form_of(labels, num_labels, declared)
    if isinstance(labels, tf.RaggedTensor):
        rows, ids = labels.value_rowids().numpy(), labels.flat_values.numpy()
        rows, ids = rows[ids != -1], ids[ids != -1]
    elif _is_sparse(labels):
        if isinstance(labels, tf.SparseTensor):
            present = labels.indices.numpy()[labels.values.numpy() != 0]
            return present[:, 0], present[:, 1]
        return labels.nonzero()
    else:
        labels = np.asarray(labels)
        if form == MULTI_HOT:
            read(labels, num_labels, form)
            return np.nonzero(labels)
        rows, places = np.nonzero(labels != -1)
        ids = labels[rows, places].astype("int64")
    wrong = ids[(ids < 0) | (ids >= num_labels)]
    if len(wrong):
        expected = f"label ids below {num_labels}, or -1"
        raise ValueError(sentence("labels", expected, int(wrong[0])))
    return rows, ids


def middle_ratio(rows, ids, counts):
    """Halfway between mean and median of r = (1/n_i) / Σ_{j: y_j = 1} 1/n_j.

    Args:
        rows: the document of each pair (document, label), from 0 on.
        ids: its label.
        counts: documents of each label, n.
    """
    inverse = 1 / np.maximum(counts, 1)[ids]
    ratio = inverse / np.bincount(rows, weights=inverse)[rows]
    return float((ratio.mean() + np.median(ratio)) / 2)


def _is_sparse(labels):
    return isinstance(labels, tf.SparseTensor) or scipy.sparse.issparse(labels)


def _is_even(rows):
    """Whether a list of lists is a table with at least one column."""
    return len({len(row) for row in rows}) == 1 and len(rows[0]) > 0
