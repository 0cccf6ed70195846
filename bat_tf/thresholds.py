"""From which score on a label is chosen: thresholds, and fitting them.

A label is chosen where its score is above its threshold, strictly. Fitted on validation
scores, thresholds serve the test documents and every group of labels alike.
"""

import keras
import numpy as np
from keras import ops

from bat_tf._internal.numerics import MOST_SCORES, row_blocks
from bat_tf._internal.targets import multi_hot
from bat_tf._internal.validation import (
    as_values,
    check_choice,
    check_counts,
    check_number,
    sentence,
)

# What the balanced losses search, over probabilities.
PAPER_GRID = tuple(round(0.40 + 0.01 * step, 2) for step in range(21))
# How much lower the threshold of a label may be that is e times as rare.
SLOPES = tuple(round(0.05 * step, 2) for step in range(21))
_LARGEST = float(np.finfo("float32").max)
_MOST_POINTS = 10_000


@keras.saving.register_keras_serializable(package="bat_tf")
class Thresholds:
    """The threshold of all labels, or one for each.

    Args:
        values: a number, or `[L]` numbers.
        score: the F score on the data that it was fitted on, if it was.

    Attributes:
        values: a float, or an array `[L]`.
        score: a float, or None.

    Example:
        >>> from bat_tf.thresholds import Thresholds
        >>> Thresholds(0.5).apply([[0.2, 0.7], [0.5, 0.6]]).tolist()
        [[False, True], [False, True]]
        >>> Thresholds([0.1, 0.65]).apply([[0.2, 0.7], [0.5, 0.6]]).tolist()
        [[True, True], [True, False]]
    """

    def __init__(self, values=0.0, score=None):
        values = as_values(values)
        self.values = values if values.ndim else float(values)
        self.score = None if score is None else check_number("score", score, 0, 1)

    @property
    def per_label(self):
        """Whether each label has its own."""
        return np.ndim(self.values) == 1

    def apply(self, scores):
        """Returns which labels are chosen.

        Args:
            scores: `[..., L]`, a NumPy array or a tensor, in the space that the
                thresholds are in.

        Returns:
            Booleans of the same shape, an array or a tensor like the scores.
        """
        tensor = ops.is_tensor(scores)
        scores = ops.cast(scores, "float32") if tensor else np.asarray(scores)
        values = as_values(self.values, scores.shape[-1]).astype("float32")
        return scores > values if tensor else scores.astype("float32") > values

    def __eq__(self, other):
        same = isinstance(other, Thresholds)
        return same and self.get_config() == other.get_config()

    __hash__ = None

    def __repr__(self):
        values = np.asarray(self.values)
        if not self.per_label:
            return f"<Thresholds {self.values:.6g}>"
        return (
            f"<Thresholds of {values.size} labels, "
            f"from {values.min():.6g} to {values.max():.6g}>"
        )

    def get_config(self):
        """Returns all arguments as JSON values."""
        return {"values": np.asarray(self.values).tolist(), "score": self.score}

    @classmethod
    def from_config(cls, config):
        """Makes thresholds from what `get_config` returned."""
        return cls(**config)


def fit_threshold(
    scores,
    labels,
    *,
    per_label=False,
    label_counts=None,
    beta=1.0,
    average="micro",
    grid=None,
    min_positives=5,
    targets=None,
):
    """Finds the thresholds with the best F score on validation data.

    Without a grid every cut between two scores is tried, and the threshold is put half
    way between them, so that rounding does not change what is chosen. Of equally good
    thresholds the lowest is taken.

    A model that has seen a label a few times is seldom sure of it. With `label_counts`
    the threshold of a label that n training documents have is a + b log(n / the most):
    two numbers, which few validation documents can tell, and the rare labels that these
    lack get a threshold of their own all the same.

    With `per_label=True` each label gets the threshold with its own best F score, which
    also makes macro F the best. Labels with few validation documents would fit noise:
    they get the threshold that is best for all labels together, or for labels of their
    count, as do labels that the data lack.

    Args:
        scores: `[N, L]`, logits or probabilities or any other scores; the thresholds
            are in the same space. Compared as float32.
        labels: N rows in any shape: a multi-hot `[N, L]`, ids (integers of another
            width, -1 where empty), ragged, or SciPy sparse.
        per_label: one threshold for each label instead of one for all.
        label_counts: `[L]`, training documents of each label: thresholds that depend on
            these, for scores that are logits; None for one threshold for all.
        beta: weight of recall against precision.
        average: what the threshold for all is best in, `"micro"` or `"macro"` F.
        grid: thresholds to choose from, in ascending order, or `"paper"` for 0.40,
            0.41 … 0.60 over probabilities. Where the first or the last one is as good
            as any for all labels together, those beyond are tried as well, and taken if
            they are better.
        min_positives: labels with fewer validation documents get the threshold for
            all.
        targets: `"ids"` or `"multi_hot"` says what `labels` are; with None their shape
            does.

    Returns:
        `Thresholds`; their `score` is the F score of `average` on these data.

    Example:
        >>> from bat_tf.thresholds import fit_threshold
        >>> scores = [[0.9, 0.2], [0.6, 0.4], [0.3, 0.1]]
        >>> fit_threshold(scores, [[0, -1, -1], [0, 1, -1], [-1, -1, -1]])
        <Thresholds 0.35>
        >>> fit_threshold(scores, [[0], [0], [-1]], grid="paper").values
        0.4

    Reference:
        Balancing methods for multi-label text classification: one threshold, by micro
        F1 on the validation part.
    """
    check_number("beta", beta, low=0)
    check_choice("average", average, ("micro", "macro"))
    check_number("min_positives", min_positives, low=0, integer=True)
    scores, labels = _checked(scores, labels, targets)
    grid = _as_grid(grid)

    def for_all(scores):
        if grid is not None:
            return _best_of_grid(scores, labels, grid, beta, average)
        if average == "micro":
            return _best_micro_cut(scores, labels, beta)
        return _best_macro_cut(scores, labels, beta)

    def score(value):
        true, chosen, both = _counts(labels, Thresholds(value).apply(scores))
        return _mean_f(both, chosen, true, beta, average)

    if label_counts is None:
        value = for_all(scores)
    else:
        rarity = _rarity(label_counts, scores.shape[1])
        tried = [b * rarity + for_all(scores - b * rarity) for b in SLOPES]
        value = max(tried, key=score)
    if per_label:
        positives = labels.sum(axis=0)
        own = _own_thresholds(scores, labels, beta, grid)
        value = np.where(positives < max(min_positives, 1), value, own)
    return Thresholds(value, float(score(value)))


