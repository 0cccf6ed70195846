"""A SavedModel behind limits and a queue: what the REST and gRPC servers ask."""

import asyncio
import itertools
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from bat_tf._validation import check_folder, check_number
from bat_tf.serving.inference import damaged, load_saved_model
from bat_tf.serving.warmup import read_warmup

DEFAULT = "serving_default"
_NUMBERS = itertools.count()
COUNTS = ("num_tags", "num_labels")
# Errors of TensorFlow that are the request's fault; the rest are the server's.
_BLAMED = (tf.errors.InvalidArgumentError, tf.errors.OutOfRangeError)


class Refusal(Exception):
    """A request that is not answered, with the reason as a sentence.

    Args:
        code: the gRPC status, such as `"INVALID_ARGUMENT"`.
        sentence: what is wrong and what to do.
    """

    def __init__(self, code, sentence):
        super().__init__(sentence)
        self.code, self.sentence = code, sentence


@dataclass(frozen=True)
class Limits:
    """What a server takes before it refuses.

    Args:
        body_bytes: size of a request.
        text_characters: length of each text.
        rows: texts of a request, and of a batch made of several requests.
        requests: requests that are being answered or wait for it.
        seconds: time that a client has to send its request.
    """

    body_bytes: int = 1_000_000
    text_characters: int = 20_000
    rows: int = 64
    requests: int = 256
    seconds: float = 30

    def __post_init__(self):
        for name in ("body_bytes", "text_characters", "rows", "requests"):
            check_number(name, getattr(self, name), low=1, integer=True)
        check_number("seconds", self.seconds, low=0)


