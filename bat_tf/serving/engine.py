"""A model behind limits and a queue: what the server asks."""

import asyncio
import contextlib
import gc
import itertools
import logging
import os
import threading
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from dataclasses import dataclass, fields

import numpy as np
from starlette.exceptions import HTTPException

from bat_tf._internal.validation import check_number
from bat_tf.answers import COUNTS
from bat_tf.serving.metrics import Metrics
from bat_tf.serving.versions import Newcomers, find_versions, load_newest

RETRY = {"retry-after": "1"}
SHORT = 2_000  # bytes of texts that take so little time that they wait for no others
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Limits:
    """What a server takes before it refuses.

    Args:
        body_bytes: size of a request.
        held_bytes: size of all requests that are being sent or answered.
        header_bytes: size of a request's headers.
        headers: how many headers a request has.
        text_characters: length of each text.
        characters: length of all texts of a request.
        rows: texts of a request, and of a batch made of several requests.
        requests: requests that are being answered or wait for it.
        connections: open ones; half as many again are closed without a word.
        seconds: time that a client has to send its request, and to read its answer.
        idle_seconds: how long a connection may do nothing between two requests.
        answer_seconds: time that an answer may take.
    """

    body_bytes: int = 1_000_000
    held_bytes: int = 16_000_000
    header_bytes: int = 16_384
    headers: int = 100
    text_characters: int = 20_000
    characters: int = 1_000_000
    rows: int = 64
    requests: int = 256
    connections: int = 1024
    seconds: float = 30
    idle_seconds: float = 5
    answer_seconds: float = 120

    def __post_init__(self):
        for field in fields(self):
            whole = field.type is int
            low = 1 if whole else 0
            check_number(field.name, getattr(self, field.name), low, integer=whole)


class _Request:
    """A request on its way: rows that wait, and the answers to the others."""

    def __init__(self, model, signature, inputs, costs):
        self.model, self.signature, self.inputs = model, signature, inputs
        self.answer = Future()
        self.left = sum(costs)
        self._costs, self._next, self._parts = costs, 0, {}

    @property
    def waits(self):
        """Whether there are rows that nobody has taken."""
        return self._next < len(self._costs)

    @property
    def in_rows(self):
        """Whether its rows may be answered apart."""
        return self.model.has_rows(self.signature)

    def take(self, rows, cost, anyway):
        """Takes its next rows, as many as fit; (slice, their cost).

        Args:
            rows: for how many there is room.
            cost: for how much there is room.
            anyway: take something even if it does not fit.
        """
        first, stop = self._next, len(self._costs)
        if self.in_rows:
            sums = itertools.accumulate(self._costs[first : first + rows])
            stop = first + max(sum(s <= cost for s in sums), anyway)
        elif not anyway:
            stop = first
        taken = sum(self._costs[first:stop])
        self._next, self.left = stop, self.left - taken
        return slice(first, stop), taken

    def give(self, rows, part):
        """Takes the answer to some rows; returns all of it when it is whole."""
        self._parts[rows.start] = rows.stop, part
        done = sum(stop - first for first, (stop, _) in self._parts.items())
        if done < len(self._costs):
            return None
        parts = [self._parts[first][1] for first in sorted(self._parts)]
        return own_width(below_each_other(parts)) if self.in_rows else parts[0]


class _Lane:
    """Requests that wait for the same threads."""

    def __init__(self, threads):
        self.waiting, self.pool = [], ThreadPoolExecutor(threads)


