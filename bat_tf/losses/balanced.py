"""Sigmoid losses for labels with a long tail: one formula, eight names.

With x = z - v, a label of a document costs

    ℓ = w [ y (1 - q)^γ softplus(-x) + (1 - y) q_λ^γ softplus(λ x) / λ ]
    q = σ(x),  q_λ = σ(λ x)

`gamma` is the focal exponent γ. `weighting` is w, a constant to the gradient:

| weighting   | w                                                                |
|-------------|------------------------------------------------------------------|
| `none`      | 1                                                                |
| `cb`        | (1 - β) / (1 - β^n_i): class-balanced                            |
| `rebalance` | α + σ(β (r - μ)), r = (1/n_i) / Σ_{j: y_j = 1} 1/n_j             |

n_i is the number of training documents with label i, N that of all. A document without
labels has r = ∞, so w = 1 + α. `ntr` is the negative-tolerant regularisation: v_i =
κ log(N/n_i - 1), which is larger for rare labels, and λ > 1, which lets go of negatives
that are already low; without it v = 0 and λ = 1.

| name     | weighting | ntr | gamma |
|----------|-----------|-----|-------|
| `bce`    | none      | no  | 0     |
| `fl`     | none      | no  | 2     |
| `cb`     | cb        | no  | 2     |
| `r-fl`   | rebalance | no  | 2     |
| `ntr-fl` | none      | yes | 2     |
| `db-0fl` | rebalance | yes | 0     |
| `cb-ntr` | cb        | yes | 2     |
| `db`     | rebalance | yes | 2     |

Labels that no training document has count 1 as a denominator and 1/2 inside the
logarithm.

α, β, κ and λ are the paper's for all data. μ belongs to the data: `find_mu` finds it, a
`LabelSpace` that was fitted knows it, and `constants="reuters"` or `"pubmed"` takes the
one of that data set.

`style="official"` reproduces the authors' script instead of the paper: a factor 1/2 on
every loss with γ > 0, no 1/λ where there are no weights, and, with `constants`, another
weight of the whole loss:

|         | μ    | bce | fl | cb | r-fl | ntr-fl | db-0fl | cb-ntr | db |
|---------|------|-----|----|----|------|--------|--------|--------|----|
| reuters | 0.9  | 1   | 1  | 10 | 1    | 1      | 0.5    | 10     | 1  |
| pubmed  | 0.05 | 1   | 1  | 5  | 1    | 0.5    | 0.5    | 10     | 1  |

References:
    Huang et al., Balancing methods for multi-label text classification with long-tailed
    class distribution, 2021 (all eight). Cui et al., Class-balanced loss, 2019. Wu et
    al., Distribution-balanced loss, 2020. Lin et al., Focal loss, 2017.
"""

import warnings

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from bat_tf._internal.targets import middle_ratio, positive_pairs
from bat_tf._internal.validation import (
    check_choice,
    check_counts,
    check_length,
    check_number,
    sentence,
)
from bat_tf.losses.document import COUNT_ALL, DocumentLoss

WEIGHTINGS = ("none", "cb", "rebalance")
CB_MODES = ("by_class", "average_w", "average_n", "min_n")
STYLES = ("paper", "official")

# What the paper has for its data sets.
MU = {"reuters": 0.9, "pubmed": 0.05}
# (weighting, ntr, focal) → weight of the whole loss in the authors' script, if not 1.
_GLOBAL_WEIGHTS = {
    "reuters": {
        ("cb", False, True): 10.0,
        ("rebalance", True, False): 0.5,
        ("cb", True, True): 10.0,
    },
    "pubmed": {
        ("cb", False, True): 5.0,
        ("none", True, True): 0.5,
        ("rebalance", True, False): 0.5,
        ("cb", True, True): 10.0,
    },
}