def _rarity(label_counts, num_labels):
    """log(n / the most) of each label, in float32."""
    counts = check_counts("label_counts", label_counts, num_labels, whole=True)
    counts = np.maximum(counts, 0.5)
    return np.log(counts / counts.max()).astype("float32")


def _own_thresholds(scores, labels, beta, grid):
    """Each label's best threshold [L], many labels at once."""
    if grid is not None:
        return grid[np.argmax(_f(*_counts_on(scores, labels, grid), beta), axis=0)]
    step = max(1, MOST_SCORES // len(scores))
    starts = range(0, scores.shape[1], step)
    parts = [
        _best_cuts(scores[:, i : i + step], labels[:, i : i + step], beta)
        for i in starts
    ]
    return np.concatenate(parts)


def _best_cuts(scores, labels, beta):
    """The best threshold of each column, by sorting it."""
    ordered, f, ends = _f_by_rank(scores, labels, beta)
    # From the last to the first: the lowest of the best.
    best = len(f) - 1 - np.argmax(np.where(ends, f, -1)[::-1], axis=0)
    lowest = np.take_along_axis(ordered, best[None], axis=0)[0]
    return _below(lowest, _next_lower(ordered, best))


def _best_micro_cut(scores, labels, beta):
    """The best threshold of all labels for micro F.

    The lowest chosen score is that of a true label, or leaving it out were better; so
    only those are tried, and the other scores need no sorting.
    """
    cuts = np.unique(scores[labels])
    both, chosen = np.zeros((2, len(cuts) + 1), "int64")
    for rows in row_blocks(scores):
        reached = np.searchsorted(cuts, scores[rows], side="right")
        both += np.bincount(reached[labels[rows]], minlength=len(cuts) + 1)
        chosen += np.bincount(reached.ravel(), minlength=len(cuts) + 1)
    both, chosen = (counts[::-1].cumsum()[::-1][1:] for counts in (both, chosen))
    lowest = cuts[np.argmax(_f(both, chosen, labels.sum(), beta))]
    lower = scores.max(where=scores < lowest, initial=-np.inf)
    return _below(lowest, lower if np.isfinite(lower) else lowest)


def _best_macro_cut(scores, labels, beta):
    """The best threshold of all labels for macro F.

    Lowering the threshold past one score changes the F of one label: with all changes
    in the order of their scores, their running sum is macro F.
    """
    ordered, f, _ = _f_by_rank(scores, labels, beta)
    change = np.diff(f, axis=0, prepend=0).ravel()
    order = np.argsort(-ordered.ravel(), kind="stable")
    ordered = ordered.ravel()[order][:, None]
    total = np.cumsum(change[order])[:, None]
    ends = np.append(ordered[1:] != ordered[:-1], [[True]], axis=0)
    # Sums that differ by rounding alone are equal.
    total = np.round(np.where(ends, total, -1), 12)
    best = len(total) - 1 - np.argmax(total[::-1], axis=0)
    lowest = ordered[best[0]]
    return _below(lowest, _next_lower(ordered, best))[0]


def _f_by_rank(scores, labels, beta):
    """Sorts each column downwards.

    Returns:
        The sorted scores, F with everything down to there chosen, and whether the next
        score is lower; all [N, C].
    """
    order = np.argsort(-scores, axis=0, kind="stable")
    ordered = np.take_along_axis(scores, order, axis=0)
    both = np.cumsum(np.take_along_axis(labels, order, axis=0), axis=0)
    chosen = np.arange(1, len(scores) + 1)[:, None]
    f = _f(both, chosen, both[-1], beta)
    ends = np.ones(scores.shape, bool)
    ends[:-1] = ordered[1:] != ordered[:-1]
    return ordered, f, ends


def _next_lower(ordered, place):
    """The score behind `place` in each column; the score itself where it is last."""
    behind = np.minimum(place + 1, len(ordered) - 1)
    return np.take_along_axis(ordered, behind[None], axis=0)[0]


def _below(lowest, lower):
    """Half way from the lowest chosen score to the next lower one, in float32."""
    middle = (lowest / 2 + lower / 2).astype("float32")
    # Between neighbouring floats there is nothing; the lower one is not above itself.
    middle = np.where(middle < lowest, middle, lower)
    # Nothing is lower: below the lowest, by more than rounding differs between batches.
    under = lowest.astype("float64") - 1e-4 * np.maximum(1.0, np.abs(lowest))
    under = np.maximum(under, -_LARGEST).astype("float32")
    return np.where(lower < lowest, middle, under)


def _best_of_grid(scores, labels, grid, beta, average):
    """The first best threshold of a grid, or one beyond it that is better still."""
    value, score = None, -1.0
    while True:
        f = _mean_f(*_counts_on(scores, labels, grid), beta, average)
        f = np.round(f, 12)  # what differs by rounding alone is equal
        best = np.argmax(f)
        if f[best] > score:
            value, score = grid[best], f[best]
        # Beyond the last score nothing changes any more.
        lower = f[0] == f[best] and scores.min() <= grid[0]
        higher = f[-1] == f[best] and scores.max() > grid[-1]
        if not ((lower or higher) and 1 < len(grid) < _MOST_POINTS):
            return value
        steps = np.arange(1, len(grid) + 1)
        if lower:
            grid = np.append(grid[0] - steps[::-1] * (grid[1] - grid[0]), grid)
        if higher:
            grid = np.append(grid, grid[-1] + steps * (grid[-1] - grid[-2]))
        grid = np.round(grid, 12)  # 0.31, not 0.31000000000000005


def _counts_on(scores, labels, grid):
    """Right, chosen and true counts for each threshold of a grid: [G, L], [G, L], [L].

    A score is above as many thresholds as it has places in the grid; these are counted
    by label, and the counts added up from the top.
    """
    width, points = scores.shape[1], len(grid) + 1
    both, chosen = np.zeros((2, points * width), "int64")
    for rows in row_blocks(scores):
        above = np.searchsorted(grid.astype("float32"), scores[rows], side="left")
        place = above * width + np.arange(width)
        both += np.bincount(place[labels[rows]], minlength=points * width)
        chosen += np.bincount(place.ravel(), minlength=points * width)
    both, chosen = (
        counts.reshape(points, width)[::-1].cumsum(axis=0)[::-1][1:]
        for counts in (both, chosen)
    )
    return both, chosen, labels.sum(axis=0)


def _counts(labels, chosen):
    return (array.sum(axis=0) for array in (labels, chosen, labels & chosen))


def _mean_f(both, chosen, true, beta, average):
    """Micro or macro F of counts [..., L]."""
    if average == "micro":
        both, chosen, true = (x.sum(axis=-1) for x in (both, chosen, true))
        return _f(both, chosen, true, beta)
    return _f(both, chosen, true, beta).mean(axis=-1)


def _f(both, chosen, true, beta):
    """F_beta; 0 where nothing is chosen and nothing is true."""
    wanted = beta**2 * true + chosen
    return (1 + beta**2) * both / np.where(wanted == 0, 1, wanted)


def _as_grid(grid):
    if grid is None:
        return None
    if isinstance(grid, str):
        check_choice("grid", grid, ("paper",), "Or pass the thresholds to try.")
        grid = PAPER_GRID
    values = np.asarray(grid, "float64")
    right = values.ndim == 1 and values.size and np.isfinite(values).all()
    if not right or (np.diff(values) <= 0).any():
        raise ValueError(sentence("grid", "finite numbers in ascending order", grid))
    return values


def _checked(scores, labels, targets):
    """Returns scores as finite float32 and labels as bool, both [N, L]."""
    scores = np.asarray(scores)
    if scores.ndim != 2 or not scores.size:
        remedy = "There must be validation documents to fit thresholds on."
        raise ValueError(
            sentence("scores", "of shape [N, L], not empty", scores.shape, remedy)
        )
    broken = np.isnan(scores).sum()
    if broken:
        remedy = "Look for a loss that was NaN, too."
        raise ValueError(sentence("scores", "numbers", f"{broken} times NaN", remedy))
    # An infinite score has no middle to its neighbour.
    scores = np.clip(scores, -_LARGEST, _LARGEST).astype("float32")
    labels = np.asarray(multi_hot(labels, scores.shape[1], targets, "labels")) > 0.5
    if len(labels) != len(scores):
        expected = f"as many rows as the scores, {len(scores)}"
        raise ValueError(sentence("labels", expected, len(labels)))
    if not labels.any():
        remedy = "Without any label every threshold has the F score 0."
        raise ValueError(
            sentence("labels", "one or more in some row", "none at all", remedy)
        )
    return scores, labels
