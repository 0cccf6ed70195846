"""Losses, as classes and by the names the papers give them."""

from bat_tf._registry import build
from bat_tf.losses import tagging
from bat_tf.losses.class_weights import class_weights
from bat_tf.losses.tagging import CECL, CECLA, PBP, TagLoss, tag_loss

__all__ = ["CECL", "CECLA", "PBP", "TagLoss", "class_weights", "get", "tag_loss"]

_NAMES = {**tagging.NAMES}


def get(name, /, **settings):
    """Returns the loss called `name`.

    Args:
        name: `ce wce fce fwce cecl wcecl cecla pbp pbpa`, in upper or lower case. The
            table in `bat_tf.losses.tagging` says what each stands for.
        **settings: arguments of its class; they win over what the name stands for.

    Returns:
        A `keras.losses.Loss`.

    Example:
        >>> import bat_tf.losses
        >>> loss = bat_tf.losses.get("pbp", class_counts=[80, 15, 5], gamma=1)
        >>> loss.name, loss.weighting, loss.gamma, loss.positive_scale
        ('pbp', 'ee', 1, 8.0)
    """
    return build("losses.get", _NAMES, name, settings)