@keras.saving.register_keras_serializable(package="bat_tf")
class BalancedLoss(DocumentLoss):
    """The sigmoid loss with every switch open: focal loss unless told otherwise.

    `FocalLoss`, `ClassBalanced` and `DistributionBalanced` are this class with the
    settings of the paper, and `bat_tf.losses.get` knows all eight names. The top of
    this file has the formula and the tables.

    Args:
        class_counts: training documents per label, or a `LabelSpace`; needed for
            `weighting` and `ntr`.
        num_examples: training documents; needed for `ntr`. A `LabelSpace` knows it.
        weighting: `"none"`, `"cb"` or `"rebalance"`.
        ntr: whether negatives are tolerated. Then labels are 0 or 1, where the other
            losses also take probabilities.
        gamma: focal exponent >= 0.
        cb_beta: β of `"cb"`, in [0, 1).
        cb_mode: `"by_class"` weighs each label by its own count; `"average_w"`,
            `"average_n"` and `"min_n"` weigh all labels of a document alike, by the
            mean weight, mean count or smallest count of those it has. A document
            without labels is weighed by class.
        rebalance_alpha: α of `"rebalance"`.
        rebalance_beta: β of `"rebalance"`.
        rebalance_mu: μ of `"rebalance"`; None is that of `constants` or of the
            `LabelSpace`. Without any of them it is Reuters' 0.9, with a warning: on
            other data it hardly re-balances.
        ntr_kappa: κ.
        ntr_scale: λ.
        label_reduction: `"mean"` over labels, as S1 has it, or `"sum"`, as S2 does.
        style: `"paper"` or `"official"`.
        constants: `"reuters"` or `"pubmed"` takes μ, and in the official style the
            weight of the whole loss, that the paper has for this data set.
        global_weight: a number that multiplies the loss; None is 1, or that of
            `constants`.
        name: name of the loss.
        **kwargs: `label_mask`, `from_logits`, `reduction`, `dtype`; see `DocumentLoss`.

    Example:
        >>> import numpy as np
        >>> from bat_tf.losses import BalancedLoss
        >>> labels = np.array([[1.0, 0.0]])
        >>> round(float(BalancedLoss()(labels, np.zeros((1, 2)))), 6)
        0.173287

        As any Keras loss: `model.compile("adam", loss=BalancedLoss())`.
    """

    def __init__(
        self,
        class_counts=None,
        num_examples=None,
        *,
        weighting="none",
        ntr=False,
        gamma=2.0,
        cb_beta=0.9,
        cb_mode="by_class",
        rebalance_alpha=0.1,
        rebalance_beta=10.0,
        rebalance_mu=None,
        ntr_kappa=0.05,
        ntr_scale=2.0,
        label_reduction="mean",
        style="paper",
        constants=None,
        global_weight=None,
        name="balanced_loss",
        **kwargs,
    ):
        super().__init__(name=name, **kwargs)
        self.weighting = check_choice("weighting", weighting, WEIGHTINGS)
        self.ntr = bool(ntr)
        self.soft_labels = not self.ntr
        self.gamma = check_number("gamma", gamma, low=0)
        self.cb_beta = check_number("cb_beta", cb_beta, low=0, high=1 - 1e-9)
        self.cb_mode = check_choice("cb_mode", cb_mode, CB_MODES)
        self.rebalance_alpha = check_number("rebalance_alpha", rebalance_alpha, low=0)
        self.rebalance_beta = check_number("rebalance_beta", rebalance_beta, low=0)
        self.ntr_kappa = check_number("ntr_kappa", ntr_kappa)
        self.ntr_scale = check_number("ntr_scale", ntr_scale, low=1e-6)
        self.label_reduction = check_choice(
            "label_reduction", label_reduction, ("mean", "sum")
        )
        self.style = check_choice("style", style, STYLES)
        self.constants = check_choice("constants", constants, (None, *MU))
        self.global_weight = global_weight
        self._factor = self._find_factor()
        self.rebalance_mu = self._find_mu(rebalance_mu, class_counts)
        self.class_counts, self.num_examples = _check_counts(class_counts, num_examples)
        needs = [f"weighting={weighting!r}"] if weighting != "none" else []
        needs += ["ntr=True"] if ntr else []
        if needs and self.class_counts is None:
            expected = f"given with {' and '.join(needs)}"
            remedy = "Pass the training documents per label, or a LabelSpace."
            raise ValueError(sentence("class_counts", expected, None, remedy))
        if ntr and self.num_examples is None:
            remedy = "Pass the number of training documents, or a LabelSpace."
            raise ValueError(
                sentence("num_examples", "given with ntr=True", None, remedy)
            )

    def _find_factor(self):
        """The number that multiplies the whole loss."""
        official = self.style == "official"
        weight = self.global_weight
        if weight is None:
            kind = (self.weighting, self.ntr, self.gamma > 0)
            known = _GLOBAL_WEIGHTS.get(self.constants, {}) if official else {}
            weight = known.get(kind, 1.0)
        check_number("global_weight", weight, low=0)
        return weight * (0.5 if official and self.gamma else 1.0)

    def _find_mu(self, mu, counts):
        """μ as it was given, or as it is known of the data; None where none is used."""
        if mu is not None:
            return check_number("rebalance_mu", mu)
        mu = MU.get(self.constants, getattr(counts, "rebalance_mu", None))
        if mu is None and self.weighting == "rebalance":
            warnings.warn(
                f"{self.name!r} takes μ = 0.9, which is that of Reuters: on other data "
                "it hardly re-balances. Pass a LabelSpace that was fitted, or "
                "`rebalance_mu=find_mu(labels, class_counts)`; or say "
                '`constants="reuters"`.',
                stacklevel=4,
            )
            mu = MU["reuters"]
        return mu

    def sample_losses(self, labels, scores):
        """Returns the loss of every sample."""
        losses = ops.sum(self.elements(labels, scores), axis=-1)
        factor = self._factor
        if self.label_reduction == "mean":
            factor /= scores.shape[-1]
        return losses if factor == 1 else losses * factor

    def candidate_losses(self, labels, scores, candidates):
        """Returns an unbiased estimate: candidates count as often as they stand for."""
        elements = self.elements(labels, scores, candidates)
        losses = ops.matmul(elements, candidates.weights[:, None])[:, 0]
        of_mean = self.label_reduction == "mean"
        return losses * (self._factor / (candidates.total if of_mean else 1))

    def elements(self, labels, scores, candidates=None):
        """Returns the loss of every label [B, L], without the weight of the whole."""
        counts = self._counts(scores.shape[-1], candidates)
        if self.ntr:
            n = ops.clip(counts, 0.5, self.num_examples - 0.5)
            shift = self.ntr_kappa * ops.log(self.num_examples / n - 1)
            without = self.style == "official" and self.weighting == "none"
            losses = tolerant_terms(
                ops.cast(labels, "bool"),
                scores - ops.cast(shift, scores.dtype),
                self.gamma,
                self.ntr_scale,
                divisor=1.0 if without else self.ntr_scale,
            )
        else:
            losses = focal_terms(ops.cast(labels, scores.dtype), scores, self.gamma)
        if self.weighting == "none":
            return losses
        labels = ops.cast(labels, scores.dtype)
        counts = ops.cast(counts, scores.dtype)
        return losses * self._weights(labels, ops.maximum(counts, 1.0))

    def _counts(self, num_labels, candidates=None):
        """Counts of the labels that are not masked, or of the candidates."""
        if self.class_counts is None:
            return None
        counts = np.asarray(self.class_counts, "float64")
        if candidates is not None:
            return ops.take(ops.convert_to_tensor(counts), candidates.labels)
        if self.label_mask is not None and len(counts) == len(self.label_mask):
            counts = counts[np.asarray(self.label_mask)]
        check_length("class_counts", counts, num_labels, remedy=COUNT_ALL)
        return counts

    def _weights(self, labels, counts):
        if self.weighting == "rebalance":
            inverse = ops.cast(1 / counts, labels.dtype)
            total = ops.matmul(labels, inverse[:, None])
            # Without labels r is infinite; this is as good, and times 0 it is 0.
            over_total = ops.where(total > 0, 1 / ops.maximum(total, 1e-20), 1e20)
            slope = self.rebalance_beta * over_total
            offset = self.rebalance_beta * self.rebalance_mu
            return self.rebalance_alpha + ops.sigmoid(slope * inverse - offset)
        by_class = ops.cast(self._class_balanced(counts), labels.dtype)
        if self.cb_mode == "by_class":
            return by_class
        size = ops.sum(labels, axis=-1, keepdims=True)
        n = ops.cast(counts, labels.dtype)
        if self.cb_mode == "min_n":
            n = ops.min(ops.where(labels > 0, n, n.dtype.max), axis=-1, keepdims=True)
        else:
            n = by_class if self.cb_mode == "average_w" else n
            n = ops.divide_no_nan(ops.matmul(labels, n[:, None]), size)
        whole = n if self.cb_mode == "average_w" else self._class_balanced(n)
        return ops.where(size > 0, whole, by_class)

    def _class_balanced(self, n):
        return (1 - self.cb_beta) / (1 - self.cb_beta**n)


