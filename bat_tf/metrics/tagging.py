"""F scores of tokens."""

import keras
from keras import ops

from bat_tf._internal.validation import check_number, sentence
from bat_tf.metrics._counts import CountedFScore, tags_and_predictions


@keras.saving.register_keras_serializable(package="bat_tf")
class TokenFScore(CountedFScore):
    r"""F score of tokens, class by class, then averaged over the classes.

    Every class is scored against the rest over the valid tokens of everything seen
    since the last reset:

        F_β = (1 + β²) TP / ((1 + β²) TP + β² FN + FP)

    $$F_\beta = \frac{(1+\beta^2)\,TP}{(1+\beta^2)\,TP + \beta^2 FN + FP}$$

    It equals `sklearn.metrics.fbeta_score(labels=...)`. The state is three counts per
    class. Tokens with tag `ignore_index` or under a Keras mask do not count.

    Args:
        num_classes: number of classes C; None: as many as the first scores have.
        beta: weight of recall against precision; 1 and 2 in the paper.
        average: `"macro"` (the paper), `"micro"` or `"weighted"`.
        exclude: ids of classes that do not enter the average, such as `[0]` for
            "none". Tokens of these classes still count as errors of the others.
        ignore_index: tag of tokens that do not count.
        zero_division: score of a class that neither occurs nor is predicted; 0 as in
            scikit-learn.
        name: name of the metric.
        dtype: dtype of the result.

    Call arguments:
        y_true: integer tags `[B, T]`, or one-hot `[B, T, C]`.
        y_pred: logits or probabilities `[B, T, C]`, or predicted tags `[B, T]`.
        sample_weight: optional, per row `[B]` or per token `[B, T]`.

    Example:
        >>> from bat_tf.metrics import TokenFScore
        >>> metric = TokenFScore(3, beta=2.0)
        >>> metric.update_state([[0, 0, 1, 2, -1]], [[0, 1, 1, 0, 0]])
        >>> round(float(metric.result()), 4)
        0.4444
        >>> metric.per_class()["recall"].tolist()
        [0.5, 1.0, 0.0]

    Reference:
        Born for Auto-Tagging, Tables 3 to 9 (all classes) and 10 to 13 (without none).
    """

    def __init__(
        self,
        num_classes=None,
        *,
        beta=1.0,
        average="macro",
        exclude=None,
        ignore_index=-1,
        zero_division=0.0,
        name="token_f_score",
        dtype=None,
    ):
        self.exclude = sorted(set(exclude or ()))
        super().__init__(num_classes, beta, average, zero_division, name, dtype)
        self.ignore_index = check_number("ignore_index", ignore_index, integer=True)

    def fit_to(self, num_classes):
        """Makes the state, unless it is there, for this number of classes."""
        check_number("num_classes", num_classes, low=2, integer=True)
        everything = set(range(num_classes))
        if not set(self.exclude) < everything:
            expected = f"ids of some, not all, of the classes 0 to {num_classes - 1}"
            raise ValueError(sentence("exclude", expected, self.exclude))
        super().fit_to(num_classes)

    @property
    def num_classes(self):
        """The number of classes, once it is known."""
        return self.size

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Counts the tokens of a batch."""
        y_true, y_pred, num_classes = tags_and_predictions(
            y_true, y_pred, self.size, self.ignore_index
        )
        self.fit_to(num_classes)
        valid = ops.not_equal(y_true, self.ignore_index)
        weight = ops.cast(valid, "float32")
        if sample_weight is not None:
            sample_weight = ops.cast(sample_weight, "float32")
            if len(sample_weight.shape) == 1 and len(y_true.shape) == 2:
                sample_weight = ops.expand_dims(sample_weight, -1)
            weight = weight * sample_weight
        y_true = ops.where(valid, y_true, 0)
        correct = ops.cast(ops.equal(y_true, y_pred), "float32")
        self.count(
            true_positives=self._sum_by_class(weight * correct, y_true),
            predicted=self._sum_by_class(weight, y_pred),
            actual=self._sum_by_class(weight, y_true),
        )

    def _sum_by_class(self, values, classes):
        return ops.segment_sum(
            ops.reshape(values, (-1,)), ops.reshape(classes, (-1,)), self.num_classes
        )

    def counted_classes(self):
        """Returns 1 for every class that is not excluded, else 0."""
        return ops.convert_to_tensor(
            [float(i not in self.exclude) for i in range(self.num_classes)]
        )


NAMES = {
    "token_macro_f1": (TokenFScore, {"beta": 1.0}),
    "token_macro_f2": (TokenFScore, {"beta": 2.0}),
    "token_macro_f1_no_none": (TokenFScore, {"beta": 1.0, "exclude": [0]}),
    "token_macro_f2_no_none": (TokenFScore, {"beta": 2.0, "exclude": [0]}),
}
