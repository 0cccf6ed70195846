"""Losses that rank a document's labels above all others: ZLPR and its baselines.

P are the labels of a sample, Q all others, s the scores. Most of these losses are
functions of two numbers, which `label_sums` computes in one place:

    A = log Σ_P e^{-s_i}        B = log Σ_Q e^{s_j}

| name               | loss of a sample                                       |
|--------------------|--------------------------------------------------------|
| `zlpr` `soft-zlpr` | softplus(A) + softplus(B)                              |
| `tlpr`             | softplus(A + s0) + softplus(B - s0); asks for s0       |
| `lsep`             | softplus(A + B)                                        |
| `bp-mll`           | A + B (its logarithm), or exp(A + B)                   |
| `rl`               | Σ_P Σ_Q max(0, 1 + s_j - s_i)                          |
| `warp`             | Σ_P rank_i Σ_Q max(0, 1 + s_j - s_i)                   |

A sample without labels, or with all of them, has no pair to rank: it costs 0 and has no
gradient, except under ZLPR and TLPR, which still compare with the threshold.
"""

import math

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from bat_tf._internal.numerics import LARGE_NEGATIVE
from bat_tf._internal.registry import Needed
from bat_tf._internal.targets import multi_hot_of_ids, once
from bat_tf._internal.validation import check_number, sentence
from bat_tf.losses.document import DocumentLoss

# A label this unlikely is out of the set. Larger ones keep a sum of p e^x above the
# smallest normal float32.
_NEVER = 1e-35


def label_sums(labels, scores):
    """Returns A = log Σ p e^{-s} and B = log Σ (1-p) e^{s} over the labels.

    An empty set gives `LARGE_NEGATIVE`, with a zero gradient. The gradients are closed
    forms, e^{x - A} and e^{x - B}: no pass over the labels is spent on finding them.

    Args:
        labels: bool `[B, L]`, probabilities p `[B, L]`, or padded ids `[B, P]`, which
            are never blown up to a multi-hot. No gradient goes to them.
        scores: `[B, L]`, float32 or better.

    Returns:
        Two tensors `[B]`.
    """
    kind = tf.as_dtype(labels.dtype)
    parts = _soft_parts
    if kind.is_bool or kind.is_integer:
        parts = _hard_parts if kind.is_bool else _sparse_parts

    @tf.custom_gradient
    def sums(scores):
        tops, totals, backward = parts(labels, scores)
        logs = [
            # The logarithm of an empty sum is not used.
            tf.where(top <= LARGE_NEGATIVE, top, top + tf.math.log(total))
            for top, total in zip(tops, totals, strict=True)
        ]

        def gradient(*upstream):
            each = [
                tf.math.divide_no_nan(up, total)[:, None]
                for up, total in zip(upstream, totals, strict=True)
            ]
            return backward(*each)

        return tuple(logs), gradient

    return sums(scores)


def _largest(x):
    """The largest of each row, which is taken out before an exponential."""
    return tf.reduce_max(x, axis=-1)


def _soft_parts(p, scores):
    absent = tf.constant(LARGE_NEGATIVE, scores.dtype)
    positive = tf.where(p <= _NEVER, absent, -scores)
    negative = tf.where(1 - p <= _NEVER, absent, scores)
    tops = _largest(positive), _largest(negative)
    positive = p * tf.exp(positive - tops[0][:, None])
    negative = (1 - p) * tf.exp(negative - tops[1][:, None])
    totals = [tf.reduce_sum(e, axis=-1) for e in (positive, negative)]
    return tops, totals, lambda up, down: negative * down - positive * up


def _hard_parts(is_label, scores):
    # Every label is in one set alone: one exponential each.
    absent = tf.constant(LARGE_NEGATIVE, scores.dtype)
    tops = (
        _largest(tf.where(is_label, -scores, absent)),
        _largest(tf.where(is_label, absent, scores)),
    )
    top = tf.where(is_label, tops[0][:, None], tops[1][:, None])
    powers = tf.exp(tf.where(is_label, -scores, scores) - top)
    zero = tf.zeros([], scores.dtype)
    totals = [
        tf.reduce_sum(tf.where(mine, powers, zero), axis=-1)
        for mine in (is_label, ~is_label)
    ]
    return tops, totals, lambda up, down: powers * tf.where(is_label, -up, down)


