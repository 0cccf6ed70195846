"""What all document losses share: labels in every shape, one loss a sample.

`y_true` comes in any of these shapes, and all give the same loss:

| `y_true`                        | what it is                                        |
|---------------------------------|---------------------------------------------------|
| float or bool `[B, L]`          | multi-hot, or probabilities where a loss is soft  |
| integer `[B, P]`                | label ids, -1 where a row has no more             |
| integer `tf.RaggedTensor`       | label ids (not under XLA, which has no ragged)    |
| `tf.SparseTensor`, SciPy sparse | multi-hot `[B, L]`                                |

`y_pred` are scores `[B, L]`; gradients go to them alone, never to the labels. Each
sample costs one number, and Keras' `reduction` and `sample_weight` `[B]` do the rest.
Everything is computed in float32 or better.

Labels that cannot be (an id that is no label, a probability outside [0, 1]) are never
skipped: eagerly they raise a sentence; in a graph a wrong id stops the step, and under
XLA, which knows no assertions, a wrong id makes the loss NaN; a wrong value in a
multi-hot makes it NaN in both. NaN scores give a NaN loss.
"""

from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from bat_tf import _targets
from bat_tf._numerics import at_least_float32
from bat_tf._validation import sentence
from bat_tf.losses._reduction import reduce


class Candidates(NamedTuple):
    """Some of all labels, as `bat_tf.layers.CandidateLabels` chooses them.

    Args:
        labels: their ids [C]; scores and labels of a loss are then of these alone.
        weights: for how many labels each stands [C]; 1 for a label of the batch.
        total: L, the number of all labels.
    """

    labels: tf.Tensor
    weights: tf.Tensor
    total: int


