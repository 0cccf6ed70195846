"""Values that a loss computed itself, through Keras' own reduction.

Among replicas, a mean is that of the whole batch, see `bat_tf._replicas`.
"""

import keras
from keras import ops

from bat_tf._replicas import num_replicas, sum_over_replicas


class Reduction(keras.losses.Loss):
    """Hands values through Keras' own weights, reduction and sharing by replicas."""

    def call(self, y_true, y_pred):
        return y_pred


def reduce(values, sample_weight=None, reduction="sum_over_batch_size"):
    """The values as a Keras loss with that `reduction` would return them."""
    if reduction in (None, "none"):
        return _keras(values, sample_weight, reduction)
    total = _keras(values, sample_weight, "sum")
    if reduction == "sum":
        return sum_over_replicas(total)[0] / num_replicas()
    if reduction == "mean_with_sample_weight" and sample_weight is not None:
        count = ops.sum(ops.cast(sample_weight, total.dtype))
    else:
        count = ops.cast(ops.size(values), total.dtype)
    return mean(total, count)


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
