"""Sums over a batch that several replicas hold parts of.

Under a `tf.distribute` strategy each replica sees some rows of a batch, and the
gradients that the replicas find are added up. What is a sum over rows splits by itself;
a mean over valid tokens or a ratio of two sums does not. Here is the one place that
knows: a loss adds its sums up over the replicas before it divides.
"""

import tensorflow as tf


def num_replicas():
    """How many replicas run this step together; 1 outside of a step."""
    context = tf.distribute.get_replica_context()
    return context.num_replicas_in_sync if context else 1


def sum_over_replicas(*values):
    """Returns each value added up over all replicas, the same number on each of them.

    What is computed from the sums must be the same on all replicas too, and be divided
    by their number in the end (Keras' losses do so): then each gradient is that of one
    process with the whole batch.

    Args:
        *values: float tensors, of the same shapes on all replicas.
    """
    replicas = num_replicas()
    if replicas == 1:
        return values

    @tf.custom_gradient
    def add(*values):
        # All replicas go on alike from here, so what comes back is the same on each:
        # their sum needs no second round.
        sums = tf.distribute.get_replica_context().all_reduce("SUM", list(values))
        return sums, lambda *upstream: [replicas * part for part in upstream]

    return add(*values)


def needs_whole_batch(what, why, remedy):
    """Raises if the strategy in scope splits batches, which `what` cannot do with."""
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    if replicas > 1:
        raise ValueError(
            f"{what} must be trained on one replica: {why}. Received: a strategy of "
            f"{replicas} replicas. {remedy}"
        )
