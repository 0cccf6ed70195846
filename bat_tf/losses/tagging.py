r"""The token losses of "Born for Auto-Tagging": one formula, nine names.

A token of true class c with probabilities p = softmax(z) costs

    ℓ = -[ λ a_c (1 - p_c)^γ log p_c  +  Σ_{j≠c} m_j b_j p_j^γ log(1 - p_j) ]

with the class weights a and b of `class_weights`, the focal exponent γ (`gamma`), the
positive scale λ (`positive_scale`), and m_j, which says which negatives count
(`negatives`): none of them, all, or only the class that the model predicts.

| name            | negatives | weighting | gamma | positive_scale | paper       |
|-----------------|-----------|-----------|-------|----------------|-------------|
| `ce` / `fce`    | none      | none      | 0 / 1 | 1              | CE, FCE     |
| `wce` / `fwce`  | none      | ee        | 0 / 1 | 1              | WCE, FWCE   |
| `cecl`          | all       | none      | 0     | 1              | equation 5  |
| `wcecl`         | all       | ee        | 0     | 1              | CL_{0,1}    |
| `cecla`         | all       | array     | 1     | 20             | CLA_{1,20}  |
| `pbp`           | predicted | ee        | 0     | 8              | PBP_{0,8}   |
| `pbpa`          | predicted | array     | 0     | 8              | PBPA_{0,8}  |

Tags are integers or one-hot, see `bat_tf._internal.tags`.

The loss of a batch is the mean over its valid tokens. Ignored tags, empty one-hot rows
and tokens where Keras' mask is False are in neither the sum nor the divisor; a batch
without valid tokens costs 0. `sample_weight`, per row `[B]` or per token `[B, T]`,
multiplies the sum and, as in Keras, enters the divisor only under
`reduction="mean_with_sample_weight"`. Among replicas it is the mean over the valid
tokens of all of them.
"""

import keras
from keras import ops

from bat_tf._internal.numerics import (
    at_least_float32,
    log_softmax_and_complement,
    top_class,
)
from bat_tf._internal.registry import FromArguments
from bat_tf._internal.replicas import sum_over_replicas
from bat_tf._internal.tags import integer_tags
from bat_tf._internal.validation import check_choice, check_number, sentence
from bat_tf.losses._reduction import reduce
from bat_tf.losses.class_weights import (
    WEIGHTINGS,
    check_counts,
    counts_for,
    counts_needed,
    is_batch,
    weight_table,
)

NEGATIVES = ("none", "all", "predicted")
# What `tag_loss` and `TagLoss` both take.
_SETTINGS = (
    *("class_counts", "weighting", "negatives", "gamma", "positive_scale"),
    *("from_logits", "ignore_index"),
)


