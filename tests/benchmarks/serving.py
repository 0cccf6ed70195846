"""Requests a second and latency of `bat-tf serve`, with and without shared batches.

    python tests/benchmarks/serving.py

Loads two servers of one model on 127.0.0.1 with `wrk` (Debian's package), which takes
little of the cores, one product page a request, at 1, 8 and 64 clients. The servers,
and calls of the SavedModel in this process at the same batch size, take turns, so that
whatever else the machine does hits all of them; what is shown is the median over the
turns, and ratios are made within a turn. Two cores are seldom as quiet as they seem:
the same server differs by a tenth from one turn to the next, so turns are many and
short, and ratios come with their standard error. It ends after about turns x clients x
3 x (seconds + 1) seconds. Then it shows what the cores do for a request, by the threads
of the server.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tensorflow as tf
from rich.console import Console
from rich.table import Table

import bat_tf
from bat_tf.cli import model_path

SERVE = "from bat_tf.cli import main; main()"
SCRIPT = """
local bodies = {}
for line in io.lines("%s") do bodies[#bodies + 1] = line end
local turn = 0
request = function()
  turn = turn %% #bodies + 1
  return wrk.format("POST", nil, nil, bodies[turn])
end
done = function(summary, latency)
  local failed = summary.errors
  io.write(string.format("RESULT %%f %%f %%f %%d\\n",
    summary.requests / (summary.duration / 1e6),
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    failed.status + failed.timeout + failed.read + failed.write + failed.connect))
end
"""


@contextlib.contextmanager
def served(path, *options):
    """Address and process of a server of its own, which ends with the block."""
    ports = ["--port", "0", "--no-grpc", "--name", "model"]
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, "serve", str(path), *ports, *options],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    try:
        line = process.stdout.readline()
        if "http://" not in line:
            raise RuntimeError(f"The server did not start: {line!r}")
        yield "http://" + line.split("http://")[1].split(",")[0].strip(), process.pid
    finally:
        process.terminate()
        process.wait(60)


def load(url, script, clients, seconds):
    """Requests a second, p50 and p99 in milliseconds, and failures, as `wrk` counts.

    A second of the same load goes before: connections, threads and memory of another
    number of clients are gone then.
    """
    _wrk(url, script, clients, 1)
    return _wrk(url, script, clients, seconds)


def _wrk(url, script, clients, seconds):
    command = ["wrk", "-t1", f"-c{clients}", f"-d{seconds}s", "--timeout", "30s"]
    command += ["-s", str(script), f"{url}/v1/models/model:predict"]
    process = subprocess.run(
        command, capture_output=True, text=True, timeout=seconds + 60
    )
    for line in process.stdout.splitlines():
        if line.startswith("RESULT"):
            rate, p50, p99, failed = map(float, line.split()[1:])
            return {"rate": rate, "p50": p50, "p99": p99, "failed": int(failed)}
    raise RuntimeError(f"wrk did not run: {process.stdout} {process.stderr}")


def thread_folders(process):
    """Folders of a process' threads."""
    return set(Path(f"/proc/{process}/task").iterdir())


def thread_seconds(process, first):
    """What a server's threads have used of the cores: HTTP, requests, the model.

    `first` are the threads from before any request: the main one, which does HTTP, and
    TensorFlow's, not all of which have a name of their own.
    """
    found = dict.fromkeys(("HTTP", "requests", "model"), 0.0)
    for folder in thread_folders(process):
        name = (folder / "comm").read_text()
        ticks = (folder / "stat").read_text().rpartition(")")[2].split()[11:13]
        is_model = folder in first or name.startswith(("tf_", "batch_"))
        part = "model" if is_model else "requests"
        part = "HTTP" if folder.name == str(process) else part
        found[part] += sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
    return found


def call(signature, texts, batch_size, seconds):
    """Texts a second when the SavedModel is called in this process."""
    batches = [
        tf.constant([texts[(first + n) % len(texts)] for n in range(batch_size)])
        for first in range(0, len(texts), batch_size)
    ]
    count, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        for value in signature(text=batches[count % len(batches)]).values():
            value.numpy()
        count += 1
    return {"rate": count * batch_size / (time.perf_counter() - began)}


def measure(arguments, scratch, console):
    """Turns, each number of clients → what was measured; seconds of work a request."""
    texts = bat_tf.data.read("product_pages/en", split="test").take(256).texts
    script, bodies = scratch / "load.lua", scratch / "bodies.txt"
    lines = [json.dumps({"instances": [text]}) for text in texts]
    bodies.write_text("\n".join(lines), encoding="utf-8")
    script.write_text(SCRIPT % bodies)
    path, seconds = model_path(arguments.model), arguments.seconds
    loaded = tf.saved_model.load(str(path))
    signature = loaded.signatures["serving_default"]
    turns = [{} for _ in range(arguments.turns)]
    for clients in arguments.clients:  # the first run of a shape is the slow one
        call(signature, texts, clients, 1)
    threads = arguments.batch_threads
    options = ["--batch-threads", threads] if threads else []
    with (
        served(path, *options) as (batched, process),
        served(path, "--no-batching") as (plain, _),
    ):
        first = thread_folders(process)
        for url in (batched, plain):
            load(url, script, max(arguments.clients), 2)
        for clients in arguments.clients:
            ways = {
                "batched": lambda n=clients: load(batched, script, n, seconds),
                "plain": lambda n=clients: load(plain, script, n, seconds),
                "inside": lambda n=clients: call(signature, texts, n, seconds),
            }
            for number, turn in enumerate(turns):
                # Nobody always comes first.
                order = list(ways) if number % 2 else list(reversed(ways))
                turn[clients] = {name: ways[name]() for name in order}
            console.print(f"clients {clients}: done", style="dim")
        before, most = thread_seconds(process, first), max(arguments.clients)
        asked = 5 * _wrk(batched, script, most, 5)["rate"]
        after = thread_seconds(process, first)
    began = time.process_time()
    inside = 5 * call(signature, texts, most, 5)["rate"]
    work = {name: (after[name] - before[name]) / asked for name in after}
    work["the model in-process"] = (time.process_time() - began) / inside
    return turns, work


@dataclasses.dataclass(frozen=True)
class Ratio:
    """The median of ratios over turns, and the standard error of their mean."""

    median: float
    error: float

    @classmethod
    def of(cls, ratios):
        """Of at least two ratios."""
        error = statistics.stdev(ratios) / len(ratios) ** 0.5
        return cls(statistics.median(ratios), error)

    def __str__(self):
        return f"{self.median:.2f} ± {self.error:.2f}"


class Summary:
    """Medians over the turns.

    Args:
        turns: what `measure` returns.
        clients: how many clients they are about.
    """

    def __init__(self, turns, clients):
        one = min(turns[0])
        rates = [
            [
                turn[clients]["batched"]["rate"],
                turn[one]["batched"]["rate"],
                turn[clients]["plain"]["rate"],
                turn[clients]["inside"]["rate"],
            ]
            for turn in turns
        ]
        self.rate = statistics.median(row[0] for row in rates)
        self.of_one, self.of_plain, self.of_inside = (
            Ratio.of([row[0] / row[place] for row in rates]) for place in (1, 2, 3)
        )
        self.p50, self.p99 = (
            statistics.median(turn[clients]["batched"][key] for turn in turns)
            for key in ("p50", "p99")
        )
        self.failed = sum(
            turn[clients][kind]["failed"]
            for turn in turns
            for kind in ("batched", "plain")
        )


def show(turns, console):
    """Prints the table, and whether the goals are met."""
    table = Table(title="bat-tf serve, one page a request")
    names = ["clients", "req/s", "× one", "× unbatched", "× in-process"]
    for name in (*names, "p50 ms", "p99 ms", "p99/p50", "failed"):
        table.add_column(name, justify="right", no_wrap=True)
    found = {clients: Summary(turns, clients) for clients in turns[0]}
    for clients, row in found.items():
        table.add_row(
            str(clients),
            f"{row.rate:.0f}",
            *map(str, (row.of_one, row.of_plain, row.of_inside)),
            *(f"{x:.1f}" for x in (row.p50, row.p99, row.p99 / row.p50)),
            str(row.failed),
        )
    console.print(table)
    most, rows = found[max(found)], found.values()
    # With one client both servers do the same: beyond two standard errors is below.
    level = [row.of_plain.median + 2 * row.of_plain.error >= 1 for row in rows]
    half = most.of_inside.median >= 0.5
    goals = {
        f"{max(found)} clients: at least 3 x one client": most.of_one.median >= 3,
        "never below the unbatched server (by two standard errors)": all(level),
        f"{max(found)} clients: at least half of in-process": half,
        "p99 under ten times p50": max(r.p99 / r.p50 for r in rows) < 10,
    }
    for goal, met in goals.items():
        console.print(f"{'met    ' if met else 'not met'}  {goal}", highlight=False)


def main():
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", help="a SavedModel; default: product_pages")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--batch-threads", default="", help="of the server")
    parser.add_argument("--json", help="also write the turns here")
    arguments = parser.parse_args()
    if not shutil.which("wrk"):
        raise SystemExit("This needs wrk: apt-get install wrk")
    console = Console(width=100)
    with tempfile.TemporaryDirectory() as scratch:
        turns, work = measure(arguments, Path(scratch), console)
    show(turns, console)
    shown = ", ".join(f"{name} {1000 * spent:.2f}" for name, spent in work.items())
    most = max(arguments.clients)
    console.print(f"milliseconds of a core a request, {most} clients: {shown}")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(turns))


if __name__ == "__main__":
    main()
