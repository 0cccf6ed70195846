"""What a change costs: this checkout against another, as ratios from interleaved pairs.

    python tests/benchmarks/before_after.py --before ../before --turns 15

Two processes, one a checkout, take turns at the same work: a training step of BAT with
8 × 64 and 32 × 128 tokens, an epoch, one request, the labels of 1,000 texts, an export.
The table has the median of the ratios after / before and a 95 % interval of it, by
bootstrap. With `--clock cpu` times are of the processor, which other work on a shared
machine disturbs less.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve()
WORK = ("step 8 x 64", "step 32 x 128", "epoch", "request", "label 1,000", "export")
REPEATS = {"step 8 x 64": 20, "step 32 x 128": 4, "request": 20}


def prepare():
    """Functions by the name of the work, in the process of one checkout."""
    import tempfile

    import keras
    import tensorflow as tf

    import bat_tf
    from bat_tf.data import Example

    keras.utils.set_random_seed(0)
    words = [f"word{number}" for number in range(2000)]
    random = np.random.default_rng(0)

    def text(length):
        return " ".join(random.choice(words, length))

    def tagger(batch, length):
        texts = [text(length) for _ in range(batch)]
        marked = [Example(t, spans=[(0, t.index(" "), "x")]) for t in texts]
        data = bat_tf.TextDataset(marked)
        model = bat_tf.BATTagger.for_data(data, tokenizer="words")
        model.compile(bat_tf.optimizers.Adam(1e-4), loss="ce")
        inputs, tags = next(iter(model.batches(data, batch)))
        step = tf.function(lambda x, y: model.train_step((x, y)))
        return model, lambda: step(inputs, tags)

    _, small = tagger(8, 64)
    model, large = tagger(32, 128)
    names = [f"label {number}" for number in range(50)]
    rows = [(text(30), list(random.choice(names, 2))) for _ in range(400)]
    news = bat_tf.TextDataset(Example(t, labels=y) for t, y in rows)
    settings = {"d_model": 64, "d_ff": 128, "num_layers": 2}
    labeller = bat_tf.LabelClassifier.for_data(news, words=True, **settings)
    labeller.compile(bat_tf.optimizers.Adam(1e-3), loss="zlpr")
    thousand = [text(20) for _ in range(1000)]
    folder = tempfile.mkdtemp()
    return {
        "step 8 x 64": small,
        "step 32 x 128": large,
        "epoch": lambda: labeller.fit(news, epochs=1, batch_size=16, verbose=0),
        "request": lambda: model.tag("a word1 lamp by word2 and word3"),
        "label 1,000": lambda: labeller.label(thousand),
        "export": lambda: labeller.export(f"{folder}/1", check=False),
    }


def worker():
    """Answers each line on stdin, the name of some work, with two times."""
    functions = prepare()
    for line in sys.stdin:
        name = line.strip()
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(REPEATS.get(name, 1)):
            functions[name]()
        times = time.perf_counter() - wall, time.process_time() - cpu
        print("TIMES " + json.dumps(times), flush=True)


class Checkout:
    """A process that works with one checkout."""

    def __init__(self, folder):
        import os

        env = {**os.environ, "PYTHONPATH": str(folder), "TF_CPP_MIN_LOG_LEVEL": "3"}
        self.process = subprocess.Popen(
            [sys.executable, HERE, "--worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=env,
        )

    def time(self, name):
        """(seconds, seconds of the processor) of the work."""
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("TIMES "):
                return json.loads(line[6:])
        raise RuntimeError("The other process ended.")


def interval(ratios, draws=2000):
    """The median and a 95 % interval of it."""
    random = np.random.default_rng(0)
    drawn = np.median(random.choice(ratios, (draws, len(ratios))), axis=1)
    return float(np.median(ratios)), *np.quantile(drawn, [0.025, 0.975]).tolist()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", help="the other checkout")
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--work", nargs="+", choices=WORK, default=WORK)
    parser.add_argument("--worker", action="store_true")
    arguments = parser.parse_args()
    if arguments.worker:
        worker()
        return
    sides = {"before": Checkout(arguments.before), "after": Checkout(HERE.parents[2])}
    clock = ("wall", "cpu").index(arguments.clock)
    print("| work | after / before | 95 % interval | turns |\n|---|---|---|---|")
    for name in arguments.work:
        for side in sides.values():  # the first time compiles
            side.time(name)
        turns = arguments.turns if name != "export" else max(3, arguments.turns // 3)
        ratios = []
        for turn in range(turns):
            order = ("before", "after") if turn % 2 else ("after", "before")
            times = {side: sides[side].time(name)[clock] for side in order}
            ratios.append(times["after"] / times["before"])
        median, low, high = interval(ratios)
        print(
            f"| {name} | {median:.3f} | {low:.3f} to {high:.3f} | {turns} |", flush=True
        )


if __name__ == "__main__":
    main()