def focal_terms(labels, x, gamma):
    """Returns y (1-q)^γ softplus(-x) + (1-y) q^γ softplus(x), q = σ(x), [B, L].

    Both halves are f(u) = σ(u)^γ softplus(u), of u = -x and of u = x, and share what
    they can; f'(u) = σ(u)^γ (γ σ(-u) softplus(u) + σ(u)) is finite for every γ >= 0.

    Args:
        labels: y in [0, 1], `[B, L]`.
        x: scores, `[B, L]`.
        gamma: γ.
    """
    if not gamma:
        return tf.nn.softplus(x) - labels * x

    @tf.custom_gradient
    def terms(x):
        high, plus = tf.sigmoid(x), tf.nn.softplus(x)
        low = 1 - high
        power_high, power_low = _power(high, gamma), _power(low, gamma)
        negative, positive = power_high * plus, power_low * (plus - x)

        def gradient(upstream):
            rise = gamma * low * negative + power_high * high
            fall = gamma * high * positive + power_low * low
            return upstream * (rise - labels * (rise + fall))

        return negative + labels * (positive - negative), gradient

    return terms(x)


def tolerant_terms(is_label, x, gamma, scale, divisor):
    """Returns f(-x) of labels and f(λx) / divisor of all others, [B, L].

    Args:
        is_label: bool `[B, L]`.
        x: shifted scores, `[B, L]`.
        gamma: γ of f, as in `focal_terms`.
        scale: λ.
        divisor: λ in the paper.
    """

    @tf.custom_gradient
    def focal(u):
        p, plus = tf.sigmoid(u), tf.nn.softplus(u)
        power = _power(p, gamma)
        value = power * plus

        def gradient(upstream):
            return upstream * (gamma * (1 - p) * value + power * p)

        return value, gradient

    one, scale = tf.ones([], x.dtype), tf.cast(scale, x.dtype)
    u = tf.where(is_label, -one, scale) * x
    losses = focal(u) if gamma else tf.nn.softplus(u)
    return losses if divisor == 1 else losses * tf.where(is_label, one, 1 / divisor)


