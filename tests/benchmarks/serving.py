"""Requests a second and latency of `bat-tf serve`, with and without shared batches.

    python tests/benchmarks/serving.py
    python tests/benchmarks/serving.py --fairness
    python tests/benchmarks/serving.py --endurance 5

The first loads two servers of one model on 127.0.0.1 from a process that takes little
of the cores, one product page a request, at 1, 8 and 64 clients. The servers, and calls
of the SavedModel in this process at the same batch size, take turns, so that whatever
else the machine does hits all of them; what is shown is the median over the turns, and
ratios are made within a turn. Two cores are seldom as quiet as they seem: the same
server differs by a tenth from one turn to the next, so turns are many and short, and
ratios come with their standard error. It ends after about turns x clients x
3 x (seconds + 1) seconds. Then it shows what the cores do for a request, by the threads
of the server.

`--fairness` asks short texts one at a time while others send 64 texts of 15,000
characters, or JSON that is refused; `--endurance` has 64 clients ask for some minutes
and shows the memory after each.
"""

import argparse
import contextlib
import dataclasses
import json
import os
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
from bat_tf.cli.terminal import model_path

SERVE = "from bat_tf.cli import main; main()"
# In a process of its own, which holds up neither the servers nor this one.
LOAD = """
import asyncio, json, sys, time

port, clients, seconds = map(int, sys.argv[1:4])
texts = open(sys.argv[4], encoding="utf-8").read().splitlines()
head = "POST /v1/models/model:predict HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\n"
asked = [text.encode() for text in texts]
asked = [f"{head}Content-Length: {len(x)}\\r\\n\\r\\n".encode() + x for x in asked]
times, failed, turn = [], 0, 0

async def one(ends):
    global failed, turn
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while (began := time.perf_counter()) < ends:
        turn += 1
        writer.write(asked[turn % len(asked)])
        answer = await reader.readuntil(b"\\r\\n\\r\\n")
        size = answer.lower().partition(b"content-length:")[2]
        await reader.readexactly(int(size.split(b"\\r\\n")[0]))
        times.append(time.perf_counter() - began)
        failed += answer[9:12] != b"200"
    writer.close()

async def crowd():
    began = time.perf_counter()
    await asyncio.gather(*(one(began + seconds) for _ in range(clients)))
    return time.perf_counter() - began

spent = asyncio.run(crowd())
times.sort()
p50, p99 = (1000 * times[int(share * len(times))] for share in (0.5, 0.99))
found = {"rate": len(times) / spent, "p50": p50, "p99": p99, "failed": failed}
print(json.dumps(found))
"""


@contextlib.contextmanager
def served(path, *options):
    """Address and process of a server of its own, which ends with the block."""
    ports = ["--port", "0", "--name", "model", "--no-log-requests"]
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, "serve", "-m", str(path), *ports, *options],
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


def load(url, bodies, clients, seconds):
    """Requests a second, p50 and p99 in milliseconds, and failures.

    A second of the same load goes before: connections, threads and memory of another
    number of clients are gone then.
    """
    _load(url, bodies, clients, 1)
    return _load(url, bodies, clients, seconds)


def _load(url, bodies, clients, seconds):
    port = url.rpartition(":")[2]
    command = [sys.executable, "-c", LOAD, port, str(clients), str(seconds)]
    command.append(str(bodies))
    process = subprocess.run(
        command, stdout=subprocess.PIPE, timeout=seconds + 60, check=True
    )
    return json.loads(process.stdout)


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
    bodies = scratch / "bodies.txt"
    lines = [json.dumps({"instances": [text]}) for text in texts]
    bodies.write_text("\n".join(lines), encoding="utf-8")
    path, seconds = model_path(arguments.model), arguments.seconds
    loaded = tf.saved_model.load(str(path))
    signature = loaded.signatures["serving_default"]
    turns = [{} for _ in range(arguments.turns)]
    for clients in arguments.clients:  # the first run of a shape is the slow one
        call(signature, texts, clients, 1)
    with (
        served(path) as (batched, process),
        served(path, "--no-batching") as (plain, _),
    ):
        first = thread_folders(process)
        for url in (batched, plain):
            load(url, bodies, max(arguments.clients), 2)
        for clients in arguments.clients:
            ways = {
                "batched": lambda n=clients: load(batched, bodies, n, seconds),
                "plain": lambda n=clients: load(plain, bodies, n, seconds),
                "inside": lambda n=clients: call(signature, texts, n, seconds),
            }
            for number, turn in enumerate(turns):
                # Nobody always comes first.
                order = list(ways) if number % 2 else list(reversed(ways))
                turn[clients] = {name: ways[name]() for name in order}
            console.print(f"clients {clients}: done", style="dim")
        before, most = thread_seconds(process, first), max(arguments.clients)
        asked = 5 * _load(batched, bodies, most, 5)["rate"]
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


