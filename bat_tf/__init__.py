"""bat_tf: put tags on text with TensorFlow and Keras 3.

Importing it registers every layer, loss, metric and model, so that
`keras.saving.load_model` works on what it saved, and changes nothing else.
"""

import signal
import sys
from pathlib import Path

from bat_tf._internal.version import VERSION as __version__

# The command line imports what a verb needs: `bat-tf --help` needs nothing of it.
if Path(*sys.argv[:1]).name != "bat-tf":
    from bat_tf import (
        data,
        encoders,
        heads,
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
    from bat_tf.models.load import load
    from bat_tf.runs.train import train
    from bat_tf.text import TextTokenizer
    from bat_tf.training import distributed
elif signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # Ctrl-C ends it without a traceback of its imports, until it has a word to say.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

__all__ = [
    "BATTagger",
    "ExpertClassifier",
    "LabelClassifier",
    "LabelSpace",
    "TextDataset",
    "TextTokenizer",
    "__version__",
    "data",
    "distributed",
    "encoders",
    "heads",
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
    "train",
    "training",
]
