"""Texts with their targets, in every form that people have them.

Lists, tuples, arrays of NumPy, columns of pandas, tensors, a `tf.data.Dataset` of
(text, target) and a `TextDataset` become one thing: `Texts`.
"""

import itertools
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import tensorflow as tf

from bat_tf._internal.validation import check_number, check_texts, sentence, shown
from bat_tf.data.dataset import TextDataset

_TEXT_KINDS = "UST"  # of NumPy's types


class Texts(NamedTuple):
    """Texts, their targets and their weights, in a form that can be cut into parts.

    Attributes:
        texts: list of str.
        targets: what `Preprocessor` takes as `y`, or None.
        weights: float array [N], or None.
    """

    texts: list
    targets: Any = None
    weights: Any = None

    def part(self, rows):
        """Some of the texts; `rows` is a slice."""
        return Texts(*(None if x is None else x[rows] for x in self))

    def split(self, fraction):
        """All but the last texts, and the last ones, as Keras' `validation_split`."""
        check_number("validation_split", fraction, low=0, high=1)
        place = len(self.texts) - round(fraction * len(self.texts))
        if not 0 < place < len(self.texts):
            expected = f"a fraction that splits {len(self.texts)} texts in two"
            raise ValueError(sentence("validation_split", expected, fraction))
        return self.part(slice(place)), self.part(slice(place, None))


def holds_texts(x):
    """Whether `x` is texts: a data set, or strings in anything that holds values."""
    if isinstance(x, (TextDataset, Texts, str, bytes)):
        return True
    if isinstance(x, tf.data.Dataset):
        spec = x.element_spec
        return holds_texts(spec[0] if isinstance(spec, tuple) else spec)
    if isinstance(x, dict):  # no inputs of a model; `as_texts` says so
        return any(map(holds_texts, x.values()))
    if tf.is_tensor(x) or isinstance(x, tf.TensorSpec):
        return x.dtype == tf.string
    if isinstance(x, np.ndarray) and x.dtype != object:
        return x.dtype.kind in _TEXT_KINDS
    # Of none, or where something is missing among them, `as_texts` says so.
    first = list(itertools.islice(_values(x), 100))
    empty = isinstance(x, (list, tuple)) and not x
    return empty or any(isinstance(value, (str, bytes)) for value in first)


def _values(x):
    """The values of a list, an array, a pandas Series and the like; () of others."""
    if isinstance(x, np.ndarray):
        return x.flat
    ordered = hasattr(x, "__len__") and hasattr(x, "__getitem__")
    return x if ordered and not hasattr(x, "columns") else ()


def as_texts(x, y=None, sample_weight=None):
    """Texts and targets in any form that `holds_texts` knows, as `Texts`."""
    if isinstance(x, Texts):
        return x
    if isinstance(x, TextDataset):
        if y is not None:
            remedy = "Its examples have their own."
            raise ValueError(sentence("y", "None beside a TextDataset", y, remedy))
        targets = x.spans if x.task == "spans" else x.labels
        return Texts(x.texts, targets, _as_weights(sample_weight, len(x)))
    if isinstance(x, tf.data.Dataset):
        return _of_pipeline(x)
    if isinstance(x, (str, bytes, dict)):
        remedy = "Write [text] for one." if not isinstance(x, dict) else ""
        raise TypeError(sentence("x", "a list of texts", x, remedy))
    texts = check_texts(_column(_listed(x)))
    if not texts:
        raise ValueError(sentence("x", "texts, one at least", x))
    targets = _listed(y, rows=True)
    if targets is not None and _count(targets) != len(texts):
        expected = f"as long as `x`, {len(texts)} texts"
        raise ValueError(sentence("y", expected, f"{_count(targets)} targets"))
    return Texts(texts, targets, _as_weights(sample_weight, len(texts)))


def _as_weights(weights, count):
    if weights is None:
        return None
    expected = f"a finite number for each of the {count} texts"
    try:
        found = np.asarray(weights, "float32").reshape(-1)
        right = np.isfinite(found).all() and not np.iscomplexobj(weights)
    except (TypeError, ValueError):
        right = False
    if not right:
        raise ValueError(sentence("sample_weight", expected, shown(weights, 80)))
    if len(found) != count:
        raise ValueError(sentence("sample_weight", expected, f"{len(found)} numbers"))
    return found


def _count(targets):
    try:
        return targets.shape[0] if hasattr(targets, "shape") else len(targets)
    except (IndexError, TypeError):
        raise ValueError(sentence("y", "a target for each text", targets)) from None


def _column(texts):
    """The only column of a table of texts [N, 1], as Keras' own inputs have them."""
    if texts and all(isinstance(row, list) and len(row) == 1 for row in texts):
        return [row[0] for row in texts]
    return texts


def _listed(values, rows=False):
    """Tensors, arrays and columns of texts as lists; of numbers as NumPy arrays."""
    if hasattr(values, "to_numpy") and not hasattr(values, "columns"):
        values = values.to_numpy()  # a Series of pandas, whose index may be any
    if isinstance(values, dict):  # spans in columns
        names = ("starts", "ends", "kinds")
        try:
            columns = [_listed(values[name], True) for name in names]
            return [list(zip(*row, strict=True)) for row in zip(*columns, strict=True)]
        except (KeyError, TypeError, ValueError):
            expected = "spans as columns of one length, " + ", ".join(map(repr, names))
            raise ValueError(sentence("y", expected, values)) from None
    if isinstance(values, tf.RaggedTensor):
        return [_decoded(row) for row in values.to_list()]
    if isinstance(values, tf.SparseTensor):
        pairs = (values.values.numpy(), values.indices.numpy().T)
        return scipy.sparse.csr_matrix(pairs, shape=tuple(values.shape))
    if tf.is_tensor(values):
        values = values.numpy()
    strings = isinstance(values, np.ndarray) and values.dtype.kind in _TEXT_KINDS + "O"
    if strings and values.ndim:
        return [_decoded(row) for row in values.tolist()]
    return values if rows or isinstance(values, (list, np.ndarray)) else list(values)


def _decoded(row):
    if isinstance(row, list):
        return [_decoded(value) for value in row]
    return row.decode("utf-8", "replace") if isinstance(row, bytes) else row


def _of_pipeline(pipe):
    """All that a tf.data pipeline of (text, target, weight) holds, batched or not."""
    spec = pipe.element_spec
    if isinstance(spec[0] if isinstance(spec, tuple) else spec, dict):
        raise TypeError(sentence("x", "a tf.data.Dataset of (text, target)", spec))
    if int(pipe.cardinality()) == tf.data.INFINITE_CARDINALITY:
        remedy = "Leave `repeat()` out: `fit` repeats it `epochs` times."
        raise ValueError(sentence("x", "a tf.data.Dataset that ends", pipe, remedy))
    parts = ([], [], [])
    for element in pipe:
        element = element if isinstance(element, tuple) else (element,)
        if not element[0].shape.rank:  # a text and not a batch of them
            element = tf.nest.map_structure(lambda x: tf.expand_dims(x, 0), element)
        for part, value in zip(parts, element, strict=False):
            part.extend(_listed(value, rows=True))
    texts, targets, weights = parts
    if not texts:
        raise ValueError(sentence("x", "a tf.data.Dataset that holds texts", pipe))
    if not targets:
        targets = None
    elif isinstance(targets[0], np.ndarray):
        targets = np.stack(targets)
    return Texts(texts, targets, _as_weights(weights or None, len(texts)))
