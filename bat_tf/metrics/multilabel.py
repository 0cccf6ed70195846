"""How good the chosen labels of documents are: sets, micro and macro F scores.

A label is chosen where its score is above the threshold, strictly. Scores and threshold
are in one space, whichever it is: logits with 0, probabilities with 0.5.
"""

import keras
import numpy as np
from keras import ops

from bat_tf._targets import multi_hot
from bat_tf._validation import check_number, sentence
from bat_tf.metrics._counts import CountedFScore
from bat_tf.thresholds import as_values


class Ratio(keras.metrics.Metric):
    """A sum over rows divided by another one; a mean over rows is the usual case.

    A subclass calls `self.add(values, sample_weight)` in its `update_state`. The sums
    are float64: float32 stops counting at 2**24 rows.

    Args:
        name: name of the metric.
        dtype: dtype of the result.
    """

    def __init__(self, name=None, dtype=None):
        super().__init__(name=name, dtype=dtype)
        self._direction = "up"  # what EarlyStopping(mode="auto") asks for
        self.total, self.divisor = (
            self.add_variable((), "zeros", dtype="float64", name=name)
            for name in ("total", "divisor")
        )

    def add(self, values, sample_weight=None, divisors=None):
        """Adds the values of a batch, one per row; without divisors each row is 1."""
        values = ops.cast(values, "float64")
        divisors = (
            ops.ones_like(values) if divisors is None else ops.cast(divisors, "float64")
        )
        weight = ops.cast(row_weight(sample_weight), "float64")
        self.total.assign(self.total + ops.sum(values * weight))
        self.divisor.assign(self.divisor + ops.sum(divisors * weight))

    def result(self):
        return ops.cast(ops.divide_no_nan(self.total, self.divisor), self.dtype)


class _Thresholded:
    """The setting `threshold`, which may change between two epochs or after training.

    It lives in a variable, so that a compiled step follows; a reset leaves it alone.
    """

    def _add_threshold(self, num_labels, threshold):
        check_number("num_labels", num_labels, low=1, integer=True)
        self.num_labels = num_labels
        self._cut = self.add_variable(
            (num_labels,), "zeros", "float32", aggregation="mean", name="threshold"
        )
        self.threshold = threshold

    @property
    def threshold(self):
        """A number, or an array with one for each label; can be set."""
        return self._threshold

    @threshold.setter
    def threshold(self, threshold):
        values = as_values(threshold, self.num_labels)
        self._cut.assign(np.broadcast_to(values.astype("float32"), (self.num_labels,)))
        self._threshold = values if values.ndim else float(values)

    def reset_state(self):
        """Forgets what was counted, not the threshold."""
        for variable in self.variables:
            if variable is not self._cut:
                variable.assign(ops.zeros(variable.shape, dtype=variable.dtype))

    def _sets(self, y_true, y_pred):
        """Returns the true and the chosen labels, both bool [B, L]."""
        y_pred = as_scores(y_pred, self.num_labels)
        return positives(y_true, self.num_labels), y_pred > self._cut

    def get_config(self):
        """Returns all arguments as JSON values."""
        return {
            "num_labels": self.num_labels,
            "threshold": np.asarray(self._threshold).tolist(),
            **super().get_config(),
        }


@keras.saving.register_keras_serializable(package="bat_tf")
class SubsetAccuracy(_Thresholded, Ratio):
    """Share of the documents whose chosen labels are exactly the true ones.

    Args:
        num_labels: number of labels L.
        threshold: a number, an array `[L]` or `bat_tf.thresholds.Thresholds`; labels
            with a score above it are chosen. In the space of the scores: 0 for the
            logits of ZLPR and of a sigmoid. The attribute can be set at any time.
        name: name of the metric.
        dtype: dtype of the result.

    Call arguments:
        y_true: labels in any shape of `bat_tf._targets`: multi-hot `[B, L]` as floats,
            ids `[B, P]` as integers with -1 where empty, ragged or sparse.
        y_pred: scores `[B, L]`.
        sample_weight: optional, one weight per row `[B]`.

    Example:
        >>> from bat_tf.metrics import SubsetAccuracy
        >>> metric = SubsetAccuracy(3)
        >>> metric.update_state([[0, 2], [1, -1]], [[3.0, -1, 2], [1, 1, -4]])
        >>> float(metric.result())
        0.5

    Reference:
        ZLPR, "SubACC".
    """

    def __init__(
        self, num_labels, *, threshold=0.0, name="subset_accuracy", dtype=None
    ):
        super().__init__(name, dtype)
        self._add_threshold(num_labels, threshold)

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds the documents of a batch."""
        true, chosen = self._sets(y_true, y_pred)
        self.add(ops.all(ops.equal(true, chosen), axis=-1), sample_weight)


@keras.saving.register_keras_serializable(package="bat_tf")
class SampleF1(_Thresholded, Ratio):
    """F1 of each document's labels, averaged over the documents.

        mean 2 |ŷ ∩ y| / (|ŷ| + |y|),  and 1 where both sets are empty

    Args:
        num_labels: number of labels L.
        threshold: as in `SubsetAccuracy`.
        name: name of the metric.
        dtype: dtype of the result.

    Call arguments:
        y_true, y_pred, sample_weight: as in `SubsetAccuracy`.

    Example:
        >>> from bat_tf.metrics import SampleF1
        >>> metric = SampleF1(3)
        >>> metric.update_state([[0, 2], [-1, -1]], [[3.0, 1, -1], [-1, -1, -4]])
        >>> float(metric.result())
        0.75

    Reference:
        ZLPR, "MLC-F1".
    """

    def __init__(self, num_labels, *, threshold=0.0, name="sample_f1", dtype=None):
        super().__init__(name, dtype)
        self._add_threshold(num_labels, threshold)

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds the documents of a batch."""
        true, chosen = self._sets(y_true, y_pred)
        both = _size(ops.logical_and(true, chosen))
        sizes = _size(true) + _size(chosen)
        f1 = ops.where(sizes == 0, 1.0, 2 * both / ops.maximum(sizes, 1.0))
        self.add(f1, sample_weight)