class Engine:
    """Answers requests to one version of one model.

    Requests that come while others are being answered share a batch, through
    TensorFlow's own batching, the one in TF Serving. A request that comes alone does
    not queue. What is answered does not depend on who shares the batch.

    Args:
        path: a SavedModel, or a folder of numbered versions, of which the newest
            is taken.
        name: what requests call the model; by default the name of its folder.
        batching: whether requests share batches.
        limits: `Limits`.
        batch_threads: batches that run at the same time; by default half of the cores,
            since a batch keeps more than one core busy.
    """

    def __init__(self, path, name=None, batching=True, limits=None, batch_threads=None):
        self.limits = limits or Limits()
        self.folder, found, self.version = find_version(path)
        self.name = name or found
        self._model = load_saved_model(self.folder)
        self.signatures = dict(self._model.signatures)
        self.signature_defs = read_signature_defs(self.folder)
        cores = os.cpu_count() or 1
        self._batched = {}
        if batching and self._takes_texts(DEFAULT):
            threads = batch_threads or max(1, cores // 2)
            self._batched[DEFAULT] = batch_requests(
                self.signatures[DEFAULT],
                threads,
                self.limits.rows,
                self.limits.requests,
            )
        # Threads of batched requests only wait: enough of them for the next batches.
        self._pool = ThreadPoolExecutor(2 * self.limits.rows if batching else cores)
        self._direct = ThreadPoolExecutor(cores) if batching else self._pool
        self._lock, self._held = threading.Lock(), 0

    def _takes_texts(self, signature):
        specs = self.inputs(signature) if signature in self.signatures else {}
        return [(s.dtype, s.shape.rank) for s in specs.values()] == [(tf.string, 1)]

    def inputs(self, signature):
        """Name → TensorSpec of a signature's inputs."""
        if signature not in self.signatures:
            raise Refusal(
                "INVALID_ARGUMENT",
                f'Serving signature name: "{signature}" not found in signature def',
            )
        return self.signatures[signature].structured_input_signature[1]

    def check_model(self, name, version=None):
        """Raises unless it is this model, and this version of it, that is meant."""
        if name != self.name or version not in (None, self.version):
            which = f"Latest({name})" if version is None else f"Specific({name}, "
            which += "" if version is None else f"{version})"
            raise Refusal("NOT_FOUND", f"Servable not found for request: {which}")

    def check_inputs(self, signature, inputs):
        """Raises unless arrays are what a signature takes, within the limits."""
        specs = self.inputs(signature)
        if set(inputs) != set(specs):
            raise Refusal(
                "INVALID_ARGUMENT",
                f"The inputs must be {_list(specs)}. Received: {_list(inputs)}.",
            )
        for name, spec in specs.items():
            array, limits = inputs[name], self.limits
            text = spec.dtype == tf.string
            kind = "strings" if text else spec.dtype.name
            same = array.dtype == (object if text else spec.dtype.as_numpy_dtype)
            if not same or not spec.shape.is_compatible_with(array.shape):
                raise Refusal(
                    "INVALID_ARGUMENT",
                    f"`{name}` must be {kind} of shape {spec.shape}. "
                    f"Received: {array.dtype} of shape {array.shape}.",
                )
            if array.ndim and not 1 <= len(array) <= limits.rows:
                raise Refusal(
                    "INVALID_ARGUMENT",
                    f"A request must have 1 to {limits.rows} rows; `{name}` has "
                    f"{len(array)}. Send several requests for more.",
                )
            if text:
                self._check_lengths(array.ravel())

    def _check_lengths(self, texts):
        most = self.limits.text_characters
        for text in texts:
            # No more characters than bytes: short texts need not be decoded.
            if len(text) > most and len(text.decode("utf-8", "replace")) > most:
                raise Refusal(
                    "INVALID_ARGUMENT",
                    f"A text may have {most} characters. Cut it into several texts.",
                )

    def answer(self, signature, inputs, alone=False):
        """Runs a signature on arrays that were checked; returns a dict of arrays."""
        tensors = {name: tf.constant(value) for name, value in inputs.items()}
        batched = None if alone else self._batched.get(signature)
        try:
            found = (batched or self.signatures[signature])(**tensors)
        except _BLAMED as error:
            raise Refusal("INVALID_ARGUMENT", _reason(error)) from error
        except (tf.errors.UnavailableError, tf.errors.ResourceExhaustedError) as error:
            raise Refusal("UNAVAILABLE", _reason(error)) from error
        found = {name: found[name].numpy() for name in sorted(found)}
        return own_width(found) if batched else found

    async def ask(self, signature, inputs, write):
        """Runs a signature in a thread of its own, unless too many requests wait.

        Args:
            signature: its name.
            inputs: name → array.
            write: function of the answer; it runs in that thread as well.

        Returns:
            What `write` makes of the answer.
        """
        self.check_inputs(signature, inputs)
        with self._lock:
            if self._held >= self.limits.requests:
                raise Refusal(
                    "UNAVAILABLE",
                    f"The server holds {self._held} requests, all it may. "
                    "Try again in a moment.",
                )
            self._held += 1
            alone = self._held == 1
        direct = alone or signature not in self._batched
        pool = self._direct if direct else self._pool
        job = pool.submit(lambda: write(self.answer(signature, inputs, alone)))
        # Not in a `finally`: of a request that is cancelled, the thread still runs.
        job.add_done_callback(self._release)
        return await asyncio.wrap_future(job)

    def _release(self, _):
        with self._lock:
            self._held -= 1

    def warm_up(self):
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
        if not requests and self._takes_texts(DEFAULT):
            (name,) = self.inputs(DEFAULT)
            requests = [(DEFAULT, {name: np.array([b"a plain word"], object)})]
        for signature, inputs in requests:
            if all(len(value) <= self.limits.rows for value in inputs.values()):
                self.answer(signature, inputs)
                self.answer(signature, inputs, alone=True)

    def close(self):
        """Ends the threads, when they are done."""
        self._pool.shutdown()
        self._direct.shutdown()


def batch_requests(signature, threads, rows, waiting):
    """A function like `signature` whose concurrent calls share batches.

    Args:
        signature: strings [B] → dict of tensors that begin with the same B.
        threads: batches that run at the same time.
        rows: rows of a batch.
        waiting: batches that may wait.
    """
    names = sorted(signature.structured_outputs)
    (text,) = signature.structured_input_signature[1].values()

    # No time-out: with a thread free a batch goes at once, and only while all are busy
    # do requests gather. Parts of a split request would be padded to unequal widths.
    @tf.nondifferentiable_batch_function(
        threads,
        rows,
        0,
        max_enqueued_batches=waiting,
        enable_large_batch_splitting=False,
    )
    def together(texts):
        found = signature(**{text.name: texts})
        return [found[name] for name in names]

    # The scope names the queue, and those of one name in a process are one queue.
    scope = f"requests_{next(_NUMBERS)}"

    @tf.function(input_signature=[text])
    def serve(texts):
        with tf.name_scope(scope):
            return dict(zip(names, together(texts), strict=True))

    # There is one kind of input: nothing has to be looked up at every request.
    concrete = serve.get_concrete_function()
    return lambda **inputs: concrete(*inputs.values())


def own_width(found):
    """Answers without the columns that only others of the batch needed."""
    counts = [found[name] for name in COUNTS if name in found]
    if not counts:
        return found
    most = int(counts[0].max(initial=0))
    return {
        name: value[:, :most] if value.ndim == 2 else value
        for name, value in found.items()
    }


def find_version(path):
    """The SavedModel to serve, the name of the model and its version.

    Args:
        path: a SavedModel, or a folder of numbered versions.

    Returns:
        (folder, name, version); what is not numbered is version 1.
    """
    path = Path(path).resolve()
    if not path.is_dir():
        raise FileNotFoundError(f"{path} is not a folder; expected an exported model.")
    if not (path / "saved_model.pb").exists():
        versions = [p for p in path.iterdir() if p.is_dir() and p.name.isdecimal()]
        if versions:
            path = max(versions, key=lambda version: int(version.name))
    folder = check_folder(path, ["saved_model.pb", "variables"], "an exported model")
    if path.name.isdecimal():
        return folder, path.parent.name, int(path.name)
    return folder, path.name, 1


def read_signature_defs(folder):
    """Name → SignatureDef of a SavedModel, as it is written there."""
    from tensorflow.core.protobuf import saved_model_pb2

    saved = saved_model_pb2.SavedModel()
    saved.ParseFromString((Path(folder) / "saved_model.pb").read_bytes())
    return dict(saved.meta_graphs[0].signature_def)


def _reason(error):
    """What a TensorFlow error says, without the graph it says it of."""
    text = error.message.split("[[{{node")[0].strip() or type(error).__name__
    line = text.splitlines()[-1].strip()
    return line.removeprefix("assertion failed: [").removesuffix("]")[:500]


def _list(names):
    return ", ".join(f"`{name}`" for name in sorted(names)) or "none"
