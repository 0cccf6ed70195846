"""Losses of several experts that score the same labels.

z^k are the logits of expert k of K, ℓ is any document loss of this library:

| mode            | loss of a sample          |
|-----------------|---------------------------|
| `individual`    | mean_k ℓ(y, z^k)          |
| `collaborative` | ℓ(y, mean_k z^k)          |

Experts that learn from the same labels end up alike, and a mean of likes is worth no
more than one of them. The diversity term pays them for disagreeing on the labels of a
document, the more the rarer a label is and the less both are sure of it:

    ℓ_div = - mean_{j < k} Σ_i λ_i KL(p_i^j ‖ p_i^k),   p = σ(z)
    λ_i   = y_i (1 - max(p_i^j, p_i^k)) / max(n_i, 1)

n_i is the number of training documents with label i; λ is a constant to the gradient,
which goes to both experts. The whole is ℓ_mode + α ℓ_div. ℓ_div has no lower bound, so
α is small, and it starts after some epochs, when the experts know something.

Reference:
    S3, ME-XML. For K > 2 the paper leaves the pairs open: they are taken in the order
    of the experts.
"""

import itertools
import warnings

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from bat_tf._internal.numerics import at_least_float32
from bat_tf._internal.registry import FromArguments, build
from bat_tf._internal.targets import check_form, once, read
from bat_tf._internal.validation import (
    check_choice,
    check_counts,
    check_length,
    check_number,
    sentence,
)
from bat_tf.losses import balanced, dice, ranking
from bat_tf.losses._reduction import reduce
from bat_tf.losses.divergence import kl_divergence
from bat_tf.losses.document import COUNT_ALL, DocumentLoss

MODES = ("individual", "collaborative")
BASES = {**balanced.NAMES, **dice.NAMES, **ranking.NAMES}

# These take the counts of the labels.
_WEIGHED = [name for name in balanced.NAMES if name not in ("bce", "fl")]