@keras.saving.register_keras_serializable(package="bat_tf")
class LabelFScore(_Thresholded, CountedFScore):
    r"""F score of the labels: of the pooled counts (micro) or label by label (macro).

        F_β = (1 + β²) TP / ((1 + β²) TP + β² FN + FP)

    $$F_\beta = \frac{(1+\beta^2)\,TP}{(1+\beta^2)\,TP + \beta^2 FN + FP}$$

    It equals `sklearn.metrics.fbeta_score(labels=label_ids)`. The state is three counts
    per label; `scores()` gives precision and recall besides, and `per_class()` all of
    them for every label.

    Args:
        num_labels: number of labels L.
        average: `"micro"`, `"macro"` or `"weighted"`.
        beta: weight of recall against precision.
        threshold: as in `SubsetAccuracy`.
        label_ids: the labels that enter the average, such as the tail; all by default.
            All documents count either way.
        zero_division: score of a label (for micro, of all data) that neither occurs nor
            is chosen. 0 is scikit-learn's value and that of the balanced losses; 1
            gives the macro F1 of ZLPR's tables.
        name: name of the metric.
        dtype: dtype of the result.

    Call arguments:
        y_true, y_pred, sample_weight: as in `SubsetAccuracy`.

    Example:
        >>> from bat_tf.metrics import LabelFScore
        >>> metric = LabelFScore(3, average="macro")
        >>> metric.update_state([[0, 2], [0, -1]], [[3.0, 1, -1], [1, -1, -4]])
        >>> round(float(metric.result()), 4)
        0.3333
        >>> metric.per_class()["recall"].tolist()
        [1.0, 0.0, 0.0]

    Reference:
        Balancing methods for multi-label text classification, Tables 2 and 3; ZLPR,
        "Micro-F1" and "Macro-F1".
    """

    def __init__(
        self,
        num_labels,
        *,
        average="micro",
        beta=1.0,
        threshold=0.0,
        label_ids=None,
        zero_division=0.0,
        name="label_f_score",
        dtype=None,
    ):
        super().__init__(num_labels, beta, average, zero_division, name, dtype)
        self._add_threshold(num_labels, threshold)
        self.label_ids = None if label_ids is None else _checked(label_ids, num_labels)

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Counts the labels of a batch."""
        true, chosen = self._sets(y_true, y_pred)
        weight = ops.expand_dims(ops.cast(row_weight(sample_weight), "float64"), -1)
        self.count(
            *(
                # Within one batch float32 would do, if the weights were whole numbers.
                ops.sum(ops.cast(labels, "float64") * weight, axis=0)
                for labels in (ops.logical_and(true, chosen), chosen, true)
            )
        )

    def counted_classes(self):
        """Returns 1 for every label that enters the average, else 0."""
        if self.label_ids is None:
            return super().counted_classes()
        counted = np.zeros(self.num_labels)
        counted[self.label_ids] = 1
        return ops.convert_to_tensor(counted)

    def get_config(self):
        """Returns all arguments as JSON values."""
        ids = None if self.label_ids is None else self.label_ids.tolist()
        return {"label_ids": ids, **super().get_config()}


def as_scores(y_pred, num_labels=None):
    """Scores [B, L] as float32; the width must be known, and L if that is given."""
    y_pred = ops.cast(y_pred, "float32")
    shape = tuple(y_pred.shape)
    fits = len(shape) == 2 and shape[1] is not None and num_labels in (None, shape[1])
    if not fits:
        width = "L" if num_labels is None else num_labels
        raise ValueError(sentence("y_pred", f"scores of shape [B, {width}]", shape))
    return y_pred


def positives(y_true, num_labels):
    """The true labels as bool [B, L]; a probability counts as one above 0.5."""
    return ops.greater(multi_hot(y_true, num_labels), 0.5)


def row_weight(sample_weight):
    """One weight per row as [B], or 1 for all of them."""
    if sample_weight is None:
        return ops.ones((1,))
    weight = ops.convert_to_tensor(sample_weight)
    if len(weight.shape) > 1 and tuple(weight.shape[1:]) != (1,):
        raise ValueError(
            sentence(
                "sample_weight",
                "one weight per row, of shape [B] or [B, 1]",
                tuple(weight.shape),
                "A label has no weight of its own here; `label_ids` of the F scores "
                "leaves labels out.",
            )
        )
    return ops.reshape(weight, (-1,))


def _size(labels):
    return ops.sum(ops.cast(labels, "float32"), axis=-1)


def _checked(label_ids, num_labels):
    ids = np.unique(np.asarray(label_ids, "int64").ravel())
    if not ids.size or ids[0] < 0 or ids[-1] >= num_labels:
        expected = f"ids of labels from 0 to {num_labels - 1}, one or more"
        raise ValueError(sentence("label_ids", expected, label_ids))
    return ids


NAMES = {
    "subset-accuracy": (SubsetAccuracy, {}),
    "mlc-f1": (SampleF1, {}),
    "micro-f1": (LabelFScore, {"average": "micro"}),
    "macro-f1": (LabelFScore, {"average": "macro"}),
    "macro-f2": (LabelFScore, {"average": "macro", "beta": 2.0}),
}
