"""How well the scores of a document order its labels, and how good the first k are.

None of these has a threshold. Ties are counted against the model in the two metrics
over all labels; among the first k, the lower id comes first. What they are called with
is said in `bat_tf.metrics.multilabel`.

Where only the first k labels are looked at, `y_pred` is scores `[B, L]`, or a tuple
(ids, scores) of the best labels that a model found: integers and floats, both `[B, M]`
with M >= k, in any order, an id of -1 where a document has fewer. Nothing then has the
size of all labels.
"""

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from bat_tf._internal.keras_private import set_direction
from bat_tf._internal.targets import (
    MULTI_HOT,
    check_form,
    dense,
    form_of,
    once,
    read,
    row_weights,
)
from bat_tf._internal.validation import (
    check_choice,
    check_counts,
    check_number,
    sentence,
)
from bat_tf.metrics._counts import CountedFScore
from bat_tf.metrics.multilabel import Ratio, column, positives, rows

EMPTY_ROWS = ("zero", "one", "skip")
TOP_K_SCORES = ("precision", "recall", "ndcg")
MACRO_SCORES = ("precision", "recall", "f_score")
GROUPS = ("few", "medium", "many")


class _Ranking(Ratio):
    """A mean over documents that needs all labels in the order of their scores."""

    def _groups(self, y_true, y_pred, sample_weight):
        """Sorts each row and gathers labels of the same score in groups, best first.

        Returns:
            Three float tensors [N, L], by group: how many of its labels are true, how
            many labels score as high or higher, and how many of those are true. Rows
            have fewer groups than labels where scores tie; the rest is empty. And the
            weights of the rows.
        """
        labels, scores, weight = rows(y_true, y_pred, sample_weight, None, self)
        width = scores.shape[1]
        true = ops.cast(positives(labels, width), "float32")
        scores, order = ops.top_k(scores, width)
        true = ops.take_along_axis(true, order, axis=1)
        new = ops.cast(scores[:, 1:] != scores[:, :-1], "int32")
        group = ops.pad(ops.cumsum(new, axis=1), ((0, 0), (1, 0)))
        size = ops.shape(scores)[0]
        group = ops.reshape(ops.expand_dims(ops.arange(size), 1) * width + group, (-1,))

        def by_group(values):
            sums = ops.segment_sum(ops.reshape(values, (-1,)), group, size * width)
            return ops.reshape(sums, (size, width))

        true, size_of = by_group(true), by_group(ops.ones_like(true))
        return true, ops.cumsum(size_of, axis=1), ops.cumsum(true, axis=1), weight


