"""Values that a loss computed itself, through Keras' own reduction.

Among replicas, a mean is that of the whole batch, see `bat_tf._internal.replicas`.
"""

import keras
from keras import ops

from bat_tf._internal.replicas import num_replicas, sum_over_replicas
from bat_tf._internal.validation import sentence


class Reduction(keras.losses.Loss):
    """Hands values through Keras' own weights, reduction and sharing by replicas."""

    def call(self, y_true, y_pred):
        return y_pred


def reduce(values, sample_weight=None, reduction="sum_over_batch_size", valid=None):
    """The values as a Keras loss with that `reduction` would return them.

    Args:
        values: `[B]`, or `[B, T]` for tokens.
        sample_weight: for each row `[B]` or each value; None for 1.
        reduction: of `keras.losses.Loss`. A mean is over what is valid.
        valid: bools of the shape of `values`: what counts; None for all. Or numbers:
            for how many each value counts in a mean.
    """
    if valid is not None:
        values = ops.where(ops.cast(valid, "bool"), values, 0.0)
    if sample_weight is not None:
        sample_weight = weight_like(values, sample_weight)
    if reduction in (None, "none"):
        return _keras(values, sample_weight, reduction)
    total = _keras(values, sample_weight, "sum")
    if reduction == "sum":
        return sum_over_replicas(total)[0] / num_replicas()
    counted = ops.ones_like(values) if valid is None else ops.cast(valid, values.dtype)
    if reduction == "mean_with_sample_weight" and sample_weight is not None:
        counted = counted * sample_weight
    return mean(total, ops.sum(counted))


def weight_like(values, sample_weight):
    """A weight for each row as one that broadcasts to values [B, …]: [B] → [B, 1]."""
    weight = ops.cast(sample_weight, values.dtype)
    if len(weight.shape) > len(values.shape) and weight.shape[-1] == 1:
        weight = ops.squeeze(weight, -1)
    missing = len(values.shape) - len(weight.shape)
    if missing < 0:
        # Broadcast, [B] and [B, L] would go together where B is L, and mean nothing.
        expected = "one weight per row, [B], or of tokens also one each, [B, T]"
        remedy = "Labels have none; `label_mask` of document losses leaves some out."
        received = tuple(weight.shape)
        raise ValueError(sentence("sample_weight", expected, received, remedy))
    for _ in range(missing if weight.shape else 0):
        weight = ops.expand_dims(weight, -1)
    return weight


def mean(total, count):
    """The mean of the whole batch, given total and count of this replica's rows."""
    total, count = sum_over_replicas(total, count)
    return share(ops.divide_no_nan(total, count))


def share(loss):
    """A replica's share of a loss that all of them computed from the whole batch."""
    return _keras(ops.reshape(loss, (1,)))


def _keras(values, sample_weight=None, reduction="sum_over_batch_size"):
    loss = Reduction(reduction=reduction, dtype=values.dtype)
    return loss(values, values, sample_weight)