def _power(p, gamma):
    return tf.square(p) if gamma == 2 else tf.pow(p, tf.cast(gamma, p.dtype))


def _check_counts(class_counts, num_examples):
    """Returns counts as a list and the number of examples, or says what is wrong."""
    if hasattr(class_counts, "counts"):  # a LabelSpace
        space, class_counts = class_counts, class_counts.counts
        if class_counts is None:
            remedy = "`LabelSpace.fit(labels)` counts the labels of the training part."
            raise ValueError(
                sentence("class_counts", "a LabelSpace with counts", space, remedy)
            )
        if num_examples is None:
            num_examples = space.num_examples
    if num_examples is not None:
        if isinstance(num_examples, np.integer):
            num_examples = int(num_examples)
        check_number("num_examples", num_examples, low=1, integer=True)
    if class_counts is None:
        return None, num_examples
    counts = check_counts("class_counts", class_counts, whole=True).astype("float64")
    if num_examples is not None and counts.max() > num_examples:
        expected = f"at most num_examples={num_examples} for each label"
        remedy = "Count documents, not words, both in the same training part."
        raise ValueError(sentence("class_counts", expected, int(counts.max()), remedy))
    empty = np.flatnonzero(counts == 0)
    if len(empty):
        shown = ", ".join(map(str, empty[:5])) + ", …" * (len(empty) > 5)
        warnings.warn(
            f"`class_counts` is 0 for {len(empty)} of {len(counts)} labels ({shown}): "
            "no training document has them. They are weighed as if one had.",
            stacklevel=4,
        )
    return [int(count) for count in counts], num_examples


def find_mu(labels, class_counts, targets=None):
    """Returns μ of `weighting="rebalance"` for a data set, by the authors' rule.

    It is halfway between mean and median of r = (1/n_i) / Σ_{j: y_j = 1} 1/n_j over all
    labels of all documents, which puts the middle of the weights' range there.

    Args:
        labels: the labels of the training part, in any shape that a loss takes as
            `y_true`, or a list of lists of ids.
        class_counts: training documents per label, or a `LabelSpace`.
        targets: what `labels` are, see `DocumentLoss`.

    Returns:
        A float.

    Example:
        >>> from bat_tf.losses import find_mu
        >>> round(find_mu([[0], [0, 1], [0]], class_counts=[3, 1]), 3)
        0.812

    Reference:
        Huang et al., 2021: 0.906 for Reuters (they use 0.9), 0.0485 for PubMed (0.05).
    """
    counts, _ = _check_counts(class_counts, None)
    rows, ids = positive_pairs(labels, len(counts), targets)
    if not len(rows):
        raise ValueError(sentence("labels", "of at least one label", "none"))
    return middle_ratio(rows, ids, counts)