@keras.saving.register_keras_serializable(package="bat_tf")
class LabelRankingAveragePrecision(_Ranking):
    """Average precision of each document's true labels, averaged over the documents.

        mean_n 1/|y| Σ_{a ∈ y} #{b ∈ y: s_b ≥ s_a} / #{b: s_b ≥ s_a}

    It equals `sklearn.metrics.label_ranking_average_precision_score`, except for
    documents without labels.

    Args:
        empty_rows: what a document without labels counts: `"zero"` (ZLPR's tables),
            `"one"` (scikit-learn), or `"skip"`.
        **settings: `targets`, `name` and `dtype`, see `bat_tf.metrics.multilabel`.

    Example:
        >>> from bat_tf.metrics import LabelRankingAveragePrecision
        >>> metric = LabelRankingAveragePrecision()
        >>> metric.update_state([[0, 2]], [[3.0, 2, 1]])
        >>> round(float(metric.result()), 4)
        0.8333

    Reference:
        ZLPR, "AvgPrec".
    """

    def __init__(self, *, empty_rows="zero", **settings):
        super().__init__(**{"name": "label_ranking_average_precision", **settings})
        self.empty_rows = check_choice("empty_rows", empty_rows, EMPTY_ROWS)

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds the documents of a batch."""
        true, above, true_above, weight = self._groups(y_true, y_pred, sample_weight)
        size = ops.sum(true, axis=-1)
        precision = true_above / ops.maximum(above, 1.0)
        value = ops.sum(true * precision, axis=-1) / ops.maximum(size, 1.0)
        if self.empty_rows == "one":
            value = ops.where(size == 0, 1.0, value)
        self.add(value, weight, size > 0 if self.empty_rows == "skip" else None)


@keras.saving.register_keras_serializable(package="bat_tf")
class LabelRankingLoss(_Ranking):
    """Share of the pairs (true, other label) in the wrong order; smaller is better.

        mean_n #{(a, b) ∈ y × ȳ: s_a ≤ s_b} / (|y| |ȳ|),  and 0 if y or ȳ is empty

    It equals `sklearn.metrics.label_ranking_loss`.

    Args:
        **settings: `targets`, `name` and `dtype`, see `bat_tf.metrics.multilabel`.

    Example:
        >>> from bat_tf.metrics import LabelRankingLoss
        >>> metric = LabelRankingLoss()
        >>> metric.update_state([[0, 2]], [[3.0, 2, 1]])
        >>> float(metric.result())
        0.5

    Reference:
        ZLPR, "RankLoss"; eq. 30 with |y| |ȳ| in the place of |ŷ| |y|, a misprint.
    """

    def __init__(self, **settings):
        super().__init__(**{"name": "label_ranking_loss", **settings})
        set_direction(self, "down")

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds the documents of a batch."""
        true, above, true_above, weight = self._groups(y_true, y_pred, sample_weight)
        size = ops.sum(true, axis=-1)
        pairs = size * (float(true.shape[-1]) - size)
        wrong = ops.sum(true * (above - true_above), axis=-1)
        self.add(ops.divide_no_nan(wrong, pairs), weight)


@keras.saving.register_keras_serializable(package="bat_tf")
class TopK(Ratio):
    """Precision, recall or nDCG of the k best labels, averaged over the documents.

        P@k    = hits / k
        R@k    = hits / max(|y|, 1)
        nDCG@k = Σ_{hits} 1/log2(1 + rank) ÷ Σ_{r ≤ min(|y|, k)} 1/log2(1 + r)

    k is never reduced: a document with two labels has P@5 of 0.4 at best. Labels as ids
    stay ids; no `[B, L]` array of them is built.

    Args:
        k: how many labels are looked at.
        score: `"precision"`, `"recall"` or `"ndcg"`.
        **settings: `targets`, `name` and `dtype`, see `bat_tf.metrics.multilabel`.

    Example:
        >>> from bat_tf.metrics import TopK
        >>> metric = TopK(2, score="recall")
        >>> metric.update_state([[0, 2, 3]], [[3.0, 2, 1, 0]])
        >>> round(float(metric.result()), 4)
        0.3333
        >>> metric.update_state([[0, 2, 3]], ([[0, 2]], [[3.0, 2]]))
        >>> round(float(metric.result()), 4)
        0.5
    """

    def __init__(self, k, *, score="precision", **settings):
        super().__init__(**{"name": "top_k", **settings})
        self.k = check_number("k", k, low=1, integer=True)
        self.score = check_choice("score", score, TOP_K_SCORES)

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds the documents of a batch."""
        true = _TrueLabels(self, y_true, y_pred, sample_weight)
        hits = true.among(true.best(self.k))
        found = ops.sum(hits, axis=-1)
        if self.score == "precision":
            value = found / self.k
        elif self.score == "recall":
            value = found / ops.maximum(true.size(), 1.0)
        else:
            discount = 1 / np.log2(np.arange(self.k) + 2)
            ideal = np.cumsum(np.append(0.0, discount)).astype("float32")
            gain = hits * discount[: hits.shape[1]].astype("float32")
            best = ops.cast(ops.minimum(true.size(), self.k), "int32")
            value = ops.divide_no_nan(ops.sum(gain, axis=-1), ops.take(ideal, best))
        self.add(value, true.weight)


@keras.saving.register_keras_serializable(package="bat_tf")
class PropensityScoredTopK(Ratio):
    """Precision of the k best labels where a rare label counts more: PSP@k.

        Σ_n Σ_{l hit} 1/p_l  ÷  Σ_n (the k largest 1/p_l among the true labels)
        1/p_l = 1 + C (n_l + B)^-A,  C = (ln N - 1) (B + 1)^A

    Args:
        k: how many labels are looked at.
        label_counts: training documents per label, n.
        num_examples: number of training documents, N.
        propensity_a: A; 0.55 by default, 0.5 for Wikipedia, 0.6 for Amazon.
        propensity_b: B; 1.5 by default, 0.4 for Wikipedia, 2.6 for Amazon.
        **settings: `targets`, `name` and `dtype`, see `bat_tf.metrics.multilabel`.

    Example:
        >>> from bat_tf.metrics import PropensityScoredTopK
        >>> metric = PropensityScoredTopK(1, label_counts=[90, 9, 1], num_examples=100)
        >>> metric.update_state([[0, 2]], [[3.0, 2, 1]])
        >>> round(float(metric.result()), 4)
        0.3252

    Reference:
        Jain et al., Extreme multi-label loss functions, KDD 2016.
    """

    def __init__(
        self,
        k,
        label_counts,
        num_examples,
        *,
        propensity_a=0.55,
        propensity_b=1.5,
        **settings,
    ):
        super().__init__(**{"name": "propensity_scored_top_k", **settings})
        self.k = check_number("k", k, low=1, integer=True)
        self.label_counts = _as_counts(label_counts)
        self.num_examples = check_number("num_examples", num_examples, 1, integer=True)
        self.propensity_a = check_number("propensity_a", propensity_a, low=0)
        self.propensity_b = check_number("propensity_b", propensity_b, low=0)

    @property
    def inverse_propensity(self):
        """1/p for each label."""
        a, b = self.propensity_a, self.propensity_b
        scale = (np.log(self.num_examples) - 1) * (b + 1) ** a
        # Where a label was never seen and B is 0, the count is taken for 1.
        return 1 + scale * np.maximum(self.label_counts + b, b or 1.0) ** -a

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds the documents of a batch."""
        true = _TrueLabels(self, y_true, y_pred, sample_weight, len(self.label_counts))
        value = ops.convert_to_tensor(self.inverse_propensity, "float32")
        best = true.best(self.k)
        found = ops.sum(true.among(best) * ops.take(value, best), axis=-1)
        ideal, _ = ops.top_k(true.weighed(value, self.k), self.k)
        self.add(found, true.weight, ops.sum(ideal, axis=-1))


