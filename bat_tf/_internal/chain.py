"""Chains of tags: all paths through a text's tags at once, and the best of them.

The tokens of a row that count, one after the other, are a chain; the others are passed
over. A path gives each token of the chain a tag, and its score is a sum: what `scores`
[B, T, C] say of each tag at its token, and what `transitions` [C + 1, C + 1] say of the
tag of the column behind that of the row. The last row and the last column are the
border: what a chain begins with, and what it ends with. `LARGE_NEGATIVE` forbids.
"""

import tensorflow as tf

from bat_tf._internal.numerics import LARGE_NEGATIVE, at_least_float32

# exp() of it is a number in float64, also beside that of another one.
_MOST = 300.0


def best_path(scores, mask, transitions):
    """The tags of the path with the highest score (Viterbi's way).

    Args:
        scores: float [B, T, C].
        mask: bool [B, T], which tokens count.
        transitions: float [C + 1, C + 1].

    Returns:
        int32 [B, T]; what stands at tokens that do not count means nothing.
    """
    scores, transitions, _, real = _packed(scores, mask, transitions)
    first, last = _ends(real)
    scores = _with_border(scores, first, last, transitions)
    # A token that does not count passes the tag of the one before it on; the last one
    # of these is there because a scan wants a step.
    scores = tf.pad(scores, [[0, 0], [0, 1], [0, 0]])
    first, real = (tf.pad(flags, [[0, 0], [0, 1]]) for flags in (first, real))
    start = tf.zeros_like(scores[:, 0])
    same = tf.range(scores.shape[-1])[None] + tf.cast(start, tf.int32)
    inner = transitions[:-1, :-1]

    def step(state, token):
        score, opens, counts = token
        paths = state[0][:, :, None] + inner
        entered = tf.where(opens[:, None], 0.0, tf.reduce_max(paths, 1))
        before = tf.argmax(paths, 1, output_type=tf.int32)
        counts = counts[:, None]
        return (
            tf.where(counts, entered + score, state[0]),
            tf.where(counts, before, same),
        )

    by_step = _by_step(scores), tf.transpose(first), tf.transpose(real)
    totals, before = tf.scan(step, by_step, (start, same))
    end = tf.argmax(totals[-1], -1, output_type=tf.int32)
    tags = tf.scan(
        lambda tag, back: tf.gather(back, tag, batch_dims=1), before, end, reverse=True
    )
    # The tag before each token: the first one is that of the start.
    return tf.gather(tf.transpose(tags[1:]), _places(mask), batch_dims=1)


def marginals(scores, mask, transitions):
    """How probable each tag is at its token, over all paths (forward-backward).

    Args:
        scores: float [B, T, C].
        mask: bool [B, T], which tokens count.
        transitions: float [C + 1, C + 1].

    Returns:
        [B, T, C]; what stands at tokens that do not count means nothing.
    """
    scores, transitions, _, real = _packed(scores, mask, transitions)
    first, last = _ends(real)
    scores = _with_border(scores, first, last, transitions)
    swept = _sweep(scores, transitions[:-1, :-1], first | ~real)
    found = tf.nn.softmax(_joined(scores, swept))
    return tf.gather(found, _places(mask), batch_dims=1)


def log_likelihood(scores, tags, mask, transitions):
    """The logarithm of the probability of each row's tags among all paths.

    Where the tags themselves do what is forbidden, such as those of a text that was cut
    inside a span, the chain ends and another one begins without a border.

    Args:
        scores: float [B, T, C].
        tags: int [B, T], from 0 where a token counts.
        mask: bool [B, T], which tokens count.
        transitions: float [C + 1, C + 1].

    Returns:
        [B], 0 for a row without tokens.
    """
    scores, transitions, order, real = _packed(scores, mask, transitions)
    tags = tf.where(real, tf.gather(tags, order, batch_dims=1), 0)
    first, last = _ends(real)
    border = tf.fill([tf.shape(tags)[0], 1], transitions.shape[0] - 1)
    before = tf.concat([border, tags[:, :-1]], 1)
    entered = tf.gather_nd(transitions, tf.stack([before, tags], -1))
    left = tf.gather(transitions[:-1, -1], tags)
    breaks = real & (entered <= LARGE_NEGATIVE / 2)
    last &= left > LARGE_NEGATIVE / 2
    opens = first | breaks | ~real
    first &= ~breaks
    gold = tf.gather(scores, tags, batch_dims=2) + tf.where(last, left, 0.0)
    gold += tf.where(real & ~breaks, entered, 0.0)
    scores = _with_border(scores, first, last, transitions)
    # Measured from the score of the tags, all sums stay small, and so do their errors.
    scores -= gold[..., None]
    return -_log_partition(scores, transitions[:-1, :-1], real, opens)


