"""Whole corpora: a file of any size is tagged in shards, and a killed job goes on.

    bat-tf tag --input pages.jsonl.gz --output out/ --workers 4

`out/` then holds, in the order of the input:

    job.json           what the job is: input, model, settings
    part-000000.jsonl  the answers to one shard, each row with its id or line number
    bad-000000.jsonl   rows of that shard that are no texts, with line and reason
    parts.sha256       digests of these files, as `sha256sum --check` reads them

A part appears as a whole or not at all, and one that is there is never done again.
"""

import contextlib
import functools
import hashlib
import json
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

from bat_tf._internal import display, files
from bat_tf._internal.files import NO_ROOM, atomic_write, locked
from bat_tf._internal.validation import check_number
from bat_tf._internal.version import VERSION
from bat_tf.answers import check_options
from bat_tf.models.load import load
from bat_tf.serving.rows import (
    ShardReader,
    count_rows,
    digest_of,
    has_json_rows,
    json_with_id,
    read_row,
    read_shards,
)
from bat_tf.serving.workers import WorkersDied, in_processes


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
    """A job as each worker knows it; it reads the model when it does a shard.

    Args:
        input: the file.
        folder: where parts go.
        model: path of the model.
        rows: lines of the file.
        digests: of the lines of each shard, as they were when the job began.
        described: the model then.
        shard_rows: lines of a shard.
        batch_size: texts a step.
        top_k: of labels, the best so many instead of those above the threshold.
        threshold: of labels, those whose score is above it.
    """

    input: Path
    folder: Path
    model: Path
    rows: int
    digests: list
    described: dict
    shard_rows: int
    batch_size: int
    top_k: int | None
    threshold: float | None

    def part(self, shard, kind="part"):
        """The file of a shard's answers, or with `"bad"` of its bad rows."""
        return self.folder / f"{kind}-{shard:06}.jsonl"

    @property
    def shards(self):
        """How many there are."""
        return len(self.digests)

    def size(self, shard):
        """How many lines a shard has."""
        return min(self.shard_rows, self.rows - shard * self.shard_rows)

    def pending(self):
        """Numbers of the shards that have no part yet."""
        return [n for n in range(self.shards) if not self.part(n).exists()]

    def count_bad(self):
        """How many rows are in the side files."""
        return sum(map(count_rows, self.folder.glob("bad-*.jsonl")))

    @functools.cached_property
    def _model(self):
        model = load(self.model)
        # A worker that takes the place of another may find a newer one.
        if _describe_model(self.model) != self.described:
            raise ValueError(
                f"{self.model} was changed while the job ran. Give another folder for "
                "the model as it is now, or put back what was there before."
            )
        return model

    @functools.cached_property
    def _reader(self):
        return ShardReader(self.input, self.shard_rows)

    def do(self, shard):
        """Writes the part of a shard, unless it is there; returns its number."""
        if self.part(shard).exists():
            return shard
        as_json = display.STYLES[self._model.task].json
        lines = self._reader.read(shard)
        if digest_of(lines) != self.digests[shard]:
            raise ValueError(
                f"{self.input} was changed while the job ran. Give another folder for "
                "the file as it is now, or put back what was there before."
            )
        good, bad = self._sort_out(lines)
        texts = [text for _, text in good]
        options = {"top_k": self.top_k, "threshold": self.threshold}
        found = self._model.answer(texts, self.batch_size, **options)
        rows = (
            json_with_id(row_id, as_json(text, answer))
            for (row_id, text), answer in zip(good, found, strict=True)
        )
        # The part comes last: once it is there, the shard counts as done.
        if bad:
            _write(self.part(shard, "bad"), map(json.dumps, bad))
        _write(self.part(shard), rows)
        return shard

    def _sort_out(self, lines):
        """The (id, text) of good lines, and the reasons against the others."""
        good, bad, json_rows = [], [], has_json_rows(self.input)
        for number, line in lines:
            try:
                row = read_row(number, line, json_rows)
            except ValueError as error:
                shown = line[:200].decode("utf-8", "replace")
                bad.append({"line": number, "reason": str(error), "found": shown})
            else:
                good += [row] if row else []
        return good, bad


SUMS = "parts.sha256"


def _write(path, lines):
    """Writes a file of the job; its digest is written down before it has its name."""
    digest = hashlib.sha256()
    with atomic_write(path) as file:
        for line in lines:
            file.write(line + "\n")
            digest.update(f"{line}\n".encode())
        with open(path.with_name(SUMS), "a", encoding="utf-8") as sums:
            sums.write(f"{digest.hexdigest()}  {path.name}\n")
        files.disk.flush(path.with_name(SUMS))


def _known_digests(job):
    """Each file that belongs to a finished shard → the digests written down for it."""
    path, known = job.folder / SUMS, {}
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        # What a full disk cut off may stand before it.
        if found := re.search(r"([0-9a-f]{64})  (\w+-(\d{6,})\.jsonl)$", line):
            digest, name, shard = found.groups()
            if job.part(int(shard)).exists():
                known.setdefault(job.folder / name, []).append(digest)
    return known


