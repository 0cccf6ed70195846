"""Encoders: token ids → the states of every layer, by class and by name."""

from bat_tf._internal.registry import build
from bat_tf.encoders.admin import AdminEncoder
from bat_tf.encoders.backbone import Backbone
from bat_tf.encoders.bat import BATEncoder
from bat_tf.encoders.bilstm import BiLSTMEncoder
from bat_tf.encoders.catalogue import backbone_folder, find_minilm
from bat_tf.encoders.cnn import CNNEncoder
from bat_tf.encoders.informer import InformerEncoder
from bat_tf.encoders.muse import MuseEncoder
from bat_tf.encoders.none import NoEncoder
from bat_tf.encoders.performer import PerformerEncoder
from bat_tf.encoders.pretrained import BertEncoder
from bat_tf.encoders.switch import SwitchEncoder
from bat_tf.encoders.transformer import TransformerEncoder

__all__ = [
    "AdminEncoder",
    "BATEncoder",
    "Backbone",
    "BertEncoder",
    "BiLSTMEncoder",
    "CNNEncoder",
    "InformerEncoder",
    "MuseEncoder",
    "NoEncoder",
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
    "none": (NoEncoder, {}),
}


def get(name, /, **settings):
    """Returns the encoder called `name`.

    Args:
        name: `bat`, `transformer` or `bert`, or one that BAT's paper compares it with:
            `admin`, `muse`, `switch`, `performer` or `informer`; or one of ME-XML's
            baselines: `bilstm` (AttentionXML) or `cnn` (XML-CNN). `none` is for models
            whose heads read the tokens themselves.
        **settings: arguments of its class.

    Returns:
        A Keras layer: dict of `token_ids`, `padding_mask` and features [B, T] → list of
        states [B, T, D], the embeddings first.

    >>> import numpy as np
    >>> ids = np.array([[5, 7, 0]])
    >>> for name in ("bat", "muse", "switch"):
    ...     encoder = get(name, vocabulary_size=100, d_model=16, num_layers=2)
    ...     states = encoder({"token_ids": ids, "padding_mask": ids > 0})
    ...     print(len(states), states[-1].shape)
    3 (1, 3, 16)
    3 (1, 3, 16)
    3 (1, 3, 16)
    """
    return build("encoders.get", _NAMES, name, settings)
