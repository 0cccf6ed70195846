"""Models from files: a `.keras` file, a run's folder, an exported SavedModel."""

import json
import sys
from pathlib import Path

import tensorflow as tf

from bat_tf._internal.files import settled
from bat_tf._internal.validation import check_folder, import_optional
from bat_tf._internal.version import warn_if_newer
from bat_tf.answers import COUNTS, Labelling, Tagging, ask, option_inputs
from bat_tf.models.trust import (
    UntrustedError,
    bounded_weights,
    check_keras_file,
    check_saved_model,
    is_trusted,
    readable,
)


def load_saved_model(folder, trust=None):
    """Loads a SavedModel, with the operations of tensorflow-text if it needs them.

    Args:
        folder: of the SavedModel.
        trust: whether to load it unseen, see `bat_tf.models.trust`.
    """
    try:
        if not is_trusted(trust):
            check_saved_model(folder)
        return tf.saved_model.load(str(folder))
    except UntrustedError:
        raise
    except Exception as error:
        unknown = "Op type not registered" in str(error)
        if unknown and "tensorflow_text" not in sys.modules:
            import_optional("tensorflow_text", "serve", f"The model in {folder}")
            return load_saved_model(folder, trust)
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
        trust: see `load`.
    """

    exported = True

    def __init__(self, folder, trust=None):
        folder = check_folder(
            folder, ["saved_model.pb", "variables"], "a SavedModel of bat_tf"
        )
        self._model = load_saved_model(folder, trust)
        self._signatures = self._model.signatures
        self._check_signatures(folder)
        self.folder, self._names = folder, None

    def _check_signatures(self, folder):
        """Raises unless the model asks for texts and answers as ours do."""
        found = self._signatures.get("serving_default")
        if found is None:
            raise damaged(folder, "it has no signature `serving_default`")
        wanted = {"spans": "tags starts ends scores", "labels": "labels scores"}
        wanted = {*wanted[self.task].split(), COUNTS[self.task]}
        inputs, outputs = found.structured_input_signature[1], found.structured_outputs
        if set(inputs) != {"text"} or not wanted <= set(outputs):
            takes, gives = ", ".join(sorted(inputs)), ", ".join(sorted(outputs))
            raise OSError(
                f"{folder} is no model of bat_tf that finds {self.task}: its signature "
                f"`serving_default` takes {takes} and gives {gives}. TensorFlow's own "
                "`tf.saved_model.load` takes any."
            )

    @property
    def names(self):
        """The kinds of keywords, or the labels."""
        if self._names is None:
            if "metadata" not in self._signatures:
                raise damaged(self.folder, "it has no signature `metadata`")
            found = self._signatures["metadata"](text=tf.constant([""]))["labels"]
            self._names = [name.decode() for name in found.numpy()[0]]
        return self._names

    def answer(self, texts, batch_size=32, top_k=None, threshold=None):
        """See `bat_tf.answers.Answering`."""
        options = {"top_k": top_k, "threshold": threshold}
        return ask(self._serve, self.task, texts, batch_size, **options)

    def _serve(self, text, **options):
        if not options:
            return self._signatures["serving_default"](text=text)
        if "serve_options" not in self._signatures:
            raise ValueError(
                f"The model in {self.folder} takes neither `top_k` nor `threshold`: it "
                "was exported by an older release. Export it again."
            )
        options = option_inputs(len(text), **options)
        options = {name: tf.constant(value) for name, value in options.items()}
        return self._signatures["serve_options"](text=text, **options)


class ServedTagger(ServedModel, Tagging):
    """A `BATTagger` that was exported."""


class ServedClassifier(ServedModel, Labelling):
    """A `LabelClassifier` that was exported."""


def load_served(folder, trust=None):
    """Reads an exported model; the description beside it tells what it is."""
    about = Path(folder) / "assets.extra" / "bat_tf.json"
    try:
        described = json.loads(about.read_text("utf-8"))
        task = described["task"]
        warn_if_newer(described.get("bat_tf"), f"The model in {folder}")
    except FileNotFoundError:
        task = "spans"
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise damaged(folder, f"{about.name} is not whole ({error})") from error
    served = ServedClassifier if task == "labels" else ServedTagger
    return served(folder, trust)


def load(path, trust=None):
    """Loads a model: a `.keras` file, a run's folder or an exported SavedModel.

    Args:
        path: the file `model.save` wrote, the folder of a `bat-tf train` run (its best
            model is taken), or the folder `model.export` wrote.
        trust: a model is a program. False refuses what may read or write files, run
            code, or fill the memory; True loads whatever it is, which you want of
            people you trust alone, except Python code inside of a `.keras` file, which
            Keras' safe mode never runs. None is False, unless BAT_TF_TRUST=1 is set.

    Returns:
        An object with `tag(texts)` or `label(texts)`; a `.keras` file gives the whole
        model, a SavedModel one that only answers.
    """
    path = settled(path)
    if (path / "best.keras").is_file():
        path = path / "best.keras"
    if path.is_dir():
        return load_served(path, trust)
    if not path.is_file():
        raise FileNotFoundError(
            f"There is no model at {path}. Expected a .keras file, the folder of a "
            "training run or an exported SavedModel."
        )
    import keras  # a SavedModel needs nothing of it

    register()

    try:
        if is_trusted(trust):
            return keras.saving.load_model(path)
        with bounded_weights(path, check_keras_file(path)):
            return keras.saving.load_model(path)
    except Exception as error:
        refusal = readable(error)
        if refusal is not None:
            raise refusal from None
        raise OSError(
            f"{path} could not be read as a Keras model: {error}. It is incomplete or "
            "was written by something else; copy or save it again."
        ) from error


def register():
    """Imports what a `.keras` file may name, so that Keras knows it."""
    from bat_tf.models import experts, tagger  # noqa: F401
