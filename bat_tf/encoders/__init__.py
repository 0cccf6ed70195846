"""Encoders: token ids → the states of every layer, by class and by name."""

from bat_tf._registry import build
from bat_tf.encoders.bat import BATEncoder
from bat_tf.encoders.bert import BertEncoder, backbone_folder, find_minilm
from bat_tf.encoders.transformer import TransformerEncoder

__all__ = [
    "BATEncoder",
    "BertEncoder",
    "TransformerEncoder",
    "backbone_folder",
    "find_minilm",
    "get",
]

_NAMES = {
    "bat": (BATEncoder, {}),
    "transformer": (TransformerEncoder, {}),
    "bert": (BertEncoder, {}),
}


def get(name, /, **settings):
    """Returns the encoder called `name`.

    Args:
        name: `bat`, `transformer` or `bert`.
        **settings: arguments of its class.

    Returns:
        A Keras layer: dict of `token_ids`, `padding_mask` and features [B, T] → list of
        states [B, T, D], the embeddings first.

    >>> get("bat", vocabulary_size=100, d_model=16, num_heads=2).d_model
    16
    """
    return build("encoders.get", _NAMES, name, settings)
