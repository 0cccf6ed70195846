"""What all document losses share: labels in every shape, one loss a sample.

`y_true` is a multi-hot, or label ids, dense, ragged or sparse: the shape decides which,
see `bat_tf._internal.targets`; all give the same loss. `y_pred` are scores `[B, L]`;
gradients go to them alone, never to the labels. Each sample costs one number, and
Keras' `reduction` and `sample_weight` `[B]` do the rest. Everything is computed in
float32 or better.

Scores `[B, T, L]` are those of tokens that may have several tags: each token costs what
a document would. Tokens where Keras' mask is False cost nothing and do not count in the
mean; `sample_weight` is for each row or each token.

Invalid labels (an id that is no label, a probability outside [0, 1]) raise an error in
eager mode and in the first step of `fit`, compiled with XLA or not. XLA itself knows no
assertions: in other programs that it compiles, and for tokens under a mask, the loss is
NaN. NaN scores give a NaN loss.
"""

from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from bat_tf._internal import targets as _targets
from bat_tf._internal.keras_private import keras_mask
from bat_tf._internal.registry import FromArguments
from bat_tf._internal.validation import check_length, sentence
from bat_tf.losses._reduction import reduce

COUNT_ALL = (
    "Count the training documents of every label of the model, also of those that "
    "never occur."
)


class Candidates(NamedTuple):
    """Some of all labels, as `bat_tf.heads.CandidateLabels` chooses them.

    Args:
        labels: their ids [C]; scores and labels of a loss are then of these alone.
        weights: for how many labels each stands [C]; 1 for a label of the batch.
        total: L, the number of all labels.
    """

    labels: tf.Tensor
    weights: tf.Tensor
    total: int


@keras.saving.register_keras_serializable(package="bat_tf")
class DocumentLoss(FromArguments, keras.losses.Loss):
    """Base of the losses that score every label of a document.

    A subclass writes `sample_losses(labels, scores)`. Labels come as a float or bool
    multi-hot `[B, L]`, or as padded ids `[B, P]` (int32) if `takes_ids` is True.

    Args:
        label_mask: L truth values; a label with False is left out, as if neither the
            labels nor the scores had it. None counts all.
        from_logits: False if the model emits probabilities.
        targets: `"ids"` or `"multi_hot"` says what `y_true` is; with None its shape
            does.
        reduction: as in `keras.losses.Loss`; the default is the mean over samples.
        name: name of the loss.
        dtype: dtype of the result; the computation is in float32 or better.

    Attributes:
        probability_scale: c in p = σ(c s), or None if the scores of a model that is
            trained with this loss are no probabilities on any scale.
        score_threshold: a label is predicted if its score is larger; None if the loss
            only ranks labels, or if the threshold is a score of the model.
        label_reduction: whether a sample's loss is the `"sum"` or the `"mean"` over
            labels.

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
    label_reduction = "sum"
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
        targets=None,
        reduction="sum_over_batch_size",
        name=None,
        dtype=None,
    ):
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        self.label_mask = None if label_mask is None else _check_mask(label_mask)
        self.targets = _targets.check_form(targets)
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
            y_pred = ops.convert_to_tensor(y_pred)
            losses = self.call(y_true, y_pred, candidates)
            valid = keras_mask(y_pred) if len(losses.shape) == 2 else None
            reduced = reduce(losses, sample_weight, self.reduction, valid)
            return ops.cast(reduced, self.dtype)

    def call(self, y_true, y_pred, candidates=None):
        """Returns the loss of every sample, or an estimate of it from `candidates`."""
        y_pred = ops.convert_to_tensor(y_pred)
        declared = "ids" if candidates is not None else self.targets
        labels, scores, wrong, _ = self.prepare(y_true, y_pred, declared)
        if candidates is None:
            losses = self.sample_losses(labels, scores)
        else:
            losses = self.candidate_losses(labels, scores, candidates)
        if wrong is not None:
            losses = ops.where(wrong, float("nan"), losses)
        if len(y_pred.shape) == 3:
            losses = ops.reshape(losses, ops.shape(y_pred)[:2])
        return losses

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

    def prepare(self, y_true, y_pred, declared=None):
        """Brings labels and scores into the shape that `sample_losses` takes.

        Returns:
            labels; scores `[N, L]`, float32 or better; bool `[N]`, where a row's labels
            cannot be, and bool `[N]`, which rows count, each None for nowhere and all.
        """
        y_true, scores, valid = _targets.as_rows(y_true, y_pred)
        if len(scores.shape) != 2 or not scores.shape[-1]:
            expected = "scores [B, L] or [B, T, L] of a known number of labels"
            raise ValueError(sentence("y_pred", expected, tuple(scores.shape)))
        num_labels = self.num_labels(scores)
        soft = self.soft_labels
        found = _targets.read(y_true, num_labels, declared, soft=soft, valid=valid)
        labels = found.values
        rows, expected = labels.shape[0], scores.shape[0]
        if None not in (rows, expected) and rows != expected:
            shape = f"of as many samples as `y_pred`, {expected}"
            raise ValueError(sentence("y_true", shape, rows))
        if found.are_ids and not self.takes_ids:
            labels = _targets.multi_hot_of_ids(labels, num_labels)
        elif tf.as_dtype(labels.dtype).is_floating:
            labels = ops.cast(labels, scores.dtype)
        if self.label_mask is not None:
            labels, scores = self._without_masked(labels, scores, num_labels)
        if not self.from_logits:
            p, rest = (ops.clip(x, 1e-10, 1.0) for x in (scores, 1.0 - scores))
            scores = ops.log(p) - ops.log(rest)
        return labels, scores, found.wrong, valid

    def _without_masked(self, labels, scores, num_labels):
        check_length("label_mask", self.label_mask, num_labels)
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


def _check_mask(label_mask):
    mask = np.asarray(label_mask)
    if mask.ndim != 1 or mask.dtype != bool or not mask.any():
        expected = (
            "a list of truth values, one for each label, at least one of them True"
        )
        raise ValueError(sentence("label_mask", expected, label_mask))
    return mask.tolist()
