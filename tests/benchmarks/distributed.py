"""What two workers gain, and what it costs that they talk to each other.

    python tests/benchmarks/distributed.py

Two processes of one thread each, on this host, train a BATTagger of S0's sizes with
batches of 32 texts. Three ways of a step take turns, and a ratio is the median over the
turns of two ways in the same turn:

| way      | what                                                                    |
|----------|-------------------------------------------------------------------------|
| whole    | one process, the whole batch                                            |
| apart    | both processes at once, each with half of it, without a word to another |
| together | the same halves under `MultiWorkerMirroredStrategy`                     |

`whole / together` is what the second worker brings, 2 at best; `together / apart` is
the price of adding gradients up. Before that, both train for two epochs, and the
largest difference between the losses of one process and of two is shown.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
WAYS = ("whole", "apart", "together")


class Ways:
    """The three ways, in a process that is one of the workers."""

    def __init__(self, options):
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        import bat_tf
        from bat_tf import distributed
        from bat_tf.data.pipeline import Share

        strategy = distributed.strategy(options.cluster, options.worker)
        self.options, self.data = options, bat_tf.data.read("product_pages/en")
        alone, shared = tf.distribute.get_strategy(), Share(options.worker, 1, 2)
        models = {"alone": self.model(alone), "together": self.model(strategy)}
        self.losses = {name: self.fit(model) for name, model in models.items()}
        self.parameters = models["alone"].count_params()
        half = self.batch(models["alone"], shared)
        self.steps = {
            "whole": self.step(alone, models["alone"], self.batch(models["alone"])),
            "apart": self.step(alone, models["alone"], half),
            "together": self.step(strategy, models["together"], half),
        }
        for way in WAYS:
            self.seconds(way, 2)  # traces and warms up

    def model(self, strategy):
        """The same model under any strategy."""
        import bat_tf

        bat_tf.training.set_seed(0, deterministic=False)
        sizes = {"d_model": self.options.d_model, "num_layers": self.options.num_layers}
        with strategy.scope():
            model = bat_tf.BATTagger.for_data(self.data, **sizes)
            model.compile("adam", loss="ce")
        return model

    def fit(self, model):
        """The losses of two short epochs, which also build all there is to build."""
        few = self.data.take(4 * self.options.batch_size)
        return model.fit(
            few, batch_size=self.options.batch_size, epochs=2, verbose=0
        ).history["loss"]

    def batch(self, model, share=None):
        size = self.options.batch_size
        return next(iter(model.batches(self.data, size, seed=0, share=share)))

    def step(self, strategy, model, batch):
        """A train step on one batch."""
        import tensorflow as tf

        @tf.function
        def run():
            logs = strategy.run(model.train_step, args=(batch,))
            return strategy.experimental_local_results(logs["loss"])[0]

        return run

    def seconds(self, way, steps):
        """Seconds of one step, from several in a row."""
        started = time.perf_counter()
        for _ in range(steps):
            loss = self.steps[way]()
        float(loss)
        return (time.perf_counter() - started) / steps


def work(options):
    """Answers requests [way, steps] with seconds, one a line."""
    ways = Ways(options)
    print(json.dumps([ways.losses, ways.parameters]), flush=True)
    for line in sys.stdin:
        print(json.dumps(ways.seconds(*json.loads(line))), flush=True)


def start(cluster, worker, options):
    """A worker as a process."""
    command = [sys.executable, __file__, "--cluster", cluster]
    command += ["--worker", worker, "--batch-size", options.batch_size]
    command += ["--d-model", options.d_model, "--num-layers", options.num_layers]
    return subprocess.Popen(
        [str(part) for part in command],
        env={
            **os.environ,
            "PYTHONPATH": str(HERE.parents[1]),
            "TF_CPP_MIN_LOG_LEVEL": "2",
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def ask(process, *request):
    process.stdin.write(json.dumps(request) + "\n")
    process.stdin.flush()


def turn(processes, way, steps):
    """Seconds of a step in one way; of two workers the slower one counts."""
    asked = processes[:1] if way == "whole" else processes
    for process in asked:
        ask(process, way, steps)
    return max(json.loads(process.stdout.readline()) for process in asked)


def compare(options):
    """Prints the table."""
    import tempfile

    from rich.console import Console
    from rich.table import Table

    sockets = [socket.socket() for _ in range(2)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    workers = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "cluster.json"
        file.write_text(json.dumps({"workers": workers}))
        processes = [start(file, worker, options) for worker in range(2)]
        try:
            losses, parameters = json.loads(processes[0].stdout.readline())
            processes[1].stdout.readline()
            times = {way: [] for way in WAYS}
            for _ in range(options.turns):
                for way in WAYS:
                    times[way].append(turn(processes, way, options.steps))
        finally:
            for process in processes:
                process.kill()
    apart = max(
        abs(a - b) for a, b in zip(losses["alone"], losses["together"], strict=True)
    )

    def ratio(one, other):
        pairs = zip(times[one], times[other], strict=True)
        values = sorted(a / b for a, b in pairs)
        return f"{statistics.median(values):.2f} ({values[0]:.2f}–{values[-1]:.2f})"

    table = Table(title=f"Batch {options.batch_size}, {parameters:,} parameters")
    for column in ("", "median", "over the turns"):
        table.add_column(column, justify="right")
    for way in WAYS:
        values = [1e3 * value for value in times[way]]
        shown = f"{min(values):.0f}–{max(values):.0f} ms"
        table.add_row(way, f"{statistics.median(values):.0f} ms", shown)
    for one, other in (WAYS[::2], WAYS[:2], WAYS[:0:-1]):
        middle, spread = ratio(one, other).split(" ", 1)
        table.add_row(f"{one} / {other}", middle, spread)
    console = Console()
    console.print(table)
    console.print(f"Largest difference between losses: {apart:.1e}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--d-model", type=int, default=128)
    parser.add_argument("--num-layers", type=int, default=4)
    parser.add_argument("--cluster", help=argparse.SUPPRESS)
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cluster:
        work(options)
    else:
        compare(options)


if __name__ == "__main__":
    main()
