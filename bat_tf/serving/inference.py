"""Python texts in, Python tags out, for a model in memory and for a SavedModel."""

import json
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bat_tf._validation import (
    check_folder,
    check_number,
    check_texts,
    import_optional,
)


class Tag(NamedTuple):
    """A keyword that a model found: `text` is the caller's `text[start:end]`."""

    start: int
    end: int
    kind: str
    score: float
    text: str


def tag_texts(serve, texts, batch_size=32):
    """Runs a serving function over one text or a list of texts.

    Args:
        serve: a function from strings [B] to the dict of `tagging_signature`.
        texts: a str, bytes, or an iterable of them. Bytes are read as UTF-8; what is
            not UTF-8 counts as one replacement character, as in `bytes.decode`.
        batch_size: texts a call.

    Returns:
        A list of `Tag` for one text, a list of lists for several.
    """
    if isinstance(texts, (str, bytes)):
        return tag_texts(serve, [texts], batch_size)[0]
    return _ask(serve, texts, batch_size, _row_tags)


def label_texts(serve, texts, batch_size=32):
    """Runs a serving function over one text or a list of texts.

    Args:
        serve: a function from strings [B] to the dict of `labelling_signature`.
        texts: as for `tag_texts`.
        batch_size: texts a call.

    Returns:
        A list of (name, score) for one text, a list of lists for several.
    """
    if isinstance(texts, (str, bytes)):
        return label_texts(serve, [texts], batch_size)[0]
    return _ask(serve, texts, batch_size, _row_labels)


def _ask(serve, texts, batch_size, read_row):
    """Serves texts in batches; `read_row(found, row, text)` reads one answer."""
    check_number("batch_size", batch_size, low=1, integer=True)
    texts = check_texts(texts)
    answers = [None] * len(texts)
    # Texts of similar length share a batch, so that little of it is padding.
    order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
    for first in range(0, len(order), batch_size):
        rows = order[first : first + batch_size]
        # A lone surrogate has no UTF-8; "?" is one character too, so offsets hold.
        batch = [texts[row].encode("utf-8", "replace") for row in rows]
        found = serve(tf.constant(batch))
        found = {name: np.asarray(value) for name, value in found.items()}
        for row, text_row in enumerate(rows):
            answers[text_row] = read_row(found, row, texts[text_row])
    return answers


def _row_tags(found, row, text):
    columns = (found["starts"], found["ends"], found["tags"], found["scores"])
    count = found["num_tags"][row]
    return [
        Tag(int(start), int(end), kind.decode(), float(score), text[start:end])
        for start, end, kind, score in zip(
            *(c[row, :count] for c in columns), strict=True
        )
    ]


def _row_labels(found, row, _):
    count = found["num_labels"][row]
    columns = (found["labels"][row, :count], found["scores"][row, :count])
    return [(name.decode(), float(score)) for name, score in zip(*columns, strict=True)]


def load_saved_model(folder):
    """Loads a SavedModel, with the operations of tensorflow-text if it needs them."""
    try:
        return tf.saved_model.load(str(folder))
    except Exception as error:
        unknown = "Op type not registered" in str(error)
        if unknown and "tensorflow_text" not in sys.modules:
            import_optional("tensorflow_text", "serve", f"The model in {folder}")
            return load_saved_model(folder)
        raise damaged(folder, error) from error


def damaged(folder, reason):
    """The error of an exported model that is not whole."""
    return OSError(
        f"{folder} could not be loaded: {reason}. Copy the folder again as a whole, or "
        "export the model anew."
    )


class ServedModel:
    """A model read from a SavedModel folder: answers, but cannot be trained.

    Args:
        folder: what `model.export` wrote.
    """

    def __init__(self, folder):
        folder = check_folder(
            folder, ["saved_model.pb", "variables"], "a SavedModel of bat_tf"
        )
        self._model = load_saved_model(folder)
        if "serving_default" not in self._model.signatures:
            raise damaged(folder, "it has no signature `serving_default`")
        self._signature = self._model.signatures["serving_default"]

    def _serve(self, text):
        return self._signature(text=text)


class ServedTagger(ServedModel):
    """A `BATTagger` that was exported."""

    def tag(self, texts, batch_size=32):
        """Finds the keywords of a text or of several, as `BATTagger.tag` does."""
        return tag_texts(self._serve, texts, batch_size)


class ServedClassifier(ServedModel):
    """A `LabelClassifier` that was exported."""

    def label(self, texts, batch_size=32):
        """Chooses the labels of a text or of several, as `LabelClassifier.label`."""
        return label_texts(self._serve, texts, batch_size)


def load_served(folder):
    """Reads an exported model; the description beside it tells what it is."""
    about = Path(folder) / "assets.extra" / "bat_tf.json"
    try:
        task = json.loads(about.read_text("utf-8"))["task"]
    except FileNotFoundError:
        task = "spans"
    except (ValueError, KeyError, TypeError) as error:
        raise damaged(folder, f"{about.name} is not whole ({error})") from error
    return ServedClassifier(folder) if task == "labels" else ServedTagger(folder)


def load(path):
    """Loads a model: a `.keras` file, a run's folder or an exported SavedModel.

    Args:
        path: the file `model.save` wrote, the folder of a `bat-tf train` run (its best
            model is taken), or the folder `model.export` wrote.

    Returns:
        An object with `tag(texts)` or `label(texts)`; a `.keras` file gives the whole
        model, a SavedModel one that only answers.
    """
    import keras

    path = Path(path)
    if (path / "best.keras").is_file():
        path = path / "best.keras"
    if path.is_dir():
        return load_served(path)
    if not path.is_file():
        raise FileNotFoundError(
            f"There is no model at {path}. Expected a .keras file, the folder of a "
            "training run or an exported SavedModel."
        )
    try:
        return keras.saving.load_model(path)
    except Exception as error:
        raise OSError(
            f"{path} could not be read as a Keras model: {error}. It is incomplete or "
            "was written by something else; copy or save it again."
        ) from error
