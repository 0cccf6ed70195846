"""SVMClassifier: the baseline that a label classifier has to beat."""

import numpy as np
import scipy.sparse
import tensorflow as tf

from bat_tf._internal.validation import (
    check_choice,
    check_number,
    sentence,
)
from bat_tf.answers import Labelling, answered, label_answers, option_inputs
from bat_tf.data.labels import LabelSpace
from bat_tf.metrics import get as get_metric
from bat_tf.metrics.label_report import LabelReport
from bat_tf.models.linear import as_logits, separate
from bat_tf.models.parts import check_data, is_east_asian
from bat_tf.thresholds import fit_threshold

# How scikit-learn is to find the units of a text; one-letter words are words too.
_UNITS = {
    "words": {"analyzer": "word", "token_pattern": r"\w+"},
    "characters": {"analyzer": "char"},
}


class SVMClassifier(Labelling):
    """One linear support vector machine a label, on the TF-IDF of a text's words.

    A label is chosen where its decision value is above `threshold`: 0 is the hyperplane
    itself, which rare labels seldom reach, hence `fit` shifts it to where micro-F1 on
    validation data is highest. A label without a training example is never as near as
    that: its decision value is -1, as for a clear negative.

    Args:
        labels: a `LabelSpace`, or the names.
        unit: `"words"`, or `"characters"` for texts without blanks between words.
        ngrams: how many neighbouring units make a feature at most.
        min_count: how many training texts a feature has to occur in.
        C: what an error costs against a wide margin, the same for all labels; or a list
            to search: `fit` keeps the one with the best micro-F1 on validation data,
            the first of equals.
        threshold: the decision value above which a label is chosen.

    Attributes:
        C: after `fit`, the one that was kept.
        weights: float32 array [L, F], None before `fit`.
        bias: float32 array [L], None before `fit`.

    Example:
        >>> from bat_tf.data import Example, TextDataset
        >>> rows = [("oil and gas", "energy"), ("rain and wind", "weather")] * 4
        >>> train = TextDataset(Example(text, labels=[name]) for text, name in rows)
        >>> model = SVMClassifier.for_data(train).fit(train)
        >>> [name for name, score in model.label("heavy rain")]
        ['weather']

    Reference:
        S1, "Balancing Methods for Multi-label Text Classification with Long-Tailed
        Class Distribution", the row SVM of Table 2.
    """

    def __init__(
        self, labels, *, unit="words", ngrams=1, min_count=2, C=1.0, threshold=0.0
    ):
        from sklearn.feature_extraction.text import TfidfVectorizer

        self.labels = labels if isinstance(labels, LabelSpace) else LabelSpace(labels)
        if not len(self.labels):
            raise ValueError("`labels` must name one label at least. Received none.")
        self.unit = check_choice("unit", unit, _UNITS)
        self.ngrams = check_number("ngrams", ngrams, low=1, integer=True)
        self.min_count = check_number("min_count", min_count, low=1, integer=True)
        self.costs = [*C] if isinstance(C, (list, tuple)) else [C]
        for cost in self.costs:
            if not check_number("C", cost, low=0):
                raise ValueError(sentence("C", "a number > 0", cost))
        if not self.costs:
            raise ValueError(sentence("C", "a number > 0, or a list of them", C))
        self.C = self.costs[0]
        self.threshold = check_number("threshold", threshold)
        self.weights = self.bias = None
        self._vectorizer = TfidfVectorizer(
            sublinear_tf=True,
            ngram_range=(1, ngrams),
            min_df=min_count,
            **_UNITS[unit],
        )

    @classmethod
    def for_data(cls, train, *, labels=None, unit=None, **settings):
        """Makes a classifier for the labels and the script of a data set.

        Args:
            train: a `TextDataset` with labels. Only this part is looked at.
            labels: a `LabelSpace` if it is to be another than that of `train`.
            unit: see the class; None for characters if most of the texts is Chinese or
                Japanese, else words.
            **settings: see the class.

        Returns:
            An `SVMClassifier`, not fitted yet.
        """
        check_data(train, "labels", "train")
        if unit is None:
            unit = "characters" if is_east_asian(train.texts) else "words"
        labels = LabelSpace.fit(train.labels) if labels is None else labels
        return cls(labels, unit=unit, **settings)

    def fit(self, train, validation_data=None):
        """Learns weights from one data set and the threshold from another.

        Labels that are not in `labels` are passed over.

        Args:
            train: a `TextDataset` with labels.
            validation_data: a `TextDataset` with labels, on which the threshold is
                chosen, and C where there are several; None to leave it as it is.

        Returns:
            The classifier itself.
        """
        check_data(train, "labels", "train")
        if validation_data is not None:
            check_data(validation_data, "labels", "validation_data")
        elif len(self.costs) > 1:
            remedy = "Give it, or one `C`."
            expected = "a TextDataset, to choose among several `C`"
            raise ValueError(sentence("validation_data", expected, None, remedy))
        try:
            features = self._vectorizer.fit_transform(train.texts)
        except ValueError as error:
            raise ValueError(
                f"`train` has no {self.unit} that occur in {self.min_count} texts. "
                "Give more texts or a smaller `min_count`."
            ) from error
        targets = self.labels.csr(train.labels, unknown="skip")
        if validation_data is None:
            self.weights, self.bias = separate(features, targets, self.C)
            return self
        truth = self.labels.csr(validation_data.labels, unknown="skip")
        best = -1.0
        for cost in self.costs:
            weights, bias = separate(features, targets, cost)
            scores = self._decide(validation_data.texts, weights, bias)
            fitted = fit_threshold(scores, truth)
            if fitted.score > best:
                best, self.C, self.threshold = fitted.score, cost, fitted.values
                self.weights, self.bias = weights, bias
        return self

    def scores(self, texts):
        """Returns the decision value of every label for each text.

        Args:
            texts: a list of strings.

        Returns:
            A float32 array [N, L], above 0 on the positive side of the hyperplane.
        """
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise TypeError(sentence("texts", "a list of strings", texts))
        if self.weights is None:
            raise RuntimeError("This SVMClassifier is not fitted: call `fit` first.")
        return self._decide(texts, self.weights, self.bias)

    def _decide(self, texts, weights, bias):
        if not len(texts):
            return np.zeros((0, len(self.labels)), "float32")
        features = self._vectorizer.transform(texts).astype("float32")
        return features @ weights.T + bias

    @property
    def names(self):
        """The labels."""
        return list(self.labels.names)

    def answer(self, texts, batch_size=None, top_k=None, threshold=None):
        """See `bat_tf.answers.Answering`; scores are decision values."""

        def find(texts, **options):
            scores, options = self.scores(texts), option_inputs(len(texts), **options)
            meaning = (self.threshold, None, None)  # decision values, no probabilities
            yield (
                range(len(texts)),
                label_answers(tf.constant(scores), self.names, *meaning, **options),
            )

        return answered(find, self.task, texts, top_k=top_k, threshold=threshold)

    def evaluate_report(self, dataset, metrics=(), **settings):
        """Scores a dataset in full, as `LabelClassifier.evaluate_report` does.

        Args:
            dataset: a `TextDataset` with labels; those not in `labels` count as missed.
            metrics: names of more metrics that rank, such as `"psp_at_5"`.
            **settings: of `LabelReport.of_chunks`, such as `label_bounds`.

        Returns:
            A `LabelReport`.
        """
        check_data(dataset, "labels", "dataset")
        return LabelReport.of_scores(
            self.scores(dataset.texts),
            self.labels.csr(dataset.labels, unknown="skip"),
            self.labels,
            self.threshold,
            metrics={name: get_metric(name, **self.labels.facts) for name in metrics},
            unknown=self.labels.unknown(dataset.labels),
            data=dataset.name,
            **settings,
        )

    def describe(self):
        """What a run's report says of the model."""
        about = {"features": self.weights.shape[1], "thresholds": self.threshold}
        return {**about, "C": self.C} if len(self.costs) > 1 else about

    def count_params(self):
        """The number of weights."""
        return self.weights.size + self.bias.size


def separate_as_logits(features, targets, C=1.0, folds=3):
    """As `separate`, with decision values that are logits of probabilities.

    One factor and one shift do it for all labels (Platt scaling); they are fitted to
    decision values of texts that the machines had not seen.

    Args:
        features: sparse matrix [N, F].
        targets: sparse matrix [N, L] of 0 and 1.
        C: what an error costs against a wide margin.
        folds: parts of the texts that are set aside in turn.

    Returns:
        (weights [L, F], bias [L]), float32.
    """
    order = np.random.default_rng(0).permutation(features.shape[0])
    values, truth = [], []
    for part in np.array_split(order, folds):
        rest = np.setdiff1d(order, part)
        weights, bias = separate(features[rest], targets[rest], C)
        values.append(features[part] @ weights.T + bias)
        truth.append(targets[part])
    factor, shift = as_logits(np.concatenate(values), scipy.sparse.vstack(truth))
    weights, bias = separate(features, targets, C)
    return factor * weights, factor * bias + shift
