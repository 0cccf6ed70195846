"""Versions of a model on disk: which is the newest whole one, and what it answers."""

import logging
from pathlib import Path

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from starlette.exceptions import HTTPException
from tensorflow.core.protobuf import saved_model_pb2

from bat_tf._internal.files import settled
from bat_tf._internal.validation import check_folder
from bat_tf.models.load import damaged, load_saved_model
from bat_tf.models.warmup import read_warmup

DEFAULT = "serving_default"
FILES = ["saved_model.pb", "variables"]
log = logging.getLogger(__name__)


class Version:
    """One version of a model, loaded.

    Args:
        folder: the SavedModel.
        number: of the version.
    """

    def __init__(self, folder, number):
        self.folder, self.number = Path(folder), number
        self._model = load_saved_model(folder)
        self._signatures = dict(self._model.signatures)
        self._rows = {name for name in self._signatures if self._in_rows(name)}

    def _in_rows(self, name):
        inputs = self.inputs(name).values()
        outputs = self._signatures[name].structured_outputs.values()
        shapes = [spec.shape for spec in outputs]
        free = all(shape.rank and shape[0] is None for shape in shapes)
        return free and all(spec.shape.rank == 1 for spec in inputs)

    def has_rows(self, signature):
        """Whether each row of the inputs is a question of its own.

        Then several requests may share a batch, and one may be cut into several.
        """
        return signature in self._rows

    def inputs(self, signature):
        """Name → TensorSpec of a signature's inputs."""
        if signature not in self._signatures:
            known = ", ".join(sorted(self._signatures))
            raise HTTPException(400, f'No signature "{signature}". There is: {known}.')
        return self._signatures[signature].structured_input_signature[1]

    def answer(self, signature, inputs):
        """Runs a signature on arrays; returns name → array."""
        tensors = {name: tf.constant(value) for name, value in inputs.items()}
        try:
            found = self._signatures[signature](**tensors)
        except (tf.errors.InvalidArgumentError, tf.errors.OutOfRangeError) as error:
            raise HTTPException(400, _reason(error)) from error
        except (tf.errors.UnavailableError, tf.errors.ResourceExhaustedError) as error:
            headers = {"retry-after": "1"}
            raise HTTPException(503, _reason(error), headers) from error
        return {name: found[name].numpy() for name in sorted(found)}

    def warm_up(self, most_rows):
        """Asks what the first callers would otherwise wait for."""
        try:
            requests = [
                (
                    request.model_spec.signature_name,
                    {name: tf.make_ndarray(x) for name, x in request.inputs.items()},
                )
                for request in read_warmup(self.folder)
            ]
        except (tf.errors.OpError, DecodeError) as error:
            reason = f"its warm-up requests are not whole ({error})"
            raise damaged(self.folder, reason) from error
        if not requests:
            if DEFAULT not in self._signatures:
                raise damaged(self.folder, f"it has no signature `{DEFAULT}`")
            name = next(iter(self.inputs(DEFAULT)))
            requests = [(DEFAULT, {name: np.array([b"a plain word"], object)})]
        for signature, inputs in requests:
            if all(len(value) <= most_rows for value in inputs.values()):
                self.answer(signature, inputs)


def find_versions(path):
    """The versions of a model, the newest first, whole or not.

    Args:
        path: a SavedModel, or a folder of numbered versions.

    Returns:
        (name of the model, list of (number, folder)); what is not numbered is
        version 1.
    """
    path = Path(path).resolve()
    folder = settled(path)  # an export that died may have left the old one aside
    if not folder.is_dir():
        raise FileNotFoundError(f"{path} is not a folder; expected an exported model.")
    if not (folder / "saved_model.pb").exists():
        numbered = [p for p in path.iterdir() if p.is_dir() and p.name.isdecimal()]
        if numbered:
            versions = sorted(((int(p.name), p) for p in numbered), reverse=True)
            return path.name, versions
    if path.name.isdecimal():
        return path.parent.name, [(int(path.name), folder)]
    return path.name, [(1, folder)]


def load_newest(versions, most_rows):
    """The newest of some versions that is whole, loaded and warm.

    Newer ones that are not whole are named in the log. If none is whole, what is wrong
    with the newest is raised.

    Args:
        versions: list of (number, folder), the newest first.
        most_rows: of the requests that warm it up.
    """
    errors = []
    for number, folder in versions:
        try:
            check_folder(folder, FILES, "an exported model")
            version = Version(folder, number)
            version.warm_up(most_rows)
            return version
        except OSError as error:
            errors.append(error)
            if len(versions) > 1:
                log.warning("Version %s is ignored: %s", number, error)
    raise errors[0]


class Newcomers:
    """Finds newer versions whose files have stopped changing.

    Args:
        path: see `find_versions`.
    """

    def __init__(self, path):
        self._path = path
        self._seen, self._tried = {}, {}

    def look(self, than):
        """The versions above the number `than` that are worth a try, newest first."""
        versions = [pair for pair in find_versions(self._path)[1] if pair[0] > than]
        before, self._seen = self._seen, {n: _state(folder) for n, folder in versions}
        ready = [
            (number, folder)
            for number, folder in versions
            # A copy that is under way changes from look to look.
            if self._seen[number] == before.get(number) != self._tried.get(number)
        ]
        self._tried |= {number: self._seen[number] for number, _ in ready}
        return ready


def _state(folder):
    """What changes while a folder is written: names, sizes and times of its files."""
    files = [(p, p.stat()) for p in sorted(folder.rglob("*"))]
    return [(str(p), found.st_size, found.st_mtime_ns) for p, found in files]


def read_signature_defs(folder):
    """Name → SignatureDef of a SavedModel, as it is written there."""
    saved = saved_model_pb2.SavedModel()
    saved.ParseFromString((Path(folder) / "saved_model.pb").read_bytes())
    return dict(saved.meta_graphs[0].signature_def)


def _reason(error):
    """What a TensorFlow error says, without the graph it says it of."""
    text = error.message.split("[[{{node")[0].strip() or type(error).__name__
    line = text.splitlines()[-1].strip()
    return line.removeprefix("assertion failed: [").removesuffix("]")[:500]
