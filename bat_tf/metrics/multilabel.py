"""How good the chosen labels of documents are: sets, micro and macro F scores.

A label is chosen where its score is above the threshold, strictly. Scores and threshold
are in one space, whichever it is: logits with 0, probabilities with 0.5.

All metrics of labels take the same arguments:

* `y_true`: labels in every shape of `bat_tf._internal.targets`. The shape decides what
  they are; the setting `targets`, `"ids"` or `"multi_hot"`, declares it.
* `y_pred`: scores `[B, L]`. Scores `[B, T, L]` are those of tokens that may have
  several tags: each token counts as a document would, but for those where Keras' mask
  is False.
* `sample_weight`: optional, one weight per row `[B]`, or per token `[B, T]`.
"""

import keras
import numpy as np
from keras import ops

from bat_tf._internal import targets as _targets
from bat_tf._internal.keras_private import set_direction
from bat_tf._internal.registry import FromArguments
from bat_tf._internal.validation import as_values, check_number, sentence
from bat_tf.metrics._counts import CountedFScore


class Ratio(FromArguments, keras.metrics.Metric):
    """A sum over rows divided by another one; a mean over rows is the usual case.

    A subclass calls `self.add(values, sample_weight)` in its `update_state`. The sums
    are float64: float32 stops counting at 2**24 rows.

    Args:
        targets: what `y_true` is, see the top of this file.
        name: name of the metric.
        dtype: dtype of the result.
    """

    def __init__(self, *, targets=None, name=None, dtype=None):
        super().__init__(name=name, dtype=dtype)
        self.targets = _targets.check_form(targets)
        set_direction(self, "up")
        self.total, self.divisor = (
            self.add_variable((), "zeros", dtype="float64", name=name)
            for name in ("total", "divisor")
        )

    def add(self, values, weight=None, divisors=None):
        """Adds the values of a batch, one per row; without divisors each row is 1."""
        values = ops.cast(values, "float64")
        divisors = (
            ops.ones_like(values) if divisors is None else ops.cast(divisors, "float64")
        )
        if weight is not None:
            weight = ops.cast(weight, "float64")
            values, divisors = values * weight, divisors * weight
        self.total.assign(self.total + ops.sum(values))
        self.divisor.assign(self.divisor + ops.sum(divisors))

    def result(self):
        return ops.cast(ops.divide_no_nan(self.total, self.divisor), self.dtype)


class Thresholded:
    """The setting `threshold`, which may change between two epochs or after training.

    It lives in a variable, so that a compiled step follows; a reset leaves it alone.
    """

    def _set_threshold(self, num_labels, threshold):
        self._cut = self._num_labels = None
        self.threshold = threshold
        if num_labels is not None:
            self._see(check_number("num_labels", num_labels, low=1, integer=True))

    def _see(self, num_labels):
        """Makes the variable, unless it is there, for this number of labels."""
        if self._num_labels is not None:
            return
        values = np.broadcast_to(as_values(self._threshold, num_labels), (num_labels,))
        self._num_labels = num_labels
        self._cut = self.add_variable(
            (num_labels,),
            # Inside `fit`, a new variable cannot be assigned to.
            lambda shape, dtype=None: ops.convert_to_tensor(values, dtype),
            "float32",
            aggregation="mean",
            name="threshold",
        )

    @property
    def num_labels(self):
        """The number of labels, once it is known."""
        return self._num_labels

    @property
    def threshold(self):
        """A number, or an array with one for each label; can be set."""
        return self._threshold

    @threshold.setter
    def threshold(self, threshold):
        values = as_values(threshold, self._num_labels)
        self._threshold = values if values.ndim else float(values)
        if self._cut is not None:
            values = np.broadcast_to(values.astype("float32"), (self._num_labels,))
            self._cut.assign(values)

    def reset_state(self):
        """Forgets what was counted, not the threshold."""
        for variable in self.variables:
            if variable is not self._cut:
                variable.assign(ops.zeros(variable.shape, dtype=variable.dtype))

    def sets(self, y_true, y_pred, sample_weight):
        """True and chosen labels, both bool [N, L], and the weights of their rows."""
        true, scores, weight = rows(
            y_true, y_pred, sample_weight, self.num_labels, self
        )
        self._see(scores.shape[1])
        return positives(true, scores.shape[1]), scores > self._cut, weight


