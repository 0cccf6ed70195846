"""Dice losses: how far labels and probabilities overlap.

With p = σ(s), both are a squared distance, relative to the sizes of the two sets:

    DL1 = Σ_l (p - y)² / (p² + y² + γ)                       of one sample
    DL2 = Σ_l Σ_k (p - y)² / (Σ_k p² + Σ_k y² + γ)           k: the samples of a batch

For y of 0 and 1 that is 1 - (2 p y + γ) / (p² + y + γ) and its form over a batch.
"""

import keras
from keras import ops

from bat_tf._internal.replicas import sum_over_replicas
from bat_tf._internal.targets import row_weights
from bat_tf._internal.validation import check_number
from bat_tf.losses._reduction import share
from bat_tf.losses.document import DocumentLoss


@keras.saving.register_keras_serializable(package="bat_tf")
class DiceLoss(DocumentLoss):
    """DL1: every label of every sample is a set of its own.

        ℓ = Σ_P [1 - (2p + γ) / (p² + 1 + γ)] + Σ_Q [1 - γ / (p² + γ)]

    Its gradient vanishes where p is near 0, also for a positive: on many labels it
    tends to predict nothing.

    Args:
        smooth: γ > 0.
        name: name of the loss.
        **kwargs: `label_mask`, `from_logits`, `reduction`, `dtype`; see `DocumentLoss`.

    Example:
        >>> import numpy as np
        >>> from bat_tf.losses import DiceLoss
        >>> labels = np.array([[1.0, 0.0]])
        >>> round(float(DiceLoss()(labels, np.zeros((1, 2)))), 6)
        0.311111

    Reference:
        ZLPR (Su et al., 2022), baseline DL1; Li et al., Dice loss for data-imbalanced
        NLP tasks, 2020.
    """

    def __init__(self, smooth=1.0, *, name="dice_loss", **kwargs):
        super().__init__(name=name, **kwargs)
        self.smooth = check_number("smooth", smooth, low=1e-6)

    def sample_losses(self, labels, scores):
        """Returns the loss of every sample."""
        distance, sizes = self._distance_and_sizes(labels, scores)
        return ops.sum(distance / (sizes + self.smooth), axis=-1)

    def _distance_and_sizes(self, labels, scores):
        y, p = ops.cast(labels, scores.dtype), ops.sigmoid(scores)
        return ops.square(p - y), ops.square(p) + ops.square(y)


@keras.saving.register_keras_serializable(package="bat_tf")
class BatchDiceLoss(DiceLoss):
    """DL2: every label is the set of its samples in the batch.

        ℓ = Σ_l [1 - (2 Σ_k p y + γ) / (Σ_k p² + Σ_k y + γ)]

    The loss of a batch is one number, a sum over labels; there is no loss of a sample,
    and no mean over samples whatever `reduction` says. It depends on the batch size:
    a label that the batch lacks adds Σp² / (Σp² + γ). `sample_weight` multiplies a
    sample's part of the three sums. Among replicas, the sums are those of all of them.

    Args:
        smooth: γ > 0.
        name: name of the loss.
        **kwargs: `label_mask`, `from_logits`, `reduction`, `dtype`; see `DocumentLoss`.

    Example:
        >>> import numpy as np
        >>> from bat_tf.losses import BatchDiceLoss
        >>> labels = np.array([[1.0, 0.0], [1.0, 0.0]])
        >>> round(float(BatchDiceLoss()(labels, np.zeros((2, 2)))), 6)
        0.47619

    Reference:
        ZLPR (Su et al., 2022), baseline DL2.
    """

    def __init__(self, smooth=1.0, *, name="batch_dice_loss", **kwargs):
        super().__init__(smooth, name=name, **kwargs)

    def __call__(self, y_true, y_pred, sample_weight=None, candidates=None):
        """Returns the loss of a batch."""
        if candidates is not None:
            self.candidate_losses(y_true, y_pred, candidates)  # says that it cannot
        with keras.name_scope(self.name):
            return ops.cast(share(self.call(y_true, y_pred, sample_weight)), self.dtype)

    def call(self, y_true, y_pred, sample_weight=None):
        """Returns the loss of the batch."""
        y_pred = ops.convert_to_tensor(y_pred)
        labels, scores, wrong, valid = self.prepare(y_true, y_pred, self.targets)
        distance, sizes = self._distance_and_sizes(labels, scores)
        weight = row_weights(sample_weight, y_pred, valid)
        if weight is not None:
            weight = ops.cast(weight, scores.dtype)[:, None]
            distance, sizes = distance * weight, sizes * weight
        if wrong is not None:
            distance = ops.where(wrong[:, None], float("nan"), distance)
        distance, sizes = sum_over_replicas(
            ops.sum(distance, axis=0), ops.sum(sizes, axis=0)
        )
        return ops.sum(distance / (sizes + self.smooth))


NAMES = {"dl1": (DiceLoss, {}), "dl2": (BatchDiceLoss, {})}