@tf.custom_gradient
def _log_partition(scores, transitions, real, opens):
    """The logarithm of Σ exp(score) over all paths.

    Both directions go through one loop, and the gradient needs no loop of its own.
    """
    swept = _sweep(scores, transitions, opens)
    (forward, _), (entered, _), (sizes, _) = swept

    def gradient(upstream):
        log_p = tf.nn.log_softmax(_joined(scores, swept))
        weight = tf.where(real, upstream[:, None], 0.0)
        of_scores = weight[..., None] * tf.exp(log_p)
        # P(tag, next) = P(tag | all before) · P(next | all) / P(next | all before)
        top = tf.reduce_max(transitions)
        ratio = log_p - (entered - top)
        ratio = tf.where(entered > LARGE_NEGATIVE / 2, ratio, -_MOST)
        ratio = tf.exp(tf.minimum(tf.cast(ratio[:, 1:], tf.float64), _MOST))
        weight = tf.where(opens, 0.0, weight)[:, 1:, None]
        ratio *= tf.cast(weight, tf.float64)
        before = tf.exp(tf.cast(forward[:, :-1], tf.float64))
        pairs = tf.einsum("bti,btj->ij", before, ratio)
        pairs *= tf.exp(tf.cast(transitions - top, tf.float64))
        return of_scores, tf.cast(pairs, transitions.dtype), None, None

    return tf.reduce_sum(tf.where(real, sizes, 0.0), 1), gradient


def _sweep(scores, transitions, opens):
    """Goes through all rows from the left and from the right, in one loop.

    Args:
        scores: [B, T, C], the border in them.
        transitions: [C, C].
        opens: bool [B, T], whether no transition leads into a token.

    Returns:
        Three pairs, from the left and from the right: log-probabilities of the tags,
        given the tokens up to there [B, T, C]; what led into them [B, T, C]; the
        logarithm of what was divided by [B, T].
    """
    closes = tf.concat([opens[:, 1:], tf.ones_like(opens[:, :1])], 1)
    ways = tf.stack([scores, tf.reverse(scores, [1])])
    opens = tf.stack([opens, tf.reverse(closes, [1])])
    # Into the tag of the row before the last axis, out of that of the last.
    into = tf.stack([tf.transpose(transitions), transitions])[:, None]

    def step(state, token):
        score, opens = token
        paths = state[0][..., None, :] + into
        most = tf.reduce_max(paths, -1)
        sums = tf.reduce_sum(tf.exp(paths - most[..., None]), -1)
        entered = tf.where(opens[..., None], 0.0, most + tf.math.log(sums))
        total = score + entered
        size = tf.reduce_logsumexp(total, -1)
        return total - size[..., None], entered, size

    zero = tf.zeros_like(ways[:, :, 0])
    by_step = tf.transpose(ways, [2, 0, 1, 3]), tf.transpose(opens, [2, 0, 1])
    found = tf.scan(step, by_step, (zero, zero, zero[..., 0]))
    pairs = []
    for values in found:
        left, right = tf.unstack(values, axis=1)
        pairs.append((_by_row(left), _by_row(tf.reverse(right, [0]))))
    return pairs


def _joined(scores, swept):
    """What is known of each tag from both sides, up to a constant of the token."""
    forward, backward = swept[0]
    return forward + (backward - scores)


def _with_border(scores, first, last, transitions):
    """Scores with what the border says of the first and the last token of a chain."""
    scores += tf.where(first[..., None], transitions[-1, :-1], 0.0)
    return scores + tf.where(last[..., None], transitions[:-1, -1], 0.0)


def _packed(scores, mask, transitions):
    """Everything of one dtype, and the tokens that count in front of the others.

    Returns:
        Scores [B, T, C], transitions, where each token was [B, T], which count [B, T].
    """
    scores = at_least_float32(scores)
    # The n-th token that counts is where the count of them first is n.
    count = tf.cumsum(tf.cast(mask, tf.int32), axis=1)
    number = tf.ones_like(count) * tf.range(1, tf.shape(mask)[1] + 1)
    order = tf.minimum(tf.searchsorted(count, number), tf.shape(mask)[1] - 1)
    real = number <= count[:, -1:]
    scores = tf.gather(scores, order, batch_dims=1)
    # Nothing of what stands elsewhere, even NaN, has a way into a gradient.
    scores = tf.where(real[..., None], scores, 0.0)
    # A variable itself has no form of some operations in XLA.
    transitions = tf.cast(tf.convert_to_tensor(transitions), scores.dtype)
    return scores, transitions, order, real


def _places(mask):
    """Where `_packed` put each token that counts: [B, T]."""
    return tf.maximum(tf.cumsum(tf.cast(mask, tf.int32), axis=1) - 1, 0)


def _ends(real):
    """The first and the last token of each chain, all of whose tokens are in front."""
    before = tf.concat([tf.zeros_like(real[:, :1]), real[:, :-1]], 1)
    behind = tf.concat([real[:, 1:], tf.zeros_like(real[:, :1])], 1)
    return real & ~before, real & ~behind


def _by_step(values):
    """[B, T, C] → [T, B, C]."""
    return tf.transpose(values, [1, 0, 2])


def _by_row(values):
    """[T, B, …] → [B, T, …]."""
    return tf.transpose(values, [1, 0, *range(2, len(values.shape))])
