"""The loss of a linear-chain CRF: tags are right together, or not at all."""

import keras
from keras import ops

from bat_tf._internal import chain
from bat_tf._internal.numerics import at_least_float32
from bat_tf._internal.registry import FromArguments, build
from bat_tf._internal.tags import integer_tags
from bat_tf._internal.validation import check_choice, check_number, sentence
from bat_tf.losses import tagging
from bat_tf.losses._reduction import reduce, weight_like


@keras.saving.register_keras_serializable(package="bat_tf")
def crf_log_likelihood(y_true, y_pred, transitions, ignore_index=-1):
    r"""The log-probability of each row's tags, among all sequences of tags.

    A sequence scores the sum of its logits and of its transitions, those from and to
    the border of the text included, and

    $$\log P(y) = s(y) - \log \sum_{y'} e^{s(y')}$$

    Tokens that do not count are passed over: a transition leads from one that counts to
    the next that does. Where the tags themselves do what is forbidden, the sequence
    ends and another one begins. Computed in float32 or better.

    Args:
        y_true: integer tags `[B, T]`, or one-hot tags of the shape of `y_pred`.
        y_pred: logits `[B, T, C]`.
        transitions: `[C + 1, C + 1]`, how well the tag of the column follows that of
            the row. The last row is what stands before a text, the last column what
            stands behind it. -1e30 forbids.
        ignore_index: tag of tokens that do not count.

    Returns:
        Tensor `[B]`, 0 for rows without tokens.

    Example:
        >>> import numpy as np
        >>> from bat_tf.losses import crf_log_likelihood
        >>> transitions = np.zeros((3, 3))
        >>> found = crf_log_likelihood([[0, 1, -1]], np.zeros((1, 3, 2)), transitions)
        >>> np.exp(found).round(2).tolist()  # one of four
        [0.25]

    Reference:
        Lafferty, McCallum and Pereira, "Conditional Random Fields", 2001.
    """
    y_pred, transitions = map(ops.convert_to_tensor, (y_pred, transitions))
    tags = integer_tags(y_true, y_pred, ignore_index)
    num_tags = y_pred.shape[-1]
    if tuple(transitions.shape) != (num_tags + 1, num_tags + 1):
        expected = f"of shape {(num_tags + 1, num_tags + 1)}, for {num_tags} tags"
        raise ValueError(sentence("transitions", expected, tuple(transitions.shape)))
    valid = ops.not_equal(tags, ignore_index)
    known = ops.logical_and(tags >= 0, tags < num_tags)
    counts = ops.logical_and(valid, known)
    found = chain.log_likelihood(y_pred, tags, counts, transitions)
    wrong = ops.any(ops.logical_and(valid, ops.logical_not(known)), axis=-1)
    return ops.where(wrong, float("nan"), found)


@keras.saving.register_keras_serializable(package="bat_tf")
class CRF(FromArguments, keras.losses.Loss):
    """What a CRF learns from: minus the log-likelihood, as a mean over valid tokens.

    With transitions of 0 that forbid nothing it is cross entropy. A token loss of BAT
    on the logits alone can be added, so that rare tags are heard.

    Args:
        class_counts: labelled training tokens per class, for a `token_loss` that
            weighs them.
        token_loss: a name such as `"cecla"`, or a `TagLoss`, to be added; None for the
            likelihood alone.
        token_weight: factor on it.
        transitions: `[C + 1, C + 1]`, see `crf_log_likelihood`; a variable, or a
            function that returns them: `lambda: head.transitions`. A `BATTagger` puts
            in those of its head.
        ignore_index: tag of tokens that do not count.
        reduction: as in `keras.losses.Loss`; the default is the mean over valid tokens.
            Without one, there is a value for each row.
        name: name of the loss.
        dtype: dtype of the result.

    Call arguments:
        y_true: see `crf_log_likelihood`.
        y_pred: see `crf_log_likelihood`.
        sample_weight: optional, one for each row: tokens of a row have one likelihood.

    Example:
        >>> import numpy as np
        >>> from bat_tf.losses import CRF
        >>> loss = CRF(transitions=np.zeros((4, 4)))
        >>> round(float(loss(np.array([[0, 1, -1]]), np.zeros((1, 3, 3)))), 3)
        1.099
    """

    def __init__(
        self,
        class_counts=None,
        *,
        token_loss=None,
        token_weight=1.0,
        transitions=None,
        ignore_index=-1,
        reduction="sum_over_batch_size",
        name="crf",
        dtype=None,
    ):
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        self.class_counts = class_counts
        self.token_weight = check_number("token_weight", token_weight, low=0)
        self.ignore_index = check_number("ignore_index", ignore_index, integer=True)
        # Not an attribute of the argument's name: it is no part of the config.
        self._transitions = transitions
        if isinstance(token_loss, dict):
            token_loss = keras.saving.deserialize_keras_object(token_loss)
        if isinstance(token_loss, str):
            check_choice("token_loss", token_loss.lower(), list(tagging.NAMES))
            settings = {"class_counts": class_counts, "ignore_index": ignore_index}
            token_loss = build("losses.get", tagging.NAMES, token_loss, settings)
        if not isinstance(token_loss, (tagging.TagLoss, type(None))):
            expected = "the name of a token loss, a TagLoss or None"
            raise TypeError(sentence("token_loss", expected, token_loss))
        self.token_loss = token_loss

    def on(self, transitions):
        """The same loss, with these transitions."""
        return type(self)(**{**self.get_config(), "transitions": transitions})

    def __call__(self, y_true, y_pred, sample_weight=None):
        """Returns the loss of a batch, reduced over its valid tokens."""
        with keras.name_scope(self.name):
            y_pred = ops.convert_to_tensor(y_pred)
            # The mask is on the logits as they came, and gone after a cast.
            tags = integer_tags(y_true, y_pred, self.ignore_index)
            logits = at_least_float32(y_pred)
            counts = ops.sum(ops.cast(tags != self.ignore_index, logits.dtype), axis=-1)
            losses = self.call(tags, logits)
            if sample_weight is not None:
                sample_weight = weight_like(losses, self._row_weight(sample_weight))
            reduced = reduce(losses, sample_weight, self.reduction, counts)
            return ops.cast(reduced, self.dtype)

    def call(self, y_true, y_pred):
        """Returns the loss of every row: the sum over its tokens."""
        transitions = self._transitions
        if transitions is None:
            remedy = (
                "A BATTagger with `crf=True` has its own; of a model of yours, pass "
                "them: `CRF(transitions=lambda: head.transitions)`."
            )
            raise ValueError(sentence("transitions", "given", None, remedy))
        transitions = transitions() if callable(transitions) else transitions
        found = -crf_log_likelihood(y_true, y_pred, transitions, self.ignore_index)
        if self.token_loss is not None:
            tokens = ops.sum(self.token_loss.call(y_true, y_pred), axis=-1)
            found = found + self.token_weight * tokens
        return found

    def _row_weight(self, sample_weight):
        weight = ops.convert_to_tensor(sample_weight)
        if len(weight.shape) > 1 and weight.shape[1:] != (1,):
            raise ValueError(
                sentence(
                    "sample_weight",
                    "one weight per row, of shape [B] or [B, 1]",
                    tuple(weight.shape),
                    "The tokens of a row have one likelihood; mark those that do not "
                    "count with `ignore_index`.",
                )
            )
        return weight

    def get_config(self):
        """Returns all arguments but the transitions, which belong to a head."""
        loss = keras.saving.serialize_keras_object(self.token_loss)
        return {**super().get_config(), "token_loss": loss}


NAMES = {"crf": (CRF, {})}
