"""Texts a second of bulk jobs with 1 and 2 processes, against a loop in this one.

    python tests/benchmarks/bulk.py

Each process has one thread of TensorFlow, the loop here too, so that the ratios say
what a second process brings and what shards, files and processes cost. A process
begins by importing TensorFlow and loading the model, so its clock runs from the first
shard done to the last one. The three take turns, so that whatever else the machine
does hits all of them; what is shown is the median over the turns, and ratios are made
within a turn.
"""

import argparse
import json
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from unittest import mock

import tensorflow as tf
from rich.console import Console
from rich.table import Table

import bat_tf
from bat_tf.cli.terminal import model_path
from bat_tf.serving import tag_corpus, workers

ENDS = 4  # shards left out where only some of the workers are at work, a worker


def job(path, scratch, processes, arguments):
    """Texts a second of a job, once its workers run and until the first one stops."""
    output, seen = scratch / f"out{processes}", []
    shutil.rmtree(output, ignore_errors=True)
    # A worker gets cores / workers threads; as if there were one core for each.
    with mock.patch.object(workers, "_cores", lambda: processes):
        tag_corpus(
            path,
            output,
            model_path(arguments.model),
            workers=processes,
            shard_rows=arguments.shard_rows,
            batch_size=arguments.batch_size,
            progress=lambda done, _: seen.append((time.perf_counter(), done)),
        )
    edge = min(ENDS * processes, len(seen) // 4)
    (began, before), (ended, after) = seen[1 + edge], seen[-1 - edge]
    return (after - before) / (ended - began)


def loop(model, texts, arguments):
    """Texts a second when the model is asked in this process, a shard at a time."""
    began, size = time.perf_counter(), arguments.shard_rows
    for first in range(0, len(texts), size):
        model.tag(texts[first : first + size], batch_size=arguments.batch_size)
    return len(texts) / (time.perf_counter() - began)


def measure(arguments, scratch, console):
    """A list of turns: who → texts a second."""
    pages = bat_tf.data.read("product_pages/en", split="test").texts
    texts = [pages[row % len(pages)] for row in range(arguments.texts)]
    path = scratch / "texts.jsonl"
    lines = [json.dumps({"id": row, "text": text}) for row, text in enumerate(texts)]
    path.write_text("\n".join(lines), encoding="utf-8")
    model = bat_tf.load(model_path(arguments.model))
    model.tag(texts[: 8 * arguments.batch_size], batch_size=arguments.batch_size)
    turns = []
    for turn in range(arguments.turns):
        turns.append(
            {
                "loop in this process": loop(model, texts, arguments),
                "1 process": job(path, scratch, 1, arguments),
                "2 processes": job(path, scratch, 2, arguments),
            }
        )
        console.print(f"turn {turn + 1} of {arguments.turns}: {turns[-1]}")
    return turns


def table(turns):
    shown = Table("", "texts a second", "× the loop", "× 1 process")
    for name in turns[0]:
        ratios = [
            statistics.median(turn[name] / turn[base] for turn in turns)
            for base in ("loop in this process", "1 process")
        ]
        rate = statistics.median(turn[name] for turn in turns)
        shown.add_row(name, f"{rate:,.0f}", *(f"{ratio:.2f}" for ratio in ratios))
    return shown


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="product_pages", help="it marks keywords")
    parser.add_argument("--texts", type=int, default=40_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--shard-rows", type=int, default=500)
    parser.add_argument("--batch-size", type=int, default=64)
    arguments = parser.parse_args()
    workers.limit_threads(1)
    console, scratch = Console(), Path(tempfile.mkdtemp(prefix="bat_tf_bulk_"))
    try:
        console.print(f"TensorFlow {tf.__version__}, {workers._cores()} cores")
        console.print(table(measure(arguments, scratch, console)))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