def _sparse_parts(ids, scores):
    absent, zero = (tf.constant(x, scores.dtype) for x in (LARGE_NEGATIVE, 0))
    ids = once(ids)
    named = (ids >= 0) & (ids < scores.shape[-1])
    place = tf.where(named, ids, 0)
    rows = tf.broadcast_to(tf.range(tf.shape(ids)[0])[:, None], tf.shape(ids))
    index = tf.stack([rows, place], axis=-1)
    chosen = tf.gather(scores, place, batch_dims=1)
    positive = tf.where(named, -chosen, absent)
    # The labels leave the scores: the rest is Q. A filler lowers nothing.
    negative = tf.tensor_scatter_nd_min(
        scores,
        index,
        tf.where(named, absent, tf.constant(scores.dtype.max, scores.dtype)),
    )
    # A row may have no ids at all, not even fillers.
    tops = tf.maximum(_largest(positive), absent), _largest(negative)
    positive = tf.where(named, tf.exp(positive - tops[0][:, None]), zero)
    negative = tf.exp(negative - tops[1][:, None])
    # Where all labels are named, Q is empty and its scores are all alike.
    negative = tf.where((tops[1] <= absent)[:, None], zero, negative)
    totals = [tf.reduce_sum(e, axis=-1) for e in (positive, negative)]

    def backward(up, down):
        return tf.tensor_scatter_nd_sub(negative * down, index, positive * up)

    return tops, totals, backward


@keras.saving.register_keras_serializable(package="bat_tf")
class ZLPR(DocumentLoss):
    """Zero-bounded log-sum-exp & pairwise rank-based loss.

        ℓ = log(1 + Σ_P e^{-s_i}) + log(1 + Σ_Q e^{s_j})

    Labels are pushed above a threshold, all others below it, and both away from each
    other; the more labels there are, the less each of them pulls. No class weights and
    no threshold to tune: predict s > 0, and p = σ(2s).

    With probabilities p as labels it is soft-ZLPR,

        ℓ = log(1 + Σ p e^{-s}) + log(1 + Σ (1-p) e^{s}),

    whose minimum is at s = logit(p)/2. With `threshold` s0 it is TLPR,

        ℓ = log(e^{-s0} + Σ_P e^{-s_i}) + log(e^{s0} + Σ_Q e^{s_j}).

    Labels that come as ids are never blown up to a multi-hot.

    Args:
        threshold: s0; a number, or `"learnt"`: then the model emits L + 1 scores, and
            the last one of a sample is its s0. Predict s > s0.
        label_smoothing: ε in [0, 1]; p = y (1 - ε) + ε/2, as in Keras.
        soft: takes probabilities alone, a multi-hot of floats, unless labels are
            smoothed: so `soft-zlpr` by name is never plain ZLPR by mistake.
        name: name of the loss.
        **kwargs: `label_mask`, `reduction`, `dtype`; see `DocumentLoss`.

    Example:
        >>> import numpy as np
        >>> from bat_tf.losses import ZLPR
        >>> scores = np.zeros((1, 4))
        >>> round(float(ZLPR()(np.array([[1.0, 0.0, 0.0, 0.0]]), scores)), 6)
        2.079442
        >>> round(float(ZLPR()(np.array([[0, -1]]), scores)), 6)
        2.079442

    Reference:
        Su et al., ZLPR: A novel loss for multi-label classification, 2022. The usual
        form for ids subtracts Σ_P e^s from the sum over all labels, and is clipped
        where nothing is left of the difference; here the labels are taken out before
        the sum, which is exact at any score.
    """

    probability_scale = 2.0
    takes_ids = True
    sums_powers = True

    def __init__(
        self, threshold=0.0, *, label_smoothing=0.0, soft=False, name="zlpr", **kwargs
    ):
        super().__init__(name=name, **kwargs)
        self.soft = bool(soft)
        self.threshold = threshold
        if threshold != "learnt" and not _is_finite(threshold):
            expected = 'a number, or "learnt" if it is the last score of the model'
            raise ValueError(sentence("threshold", expected, threshold))
        self.label_smoothing = check_number("label_smoothing", label_smoothing, 0, 1)

    @property
    def score_threshold(self):
        """s0, or None if it is the last score of each sample."""
        return None if self.threshold == "learnt" else self.threshold

    def num_labels(self, scores):
        """Returns L; a learnt threshold is no label."""
        return scores.shape[-1] - (self.threshold == "learnt")

    def prepare(self, y_true, y_pred, declared=None):
        """As for any document loss."""
        found = super().prepare(y_true, y_pred, declared)
        if self.soft and not self.label_smoothing:
            if not tf.as_dtype(found[0].dtype).is_floating:
                expected = "probabilities for soft-ZLPR, floats as wide as the scores"
                remedy = (
                    "For labels that are certain, set `label_smoothing`, or use ZLPR."
                )
                received = "label ids, integers or bools"
                raise ValueError(sentence("y_true", expected, received, remedy))
        return found

    def sample_losses(self, labels, scores):
        """Returns the loss of every sample."""
        threshold = self.threshold
        if threshold == "learnt":
            scores, threshold = scores[:, :-1], scores[:, -1]
        if self.label_smoothing:
            labels = self._smooth(labels, scores)
        positive, negative = label_sums(labels, scores)
        return ops.softplus(positive + threshold) + ops.softplus(negative - threshold)

    def _smooth(self, labels, scores):
        if tf.as_dtype(labels.dtype).is_integer:
            labels = multi_hot_of_ids(labels, scores.shape[-1])
        labels = ops.cast(labels, scores.dtype)
        return labels * (1 - self.label_smoothing) + self.label_smoothing / 2