@keras.saving.register_keras_serializable(package="bat_tf")
class MacroTopK(CountedFScore):
    """Precision, recall or F1 of each label among the k best, averaged over labels.

    A label is chosen where it is among the k best of a document. With t hits, p times
    chosen and y documents that have it: P = t/p, R = t/y, F their harmonic mean, each
    0 where it is 0/0. The mean of these over a group of labels is the result; labels
    that the test documents lack are part of their group.

    Args:
        k: how many labels are chosen.
        label_counts: training documents per label.
        score: `"precision"`, `"recall"` or `"f_score"`.
        group: `"few"`, `"medium"` or `"many"`; None averages over all labels.
        boundaries: few is up to the first number of training documents, many is above
            the second.
        skip_absent: leave labels that the test documents lack out of the mean.
        targets: see `bat_tf.metrics.multilabel`.
        name: name of the metric.
        dtype: dtype of the result.

    Example:
        >>> from bat_tf.metrics import MacroTopK
        >>> metric = MacroTopK(1, label_counts=[500, 30, 2], score="recall")
        >>> metric.update_state([[0, 2]], [[3.0, 2, 1]])
        >>> round(float(metric.result()), 4)
        0.3333

    Reference:
        ME-XML, equations 12 to 15.
    """

    def __init__(
        self,
        k,
        label_counts,
        *,
        score="f_score",
        group=None,
        boundaries=(20, 100),
        skip_absent=False,
        targets=None,
        name="macro_top_k",
        dtype=None,
    ):
        counts = _as_counts(label_counts)
        super().__init__(len(counts), 1.0, "macro", 0.0, name, dtype)
        self.targets = check_form(targets)
        self.k = check_number("k", k, low=1, integer=True)
        self.label_counts = counts
        self.score = check_choice("score", score, MACRO_SCORES)
        self.group = check_choice("group", group, (None, *GROUPS))
        self.boundaries = tuple(boundaries)
        if len(self.boundaries) != 2 or self.boundaries[0] > self.boundaries[1]:
            expected = "two numbers of training documents, the smaller one first"
            raise ValueError(sentence("boundaries", expected, boundaries))
        self.skip_absent = bool(skip_absent)

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Counts the labels of a batch."""
        true = _TrueLabels(self, y_true, y_pred, sample_weight, len(self.label_counts))
        best = true.best(self.k)
        hits = ops.cast(true.among(best), "float64")
        weight = column(true.weight)
        self.count(
            true_positives=true.sum_by_label(best, hits * weight),
            predicted=true.sum_by_label(best, ops.ones_like(hits) * weight),
            actual=true.count_by_label(weight),
        )

    def counted_classes(self):
        """Returns 1 for every label of the group, else 0."""
        group = np.searchsorted(self.boundaries, self.label_counts, side="left")
        members = [self.group is None or GROUPS[g] == self.group for g in range(3)]
        counted = ops.convert_to_tensor(np.array(members, "float64")[group])
        return ops.where(self.actual > 0, counted, 0) if self.skip_absent else counted


class _TrueLabels:
    """The true labels of a batch, as ids [B, P] if they came as ids, else multi-hot."""

    def __init__(self, metric, y_true, y_pred, sample_weight=None, num_labels=None):
        self.found = self.scores = None
        if isinstance(y_pred, tuple):
            self.num_labels = num_labels or _width(y_true, metric.targets)
            self.found = _as_found(y_pred, self.num_labels)
            true = read(y_true, self.num_labels, metric.targets)
            self.weight = row_weights(sample_weight, self.found[1])
        else:
            true, self.scores, self.weight = rows(
                y_true, y_pred, sample_weight, num_labels, metric
            )
            self.num_labels = self.scores.shape[1]
        self.as_ids = true.are_ids
        if self.as_ids:
            self.labels = once(true.values)
        else:
            self.labels = ops.cast(positives(true, self.num_labels), "float32")

    def best(self, k):
        """Ids of the k best labels, or of all if there are fewer; -1 is none."""
        if self.found is None:
            return ops.top_k(self.scores, min(k, self.num_labels))[1]
        ids, scores = self.found
        if ids.shape[1] < k:
            expected = f"the {k} best labels of each document or more, as the metric is"
            remedy = "Ask the model for more, or fill up with ids of -1."
            raise ValueError(sentence("y_pred", expected, tuple(ids.shape), remedy))
        return _first(ids, scores, k)[0]

    def among(self, ids):
        """1 where a row has the label, else 0; the shape of `ids`."""
        if self.as_ids:
            same = ops.expand_dims(ids, 2) == ops.expand_dims(self.labels, 1)
            has = ops.cast(ops.any(same, axis=-1), "float32")
        else:
            has = ops.take_along_axis(self.labels, ops.maximum(ids, 0), axis=1)
        return ops.where(ids >= 0, has, 0.0)

    def size(self):
        """How many labels each row has."""
        labels = self.labels >= 0 if self.as_ids else self.labels
        return ops.sum(ops.cast(labels, "float32"), axis=-1)

    def weighed(self, values, padding):
        """The values [L] of each row's labels, and 0 elsewhere and `padding` times."""
        if self.as_ids:
            weighed = ops.take(values, ops.maximum(self.labels, 0))
            weighed = ops.where(self.labels >= 0, weighed, 0.0)
        else:
            weighed = self.labels * values
        return ops.pad(weighed, ((0, 0), (0, padding)))

    def sum_by_label(self, ids, values):
        """Sums the values of each label; ids of -1 are left out."""
        place = ops.where(ids < 0, self.num_labels, ids)
        sums = ops.segment_sum(
            ops.reshape(values, (-1,)), ops.reshape(place, (-1,)), self.num_labels + 1
        )
        return sums[: self.num_labels]

    def count_by_label(self, weight):
        """How many rows have each label, each row times its weight [B, 1]."""
        labels = ops.cast(self.labels, "float64")
        if not self.as_ids:
            return ops.sum(labels * weight, axis=0)
        return self.sum_by_label(self.labels, ops.ones_like(labels) * weight)


