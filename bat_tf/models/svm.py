"""SVMClassifier: the baseline that a label classifier has to beat."""

import numpy as np

from bat_tf._validation import check_choice, check_number, import_optional, sentence
from bat_tf.data.dataset import TextDataset
from bat_tf.data.labels import LabelSpace
from bat_tf.metrics import get as get_metric
from bat_tf.metrics.label_report import LabelReport
from bat_tf.models.text_model import is_east_asian
from bat_tf.thresholds import fit_threshold

# How scikit-learn is to find the units of a text; one-letter words are words too.
_UNITS = {
    "words": {"analyzer": "word", "token_pattern": r"\w+"},
    "characters": {"analyzer": "char"},
}


class SVMClassifier:
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
        C: what an error costs against a wide margin, the same for all labels.
        threshold: the decision value above which a label is chosen.

    Attributes:
        weights: float32 array [L, F], None before `fit`.
        bias: float32 array [L], None before `fit`.

    Example:
        >>> from bat_tf.data.dataset import Example
        >>> rows = [("oil and gas", "energy"), ("rain and wind", "weather")] * 4
        >>> train = TextDataset(Example(text, labels=[name]) for text, name in rows)
        >>> model = SVMClassifier.for_data(train).fit(train)
        >>> [name for name, score in model.label("heavy rain")]
        ['weather']

    Reference:
        S1, "Balancing Methods for Multi-label Text Classification with Long-Tailed
        Class Distribution", section 4: the row SVM of the tables.
    """

    def __init__(
        self, labels, *, unit="words", ngrams=1, min_count=2, C=1.0, threshold=0.0
    ):
        import_optional("sklearn", "baselines", "SVMClassifier")
        from sklearn.feature_extraction.text import TfidfVectorizer

        self.labels = labels if isinstance(labels, LabelSpace) else LabelSpace(labels)
        if not len(self.labels):
            raise ValueError("`labels` must name one label at least. Received none.")
        self.unit = check_choice("unit", unit, _UNITS)
        self.ngrams = check_number("ngrams", ngrams, low=1, integer=True)
        self.min_count = check_number("min_count", min_count, low=1, integer=True)
        self.C = check_number("C", C, low=0)
        if not C:
            raise ValueError(sentence("C", "a number > 0", C))
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
        _check_data("train", train)
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
                chosen; None to leave it as it is.

        Returns:
            The classifier itself.
        """
        _check_data("train", train)
        if validation_data is not None:
            _check_data("validation_data", validation_data)
        try:
            features = self._vectorizer.fit_transform(train.texts)
        except ValueError as error:
            raise ValueError(
                f"`train` has no {self.unit} that occur in {self.min_count} texts. "
                "Give more texts or a smaller `min_count`."
            ) from error
        targets = self.labels.csr(train.labels, unknown="skip")
        self.weights, self.bias = separate(features, targets, self.C)
        if validation_data is not None:
            truth = self.labels.csr(validation_data.labels, unknown="skip")
            scores = self.scores(validation_data.texts)
            self.threshold = fit_threshold(scores, truth).values
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
        if not len(texts):
            return np.zeros((0, len(self.labels)), "float32")
        features = self._vectorizer.transform(texts).astype("float32")
        return features @ self.weights.T + self.bias

    def label(self, texts):
        """Chooses the labels of a text, or of each text of a list.

        Returns:
            A list of (name, decision value), highest first, for one text; a list of
            such lists for a list of texts.
        """
        if isinstance(texts, str):
            return self.label([texts])[0]
        chosen = []
        for row in self.scores(texts):
            order = np.argsort(-row, kind="stable")
            order = order[row[order] > self.threshold]
            chosen.append([(self.labels.names[i], float(row[i])) for i in order])
        return chosen

    def evaluate_report(self, dataset, metrics=(), **settings):
        """Scores a dataset in full, as `LabelClassifier.evaluate_report` does.

        Args:
            dataset: a `TextDataset` with labels; those not in `labels` are left out.
            metrics: names of more metrics that rank, such as `"p@5"` and `"psp@5"`.
            **settings: of `LabelReport.of_chunks`, such as `label_bounds`.

        Returns:
            A `LabelReport`.
        """
        _check_data("dataset", dataset)
        return LabelReport.of_scores(
            self.scores(dataset.texts),
            self.labels.csr(dataset.labels, unknown="skip"),
            self.labels,
            self.threshold,
            metrics={name: get_metric(name, **self.labels.facts) for name in metrics},
            data=dataset.name,
            **settings,
        )

    def describe(self):
        """What a run's report says of the model."""
        return {"features": self.weights.shape[1], "thresholds": self.threshold}

    def count_params(self):
        """The number of weights."""
        return self.weights.size + self.bias.size


def separate(features, targets, C=1.0):
    """The hyperplane of each label, by a linear support vector machine.

    Args:
        features: sparse matrix [N, F].
        targets: sparse matrix [N, L] of 0 and 1.
        C: what an error costs against a wide margin.

    Returns:
        (weights [L, F], bias [L]), float32.
    """
    from sklearn.svm import LinearSVC

    targets = targets.tocsc()
    weights = np.zeros((targets.shape[1], features.shape[1]), "float32")
    bias = np.zeros(targets.shape[1], "float32")
    for label in range(targets.shape[1]):
        target = targets[:, [label]].toarray().ravel()
        if target.min() == target.max():
            # What the machine would find, if it could.
            bias[label] = 2 * target[0] - 1
            continue
        machine = LinearSVC(C=C, random_state=0).fit(features, target)
        weights[label], bias[label] = machine.coef_[0], machine.intercept_[0]
    return weights, bias


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
    from sklearn.linear_model import LogisticRegression

    order = np.random.default_rng(0).permutation(features.shape[0])
    values, truth = [], []
    for part in np.array_split(order, folds):
        rest = np.setdiff1d(order, part)
        weights, bias = separate(features[rest], targets[rest], C)
        values.append(features[part] @ weights.T + bias)
        truth.append(targets[part].toarray())
    values, truth = (np.concatenate(x).ravel() for x in (values, truth))
    scale = LogisticRegression(C=np.inf).fit(values[:, None], truth > 0)
    factor, shift = float(scale.coef_[0, 0]), float(scale.intercept_[0])
    weights, bias = separate(features, targets, C)
    return factor * weights, factor * bias + shift


def _check_data(argument, dataset):
    if not isinstance(dataset, TextDataset) or dataset.task != "labels":
        remedy = 'Read one with `bat_tf.data.read("train.jsonl")`.'
        expected = "a TextDataset whose examples have labels"
        raise TypeError(sentence(argument, expected, dataset, remedy))
