"""Numerics that stay finite in float16, under XLA and at logits of ±1e4.

Everything here is computed in float32 or better, whatever the dtype of the input.
"""

from keras import ops

# Stands in for -inf: exp() of it is 0, and unlike -inf it survives a subtraction.
LARGE_NEGATIVE = -1e30
# Scores that are looked at together where there may be more than memory holds.
MOST_SCORES = 2**23


def at_least_float32(x):
    """Returns `x` as a float32 tensor, or as it is if it is float64."""
    x = ops.convert_to_tensor(x)
    return x if x.dtype == "float64" else ops.cast(x, "float32")


def top_class(scores):
    """Returns the one-hot (bool) of the largest score on the last axis.

    Ties go to the lowest index.
    """
    # Of equal elements, top_k promises to put the lowest index first; argmax does not.
    _, index = ops.top_k(scores, 1)
    return ops.one_hot(ops.squeeze(index, -1), scores.shape[-1], dtype="bool")


def masked_logsumexp(x, mask, axis=-1, keepdims=False):
    """Returns log(sum(exp(x))) over the entries where `mask` is True.

    An empty set gives `LARGE_NEGATIVE` or less, with a zero gradient.
    """
    x = ops.where(mask, at_least_float32(x), LARGE_NEGATIVE)
    return ops.logsumexp(x, axis=axis, keepdims=keepdims)


def log_softmax_and_complement(logits, is_top):
    r"""Returns log p and log(1 - p) of the softmax over the last axis.

    With a = argmax z, shifted so that z_a = 0, and r = LSE_{k≠a} z_k:

        log p_a = -softplus(r)       log(1 - p_a) = r - softplus(r)
        log p_j = z_j - softplus(r)  log(1 - p_j) = log1p(-p_j),  j ≠ a

    No entry is ever the logarithm of a difference of nearly equal numbers: p_a, which
    may round to 1, is never subtracted from 1, and p_j is at most 1/2.

    Args:
        logits: float tensor `[..., C]` with C >= 2.
        is_top: `top_class(logits)`, which the callers need as well.

    Returns:
        Two tensors `[..., C]`, float32 or better.
    """
    logits = at_least_float32(logits)
    top = ops.sum(ops.where(is_top, logits, 0.0), axis=-1, keepdims=True)
    logits = logits - top
    rest = masked_logsumexp(logits, ops.logical_not(is_top), keepdims=True)
    log_p_top = -ops.softplus(rest)
    log_p = logits + log_p_top
    p_others = ops.exp(ops.where(is_top, LARGE_NEGATIVE, log_p))
    log_not_p = ops.where(is_top, rest + log_p_top, ops.log1p(-p_others))
    return log_p, log_not_p


def row_blocks(scores):
    """Slices of rows, so that what is computed of them stays small."""
    step = max(1, MOST_SCORES // scores.shape[1])
    return [slice(i, i + step) for i in range(0, len(scores), step)]