class SampleScore(Thresholded, Ratio):
    """The mean over documents of what a subclass says of two sets, `of_sets`.

    Args:
        num_labels: number of labels L; None: as many as the first scores have.
        threshold: a number, an array `[L]` or `bat_tf.thresholds.Thresholds`; labels
            with a score above it are chosen. In the space of the scores: 0 for the
            logits of ZLPR and of a sigmoid. The attribute can be set at any time.
        **settings: `targets` (see the top of this file), `name`, `dtype`.
    """

    def __init__(self, num_labels=None, *, threshold=0.0, **settings):
        super().__init__(**settings)
        self._set_threshold(num_labels, threshold)

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds the documents of a batch."""
        true, chosen, weight = self.sets(y_true, y_pred, sample_weight)
        both = _size(ops.logical_and(true, chosen))
        self.add(self.of_sets(both, _size(true), _size(chosen)), weight)

    def of_sets(self, both, true, chosen):
        """The score of each document, given the sizes of three sets [N]."""
        raise NotImplementedError


@keras.saving.register_keras_serializable(package="bat_tf")
class SubsetAccuracy(SampleScore):
    """Share of the documents whose chosen labels are exactly the true ones.

    Args:
        num_labels: number of labels L, or None.
        **settings: see `SampleScore`.

    Example:
        >>> from bat_tf.metrics import SubsetAccuracy
        >>> metric = SubsetAccuracy(3)
        >>> metric.update_state([[0, 2], [1, -1]], [[3.0, -1, 2], [1, 1, -4]])
        >>> float(metric.result())
        0.5

    Reference:
        ZLPR, "SubACC".
    """

    def __init__(self, num_labels=None, **settings):
        super().__init__(num_labels, **{"name": "subset_accuracy", **settings})

    def of_sets(self, both, true, chosen):
        """1 where nothing is missing or too much."""
        return ops.logical_and(both == true, both == chosen)


@keras.saving.register_keras_serializable(package="bat_tf")
class SampleF1(SampleScore):
    """F1 of each document's labels, averaged over the documents.

        mean 2 |ŷ ∩ y| / (|ŷ| + |y|),  and 1 where both sets are empty

    Args:
        num_labels: number of labels L, or None.
        **settings: see `SampleScore`.

    Example:
        >>> from bat_tf.metrics import SampleF1
        >>> metric = SampleF1(3)
        >>> metric.update_state([[0, 2], [-1, -1]], [[3.0, 1, -1], [-1, -1, -4]])
        >>> float(metric.result())
        0.75

    Reference:
        ZLPR, "MLC-F1".
    """

    def __init__(self, num_labels=None, **settings):
        super().__init__(num_labels, **{"name": "sample_f1", **settings})

    def of_sets(self, both, true, chosen):
        """Twice the labels in both sets, by those in each."""
        return _share(2 * both, true + chosen)


@keras.saving.register_keras_serializable(package="bat_tf")
class SampleJaccard(SampleScore):
    """Jaccard index of each document's labels, averaged over the documents.

        mean |ŷ ∩ y| / |ŷ ∪ y|,  and 1 where both sets are empty

    Args:
        num_labels: number of labels L, or None.
        **settings: see `SampleScore`.

    Example:
        >>> from bat_tf.metrics import SampleJaccard
        >>> metric = SampleJaccard()
        >>> metric.update_state([[0, 2], [-1, -1]], [[3.0, 1, -1], [-1, -1, -4]])
        >>> round(float(metric.result()), 4)
        0.6667
    """

    def __init__(self, num_labels=None, **settings):
        super().__init__(num_labels, **{"name": "sample_jaccard", **settings})

    def of_sets(self, both, true, chosen):
        """The labels in both sets, by those in either."""
        return _share(both, true + chosen - both)


@keras.saving.register_keras_serializable(package="bat_tf")
class LabelFScore(Thresholded, CountedFScore):
    r"""F score of the labels: of the pooled counts (micro) or label by label (macro).

        F_β = (1 + β²) TP / ((1 + β²) TP + β² FN + FP)

    $$F_\beta = \frac{(1+\beta^2)\,TP}{(1+\beta^2)\,TP + \beta^2 FN + FP}$$

    It equals `sklearn.metrics.fbeta_score(labels=label_ids)`. The state is three counts
    per label; `scores()` gives precision and recall besides, and `per_class()` all of
    them for every label.

    Args:
        num_labels: number of labels L, or None.
        average: `"micro"`, `"macro"` or `"weighted"`.
        beta: weight of recall against precision.
        threshold: as in `SampleScore`.
        label_ids: the labels that enter the average, such as the tail; all by default.
            All documents count either way.
        zero_division: score of a label (for micro, of all data) that neither occurs nor
            is chosen. 0 is scikit-learn's value and that of the balanced losses; 1
            gives the macro F1 of ZLPR's tables.
        targets: what `y_true` is, see the top of this file.
        name: name of the metric.
        dtype: dtype of the result.

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
        num_labels=None,
        *,
        average="micro",
        beta=1.0,
        threshold=0.0,
        label_ids=None,
        zero_division=0.0,
        targets=None,
        name="label_f_score",
        dtype=None,
    ):
        super().__init__(None, beta, average, zero_division, name, dtype)
        self.targets = _targets.check_form(targets)
        self.label_ids = None if label_ids is None else np.unique(label_ids)
        self._set_threshold(num_labels, threshold)

    def _see(self, num_labels):
        if self.label_ids is not None:
            _check_ids(self.label_ids, num_labels)
        super()._see(num_labels)
        self.fit_to(num_labels)

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Counts the labels of a batch."""
        true, chosen, weight = self.sets(y_true, y_pred, sample_weight)
        weight = column(weight)
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


def rows(y_true, y_pred, sample_weight, num_labels, metric):
    """`Labels`, float32 scores [N, L] and weights [N] or None, as a metric needs them.

    Args:
        y_true: see the top of this file.
        y_pred: see the top of this file.
        sample_weight: see the top of this file.
        num_labels: L, if it is known.
        metric: its setting `targets` counts.
    """
    y_pred = ops.convert_to_tensor(y_pred)
    true, scores, valid = _targets.as_rows(y_true, y_pred)
    scores, shape = ops.cast(scores, "float32"), tuple(scores.shape)
    fits = len(shape) == 2 and shape[1] is not None and num_labels in (None, shape[1])
    if not fits:
        width = "L" if num_labels is None else num_labels
        expected = f"scores of shape [B, {width}]"
        raise ValueError(sentence("y_pred", expected, tuple(y_pred.shape)))
    true = _targets.read(true, shape[1], metric.targets, valid=valid)
    return true, scores, _targets.row_weights(sample_weight, y_pred, valid)


def positives(true, num_labels):
    """`Labels` as a bool multi-hot [N, L]; a probability counts as one above 0.5."""
    hot = _targets.as_multi_hot(true, num_labels)
    return hot if hot.dtype == "bool" else hot > 0.5


def column(weight):
    """Weights of rows [N] as float64 [N, 1], or 1 for all of them."""
    if weight is None:
        return ops.ones((1, 1), "float64")
    return ops.expand_dims(ops.cast(weight, "float64"), -1)


def _size(labels):
    return ops.sum(ops.cast(labels, "float32"), axis=-1)


def _share(part, whole):
    return ops.where(whole == 0, 1.0, part / ops.maximum(whole, 1.0))


def _check_ids(label_ids, num_labels):
    if not label_ids.size or label_ids[0] < 0 or label_ids[-1] >= num_labels:
        expected = f"ids of labels from 0 to {num_labels - 1}, one or more"
        raise ValueError(sentence("label_ids", expected, label_ids.tolist()))


NAMES = {
    "subset_accuracy": (SubsetAccuracy, {}),
    "mlc_f1": (SampleF1, {}),
    "jaccard": (SampleJaccard, {}),
    "micro_f1": (LabelFScore, {"average": "micro"}),
    "macro_f1": (LabelFScore, {"average": "macro"}),
    "macro_f2": (LabelFScore, {"average": "macro", "beta": 2.0}),
}
