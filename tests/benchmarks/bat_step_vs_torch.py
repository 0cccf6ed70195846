"""A training step of BAT against the same architecture in PyTorch, in one run.

    python tests/benchmarks/bat_step_vs_torch.py --torch-python ~/torch-env/bin/python

Forward, backward and Adam (PyTorch's fused one), dropout 0, full batches. Each
framework runs in a process of its own; the configurations take turns, so that whatever
else the machine does hits all of them, and a ratio is the median over the turns of
TensorFlow's rate by PyTorch's rate in the same turn. A run on a busy machine is marked
as not valid. PyTorch is no dependency of bat_tf: without `--torch-python` only
TensorFlow is measured.

    ... --data zh_ecommerce_ner/phantom --max-length 128

measures seconds per epoch instead: `BATTagger.fit`, which groups texts by length,
against the usual PyTorch loop, which pads every batch to one length, and against one
that pads each batch to its own longest text. Both learn
random characters of the lengths that the named set's training part has.

TensorFlow is measured with its own threads and with `bat_tf.training.set_threads`.
`--tuned` adds rows with two settings of the environment that pay on a CPU without
AVX-512, see `TUNED`. PyTorch gets the memory setting as well.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
# Turns of an undisturbed machine differ by a few per cent. PyTorch's threads wait for
# each other: on busy cores it becomes many times slower, and a ratio means nothing.
QUIET = 1.5
THREADS = "set_threads"
SIZES = {"d_model": 128, "d_ff": 512, "num_heads": 4, "num_layers": 4}
STEPS = {(8, 64): 20, (32, 128): 4}
# glibc hands large freed blocks back to the system; a step that asks for them again
# pays a page fault for every 4 KiB. oneDNN is off by default on CPUs without AVX-512.
MEMORY = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 33),
    "MALLOC_TOP_PAD_": str(64 << 20),
}
TUNED = {**MEMORY, "TF_ENABLE_ONEDNN_OPTS": "1"}


class Worker:
    """A process that answers a request with the seconds it took."""

    def __init__(self, command, environment, threads):
        paths = [str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, paths)),
                "TF_CPP_MIN_LOG_LEVEL": "3",
                "OMP_NUM_THREADS": str(threads),
                **environment,
            },
        )

    def ask(self, request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"A worker stopped: {self.process.args}")
        return json.loads(answer)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def take_turns(rows, workers, repeats):
    """Measures every row `repeats` times, one after the other in each turn.

    Args:
        rows: name → (name of a worker, request).
        workers: name → `Worker`.
        repeats: number of turns.

    Returns:
        name → list of seconds, one a turn, and the versions and parameter counts seen.
    """
    seconds, seen = {name: [] for name in rows}, set()
    # Twice: building a second model makes TensorFlow trace the first once more.
    for worker, request in [*rows.values(), *rows.values()]:
        workers[worker].ask(request)
    for _ in range(repeats):
        for name, (worker, request) in rows.items():
            answer = workers[worker].ask(request)
            seconds[name].append(answer["seconds"])
            seen.add(f"{answer['version']}, {answer['parameters']:,} parameters")
    return seconds, sorted(seen)


def tensorflow_rows(worker, common):
    """XLA shares its own work out: the second thread setting is the graph's alone."""
    compilers = {False: "graph"} if THREADS in worker else {False: "graph", True: "XLA"}
    return {
        worker.replace("TensorFlow", f"TensorFlow {label}"): (
            worker,
            {**common, "jit": jit},
        )
        for jit, label in compilers.items()
    }


def step_rows(batch, length, options, workers):
    common = {
        "batch": batch,
        "length": length,
        "steps": STEPS.get((batch, length), 10),
        "threads": options.threads,
        "sizes": {**SIZES, "vocabulary": options.vocabulary, "classes": 3},
    }
    rows = {}
    for worker in workers:
        if worker.startswith("PyTorch"):
            rows[worker] = (worker, common)
        else:
            rows.update(tensorflow_rows(worker, common))
    return rows


def epoch_rows(lengths, batch, options, workers):
    common = {
        "batch": batch,
        "lengths": lengths,
        "max_length": options.max_length,
        "threads": options.threads,
        "sizes": {**SIZES, "vocabulary": options.vocabulary, "classes": 3},
    }
    rows = {}
    for worker in workers:
        if worker.startswith("PyTorch"):
            rows[f"{worker}, padded to {options.max_length}"] = (
                worker,
                {**common, "padding": "fixed"},
            )
            rows[f"{worker}, padded to the batch"] = (
                worker,
                {**common, "padding": "batch"},
            )
        else:
            rows.update(tensorflow_rows(worker, common))
    return rows