@keras.saving.register_keras_serializable(package="bat_tf")
def tag_loss(
    y_true,
    y_pred,
    *,
    class_counts=None,
    weighting="none",
    negatives="none",
    gamma=0.0,
    positive_scale=1.0,
    from_logits=True,
    ignore_index=-1,
):
    r"""Returns the loss of every token; the formula is at the top of this file.

    $$\ell = -\Big[\lambda a_c (1-p_c)^\gamma \log p_c
    + \sum_{j \ne c} m_j b_j p_j^\gamma \log(1-p_j)\Big]$$

    The computation is in float32 or better and finite for finite logits; so is its
    gradient, for every `gamma` >= 0.

    Args:
        y_true: integer tags `[B, T]` (any shape that `y_pred` has without its last
            axis), or one-hot tags of the shape of `y_pred`, with empty rows for tokens
            that do not count. An integer that is neither a class nor `ignore_index` is
            an error of the data: it makes the loss NaN.
        y_pred: logits `[B, T, C]`, C >= 2.
        class_counts: labelled training tokens per class, length C; needed unless
            `weighting` is `"none"`. `"batch"` counts the tokens of `y_true` instead.
        weighting: `"none"`, `"standard"`, `"ee"` or `"array"`; see `class_weights`.
        negatives: `"none"`, `"all"` or `"predicted"` (the largest logit, when it is
            not the true class; ties go to the lowest index).
        gamma: focal exponent >= 0; the paper uses 0 and 1.
        positive_scale: λ >= 0 on the true class alone; the paper uses 8 with
            `"predicted"` and 18 to 24 with `"all"`.
        from_logits: if False, `y_pred` holds probabilities; they and their complements
            are clipped to [1e-10, 1] before the logarithm.
        ignore_index: tag of tokens that do not count.

    Returns:
        Tensor `[B, T]`, 0 where `y_true` is `ignore_index`.

    Example:
        >>> import numpy as np
        >>> from bat_tf.losses import tag_loss
        >>> logits = np.log([[[0.4, 0.3, 0.3], [0.4, 0.5, 0.1], [0.2, 0.2, 0.6]]])
        >>> loss = tag_loss([[0, 0, -1]], logits, negatives="all")
        >>> np.round(loss, 3).tolist()
        [[1.63, 1.715, 0.0]]

    Reference:
        Born for Auto-Tagging, equations 5 and 6. Logarithms are natural; the paper's
        worked example uses base 10.
    """
    check_choice("negatives", negatives, NEGATIVES)
    y_pred = ops.convert_to_tensor(y_pred)
    y_true, y_pred = _tags_and_scores(y_true, y_pred, ignore_index)
    num_classes = y_pred.shape[-1]
    valid = ops.not_equal(y_true, ignore_index)
    is_class = ops.logical_and(y_true >= 0, y_true < num_classes)
    known = ops.logical_and(valid, is_class)
    # From here on, what stands at other tokens, even NaN, has no way into a gradient.
    tag = ops.where(known, y_true, 0)
    y_pred = ops.where(ops.expand_dims(known, -1), y_pred, 0.0)
    is_true = ops.one_hot(tag, num_classes, dtype="bool")

    is_top = top_class(y_pred)
    if from_logits:
        log_p, log_not_p = log_softmax_and_complement(y_pred, is_top)
    else:
        log_p = ops.log(ops.clip(y_pred, 1e-10, 1.0))
        log_not_p = ops.log(ops.clip(1.0 - y_pred, 1e-10, 1.0))
    terms = ops.where(is_true, log_p, log_not_p)
    if gamma:
        # (1 - p_c)^γ and p_j^γ; a power of p itself has no gradient at 0 for γ < 1.
        terms = terms * ops.exp(gamma * ops.where(is_true, log_not_p, log_p))
    if is_batch(class_counts):
        counts = _count(is_true, known)
    else:
        counts = counts_for(num_classes, class_counts, weighting)
    weights = weight_table(counts, weighting, negatives, positive_scale)
    weights = ops.take(ops.cast(weights, terms.dtype), tag, axis=0)
    if negatives == "predicted":
        weights = ops.where(ops.logical_or(is_true, is_top), weights, 0.0)
    losses = -ops.sum(weights * terms, axis=-1)
    return ops.where(known, losses, ops.where(valid, float("nan"), 0.0))


def _count(is_true, known):
    """How many known tokens of the whole batch each class has: float32 [C]."""
    counted = ops.logical_and(is_true, ops.expand_dims(known, -1))
    counted = ops.reshape(ops.cast(counted, "float32"), (-1, is_true.shape[-1]))
    return sum_over_replicas(ops.sum(counted, axis=0))[0]


def _tags_and_scores(y_true, y_pred, ignore_index):
    """Returns integer tags [...] and scores [..., C], or says what does not fit."""
    if not y_pred.shape or y_pred.shape[-1] is None or y_pred.shape[-1] < 2:
        raise ValueError(
            sentence("y_pred", "scores of two or more classes", tuple(y_pred.shape))
        )
    # The mask is on the scores as they came, and gone after a cast.
    return integer_tags(y_true, y_pred, ignore_index), at_least_float32(y_pred)


