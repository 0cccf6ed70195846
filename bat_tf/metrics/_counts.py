"""F scores from three counts per class: true positives, predicted and actual."""

import keras
from keras import ops

from bat_tf._internal.keras_private import keras_mask, set_direction
from bat_tf._internal.registry import FromArguments
from bat_tf._internal.tags import integer_tags, of_one_hot
from bat_tf._internal.validation import check_choice, check_number, sentence

AVERAGES = ("macro", "micro", "weighted")


class CountedFScore(FromArguments, keras.metrics.Metric):
    """What the F scores of tokens and of spans share: the counts and what they give.

    With true positives TP, predicted P = TP + FP and actual A = TP + FN, counted over
    everything since the last reset:

        F_β = (1 + β²) TP / (β² A + P)

    A subclass counts with `self.count(true_positives, predicted, actual)` in its
    `update_state`, after `self.fit_to(num_classes)`.

    Args:
        num_classes: number of classes; the state is three vectors of that length. None:
            as many as the first batch has.
        beta: weight of recall against precision.
        average: `"macro"`, `"micro"` or `"weighted"` (by actual counts).
        zero_division: the value of 0/0.
        name: name of the metric.
        dtype: dtype of the result.
    """

    def __init__(
        self, num_classes, beta, average, zero_division, name=None, dtype=None
    ):
        super().__init__(name=name, dtype=dtype)
        self.beta = check_number("beta", beta, low=0)
        self.average = check_choice("average", average, AVERAGES)
        self.zero_division = check_number("zero_division", zero_division, 0, 1)
        set_direction(self, "up")
        self.size = None
        if num_classes is not None:
            self.fit_to(num_classes)

    def fit_to(self, num_classes):
        """Makes the state, unless it is there, for this number of classes."""
        if self.size is not None:
            return
        self.size = num_classes
        self.true_positives, self.predicted, self.actual = (
            # float32 stops counting at 2**24, which the sum over many labels passes.
            self.add_variable((num_classes,), "zeros", dtype="float64", name=name)
            for name in ("true_positives", "predicted", "actual")
        )

    def count(self, true_positives, predicted, actual):
        """Adds the counts of one batch, each of shape [num_classes]."""
        for total, more in (
            (self.true_positives, true_positives),
            (self.predicted, predicted),
            (self.actual, actual),
        ):
            total.assign(total + ops.cast(more, "float64"))

    def result(self):
        return ops.cast(self._averaged()[self.score], self.dtype)

    score = "f_score"  # which of precision, recall and F score is the result

    def scores(self):
        """Returns precision, recall and F score, averaged, as a dict of floats."""
        return {key: float(value) for key, value in self._averaged().items()}

    def per_class(self):
        """Returns what stands behind the average, as a dict of NumPy vectors.

        The keys are `precision`, `recall`, `f_score`, and the counts
        `true_positives`, `predicted` and `actual`; one entry per class.
        """
        counts = self._counts()
        values = {**self._scores(*counts.values()), **counts}
        return {key: ops.convert_to_numpy(value) for key, value in values.items()}

    def counted_classes(self):
        """Returns 1 for every class that enters the average, else 0."""
        return ops.ones_like(self.actual)

    def _counts(self):
        return {
            "true_positives": ops.copy(self.true_positives),
            "predicted": ops.copy(self.predicted),
            "actual": ops.copy(self.actual),
        }

    def _scores(self, true_positives, predicted, actual):
        square = self.beta**2
        return {
            "precision": self._divide(true_positives, predicted),
            "recall": self._divide(true_positives, actual),
            "f_score": self._divide(
                (1 + square) * true_positives, square * actual + predicted
            ),
        }

    def _averaged(self):
        if self.size is None:  # nothing was seen
            return self._scores(*ops.zeros((3,), "float64"))
        counts = self._counts()
        counted = ops.cast(self.counted_classes(), "float64")
        if self.average == "micro":
            totals = [ops.sum(count * counted) for count in counts.values()]
            return self._scores(*totals)
        if self.average == "weighted":
            weights = counted * counts["actual"]
            # Without anything actual to weigh by, all classes weigh the same.
            counted = ops.where(ops.sum(weights) == 0, counted, weights)
        return {
            key: self._divide(ops.sum(score * counted), ops.sum(counted))
            for key, score in self._scores(*counts.values()).items()
        }

    def _divide(self, numerator, denominator):
        safe = ops.where(denominator == 0, 1.0, denominator)
        return ops.where(denominator == 0, self.zero_division, numerator / safe)


def tags_and_predictions(y_true, y_pred, num_classes, ignore_index):
    """Returns true and predicted tags, both int32 [B, T], and the number of classes.

    Args:
        y_true: tags [B, T], or one-hot [B, T, C].
        y_pred: scores [B, T, C], of which the largest is the prediction, or tags.
        num_classes: C, or None if the shapes have to tell.
        ignore_index: what a token under a Keras mask gets as its true tag.
    """
    y_true, y_pred = ops.convert_to_tensor(y_true), ops.convert_to_tensor(y_pred)
    shapes = tuple(y_true.shape), tuple(y_pred.shape)
    if len(shapes[1]) > 2 or len(shapes[1]) == len(shapes[0]) + 1:
        if num_classes not in (None, shapes[1][-1]):
            raise ValueError(
                f"`y_pred` must have {num_classes} classes on its last axis, as the "
                f"metric has. Received: shape {shapes[1]}."
            )
        num_classes = shapes[1][-1]
        y_true = integer_tags(y_true, y_pred, ignore_index)
        return y_true, ops.cast(ops.argmax(y_pred, axis=-1), "int32"), num_classes
    if len(shapes[0]) == 3 and len(shapes[1]) == 2:
        num_classes = num_classes or shapes[0][-1]
        y_true = of_one_hot(y_true, ignore_index)
    elif len(shapes[0]) != len(shapes[1]):
        raise ValueError(
            "`y_pred` must be scores [B, T, C] or tags [B, T] for `y_true` [B, T]. "
            f"Received: shapes {shapes[1]} and {shapes[0]}."
        )
    if num_classes is None:
        remedy = "Pass it, or scores [B, T, C] as `y_pred`."
        expected = "given where tags are all that the metric sees"
        raise ValueError(sentence("num_classes", expected, None, remedy))
    mask = keras_mask(y_pred)
    y_true = ops.cast(y_true, "int32")
    if mask is not None:
        y_true = ops.where(mask, y_true, ignore_index)
    return y_true, ops.cast(y_pred, "int32"), num_classes
