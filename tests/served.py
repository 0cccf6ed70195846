"""Exports of small models with random weights, made once for all test files."""

import atexit
import functools
import shutil
import socket
import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf
import tiny

import bat_tf
from bat_tf.data import Example

TEXTS = [
    "Soft cotton towel by Veloria, two pieces, free shipping",
    "",
    "Café 東京 👍🏽 lamp",
    "long " * 150 + "desk lamp",
]
NEWS = [
    ("oil and gas prices rose", ["energy", "markets"]),
    ("rain in may", ["weather"]),
    ("shares of gas firms fell", ["markets"]),
]


@functools.cache
def shelf():
    folder = Path(tempfile.mkdtemp(prefix="bat_tf_served_"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def free_port():
    """A port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def news():
    return bat_tf.TextDataset(Example(text, labels=names) for text, names in NEWS * 4)


def _shake(layer):
    """Random weights that give many different answers without any training."""
    numbers = np.random.default_rng(5)
    for weight in layer.weights:
        weight.assign(2 * numbers.normal(size=weight.shape))


@functools.cache
def model(name):
    if name in ("pages", "pieces"):
        tokenizer = "words"
        if name == "pieces":
            tokenizer = bat_tf.TextTokenizer(
                "wordpiece", vocabulary_size=300, features=("case",)
            )
        made = tiny.tagger(tokenizer=tokenizer, max_length=64, overlap=16)
        _shake(made.heads[0])
        return made
    bat_tf.training.set_seed(1, deterministic=False)
    if name == "news":
        made = bat_tf.LabelClassifier.for_data(news(), **tiny.ENCODER)
    else:
        made = bat_tf.ExpertClassifier.for_data(
            news(), experts=["D-1", "S"], **tiny.ENCODER
        )
    made.compile("adam", loss="bce")
    for head in made.heads:
        _shake(head)
    return made


@functools.cache
def folder(name):
    """The export of `pages`, `pieces` (taggers), `news`, `experts`, `options`."""
    return model(name).export(shelf() / name / "1", check=False)


@functools.cache
def signatures(name):
    """What `call` asks: the signatures of an export, loaded."""
    loaded = tf.saved_model.load(str(folder(name)))
    return loaded, loaded.signatures


def call(name, signature, **inputs):
    inputs = {key: tf.constant(value) for key, value in inputs.items()}
    found = signatures(name)[1][signature](**inputs)
    return {key: value.numpy() for key, value in found.items()}