@keras.saving.register_keras_serializable(package="bat_tf")
class ExpertLoss(FromArguments, keras.losses.Loss):
    """Trains several experts, each by itself or all together, to differ where it helps.

    `y_pred` are the experts' logits `[B, K, L]`; `y_true` are labels in every shape of
    `bat_tf.losses.document`. Labels as ids stay ids in the diversity term, which then
    looks at a document's own labels alone.

    The loss must know which epoch it is: pass `ExpertEpochs()` to `fit`, or set `epoch`
    yourself. A traced train step follows, and a reloaded model goes on counting.

    Args:
        base: ℓ; a `DocumentLoss`, or the name of one, such as `"bce"` or `"zlpr"`.
        mode: `"individual"` or `"collaborative"`.
        diversity: α >= 0; 0 leaves the diversity term out.
        label_counts: training documents per label, or a `LabelSpace`; needed unless
            `diversity` is 0. A base by name that weighs labels gets them too.
        diversity_start_epoch: the first epoch with the diversity term, counted from 0.
        targets: as in `DocumentLoss`; None is as the base has it.
        base_settings: of a base given by name, such as `{"gamma": 1}`.
        epoch: the epoch to start from; a saved model writes here how far it was.
        reduction: as in `keras.losses.Loss`; that of the base is not used.
        name: name of the loss.
        dtype: dtype of the result; the computation is in float32 or better.

    Example:
        >>> import numpy as np
        >>> from bat_tf.losses import ExpertLoss
        >>> loss = ExpertLoss("bce", label_counts=[9, 1], diversity=1.0)
        >>> experts = np.array([[[0.0, 0.0], [1.0, 1.0]]])
        >>> round(float(loss(np.array([[1]]), experts)), 4)
        0.7532
        >>> loss.epoch = 2
        >>> round(float(loss(np.array([[1]]), experts)), 4)
        0.7209

        As any Keras loss: `model.compile("adam", loss=ExpertLoss(label_counts=n))` and
        `model.fit(data, callbacks=[ExpertEpochs()])`.

    Reference:
        S3, ME-XML: BCE, individual, α = 0.01. The probabilities are those of the base
        loss: σ(2s) for ZLPR; for losses that only rank, which have none, σ(s).
    """

    def __init__(
        self,
        base="bce",
        *,
        mode="individual",
        diversity=0.01,
        label_counts=None,
        diversity_start_epoch=2,
        targets=None,
        base_settings=None,
        epoch=0,
        reduction="sum_over_batch_size",
        name="expert_loss",
        dtype=None,
    ):
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        self.mode = check_choice("mode", mode, MODES)
        self.diversity = check_number("diversity", diversity, low=0)
        self.diversity_start_epoch = check_number(
            "diversity_start_epoch", diversity_start_epoch, low=0, integer=True
        )
        self.label_counts = _check_counts(label_counts, needed=diversity > 0)
        # The base reduces and rounds as this loss does.
        own = {"reduction": self.reduction, "dtype": self.dtype}
        own |= {"targets": targets} if check_form(targets) else {}
        self.base = _make_base(base, label_counts, base_settings or {}, own)
        check_number("epoch", epoch, low=0, integer=True)
        # A variable, since a step that is traced already reads it anew; a float, since
        # TensorFlow keeps variables of int32 away from other devices.
        self._epoch = keras.Variable(epoch, dtype="float32", trainable=False)
        self._is_told = epoch > 0

    @property
    def epoch(self):
        """How many epochs the experts have trained; can be set."""
        return int(self._epoch.numpy())

    @epoch.setter
    def epoch(self, epoch):
        self._epoch.assign(check_number("epoch", epoch, low=0, integer=True))
        self._is_told = True

    @property
    def targets(self):
        """As in `DocumentLoss`."""
        return self.base.targets

    @property
    def label_reduction(self):
        """As in `DocumentLoss`."""
        return self.base.label_reduction

    @property
    def probability_scale(self):
        """As in `DocumentLoss`, for the scores of each expert."""
        return self.base.probability_scale

    @property
    def score_threshold(self):
        """As in `DocumentLoss`, for the scores of each expert."""
        return self.base.score_threshold

    def __call__(self, y_true, y_pred, sample_weight=None, candidates=None):
        """Returns the loss of a batch, reduced over its samples.

        With `candidates`, a `bat_tf.losses.document.Candidates`, labels and scores are
        of these alone, and the result is an estimate. Diversity concerns a document's
        own labels, which are all among them.
        """
        with keras.name_scope(self.name):
            experts = _experts(y_pred)
            together = self.mode == "collaborative"
            scored = [sum(experts) / len(experts)] if together else experts
            each = [self.base(y_true, x, sample_weight, candidates) for x in scored]
            loss = sum(each) / len(each)
            if self.diversity and len(experts) > 1:
                self._check_told()
                started = ops.cast(self._epoch >= self.diversity_start_epoch, "float32")
                apart = self._diversity(y_true, experts, candidates)
                apart = reduce(apart, sample_weight, self.reduction)
                weight = ops.cast(self.diversity * started, apart.dtype)
                loss = loss + ops.cast(weight * apart, loss.dtype)
            return loss

    def diversity_losses(self, y_true, y_pred):
        """Returns ℓ_div of every sample [B], without α and in every epoch.

        Args:
            y_true: labels in any shape.
            y_pred: the experts' logits `[B, K, L]`.
        """
        return self._diversity(y_true, _experts(y_pred))

    def _diversity(self, y_true, experts, candidates=None):
        num_labels = self.base.num_labels(experts[0])
        total = num_labels if candidates is None else candidates.total
        inverse = ops.cast(self._inverse_counts(total), experts[0].dtype)
        if candidates is not None:
            inverse = ops.take(inverse, candidates.labels)
        ids = None
        declared = self.base.targets if candidates is None else "ids"
        labels, are_ids, _ = read(y_true, num_labels, declared)
        if are_ids:
            ids = once(labels)
            is_label = (ids >= 0) & (ids < num_labels)
            ids = ops.where(is_label, ids, 0)
            weight = ops.where(is_label, ops.take(inverse, ids), 0.0)
        else:
            weight = ops.cast(labels, inverse.dtype) * inverse
        logits = [
            # What has no weight may be anything, NaN too.
            ops.where(weight > 0, self._logits(scores, num_labels, ids), 0.0)
            for scores in experts
        ]
        pairs = list(itertools.combinations(logits, 2))
        total = ops.zeros_like(weight)
        for a, b in pairs:
            unsure = ops.stop_gradient(ops.sigmoid(-ops.maximum(a, b)))
            total += unsure * kl_divergence(a[..., None], b[..., None], scale=1.0)
        return -ops.sum(weight * total, axis=-1) / max(len(pairs), 1)

    def _logits(self, scores, num_labels, ids):
        """The logits z of p = σ(z), of all labels or of some."""
        threshold = self.base.score_threshold or 0.0
        if scores.shape[-1] > num_labels:  # the last one is the threshold
            scores, threshold = scores[:, :num_labels], scores[:, num_labels:]
        if ids is not None:
            scores = tf.gather(scores, ids, batch_dims=1)
        scale = self.base.probability_scale
        return (1.0 if scale is None else scale) * (scores - threshold)

    def _inverse_counts(self, num_labels):
        """1/n for each label, and 0 for those that the base leaves out."""
        counts = _check_counts(self.label_counts, needed=True)
        check_length("label_counts", counts, num_labels, remedy=COUNT_ALL)
        inverse = 1 / np.maximum(counts, 1)
        mask = self.base.label_mask
        return inverse if mask is None else inverse * np.asarray(mask)

    def _check_told(self):
        waits = self.diversity_start_epoch > 0 and not self._is_told
        if waits and not tf.executing_eagerly():
            warnings.warn(
                f"The diversity of the experts starts in epoch "
                f"{self.diversity_start_epoch}, and nobody tells {self.name!r} which "
                "epoch it is: it stays off. Pass `callbacks=[ExpertEpochs()]` to "
                "`fit`, or `diversity_start_epoch=0` to the loss.",
                stacklevel=3,
            )

    def get_config(self):
        """Returns all arguments as JSON values; the base as it was made."""
        base = keras.saving.serialize_keras_object(self.base)
        return {**super().get_config(), "base": base}

    @classmethod
    def from_config(cls, config):
        """Makes the loss, its base first."""
        base = config.get("base", "bce")
        if isinstance(base, dict):
            base = keras.saving.deserialize_keras_object(base)
        return cls(**{**config, "base": base})