# What ids are checked against where nobody knows how many labels there are.
_ANY_NUMBER = int(np.iinfo("int32").max)


def _width(y_true, declared):
    """L of a multi-hot, if it is known; integers are taken for ids."""
    hot = form_of(y_true, None, declared) == MULTI_HOT
    return (dense(y_true).shape[-1] if hot else None) or _ANY_NUMBER


def _as_found(y_pred, num_labels):
    """Ids and scores [B, M] of a tuple, best first, every label once."""
    shape = "a tuple (ids, scores) of integers and floats, both of shape [B, M]"
    if len(y_pred) != 2:
        raise ValueError(sentence("y_pred", shape, f"a tuple of {len(y_pred)}"))
    ids, scores = (ops.convert_to_tensor(part) for part in y_pred)
    shapes = tuple(ids.shape), tuple(scores.shape)
    fits = len(shapes[0]) == 2 and shapes[0][1] is not None
    if not fits or shapes[0][1:] != shapes[1][1:] or len(shapes[1]) != 2:
        raise ValueError(sentence("y_pred", shape, shapes))
    if not tf.as_dtype(ids.dtype).is_integer:
        raise ValueError(sentence("y_pred", shape, f"ids of {ids.dtype}"))
    ids, scores = ops.cast(ids, "int32"), ops.cast(scores, "float32")
    _check_found(ids, num_labels)
    # By id first: among equal scores, top_k leaves the order as it is.
    place = ops.argsort(ops.where(ids < 0, _ANY_NUMBER, ids), axis=1)
    ids, scores = (ops.take_along_axis(x, place, axis=1) for x in (ids, scores))
    ids, scores = _first(ids, scores, ids.shape[1])
    # A label that was found twice counts once, where it is better.
    same = ops.expand_dims(ids, 2) == ops.expand_dims(ids, 1)
    earlier = np.tri(ids.shape[1], k=-1, dtype=bool)
    again = ops.any(ops.logical_and(same, earlier), axis=2)
    return ops.where(again, -1, ids), scores


