"""How `fit` runs: callbacks, optimizers, schedules, several workers."""

from bat_tf.training.backup import Backup, Resumable, save_model
from bat_tf.training.callbacks import (
    EpochClock,
    EpochCounter,
    History,
    Patience,
    SaveBest,
    default_callbacks,
    set_seed,
    set_threads,
    verbosity,
)
from bat_tf.training.consistency import VAT, RDrop, consistent
from bat_tf.training.fingerprint import Fingerprint
from bat_tf.training.finite import DivergedError, Finite

__all__ = [
    "VAT",
    "Backup",
    "DivergedError",
    "EpochClock",
    "EpochCounter",
    "Fingerprint",
    "Finite",
    "History",
    "Patience",
    "RDrop",
    "Resumable",
    "SaveBest",
    "consistent",
    "default_callbacks",
    "save_model",
    "set_seed",
    "set_threads",
    "verbosity",
]