def megabytes(process):
    """The memory of a process."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def fairness(arguments, scratch, console):
    """Short requests beside long ones."""
    page = bat_tf.data.read("product_pages/en", split="test")[0].text
    long = (page * (15_000 // len(page) + 1))[:15_000]
    bodies = {
        "nothing": None,
        "4 × 64 texts of 15,000 characters": json.dumps({"instances": [long] * 64}),
        "4 × 0.9 MB of JSON that is refused": f'{{"instances": [{"[]," * 300_000}1]}}',
    }
    short = scratch / "short.txt"
    short.write_text(json.dumps({"instances": ["Zorv desk lamp, warm white"]}))
    table = Table("beside", "p50 ms", "p99 ms", "× idle p50", "memory MB", "failed")
    idle = None
    with served(model_path(arguments.model)) as (url, process):
        for name, body in bodies.items():
            load(url, short, 1, 2)
            before = megabytes(process)
            with contextlib.ExitStack() as beside:
                if body:
                    (scratch / "long.txt").write_text(body)
                    beside.enter_context(_beside(url, scratch / "long.txt", 20))
                    time.sleep(2)
                found = _load(url, short, 1, 15)
                grown = megabytes(process) - before
            idle = idle or found["p50"]
            cells = [found["p50"], found["p99"], found["p99"] / idle, grown]
            table.add_row(name, *(f"{x:.1f}" for x in cells), str(found["failed"]))
    console.print(table)


@contextlib.contextmanager
def _beside(url, bodies, seconds):
    command = [sys.executable, "-c", LOAD, url.rpartition(":")[2], "4", str(seconds)]
    process = subprocess.Popen([*command, str(bodies)], stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.wait(seconds + 120)


def endurance(arguments, scratch, console):
    """64 clients for some minutes."""
    texts = bat_tf.data.read("product_pages/en", split="test").take(256).texts
    bodies = scratch / "bodies.txt"
    bodies.write_text("\n".join(json.dumps({"instances": [text]}) for text in texts))
    table = Table("minute", "req/s", "p50 ms", "p99 ms", "failed", "memory MB")
    with served(model_path(arguments.model)) as (url, process):
        for minute in range(arguments.endurance):
            found = _load(url, bodies, 64, 60)
            cells = [found["rate"], found["p50"], found["p99"]]
            shown = [f"{cell:.0f}" for cell in cells]
            memory = f"{megabytes(process):.0f}"
            table.add_row(str(minute + 1), *shown, str(found["failed"]), memory)
    console.print(table)


def main():
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="product_pages", help="a SavedModel")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--json", help="also write the turns here")
    parser.add_argument("--fairness", action="store_true")
    parser.add_argument("--endurance", type=int, metavar="MINUTES")
    arguments = parser.parse_args()
    console = Console(width=100)
    with tempfile.TemporaryDirectory() as scratch:
        if arguments.fairness or arguments.endurance:
            run = fairness if arguments.fairness else endurance
            run(arguments, Path(scratch), console)
            return
        turns, work = measure(arguments, Path(scratch), console)
    show(turns, console)
    shown = ", ".join(f"{name} {1000 * spent:.2f}" for name, spent in work.items())
    most = max(arguments.clients)
    console.print(f"milliseconds of a core a request, {most} clients: {shown}")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(turns))


if __name__ == "__main__":
    main()
