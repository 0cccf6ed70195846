"""Losses, as classes and by the names the papers give them."""

from bat_tf._internal.registry import build
from bat_tf.losses import balanced, crf, dice, experts, ranking, tagging
from bat_tf.losses.balanced import (
    BalancedLoss,
    ClassBalanced,
    DistributionBalanced,
    FocalLoss,
    find_mu,
)
from bat_tf.losses.class_weights import class_weights
from bat_tf.losses.crf import CRF, crf_log_likelihood
from bat_tf.losses.dice import BatchDiceLoss, DiceLoss
from bat_tf.losses.divergence import kl_divergence, symmetric_kl
from bat_tf.losses.document import DocumentLoss
from bat_tf.losses.experts import ExpertEpochs, ExpertLoss
from bat_tf.losses.ranking import BPMLL, LSEP, WARP, ZLPR, RankingHinge
from bat_tf.losses.tagging import CECL, CECLA, PBP, TagLoss, tag_loss

__all__ = [
    "BPMLL",
    "CECL",
    "CECLA",
    "CRF",
    "LSEP",
    "PBP",
    "WARP",
    "ZLPR",
    "BalancedLoss",
    "BatchDiceLoss",
    "ClassBalanced",
    "DiceLoss",
    "DistributionBalanced",
    "DocumentLoss",
    "ExpertEpochs",
    "ExpertLoss",
    "FocalLoss",
    "RankingHinge",
    "TagLoss",
    "class_weights",
    "crf_log_likelihood",
    "find_mu",
    "get",
    "kl_divergence",
    "symmetric_kl",
    "tag_loss",
]

_NAMES = {
    **tagging.NAMES,
    **crf.NAMES,
    **balanced.NAMES,
    **dice.NAMES,
    **ranking.NAMES,
    **experts.NAMES,
}


def get(name, /, **settings):
    """Returns the loss called `name`.

    Args:
        name: in upper or lower case, for tokens `ce wce fce fwce cecl wcecl cecla pbp
            pbpa` (table in `bat_tf.losses.tagging`) and `crf`; for documents `bce fl cb
            r-fl ntr-fl db-0fl cb-ntr db` (table in `bat_tf.losses.balanced`), `dl1 dl2`
            (`bat_tf.losses.dice`) and `rl warp bp-mll lsep zlpr tlpr soft-zlpr` (table
            in `bat_tf.losses.ranking`; `tlpr` asks for its `threshold`, `soft-zlpr` for
            probabilities or `label_smoothing`); for several experts on the same labels,
            `experts`, whose `base` is any of the documents' losses.
        **settings: arguments of its class; they win over what the name stands for.

    Returns:
        A `keras.losses.Loss`.

    Example:
        >>> import bat_tf.losses
        >>> loss = bat_tf.losses.get("pbp", class_counts=[80, 15, 5], gamma=1)
        >>> loss.name, loss.weighting, loss.gamma, loss.positive_scale
        ('pbp', 'ee', 1, 8.0)
        >>> loss = bat_tf.losses.get("cb-ntr", class_counts=[60, 5], num_examples=100)
        >>> loss.name, loss.weighting, loss.ntr, loss.gamma
        ('cb-ntr', 'cb', True, 2.0)
    """
    return build("losses.get", _NAMES, name, settings)
