"""bat_tf: put tags on text with TensorFlow and Keras 3.

Importing it registers every layer, loss, metric and model, so that
`keras.saving.load_model` works on what it saved, and changes nothing else.
"""

__version__ = "0.1.0"

from bat_tf import (
    data,
    distributed,
    encoders,
    layers,
    losses,
    metrics,
    models,
    optimizers,
    schedules,
    serving,
    text,
    thresholds,
    training,
)
from bat_tf.data import LabelSpace, TextDataset
from bat_tf.models import BATTagger, ExpertClassifier, LabelClassifier
from bat_tf.serving import load
from bat_tf.text import TextTokenizer

__all__ = [
    "BATTagger",
    "ExpertClassifier",
    "LabelClassifier",
    "LabelSpace",
    "TextDataset",
    "TextTokenizer",
    "data",
    "distributed",
    "encoders",
    "layers",
    "load",
    "losses",
    "metrics",
    "models",
    "optimizers",
    "schedules",
    "serving",
    "text",
    "thresholds",
    "training",
]