@keras.saving.register_keras_serializable(package="bat_tf")
class TagLoss(FromArguments, keras.losses.Loss):
    """The token loss with every switch open: cross entropy unless told otherwise.

    `CECL`, `CECLA` and `PBP` are this class with the settings of the paper, and
    `bat_tf.losses.get` knows all nine names. The top of this file has the formula, the
    table of names, and what counts in the mean.

    Args:
        class_counts: see `tag_loss`. A class without tokens counts 0. The paper's are
            those of the training part, not `"batch"`.
        weighting: see `tag_loss`, as for all others that are not Keras' own.
        negatives: which negatives count.
        gamma: γ.
        positive_scale: λ.
        from_logits: False if the model emits probabilities.
        ignore_index: tag of tokens that do not count.
        reduction: as in `keras.losses.Loss`; the default is the mean over valid tokens.
        name: name of the loss.
        dtype: dtype of the result. The computation is in float32 or better whatever
            it is and whatever the dtype of the logits.

    Example:
        >>> import numpy as np
        >>> from bat_tf.losses import TagLoss
        >>> loss = TagLoss([80, 15, 5], weighting="ee")
        >>> tags = np.array([[0, 1, -1]])
        >>> round(float(loss(tags, np.zeros((1, 3, 3)))), 3)
        4.349

        As any Keras loss: `model.compile("adam", loss=TagLoss())`.
    """

    # Classes exclude each other: the score of one alone is no probability.
    probability_scale = None

    def __init__(
        self,
        class_counts=None,
        *,
        weighting="none",
        negatives="none",
        gamma=0.0,
        positive_scale=1.0,
        from_logits=True,
        ignore_index=-1,
        reduction="sum_over_batch_size",
        name="tag_loss",
        dtype=None,
    ):
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        self.weighting = check_choice("weighting", weighting, WEIGHTINGS)
        self.negatives = check_choice("negatives", negatives, NEGATIVES)
        self.gamma = check_number("gamma", gamma, low=0)
        self.positive_scale = check_number("positive_scale", positive_scale, low=0)
        self.ignore_index = check_number("ignore_index", ignore_index, integer=True)
        self.from_logits = from_logits
        if class_counts is None and weighting != "none":
            raise ValueError(counts_needed(weighting))
        as_it_is = class_counts is None or is_batch(class_counts)
        self.class_counts = class_counts if as_it_is else check_counts(class_counts)

    def __call__(self, y_true, y_pred, sample_weight=None):
        """Returns the loss of a batch, reduced over its valid tokens."""
        # The base class would average over all tokens and cast the tags to floats.
        with keras.name_scope(self.name):
            y_pred = ops.convert_to_tensor(y_pred)
            y_true, y_pred = _tags_and_scores(y_true, y_pred, self.ignore_index)
            losses = self.call(y_true, y_pred)
            valid = ops.not_equal(y_true, self.ignore_index)
            reduced = reduce(losses, sample_weight, self.reduction, valid)
            return ops.cast(reduced, self.dtype)

    def call(self, y_true, y_pred):
        """Returns the loss of every token."""
        settings = {name: getattr(self, name) for name in _SETTINGS}
        return tag_loss(y_true, y_pred, **settings)


@keras.saving.register_keras_serializable(package="bat_tf")
class CECL(TagLoss):
    """Contrastive Learning (CECL): every wrong class is pushed down.

        ℓ = -[ λ a_c (1 - p_c)^γ log p_c  +  Σ_{j≠c} b_j p_j^γ log(1 - p_j) ]

    `weighting="ee"` makes equation 5 the paper's CL_{γ,λ}, and `"standard"` its
    CL_{γ,s}; its CL_{1,20} has `gamma=1` and `positive_scale=20`.

    Args:
        class_counts: as in `TagLoss`.
        **settings: of `TagLoss`; by default `negatives="all"`.

    Example:
        >>> import numpy as np
        >>> from bat_tf.losses import CECL
        >>> round(float(CECL()(np.array([[0]]), np.zeros((1, 1, 3)))), 6)
        1.909543

    Reference:
        Born for Auto-Tagging, equation 5.
    """

    def __init__(self, class_counts=None, **settings):
        paper = {"negatives": "all", "name": "cecl"}
        super().__init__(class_counts, **{**paper, **settings})