@keras.saving.register_keras_serializable(package="bat_tf")
class DocumentLoss(keras.losses.Loss):
    """Base of the losses that score every label of a document.

    A subclass writes `sample_losses(labels, scores)`. Labels come as a float or bool
    multi-hot `[B, L]`, or as padded ids `[B, P]` (int32) if `takes_ids` is True.

    Args:
        label_mask: L truth values; a label with False is left out, as if neither the
            labels nor the scores had it. None counts all.
        from_logits: False if the model emits probabilities.
        reduction: as in `keras.losses.Loss`; the default is the mean over samples.
        name: name of the loss.
        dtype: dtype of the result; the computation is in float32 or better.

    Attributes:
        probability_scale: c in p = σ(c s), or None if the scores of a model that is
            trained with this loss are no probabilities on any scale.
        score_threshold: a label is predicted if its score is larger; None if the loss
            only ranks labels, or if the threshold is a score of the model.

    Example:
        >>> import numpy as np
        >>> from bat_tf.losses import DocumentLoss
        >>> class Hamming(DocumentLoss):
        ...     def sample_losses(self, labels, scores):
        ...         wrong = keras.ops.not_equal(scores > 0, labels > 0.5)
        ...         return keras.ops.mean(keras.ops.cast(wrong, "float32"), axis=-1)
        >>> float(Hamming()(np.array([[1.0, 0.0]]), np.array([[2.0, 2.0]])))
        0.5
    """

    probability_scale = 1.0
    score_threshold = 0.0
    takes_ids = False
    # Whether labels between 0 and 1 mean something.
    soft_labels = True
    # Whether it is made of sums of e^s over labels, and of nothing else of them.
    sums_powers = False

    def __init__(
        self,
        *,
        label_mask=None,
        from_logits=True,
        reduction="sum_over_batch_size",
        name=None,
        dtype=None,
    ):
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        self.label_mask = None if label_mask is None else _check_mask(label_mask)
        self.from_logits = from_logits
        if not from_logits and self.probability_scale != 1.0:
            raise ValueError(
                sentence(
                    "from_logits",
                    f"True: {type(self).__name__} compares scores with each other, and "
                    "probabilities have lost them",
                    from_logits,
                    "Leave the sigmoid out of the model.",
                )
            )

    def __call__(self, y_true, y_pred, sample_weight=None, candidates=None):
        """Returns the loss of a batch, reduced over its samples."""
        # The base class would turn label ids into floats.
        with keras.name_scope(self.name):
            losses = self.call(y_true, y_pred, candidates)
            reduced = reduce(losses, sample_weight, self.reduction)
            return ops.cast(reduced, self.dtype)

    def call(self, y_true, y_pred, candidates=None):
        """Returns the loss of every sample, or an estimate of it from `candidates`."""
        labels, scores, wrong = self.prepare(y_true, y_pred)
        if candidates is None:
            losses = self.sample_losses(labels, scores)
        else:
            losses = self.candidate_losses(labels, scores, candidates)
        return losses if wrong is None else ops.where(wrong, float("nan"), losses)

    def sample_losses(self, labels, scores):
        """Returns the loss of every sample from what `prepare` has checked."""
        raise NotImplementedError

    def candidate_losses(self, labels, scores, candidates):
        """Returns an estimate of every sample's loss from some labels."""
        if self.sums_powers:
            # w e^s = e^{s + log w}; a text's own labels have w = 1.
            return self.sample_losses(labels, scores + ops.log(candidates.weights))
        remedy = "Use bce, fl, cb, r-fl, ntr-fl, db-0fl, cb-ntr, db, zlpr or lsep."
        expected = "a loss that some of the labels can stand for all of"
        raise ValueError(sentence("loss", expected, self.name, remedy))

    def num_labels(self, scores):
        """Returns L, given the scores of the model."""
        return scores.shape[-1]

    def prepare(self, y_true, y_pred):
        """Brings labels and scores into the shape that `sample_losses` takes.

        Returns:
            labels; scores `[B, L]`, float32 or better; bool `[B]`, where a row's labels
            cannot be, or None if that is known not to happen.
        """
        scores = at_least_float32(y_pred)
        if len(scores.shape) != 2 or not scores.shape[-1]:
            expected = "scores [B, L] of a known number of labels"
            raise ValueError(sentence("y_pred", expected, tuple(scores.shape)))
        num_labels = self.num_labels(scores)
        labels, wrong = self._labels(y_true, num_labels, scores.dtype)
        rows, expected = labels.shape[0], scores.shape[0]
        if None not in (rows, expected) and rows != expected:
            shape = f"of as many samples as `y_pred`, {expected}"
            raise ValueError(sentence("y_true", shape, rows))
        if self.label_mask is not None:
            labels, scores = self._without_masked(labels, scores, num_labels)
        if not self.from_logits:
            p, rest = (ops.clip(x, 1e-10, 1.0) for x in (scores, 1.0 - scores))
            scores = ops.log(p) - ops.log(rest)
        return labels, scores, wrong

    def _labels(self, y_true, num_labels, dtype):
        if _targets.are_ids(y_true):
            ids = _targets.padded_ids(y_true, num_labels)
            wrong = _targets.wrong_ids(ids, num_labels)
            if not self.takes_ids:
                ids = _targets.multi_hot_of_ids(ids, num_labels)
            return ids, wrong
        if getattr(y_true, "dtype", None) in (bool, tf.bool):
            return _targets.multi_hot(y_true, num_labels, "bool"), None
        labels = ops.stop_gradient(_targets.multi_hot(y_true, num_labels, dtype))
        return labels, self._wrong_values(labels)

    def _wrong_values(self, labels):
        # Positive between 0 and 1, 0 at both, negative outside, and NaN for NaN.
        between = labels * (1.0 - labels)
        right = between >= 0 if self.soft_labels else ops.equal(between, 0)
        wrong = ops.logical_not(ops.all(right, axis=-1))
        if tf.executing_eagerly() and np.any(wrong):
            what = "probabilities in [0, 1]" if self.soft_labels else "0 or 1"
            received = float(np.asarray(labels)[~np.asarray(right)][0])
            raise ValueError(sentence("y_true", f"{what} for each label", received))
        return wrong

    def _without_masked(self, labels, scores, num_labels):
        if len(self.label_mask) != num_labels:
            raise ValueError(
                f"`label_mask` must have length {num_labels}, the number of labels of "
                f"`y_pred`. Received: length {len(self.label_mask)}."
            )
        kept = np.flatnonzero(self.label_mask)
        if tf.as_dtype(labels.dtype).is_integer:
            # The new id of every label; the last one is what -1 finds.
            new = np.full(num_labels + 1, -1, "int32")
            new[kept] = np.arange(len(kept))
            known = ops.logical_and(labels >= 0, labels < num_labels)
            labels = ops.take(new, ops.where(known, labels, num_labels), axis=0)
        else:
            labels = ops.take(labels, kept, axis=1)
        # Behind the labels there may be a threshold.
        extra = np.arange(num_labels, scores.shape[-1])
        return labels, ops.take(scores, np.append(kept, extra), axis=1)

    def get_config(self):
        """Returns all arguments as JSON values."""
        return {
            "label_mask": self.label_mask,
            "from_logits": self.from_logits,
            **super().get_config(),
            "dtype": self.dtype,  # keras.losses.Loss forgets it
        }


def _check_mask(label_mask):
    mask = np.asarray(label_mask)
    if mask.ndim != 1 or mask.dtype != bool or not mask.any():
        expected = (
            "a list of truth values, one for each label, at least one of them True"
        )
        raise ValueError(sentence("label_mask", expected, label_mask))
    return mask.tolist()