def _check_parts(job):
    """Raises if a part, or the bad rows beside it, is not what was written."""
    known, parts = _known_digests(job), job.folder.glob("part-*.jsonl")
    for path in sorted({*known, *parts}):
        found = _file_digest(path) if path.exists() else None
        if found not in known.get(path, ()):
            raise ValueError(
                f"{path} is not what the job wrote there. Remove "
                f"{job.part(int(path.stem.partition('-')[2])).name} and run the same "
                "command again."
            )


def _tidy_digests(job):
    """Leaves the last digest of each file, which is that of what is there."""
    with atomic_write(job.folder / SUMS) as file:
        for path, digests in sorted(_known_digests(job).items()):
            file.write(f"{digests[-1]}  {path.name}\n")


def _file_digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tag_corpus(
    input,
    output,
    model,
    *,
    workers=1,
    shard_rows=2000,
    batch_size=64,
    top_k=None,
    threshold=None,
    progress=None,
):
    """Tags or labels every row of a file, in shards, by several workers.

    Called again with the same input, output and model, it does what is missing; the
    number of workers and the batch size may differ from run to run. Memory depends on
    `workers` and `shard_rows`, not on the size of the input.

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
        threshold: of labels, those whose score is above it; with `top_k` the best of
            those.
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
    check_options("labels", top_k, threshold)
    began = time.perf_counter()
    input, output, model = (Path(p).absolute() for p in (input, output, model))
    described, digests = _describe_input(input, shard_rows)
    plan = {
        "shard_rows": shard_rows,
        "input": described,
        "model": _describe_model(model),
        "top_k": top_k,
        "threshold": threshold,
    }
    _open_folder(output)
    with locked(output):
        _sweep(output)
        _manifest(output, plan)
        rows, settings = described["rows"], (shard_rows, batch_size, top_k, threshold)
        job = Job(input, output, model, rows, digests, plan["model"], *settings)
        _check_parts(job)
        rows_now = _run(job, workers, progress or (lambda *_: None))
        _tidy_digests(job)
        seconds = time.perf_counter() - began
        return Summary(rows, job.count_bad(), job.shards, rows_now, seconds)


def _run(job, workers, progress):
    """Does the missing shards; what goes wrong is said together with how to go on."""
    pending = job.pending()
    before = done = job.rows - sum(map(job.size, pending))
    progress(done, job.rows)
    try:
        with contextlib.closing(in_processes(job, pending, workers)) as finished:
            for shard in finished:
                done += job.size(shard)
                progress(done, job.rows)
    except WorkersDied as error:
        raise RuntimeError(f"{error} {_how_to_go_on(job)}") from error
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        reason = os.strerror(error.errno)
        sentence = f"There is no room left for {job.folder} ({reason})."
        raise OSError(f"{sentence} Make room. {_how_to_go_on(job)}") from error
    finally:
        _sweep(job.folder)
    return done - before


def _how_to_go_on(job):
    done = job.shards - len(job.pending())
    return (
        f"{done} of {job.shards} shards are done and stay; run the same command again "
        "for the others."
    )


def _sweep(folder):
    """Removes what killed workers had half written."""
    for pattern in (".part*.tmp", ".bad-*.tmp", ".job.json.*.tmp"):
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


def _manifest(folder, plan):
    """Writes down what the job is, or checks that it is the same."""
    path = folder / "job.json"
    if path.exists() and any(folder.glob("part-*.jsonl")):
        known = files.read_json(path).get("plan", {})
        other = [key for key, value in plan.items() if known.get(key) != value]
        if other:
            name = other[0]
            raise ValueError(
                f"{folder} holds a job with another `{name}`: {known.get(name)}. "
                f"Received: {plan[name]}. Give another folder, or remove this one."
            )
        return
    for path_of_bad in folder.glob("bad-*.jsonl"):
        path_of_bad.unlink()
    with atomic_write(path) as file:
        json.dump({"bat_tf": VERSION, "plan": plan}, file, indent=1)


def _describe_input(path, shard_rows):
    """What tells a file from another, and the digests of its shards.

    It is read as a whole before the work: a packed file that was cut off is found out
    here, not hours on.
    """
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path} to read texts from.")
    rows, digests = 0, []
    for lines in read_shards(path, shard_rows):
        rows += len(lines)
        digests.append(digest_of(lines))
    digest = hashlib.sha256("".join(digests).encode()).hexdigest()
    size = path.stat().st_size
    return {"name": path.name, "bytes": size, "rows": rows, "sha256": digest}, digests


def _describe_model(path):
    """What tells a model from another: all of its bytes."""
    if (path / "best.keras").is_file():
        path = path / "best.keras"
    found = sorted(p for p in path.rglob("*") if p.is_file()) or [path]
    if not found[0].exists():
        raise FileNotFoundError(f"There is no model at {path}.")
    digests = "".join(map(_file_digest, found))
    digest = hashlib.sha256(digests.encode()).hexdigest()
    return {"name": path.name, "sha256": digest}