def _first(ids, scores, k):
    """The k with the largest scores; whatever has no id comes last."""
    scores, place = ops.top_k(ops.where(ids < 0, -np.inf, scores), k)
    return ops.take_along_axis(ids, place, axis=1), scores


def _check_found(ids, num_labels):
    """Says so where an id is no label; inside a graph, when the step runs."""
    wrong = (ids < -1) | (ids >= num_labels)
    expected = f"ids of labels below {num_labels}, or -1 where there is none"
    if not tf.executing_eagerly():
        said = f"`y_pred` must be {expected}. Received:"
        tf.debugging.Assert(~tf.reduce_any(wrong), [said, ids])
    elif np.any(wrong):
        received = np.asarray(ids)[np.asarray(wrong)][0].item()
        raise ValueError(sentence("y_pred", expected, received))


def _as_counts(label_counts):
    remedy = "`LabelSpace.fit(labels).counts` has them."
    return check_counts("label_counts", label_counts, remedy=remedy).astype("float64")


NAMES = {
    "average_precision": (LabelRankingAveragePrecision, {}),
    "ranking_loss": (LabelRankingLoss, {}),
    "precision_at_k": (TopK, {"score": "precision"}),
    "recall_at_k": (TopK, {"score": "recall"}),
    "ndcg_at_k": (TopK, {"score": "ndcg"}),
    "psp_at_k": (PropensityScoredTopK, {}),
    "macro_precision_at_k": (MacroTopK, {"score": "precision"}),
    "macro_recall_at_k": (MacroTopK, {"score": "recall"}),
    "macro_f_at_k": (MacroTopK, {"score": "f_score"}),
}
NAMES |= {
    f"{name}_{group}": (cls, {**settings, "group": group})
    for name, (cls, settings) in NAMES.items()
    if cls is MacroTopK
    for group in GROUPS
}