class ExpertEpochs(keras.callbacks.Callback):
    """Tells a model's `ExpertLoss` which epoch it is; other losses do not mind it.

    Epochs are counted over all calls of `fit`, those before a reload too: a model that
    trains on does not go back to the first epochs. So give a new model a new loss.

    Example:
        >>> import keras, numpy as np
        >>> from bat_tf.losses import ExpertEpochs, ExpertLoss
        >>> layers = [keras.layers.Dense(2 * 3), keras.layers.Reshape((2, 3))]
        >>> model = keras.Sequential(layers)
        >>> loss = ExpertLoss(label_counts=[5, 2, 1], diversity_start_epoch=1)
        >>> model.compile("sgd", loss)
        >>> x, y = np.ones((4, 2)), np.array([[0], [1], [2], [0]])
        >>> _ = model.fit(x, y, epochs=2, callbacks=[ExpertEpochs()], verbose=0)
        >>> loss.epoch
        2
    """

    def on_train_begin(self, logs=None):
        """Says that somebody counts, before a step is traced."""
        for loss in self._losses():
            loss.epoch = loss.epoch

    def on_epoch_begin(self, epoch, logs=None):
        """Catches up with a run that starts in the middle."""
        for loss in self._losses():
            loss.epoch = max(loss.epoch, int(epoch))

    def on_epoch_end(self, epoch, logs=None):
        """Counts."""
        for loss in self._losses():
            loss.epoch += 1

    def _losses(self):
        losses = keras.tree.flatten(self.model.loss)
        return [loss for loss in losses if isinstance(loss, ExpertLoss)]


def _experts(y_pred):
    """The scores of each expert [B, L], float32 or better, as a list."""
    scores = at_least_float32(y_pred)
    shape = tuple(scores.shape)
    if len(shape) != 3 or not shape[1] or not shape[2]:
        expected = "scores [B, K, L] of a known number of experts and labels"
        remedy = "`keras.ops.stack(scores, axis=1)` makes them of K times [B, L]."
        raise ValueError(sentence("y_pred", expected, shape, remedy))
    # Its gradient is one stack; that of K slices would be K tensors of this size.
    return ops.unstack(scores, axis=1)


def _make_base(base, label_counts, settings, own):
    """The base loss, from its name or as a copy; `own` settings win."""
    named = isinstance(base, str)
    if named:
        check_choice("base", base.lower(), list(BASES))
        if base.lower() in _WEIGHED and label_counts is not None:
            settings = {"class_counts": label_counts, **settings}
        base = build("losses.get", BASES, base, {**settings, **own})
    elif settings:
        remedy = "Pass them to the loss itself."
        expected = "left out where `base` is a loss and not its name"
        raise ValueError(sentence("base_settings", expected, settings, remedy))
    if not isinstance(base, DocumentLoss):
        expected = f"a DocumentLoss of bat_tf, or one of {', '.join(BASES)}"
        raise ValueError(sentence("base", expected, base))
    if not base.from_logits:
        remedy = "Leave the sigmoid out of the experts."
        expected = "a loss of logits, from_logits=True"
        raise ValueError(sentence("base", expected, "from_logits=False", remedy))
    return base if named else type(base).from_config({**base.get_config(), **own})


def _check_counts(label_counts, needed):
    label_counts = getattr(label_counts, "counts", label_counts)  # of a LabelSpace
    if label_counts is None and not needed:
        return None
    remedy = "`LabelSpace.fit(labels)` counts them; `diversity=0` does without."
    return check_counts("label_counts", label_counts, remedy=remedy).tolist()


NAMES = {"experts": (ExpertLoss, {})}