def _is_finite(value):
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and math.isfinite(value)


class _RankingOnly(DocumentLoss):
    """A loss that orders labels, and says nothing about how many of them to take."""

    probability_scale = None
    score_threshold = None
    soft_labels = False

    def prepare(self, *args, **kwargs):
        """As for any document loss, with a multi-hot of bools."""
        labels, *others = super().prepare(*args, **kwargs)
        if tf.as_dtype(labels.dtype).is_floating:
            labels = labels > 0.5
        return labels, *others


@keras.saving.register_keras_serializable(package="bat_tf")
class LSEP(_RankingOnly):
    """Log-sum-exp pairwise loss.

        ℓ = log(1 + Σ_P Σ_Q e^{s_j - s_i})

    The sum over pairs is a product of two sums, so all pairs cost no more than the
    labels. With `max_pairs` only that many pairs are drawn, to reproduce what was
    sampled: without replacement, every pair as likely as any other, spread evenly over
    P × Q, and not scaled up.
    A sample with no more pairs than that counts all of them. The draw is a function of
    `seed` and the scores; nothing has to be saved to repeat or resume it.

    Args:
        max_pairs: pairs of each sample, such as 1000; None for all, which costs less
            than drawing.
        seed: an integer, for the draw.
        name: name of the loss.
        **kwargs: `label_mask`, `reduction`, `dtype`; see `DocumentLoss`.

    Example:
        >>> import numpy as np
        >>> from bat_tf.losses import LSEP
        >>> labels = np.array([[1.0, 0.0, 0.0, 0.0]])
        >>> round(float(LSEP()(labels, np.zeros((1, 4)))), 6)
        1.386294

    Reference:
        Li et al., Improving pairwise ranking for multi-label image classification,
        2017.
    """

    takes_ids = True

    def __init__(self, max_pairs=None, *, seed=0, name="lsep", **kwargs):
        super().__init__(name=name, **kwargs)
        if max_pairs is not None:
            check_number("max_pairs", max_pairs, low=1, high=1 << 15, integer=True)
        self.max_pairs = max_pairs
        self.seed = check_number("seed", seed, integer=True)
        self.takes_ids = self.sums_powers = max_pairs is None

    def sample_losses(self, labels, scores):
        """Returns the loss of every sample."""
        if self.max_pairs is None:
            return ops.softplus(sum(label_sums(labels, scores)))
        first, second, drawn = sample_pairs(labels, scores, self.max_pairs, self.seed)
        positive, negative = (
            ops.take_along_axis(scores, place, axis=-1) for place in (first, second)
        )
        apart = ops.where(drawn, negative - positive, LARGE_NEGATIVE)
        return ops.softplus(ops.logsumexp(apart, axis=-1))


def sample_pairs(is_label, scores, max_pairs, seed):
    """Draws pairs of a label and another one, without replacement.

    The pairs P × Q of a sample, counted from a random one on, are cut into `max_pairs`
    runs, and one pair is drawn from each.

    Args:
        is_label: bool `[B, L]`.
        scores: `[B, L]`, the source of randomness beside `seed`.
        max_pairs: t.
        seed: an integer.

    Returns:
        Places in P and in Q, int32 `[B, t]`, and bool `[B, t]`: False where a sample
        has fewer than t pairs.
    """
    is_label = tf.convert_to_tensor(is_label)
    # Bits of the scores, summed modulo 2^32: the same in every order of summing.
    bits = tf.bitcast(tf.cast(tf.stop_gradient(scores), "float32"), "int32")
    state = tf.stack([tf.cast(seed, "int32"), tf.reduce_sum(bits)])
    shape = [tf.shape(scores)[0], max_pairs + 1]
    chance = tf.random.stateless_uniform(shape, state, dtype="float64")

    positives = tf.reduce_sum(tf.cast(is_label, "int64"), axis=-1, keepdims=True)
    negatives = scores.shape[-1] - positives
    pairs = positives * negatives
    run = tf.range(max_pairs, dtype="int64")[None]
    start, end = run * pairs // max_pairs, (run + 1) * pairs // max_pairs
    many = pairs > max_pairs
    inside = tf.cast(chance[:, 1:] * tf.cast(end - start, "float64"), "int64")
    turn = tf.cast(chance[:, :1] * tf.cast(pairs, "float64"), "int64")
    drawn = many | (run < pairs)
    pair = tf.where(many, (start + inside + turn) % tf.maximum(pairs, 1), run)
    pair = tf.where(drawn, pair, 0)

    # top_k puts equal ones in their own order: labels first, then all others.
    _, order = tf.math.top_k(tf.cast(is_label, "int32"), scores.shape[-1])
    width = tf.maximum(negatives, 1)
    last = scores.shape[-1] - 1
    first, second = pair // width, tf.minimum(positives + pair % width, last)
    places = (
        tf.gather(order, tf.cast(place, "int32"), batch_dims=1)
        for place in (first, second)
    )
    return *places, drawn