def print_table(title, unit, seconds, per_row):
    """Median, minimum and maximum of each row, and its ratio to PyTorch's first row.

    Args:
        title: of the table.
        unit: "steps/s" or "s/epoch".
        seconds: name → measured seconds.
        per_row: name → steps that a measurement took, or None for seconds as they are.
    """
    table = Table(title=title)
    table.add_column("")
    for column in (f"median {unit}", "min", "max"):
        table.add_column(column, justify="right")
    baselines = [name for name in seconds if name.startswith("PyTorch")]
    for name in baselines:
        table.add_column(f"× {name}", justify="right")
    for name, times in seconds.items():
        values = [per_row[name] / t if per_row else t for t in times]
        cells = [statistics.median(values), min(values), max(values)]
        ratios = [
            statistics.median(b / t for b, t in zip(seconds[base], times, strict=True))
            for base in baselines
        ]
        table.add_row(name, *(f"{cell:.2f}" for cell in [*cells, *ratios]))
    Console(width=150).print(table)
    restless = [name for name, t in seconds.items() if max(t) > QUIET * min(t)]
    if restless:
        print(
            f"NOT VALID: {', '.join(restless)} varied by more than {QUIET} × between "
            "turns. Something else was using the processor; run again when it is idle."
        )


def start_workers(options, batch):
    """One process for each row that needs an environment or threads of its own."""
    torch = [options.torch_python, str(HERE / "torch_worker.py")]
    tensorflow = [sys.executable, str(HERE / "tensorflow_worker.py")]
    commands = {}
    if options.torch_python:
        commands["PyTorch"] = (torch, {})
    else:
        print("No --torch-python: only TensorFlow is measured.")
    commands["TensorFlow"] = (tensorflow, {})
    commands[f"TensorFlow, {THREADS}"] = ([*tensorflow, str(batch)], {})
    if options.tuned:
        if options.torch_python:
            commands["PyTorch tuned"] = (torch, MEMORY)
        commands["TensorFlow tuned"] = (tensorflow, TUNED)
        commands[f"TensorFlow tuned, {THREADS}"] = ([*tensorflow, str(batch)], TUNED)
    return {
        name: Worker(command, environment, options.threads)
        for name, (command, environment) in commands.items()
    }


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--torch-python", help="interpreter that has PyTorch")
    parser.add_argument("--sizes", nargs="+", default=["8x64", "32x128"])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--vocabulary", type=int, default=3000)
    parser.add_argument("--tuned", action="store_true")
    parser.add_argument("--data", help="a named set: time epochs of its lengths")
    parser.add_argument("--batch", type=int, default=8, help="of the epochs")
    parser.add_argument("--max-length", type=int, default=128)
    options = parser.parse_args(arguments)
    if options.data:
        import bat_tf

        dataset = bat_tf.data.read(options.data, split="train")
        lengths = [max(1, len(example.text)) for example in dataset]
        with workers_for(options, options.batch) as workers:
            compare_epochs(lengths, options, workers)
        return
    for size in options.sizes:
        batch, length = map(int, size.split("x"))
        with workers_for(options, batch) as workers:
            compare_steps(batch, length, options, workers)


@contextlib.contextmanager
def workers_for(options, batch):
    """The processes of one comparison, ended with it."""
    workers = start_workers(options, batch)
    try:
        yield workers
    finally:
        for worker in workers.values():
            worker.close()


def compare_steps(batch, length, options, workers):
    """Prints the steps per second of every worker at one shape."""
    rows = step_rows(batch, length, options, workers)
    seconds, seen = take_turns(rows, workers, options.repeats)
    steps = {name: request["steps"] for name, (_, request) in rows.items()}
    title = f"BAT, batch {batch} × {length} tokens, {options.threads} threads"
    print_table(title, "steps/s", seconds, steps)
    print("\n".join(seen))


def compare_epochs(lengths, options, workers):
    """Prints the seconds per epoch of every worker on texts of these lengths."""
    rows = epoch_rows(lengths, options.batch, options, workers)
    seconds, seen = take_turns(rows, workers, options.repeats)
    mean = statistics.mean(lengths)
    title = f"BAT, {len(lengths):,} texts of {mean:.0f} tokens, batch {options.batch}"
    print_table(title, "s/epoch", seconds, None)
    print("\n".join(seen))


if __name__ == "__main__":
    main()
