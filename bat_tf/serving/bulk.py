"""Whole corpora: a file of any size is tagged in shards, and a killed job goes on.

    bat-tf tag --input pages.jsonl.gz --output out/ --workers 4

`out/` then holds, in the order of the input:

    job.json           what the job is: input, model, settings
    part-000000.jsonl  the answers to one shard, each row with its id or line number
    bad-000000.jsonl   rows of that shard that are no texts, with line and reason

A part appears as a whole or not at all, and one that is there is never done again.
"""

import contextlib
import hashlib
import json
import math
import os
import time
from dataclasses import dataclass
from pathlib import Path

from bat_tf import __version__
from bat_tf._validation import check_choice, check_number
from bat_tf.data.files import NO_ROOM, atomic_write, locked
from bat_tf.serving import bulk_engines
from bat_tf.serving.bulk_engines import COLUMNS as COLUMNS
from bat_tf.serving.bulk_engines import map_in_pandas as map_in_pandas
from bat_tf.serving.bulk_engines import ray_dataset as ray_dataset
from bat_tf.serving.bulk_rows import (
    ShardReader,
    answers,
    count_rows,
    has_json_rows,
    json_with_id,
    read_row,
)
from bat_tf.serving.inference import load

ENGINES = {
    "processes": bulk_engines.in_processes,
    "ray": bulk_engines.on_ray,
}


@dataclass(frozen=True)
class Summary:
    """What a job did.

    Args:
        rows: lines of the input.
        bad: lines that went to the side files.
        shards: parts in the folder.
        rows_now: lines that this run did; the others were there before.
        seconds: how long it took.
    """

    rows: int
    bad: int
    shards: int
    rows_now: int
    seconds: float


@dataclass(frozen=True)
class Job:
    """A job as each worker knows it, and which of its shards are done.

    Args:
        input: the file.
        folder: where parts go.
        model: path of the model.
        rows: lines of the file.
        shard_rows: lines of a shard.
        batch_size: texts a step.
        top_k: of labels, the best so many instead of those above the threshold.
    """

    input: str
    folder: str
    model: str
    rows: int
    shard_rows: int
    batch_size: int
    top_k: int | None

    def worker(self):
        """A function that does the shard of a number: one for each process."""
        return Worker(self)

    def part(self, shard, kind="part"):
        """The file of a shard's answers, or with `"bad"` of its bad rows."""
        return Path(self.folder) / f"{kind}-{shard:06}.jsonl"

    @property
    def shards(self):
        """How many there are."""
        return math.ceil(self.rows / self.shard_rows)

    def size(self, shard):
        """How many lines a shard has."""
        return min(self.shard_rows, self.rows - shard * self.shard_rows)

    def pending(self):
        """Numbers of the shards that have no part yet."""
        return [n for n in range(self.shards) if not self.part(n).exists()]

    def count_bad(self):
        """How many rows are in the side files."""
        sides = Path(self.folder).glob("bad-*.jsonl")
        return sum(map(count_rows, sides))


class Worker:
    """Does shards of a job; the model is loaded for the first of them, once.

    Args:
        job: a `Job`.
    """

    def __init__(self, job):
        self._job = job
        self._reader = ShardReader(job.input, job.shard_rows)
        self._json_rows = has_json_rows(job.input)
        self._answers = None

    def __call__(self, shard):
        """Writes the part of a shard, unless it is there; returns its number."""
        job = self._job
        if job.part(shard).exists():
            return shard
        if self._answers is None:
            self._answers = answers(load(job.model), job.batch_size, job.top_k)
        style, ask = self._answers
        good, bad = self._sort_out(self._reader.read(shard))
        found = ask([text for _, text in good])
        rows = (
            json_with_id(row_id, style.json(text, answer))
            for (row_id, text), answer in zip(good, found, strict=True)
        )
        # The part comes last: once it is there, the shard counts as done.
        if bad:
            _write(job.part(shard, "bad"), map(json.dumps, bad))
        _write(job.part(shard), rows)
        return shard

    def _sort_out(self, lines):
        """The (id, text) of good lines, and the reasons against the others."""
        good, bad = [], []
        for number, line in lines:
            try:
                row = read_row(number, line, self._json_rows)
            except ValueError as error:
                shown = line[:200].decode("utf-8", "replace")
                bad.append({"line": number, "reason": str(error), "found": shown})
            else:
                good += [row] if row else []
        return good, bad


def _write(path, lines):
    with atomic_write(path) as file:
        for line in lines:
            file.write(line + "\n")
        # On the disk before it gets its name, or a power cut could leave a name
        # without its lines.
        file.flush()
        os.fsync(file.fileno())