@keras.saving.register_keras_serializable(package="bat_tf")
class CECLA(CECL):
    """CECL with array weights: a rare class is as loud in its negatives.

        ℓ = -N/N_c [ λ (1 - p_c)^γ log p_c  +  1/(C-1) Σ_{j≠c} p_j^γ log(1 - p_j) ]

    The defaults are CLA_{1,20}, which in the paper keeps F1 near that of cross entropy
    and raises F2: with λ > 1 a token is pushed towards its class beyond p = 1/2 (for
    γ = 1 and λ = 20 up to p = 0.842). The paper finds λ from 18 to 24 good.

    Args:
        class_counts: as in `TagLoss`.
        **settings: of `TagLoss`; by default those of CECL with `weighting="array"`,
            `gamma=1` and `positive_scale=20`.

    Example:
        >>> import numpy as np
        >>> from bat_tf.losses import CECLA
        >>> loss = CECLA([80, 15, 5])
        >>> tags = np.array([[0, 1, 2]])
        >>> round(float(loss(tags, np.zeros((1, 3, 3)))), 3)
        137.567

    Reference:
        Born for Auto-Tagging, CLA_{γ,λ}; equation 22 for the root (0.842 with natural
        logarithms, where the paper prints 0.831).
    """

    def __init__(self, class_counts=None, **settings):
        paper = {"weighting": "array", "gamma": 1.0, "positive_scale": 20.0}
        super().__init__(class_counts, **{**paper, "name": "cecla", **settings})


@keras.saving.register_keras_serializable(package="bat_tf")
class PBP(TagLoss):
    """Punish Bad Prediction: the class the model predicts is pushed down if wrong.

        ℓ = -[ λ a_c (1 - p_c)^γ log p_c  +  1[ŷ≠c] b_ŷ p_ŷ^γ log(1 - p_ŷ) ]

    The defaults are PBP_{0,8}; `weighting="none", positive_scale=1` is equation 6, and
    `weighting="array"` is PBPA. The prediction ŷ = argmax z is a constant: no gradient
    goes through the choice of it.

    Args:
        class_counts: as in `TagLoss`.
        **settings: of `TagLoss`; by default `negatives="predicted"`, `weighting="ee"`
            and `positive_scale=8`.

    Example:
        >>> import numpy as np
        >>> from bat_tf.losses import PBP
        >>> loss = PBP(weighting="none", positive_scale=1)
        >>> logits = np.log([[[0.4, 0.5, 0.1]]])
        >>> round(float(loss(np.array([[0]]), logits)), 6)
        1.609438

    Reference:
        Born for Auto-Tagging, equation 6. Padding is left out of the negative term too,
        where the authors' release lets it in.
    """

    def __init__(self, class_counts=None, **settings):
        paper = {"negatives": "predicted", "weighting": "ee", "positive_scale": 8.0}
        super().__init__(class_counts, **{**paper, "name": "pbp", **settings})


NAMES = {
    "ce": (TagLoss, {}),
    "wce": (TagLoss, {"weighting": "ee"}),
    "fce": (TagLoss, {"gamma": 1.0}),
    "fwce": (TagLoss, {"weighting": "ee", "gamma": 1.0}),
    "cecl": (CECL, {}),
    "wcecl": (CECL, {"weighting": "ee"}),
    "cecla": (CECLA, {}),
    "pbp": (PBP, {}),
    "pbpa": (PBP, {"weighting": "array"}),
}
