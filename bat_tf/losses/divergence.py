"""How far two sets of label scores are apart, as distributions of the labels.

A score s stands for the probability p = σ(c s): c = 2 for ZLPR, c = 1 for the sigmoid
losses. Both functions take scores `[B, L]` and return one number for each sample.
"""

import keras
from keras import ops

from bat_tf._internal.numerics import at_least_float32


@keras.saving.register_keras_serializable(package="bat_tf")
def kl_divergence(s, t, scale=2.0):
    """Returns KL(p‖q) of the labels' probabilities, summed over labels.

        KL = Σ c p (s - t) - softplus(c s) + softplus(c t),   p = σ(c s), q = σ(c t)

    Computed as Σ p log(p/q) + (1-p) log((1-p)/(1-q)), which does not subtract large
    numbers. Gradients go to both.

    Args:
        s: scores `[B, L]`, of p.
        t: scores `[B, L]`, of q.
        scale: c; 2 for scores trained with ZLPR, 1 for plain sigmoids.

    Returns:
        Tensor `[B]`, >= 0.

    Example:
        >>> from bat_tf.losses import kl_divergence
        >>> round(float(kl_divergence([[1.0]], [[0.0]])[0]), 6)
        0.327813

    Reference:
        ZLPR (Su et al., 2022).
    """
    s, t = (scale * at_least_float32(x) for x in (s, t))
    present = ops.sigmoid(s) * (ops.softplus(-t) - ops.softplus(-s))
    absent = ops.sigmoid(-s) * (ops.softplus(t) - ops.softplus(s))
    return ops.sum(present + absent, axis=-1)


@keras.saving.register_keras_serializable(package="bat_tf")
def symmetric_kl(s, t, scale=2.0):
    """Returns KL(p‖q) + KL(q‖p), summed over labels: R-Drop's distance.

        D = Σ c (p - q) (s - t),   p = σ(c s), q = σ(c t)

    Args:
        s: scores `[B, L]`.
        t: scores `[B, L]`.
        scale: c; 2 for scores trained with ZLPR, 1 for plain sigmoids.

    Returns:
        Tensor `[B]`, >= 0.

    Example:
        >>> from bat_tf.losses import symmetric_kl
        >>> round(float(symmetric_kl([[1.0]], [[0.0]])[0]), 6)
        0.761594

    Reference:
        ZLPR (Su et al., 2022); Wu et al., R-Drop, 2021.
    """
    s, t = at_least_float32(s), at_least_float32(t)
    apart = ops.sigmoid(scale * s) - ops.sigmoid(scale * t)
    return ops.sum(scale * apart * (s - t), axis=-1)