@keras.saving.register_keras_serializable(package="bat_tf")
class BPMLL(_RankingOnly):
    """BP-MLL: the exponential loss over all pairs.

        ℓ = log Σ_P Σ_Q e^{s_j - s_i}

    Args:
        log_form: False leaves the logarithm out, as in the original; then the loss and
            its gradient overflow where scores differ by more than 88.
        name: name of the loss.
        **kwargs: `label_mask`, `reduction`, `dtype`; see `DocumentLoss`.

    Example:
        >>> import numpy as np
        >>> from bat_tf.losses import BPMLL
        >>> labels = np.array([[1.0, 0.0, 0.0, 0.0]])
        >>> round(float(BPMLL()(labels, np.zeros((1, 4)))), 6)
        1.098612

    Reference:
        Zhang and Zhou, Multilabel neural networks with applications to functional
        genomics and text categorization, 2006. Its factor 1/(|P||Q|) is left out, as in
        ZLPR (Su et al., 2022).
    """

    takes_ids = True
    sums_powers = True

    def __init__(self, log_form=True, *, name="bp_mll", **kwargs):
        super().__init__(name=name, **kwargs)
        self.log_form = log_form

    def sample_losses(self, labels, scores):
        """Returns the loss of every sample."""
        sums = sum(label_sums(labels, scores))
        if not self.log_form:
            return ops.exp(sums)
        return ops.where(sums <= LARGE_NEGATIVE / 2, 0.0, sums)


@keras.saving.register_keras_serializable(package="bat_tf")
class RankingHinge(_RankingOnly):
    """RL: every label should be a margin above every other.

        ℓ = Σ_P Σ_Q max(0, m + s_j - s_i)

    Exact over all pairs and in O(L log L): scores are sorted, never paired.

    Args:
        margin: m >= 0.
        name: name of the loss.
        **kwargs: `label_mask`, `reduction`, `dtype`; see `DocumentLoss`.

    Example:
        >>> import numpy as np
        >>> from bat_tf.losses import RankingHinge
        >>> labels = np.array([[1.0, 0.0, 0.0, 0.0]])
        >>> float(RankingHinge()(labels, np.zeros((1, 4))))
        3.0

    Reference:
        ZLPR (Su et al., 2022), baseline RL.
    """

    def __init__(self, margin=1.0, *, name="ranking_hinge", **kwargs):
        super().__init__(name=name, **kwargs)
        self.margin = check_number("margin", margin, low=0)

    def sample_losses(self, labels, scores):
        """Returns the loss of every sample."""
        return pairwise_hinge(labels, scores, self.margin)


@keras.saving.register_keras_serializable(package="bat_tf")
class WARP(RankingHinge):
    """The ranking hinge, in which a label counts more the lower it ranks.

        ℓ = Σ_P rank_i Σ_Q max(0, m + s_j - s_i)

    rank_i is 1 + the number of labels, of P and Q, with a larger score; it is a
    constant to the gradient. Exact over all pairs and in O(L log L), without sampling.

    Args:
        margin: m >= 0.
        name: name of the loss.
        **kwargs: `label_mask`, `reduction`, `dtype`; see `DocumentLoss`.

    Example:
        >>> import numpy as np
        >>> from bat_tf.losses import WARP
        >>> labels = np.array([[1.0, 0.0, 0.0]])
        >>> float(WARP()(labels, np.array([[0.0, 1.0, -3.0]])))
        4.0

    Reference:
        Weston et al., WSABIE, 2011, with the weight of ZLPR (Su et al., 2022): the rank
        itself.
    """

    def __init__(self, margin=1.0, *, name="warp", **kwargs):
        super().__init__(margin, name=name, **kwargs)

    def sample_losses(self, labels, scores):
        """Returns the loss of every sample."""
        return pairwise_hinge(labels, scores, self.margin, rank_weights(scores))


