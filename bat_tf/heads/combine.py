"""Logits of several heads → what is trained, and what is answered."""

import keras
from keras import ops

from bat_tf._internal.registry import FromArguments
from bat_tf._internal.validation import check_choice, check_number, sentence

AVERAGES = ("probabilities", "logits")


@keras.saving.register_keras_serializable(package="bat_tf")
class Add(FromArguments):
    """Adds the heads' logits up: [B, L]. One loss trains them all.

    Example:
        >>> import numpy as np
        >>> Add().stack([np.array([[1.0]]), np.array([[2.0]])]).numpy().tolist()
        [[3.0]]
    """

    def stack(self, logits):
        """What a model puts out."""
        return sum(logits[1:], ops.convert_to_tensor(logits[0]))

    def answer(self, outputs, scale, threshold):
        """The logits [B, L] that are answered with."""
        return outputs

    @classmethod
    def from_config(cls, config):
        """Makes it."""
        return cls(**config)


@keras.saving.register_keras_serializable(package="bat_tf")
class Average(Add):
    """Averages heads that each score all labels, as ME-XML does with its experts.

    A model puts out the logits of each, [B, K, L].

    Args:
        of: what an answer averages: `"probabilities"` as in the paper, or `"logits"`,
            where a head that is sure of a label no longer outvotes one that all but
            rules it out. Training does not depend on it.
        loss: `"individual"` has a loss for each head, `"collaborative"` one for the
            mean of their logits, see `ExpertLoss`.
        diversity: α of the term that pays heads for differing; 0 for none.
        diversity_start_epoch: when it begins.

    Example:
        >>> import numpy as np
        >>> outputs = np.array([[[9.0, -1.0], [-3.0, 2.0]]])
        >>> Average("logits").answer(outputs, 1.0, 0.0).numpy().tolist()
        [[3.0, 0.5]]

    Reference:
        ME-XML.
    """

    def __init__(
        self,
        of="probabilities",
        loss="individual",
        diversity=0.01,
        diversity_start_epoch=2,
    ):
        self.of = check_choice("of", of, AVERAGES)
        self.loss = check_choice("loss", loss, ("individual", "collaborative"))
        self.diversity = check_number("diversity", diversity, low=0)
        self.diversity_start_epoch = check_number(
            "diversity_start_epoch", diversity_start_epoch, low=0, integer=True
        )

    def stack(self, logits):
        return ops.stack(logits, axis=1)

    def answer(self, outputs, scale, threshold):
        """The logits of the heads' mean; σ(scale · (s - threshold)) is a probability.

        Losses that only rank have no scale: their logits are averaged.
        """
        if scale is None or self.of == "logits":
            return ops.mean(outputs, axis=1)
        above = scale * (outputs - threshold)
        # logit(mean p) = log Σ p - log Σ (1 - p), without leaving the logarithms.
        yes = ops.logsumexp(ops.log_sigmoid(above), axis=1)
        no = ops.logsumexp(ops.log_sigmoid(-above), axis=1)
        return (yes - no) / scale + threshold


def get(combine):
    """`Add` or `Average`, from itself or its shorthand.

    >>> get("logits").of
    'logits'
    """
    if isinstance(combine, Add):
        return combine
    if combine == "add":
        return Add()
    if combine in AVERAGES:
        return Average(combine)
    expected = '"add", "probabilities", "logits", or an `Average`'
    raise ValueError(sentence("combine", expected, combine))