@keras.saving.register_keras_serializable(package="bat_tf")
class FocalLoss(BalancedLoss):
    """Focal loss: labels that are already right count less.

        ℓ = y (1 - p)^γ softplus(-z) + (1 - y) p^γ softplus(z),   p = σ(z)

    Args:
        *counts: not needed; accepted so that all balanced losses are made alike.
        **settings: of `BalancedLoss`, with its defaults; `gamma=0` is binary cross
            entropy, and `label_reduction="sum"` is ZLPR's form of the baseline.

    Example:
        >>> import numpy as np
        >>> from bat_tf.losses import FocalLoss
        >>> labels = np.array([[1.0, 0.0]])
        >>> round(float(FocalLoss()(labels, np.zeros((1, 2)))), 6)
        0.173287

    Reference:
        Lin et al., Focal loss for dense object detection, 2017.
    """

    def __init__(self, *counts, **settings):
        super().__init__(*counts, **{"name": "focal_loss", **settings})


@keras.saving.register_keras_serializable(package="bat_tf")
class ClassBalanced(BalancedLoss):
    """Class-balanced focal loss: a label weighs by its effective number of documents.

        w = (1 - β) / (1 - β^n)

    w is 1 for a label with one document and 1 - β for frequent ones.

    Args:
        *counts: `class_counts` and `num_examples` of `BalancedLoss`.
        **settings: of `BalancedLoss`; by default `weighting="cb"`. `ntr=True` makes it
            CB-NTR.

    Example:
        >>> import numpy as np
        >>> from bat_tf.losses import ClassBalanced
        >>> labels = np.array([[1.0, 0.0]])
        >>> round(float(ClassBalanced([1, 500])(labels, np.zeros((1, 2)))), 6)
        0.095308

    Reference:
        Cui et al., Class-balanced loss based on effective number of samples, 2019.
    """

    def __init__(self, *counts, **settings):
        paper = {"weighting": "cb", "name": "class_balanced"}
        super().__init__(*counts, **{**paper, **settings})


@keras.saving.register_keras_serializable(package="bat_tf")
class DistributionBalanced(BalancedLoss):
    """Distribution-balanced loss: re-balanced weights and tolerated negatives.

        ℓ = r̂ [ y (1 - q)^γ softplus(-(z-v)) + (1-y) q_λ^γ softplus(λ(z-v)) / λ ]

    r̂ makes up for labels that are drawn along with frequent ones; v and λ keep the many
    negatives of a rare label from drowning its few positives. `weighting="none"` makes
    it NTR-FL, `ntr=False` R-FL, and `gamma=0` DB-0FL.

    Args:
        *counts: `class_counts` and `num_examples` of `BalancedLoss`.
        **settings: of `BalancedLoss`; by default `weighting="rebalance", ntr=True`.

    Example:
        >>> import numpy as np
        >>> from bat_tf.losses import DistributionBalanced
        >>> loss = DistributionBalanced([60, 5], num_examples=100, rebalance_mu=0.9)
        >>> labels = np.array([[1.0, 0.0]])
        >>> round(float(loss(labels, np.zeros((1, 2)))), 6)
        0.09743

    Reference:
        Wu et al., Distribution-balanced loss for multi-label classification in
        long-tailed datasets, 2020; Huang et al., 2021.
    """

    def __init__(self, *counts, **settings):
        paper = {"weighting": "rebalance", "ntr": True, "name": "distribution_balanced"}
        super().__init__(*counts, **{**paper, **settings})


NAMES = {
    "bce": (BalancedLoss, {"gamma": 0.0}),
    "fl": (FocalLoss, {}),
    "cb": (ClassBalanced, {}),
    "r-fl": (DistributionBalanced, {"ntr": False}),
    "ntr-fl": (DistributionBalanced, {"weighting": "none"}),
    "db-0fl": (DistributionBalanced, {"gamma": 0.0}),
    "cb-ntr": (ClassBalanced, {"ntr": True}),
    "db": (DistributionBalanced, {}),
}