def tag_corpus(
    input,
    output,
    model,
    *,
    workers=1,
    shard_rows=2000,
    batch_size=64,
    top_k=None,
    engine="processes",
    progress=None,
):
    """Tags or labels every row of a file, in shards, by several workers.

    Called again with the same input, output and model, it does what is missing; the
    number of workers, the batch size and the engine may differ from run to run. Memory
    depends on `workers` and `shard_rows`, not on the size of the input.

    Args:
        input: a file with a text a line, or `.jsonl` with "text" and perhaps "id" in
            each row; either also `.gz` or `.xz`.
        output: the folder; new, empty, or of the same job.
        model: a `.keras` file, a run's folder or an exported SavedModel.
        workers: processes, each with the model in memory and its share of the cores; 0
            does the work in this one.
        shard_rows: lines of a shard: what is lost when a worker is killed.
        batch_size: texts a step.
        top_k: of labels, the best so many instead of those above the threshold.
        engine: `"processes"` of this machine, or `"ray"`, whose cluster must see the
            input, the model and the output under the same paths.
        progress: called with (rows done, rows in all) at the start and after each
            shard.

    Returns:
        A `Summary`.

    Example:
        done = tag_corpus("pages.jsonl.gz", "out", "shop/1", workers=4)
        print(f"{done.rows} rows, {done.bad} of them bad")
    """
    check_number("workers", workers, low=0, integer=True)
    check_number("shard_rows", shard_rows, low=1, integer=True)
    check_number("batch_size", batch_size, low=1, integer=True)
    check_choice("engine", engine, ENGINES)
    began = time.perf_counter()
    # Workers may stand elsewhere.
    input, output, model = (Path(p).absolute() for p in (input, output, model))
    plan = {
        "input": _describe_input(input),
        "model": _describe_model(model),
        "shard_rows": shard_rows,
        "top_k": top_k,
    }
    _open_folder(output)
    with locked(output):
        _sweep(output)
        rows = _manifest(output, plan, input)
        settings = (rows, shard_rows, batch_size, top_k)
        job = Job(str(input), str(output), str(model), *settings)
        rows_now = _run(job, ENGINES[engine], workers, progress or (lambda *_: None))
        seconds = time.perf_counter() - began
        return Summary(rows, job.count_bad(), job.shards, rows_now, seconds)


def _run(job, engine, workers, progress):
    """Does the missing shards; what goes wrong is said together with how to go on."""
    pending = job.pending()
    before = done = job.rows - sum(map(job.size, pending))
    progress(done, job.rows)
    try:
        with contextlib.closing(engine(job, pending, workers)) as finished:
            for shard in finished:
                done += job.size(shard)
                progress(done, job.rows)
    except bulk_engines.WorkersDied as error:
        raise RuntimeError(f"{error} {_how_to_go_on(job)}") from error
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        reason = os.strerror(error.errno)
        sentence = f"There is no room left for {job.folder} ({reason})."
        raise OSError(f"{sentence} Make room. {_how_to_go_on(job)}") from error
    finally:
        _sweep(Path(job.folder))
    return done - before


def _how_to_go_on(job):
    done = job.shards - len(job.pending())
    return (
        f"{done} of {job.shards} shards are done and stay; run the same command again "
        "for the others."
    )


def _sweep(folder):
    """Removes what killed workers had half written."""
    for pattern in (".part-*.tmp", ".bad-*.tmp", ".job.json.*.tmp"):
        for path in folder.glob(pattern):
            path.unlink(missing_ok=True)


def _open_folder(folder):
    """Makes the folder of the parts, or checks that the one there is that of a job."""
    if folder.is_file():
        raise NotADirectoryError(f"{folder} is a file; the parts need a folder.")
    folder.mkdir(parents=True, exist_ok=True)
    known = (folder / "job.json").exists() or (folder / ".lock").exists()
    if not known and any(folder.iterdir()):
        raise FileExistsError(
            f"{folder} holds other files. Give a folder that is new or empty, or that "
            "of the same job."
        )


def _manifest(folder, plan, input):
    """Writes down what the job is, or checks that it is the same; returns its rows."""
    path = folder / "job.json"
    if path.exists() and any(folder.glob("part-*.jsonl")):
        known = json.loads(path.read_text(encoding="utf-8"))
        other = [key for key, value in plan.items() if known["plan"][key] != value]
        if other:
            name = other[0]
            raise ValueError(
                f"{folder} holds a job with another `{name}`: {known['plan'][name]}. "
                f"Received: {plan[name]}. Give another folder, or remove this one."
            )
        return known["rows"]
    # Before the work: a packed file that was cut off is found out here, not hours on.
    rows = count_rows(input)
    for path_of_bad in folder.glob("bad-*.jsonl"):
        path_of_bad.unlink()
    manifest = {"bat_tf": __version__, "plan": plan, "rows": rows}
    _write(path, [json.dumps(manifest, indent=1)])
    return rows


def _describe_input(path):
    """What tells a file from another, without reading all of it."""
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path} to read texts from.")
    size, edge = path.stat().st_size, 1 << 20
    with open(path, "rb") as file:
        digest = hashlib.sha256(file.read(edge))
        file.seek(max(0, size - edge))
        digest.update(file.read())
    return {"name": path.name, "bytes": size, "edges_sha256": digest.hexdigest()}


def _describe_model(path):
    """What tells a model from another: all of its bytes."""
    if (path / "best.keras").is_file():
        path = path / "best.keras"
    files = sorted(p for p in path.rglob("*") if p.is_file()) or [path]
    if not files[0].exists():
        raise FileNotFoundError(f"There is no model at {path}.")
    digest = hashlib.sha256()
    for part in files:
        with open(part, "rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return {"name": path.name, "sha256": digest.hexdigest()}
