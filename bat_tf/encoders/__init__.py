"""Encoders: token ids → the states of every layer, by class and by name."""

from bat_tf._registry import build
from bat_tf.encoders.admin import AdminEncoder
from bat_tf.encoders.bat import BATEncoder
from bat_tf.encoders.bert import BertEncoder, backbone_folder, find_minilm
from bat_tf.encoders.bilstm import BiLSTMEncoder
from bat_tf.encoders.cnn import CNNEncoder
from bat_tf.encoders.informer import InformerEncoder
from bat_tf.encoders.muse import MuseEncoder
from bat_tf.encoders.performer import PerformerEncoder
from bat_tf.encoders.switch import SwitchEncoder
from bat_tf.encoders.transformer import TransformerEncoder

__all__ = [
    "AdminEncoder",
    "BATEncoder",
    "BertEncoder",
    "BiLSTMEncoder",
    "CNNEncoder",
    "InformerEncoder",
    "MuseEncoder",
    "PerformerEncoder",
    "SwitchEncoder",
    "TransformerEncoder",
    "backbone_folder",
    "find_minilm",
    "get",
]

_NAMES = {
    "bat": (BATEncoder, {}),
    "transformer": (TransformerEncoder, {}),
    "bert": (BertEncoder, {}),
    "admin": (AdminEncoder, {}),
    "muse": (MuseEncoder, {}),
    "switch": (SwitchEncoder, {}),
    "performer": (PerformerEncoder, {}),
    "informer": (InformerEncoder, {}),
    "bilstm": (BiLSTMEncoder, {}),
    "cnn": (CNNEncoder, {}),
}


def get(name, /, **settings):
    """Returns the encoder called `name`.

    Args:
        name: `bat`, `transformer` or `bert`, or one that S0 compares them with:
            `admin`, `muse`, `switch`, `performer` or `informer`; or one of S3's
            baselines: `bilstm` (AttentionXML) or `cnn` (XML-CNN).
        **settings: arguments of its class.

    Returns:
        A Keras layer: dict of `token_ids`, `padding_mask` and features [B, T] → list of
        states [B, T, D], the embeddings first.

    >>> get("bat", vocabulary_size=100, d_model=16, num_heads=2).d_model
    16
    """
    return build("encoders.get", _NAMES, name, settings)