def rank_weights(scores):
    """Returns each label's rank, 1 + the number of larger scores, as floats [B, L]."""
    scores = tf.stop_gradient(scores)
    # A NaN has no place in an order; the loss shows it all the same.
    ordered, order = tf.math.top_k(_without_nan(scores), scores.shape[-1])
    place = tf.broadcast_to(tf.range(scores.shape[-1]), tf.shape(order))
    tied = tf.pad(ordered[:, 1:] == ordered[:, :-1], [[0, 0], [1, 0]])
    # Equal scores share the first of their places: a running maximum of where each run
    # of equal scores begins, in log2(L) steps.
    first, step = tf.where(tied, 0, place), 1
    while step < scores.shape[-1]:
        shifted = tf.pad(first[:, :-step], [[0, 0], [step, 0]])
        first, step = tf.maximum(first, shifted), 2 * step
    return _unsorted(tf.cast(first + 1, scores.dtype), order)


def pairwise_hinge(is_label, scores, margin, weights=None):
    """Returns Σ_P w_i Σ_Q max(0, m + s_j - s_i) of every sample, from sorted scores.

    With the labels' scores lowered by m, a pair costs the distance by which its j is
    above its i. Going down the sorted scores, the gap below a place is part of that
    distance for the negatives above it with the positives below it:

        Σ_r gap_r · |Q above r| · Σ_{P below r} w_i

    No term is negative and none is a difference of large sums. The slope of a label is
    -w_i times the negatives above it, that of another the weights below it.

    Args:
        is_label: bool `[B, L]`.
        scores: `[B, L]`, float32 or better.
        margin: m.
        weights: w `[B, L]`, read where `is_label` is True; None for 1.
    """

    @tf.custom_gradient
    def hinge(scores):
        # Small numbers lie closer together; a whole one takes no digits away.
        middle = tf.round(tf.reduce_mean(scores, axis=-1, keepdims=True))
        level = _without_nan(scores - middle)
        # At distance 0 a pair has slope 0: the label goes before its equals.
        key = tf.where(is_label, _next(level - margin), level)
        ordered, order = tf.math.top_k(key, level.shape[-1])
        weight = tf.ones_like(scores) if weights is None else weights
        # One number says it all: the weight of a label, -1 of any other.
        role = tf.where(is_label, weight, -tf.ones_like(weight))
        role = tf.gather(role, order, batch_dims=1)
        above = tf.cumsum(tf.cast(role < 0, role.dtype), axis=-1)
        below = tf.cumsum(tf.nn.relu(role), axis=-1, exclusive=True, reverse=True)
        gap = ordered[:, :-1] - ordered[:, 1:]
        losses = tf.reduce_sum(gap * above[:, :-1] * below[:, :-1], axis=-1)
        losses = tf.where(tf.math.is_nan(tf.reduce_sum(scores, axis=-1)), nan, losses)

        def gradient(upstream):
            slope = tf.where(role < 0, below, -role * above)
            return upstream[:, None] * _unsorted(slope, order)

        return losses, gradient

    nan = tf.constant(float("nan"), scores.dtype)
    return hinge(scores)


def _next(x):
    """The next larger number; after 0 the smallest that no processor takes for 0."""
    tiny = tf.constant(np.finfo(x.dtype.as_numpy_dtype).tiny, x.dtype)
    return tf.where(tf.abs(x) < tiny, tiny, tf.math.nextafter(x, x.dtype.max))


def _without_nan(x):
    return tf.where(tf.math.is_nan(x), tf.zeros_like(x), x)


def _unsorted(values, order):
    """Puts values back where `order` says they came from."""
    rows = tf.broadcast_to(tf.range(tf.shape(order)[0])[:, None], tf.shape(order))
    return tf.scatter_nd(tf.stack([rows, order], -1), values, tf.shape(values))


NAMES = {
    "zlpr": (ZLPR, {}),
    "tlpr": (
        ZLPR,
        {
            "threshold": Needed(
                'a number, or "learnt" for a model with one more score, the threshold'
            )
        },
    ),
    "soft-zlpr": (ZLPR, {"soft": True}),
    "rl": (RankingHinge, {}),
    "warp": (WARP, {}),
    "bp-mll": (BPMLL, {}),
    "lsep": (LSEP, {}),
}