class Engine:
    """Answers requests to the newest version of one model.

    Short and long requests have threads of their own. A thread takes a portion of the
    texts that wait, no more than the longest text there may be, and then it is the next
    request's turn; what else fits in a portion joins it. What is answered does not
    depend on who shares it.

    Args:
        path: a SavedModel, or a folder of numbered versions, of which the newest whole
            one is taken.
        name: what requests call the model; by default the name of its folder.
        batching: whether requests share batches.
        limits: `Limits`.
    """

    def __init__(self, path, name=None, batching=True, limits=None):
        self.limits = limits or Limits()
        found, versions = find_versions(path)
        self.name, self._batching = name or found, batching
        self._newcomers = Newcomers(path)
        self.model = load_newest(versions, self.limits.rows)
        self.metrics = Metrics(self)
        gc.freeze()  # or each large request makes Python look through all of TensorFlow
        # A batch keeps more than one core busy.
        cores = os.cpu_count() or 1
        threads = max(1, cores // 2) if batching else cores
        self._lanes = {"short": _Lane(threads), "long": _Lane(threads)}
        self._lock, self.held = threading.Lock(), 0

    def check(self, inputs):
        """Raises unless arrays are within the limits; returns what each row costs.

        Args:
            inputs: name → array, as the model's `inputs` says.
        """
        counts, most = {len(array) for array in inputs.values()}, self.limits.rows
        if len(counts) > 1 or not 1 <= min(counts, default=0) <= most:
            received = ", ".join(map(str, sorted(counts)))
            raise HTTPException(
                400,
                f"A request must have 1 to {most} rows, as many in each input. "
                f"Received: {received}. Send several requests for more.",
            )
        texts = [array for array in inputs.values() if array.dtype == object]
        self._check_characters([text for array in texts for text in array.ravel()])
        return [
            sum(len(x) if isinstance(x, bytes) else 4 * np.size(x) for x in row)
            for row in zip(*inputs.values(), strict=True)
        ]

    def _check_characters(self, texts):
        most, in_all = self.limits.text_characters, self.limits.characters
        # No more characters than bytes: few texts need to be decoded.
        if any(len(text) > most and _characters(text) > most for text in texts):
            sentence = f"A text may have {most} characters. Cut it into several."
            raise HTTPException(400, sentence)
        if sum(map(len, texts)) > in_all and sum(map(_characters, texts)) > in_all:
            sentence = f"The texts of a request may have {in_all} characters in all."
            raise HTTPException(400, f"{sentence} Send several requests.")

    async def ask(self, signature, inputs, model=None):
        """Answers a request, unless too many wait.

        When the caller is cancelled, what has not begun is not done.

        Args:
            signature: its name.
            inputs: name → array, as the model's `inputs` says.
            model: the `Version` to ask, by default the present one.

        Returns:
            dict: name → array.
        """
        costs = self.check(inputs)
        request = _Request(model or self.model, signature, inputs, costs)
        with self._lock:
            if self.held >= self.limits.requests:
                sentence = f"The server holds {self.held} requests, all it may."
                raise HTTPException(503, f"{sentence} Try again in a moment.", RETRY)
            self.held += 1
            lane = self._lanes["short" if request.left <= SHORT else "long"]
            lane.waiting.append(request)
        request.answer.add_done_callback(lambda _: self._leave(lane, request))
        lane.pool.submit(self._work, lane)
        seconds = self.limits.answer_seconds
        try:
            return await asyncio.wait_for(asyncio.wrap_future(request.answer), seconds)
        except TimeoutError:
            sentence = f"The answer was not ready within {seconds} seconds."
            raise HTTPException(504, f"{sentence} Send fewer texts.") from None

    def _leave(self, lane, request):
        with self._lock:
            self.held -= 1
            if request in lane.waiting:
                lane.waiting.remove(request)

    def _work(self, lane):
        """Answers a portion of what waits."""
        with self._lock:
            portion = self._next_portion(lane)
            if lane.waiting:
                lane.pool.submit(self._work, lane)
        if portion:
            self.metrics.batch_rows.observe(sum(r.stop - r.start for _, r in portion))
            self._answer(portion)

    def _next_portion(self, lane):
        """List of (request, slice of its rows); those with more go to the end."""
        portion, rows, cost = [], self.limits.rows, self.limits.text_characters
        for request in lane.waiting:
            first = portion[0][0] if portion else request
            if request is first or self._may_join(request, first):
                taken, spent = request.take(rows, cost, anyway=request is first)
                rows, cost = rows - (taken.stop - taken.start), cost - spent
                if taken.start < taken.stop:
                    portion.append((request, taken))
        served = [request for request, _ in portion]
        others = [request for request in lane.waiting if request not in served]
        lane.waiting = others + [request for request in served if request.waits]
        return portion

    def _may_join(self, request, first):
        alike = (request.model, request.signature) == (first.model, first.signature)
        return self._batching and alike and first.in_rows

    def _answer(self, portion):
        first = portion[0][0]
        try:
            columns = {
                name: np.concatenate([r.inputs[name][rows] for r, rows in portion])
                for name in first.inputs
            }
            found = first.model.answer(first.signature, columns)
        except Exception as error:
            if len(portion) > 1:  # none of the others shall suffer from one of them
                for part in portion:
                    self._answer([part])
            else:
                with contextlib.suppress(InvalidStateError):  # the caller has left
                    first.answer.set_exception(error)
            return
        start = 0
        for request, rows in portion:
            part, count = found, rows.stop - rows.start
            if len(portion) > 1:
                part = {name: x[start : start + count] for name, x in found.items()}
            start += count
            with self._lock:
                whole = request.give(rows, part)
            if whole is not None:
                with contextlib.suppress(InvalidStateError):
                    request.answer.set_result(whole)

    def look_for_newer(self):
        """Takes a newer version of the model, if there is a whole one.

        Requests that are there already are answered by the version they came to.
        """
        newer = self._newcomers.look(than=self.model.number)
        if not newer:
            return
        try:
            model = load_newest(newer, self.limits.rows)
        except OSError as error:
            log.warning("Version %s is ignored: %s", newer[0][0], error)
            return
        self.model = model
        log.info("%s: version %s answers from now on", self.name, model.number)
        gc.unfreeze()  # the older one is in cycles that only this can free
        gc.collect()
        gc.freeze()

    def close(self):
        """Ends the threads, when they are done."""
        for lane in self._lanes.values():
            lane.pool.shutdown()


def _characters(text):
    return len(text.decode("utf-8", "replace"))


def below_each_other(parts):
    """Answers to rows as one, the narrower ones padded as the model pads.

    Example:
        >>> parts = [{"n": np.array([[1]])}, {"n": np.array([[2, 3]])}]
        >>> below_each_other(parts)["n"].tolist()
        [[1, 0], [2, 3]]
    """
    if len(parts) == 1:
        return parts[0]
    return {name: _stack([part[name] for part in parts]) for name in parts[0]}


def _stack(arrays):
    if arrays[0].ndim == 2:
        filler = b"" if arrays[0].dtype == object else 0
        most = max(array.shape[1] for array in arrays)
        arrays = [
            np.pad(x, [(0, 0), (0, most - x.shape[1])], constant_values=filler)
            for x in arrays
        ]
    return np.concatenate(arrays)


def own_width(found):
    """Answers without the columns that only others of the batch needed."""
    counts = [found[name] for name in COUNTS.values() if name in found]
    if not counts:
        return found
    most = int(counts[0].max(initial=0))
    return {
        name: value[:, :most] if value.ndim == 2 else value
        for name, value in found.items()
    }
