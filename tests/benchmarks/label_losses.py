"""What each document loss costs, beside Keras' binary cross entropy.

    python tests/benchmarks/label_losses.py

Forward and gradient inside `tf.function`, batch 32, at 90, 1,000 and 20,000 labels. The
losses take turns, so that whatever else the machine does hits all of them; a ratio is
the median over the turns of a loss's time by that of
`keras.losses.BinaryCrossentropy(from_logits=True)` in the same turn.

    ... --pairs

measures instead the two hinges, which sort the scores, against the sum over positives
times negatives as it is written: time, and memory beyond what the process had before.
Each runs in a process of its own.

    ... --share

measures a whole training step instead, of BAT as in its paper on texts of 64 tokens,
and which share of it is the loss and its gradient.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time

import keras
import numpy as np
import tensorflow as tf
from rich.console import Console
from rich.table import Table

import bat_tf

NAMES = [
    *["bce", "fl", "cb", "r-fl", "ntr-fl", "db-0fl", "cb-ntr", "db"],
    *["dl1", "dl2", "zlpr", "tlpr", "lsep", "bp-mll", "rl", "warp"],
]
SHARES = ["bce", "db", "zlpr", "dl2", "rl", "warp"]
SETTINGS = {"tlpr": {"threshold": 0.5}}
LABELS_PER_TEXT = 5


def batch(rows, num_labels):
    """Scores, and a few labels for each text as a multi-hot and as ids."""
    random = np.random.default_rng(0)
    ids = np.stack(
        [random.choice(num_labels, LABELS_PER_TEXT, replace=False) for _ in range(rows)]
    ).astype("int32")
    hot = np.zeros((rows, num_labels), "float32")
    np.put_along_axis(hot, ids, 1, axis=1)
    scores = random.normal(-2, 2, hot.shape).astype("float32")
    return tf.constant(hot), tf.constant(ids), tf.constant(scores)


def make(name, num_labels):
    """The loss called `name`, with counts of a long tail where it takes them."""
    settings = dict(SETTINGS.get(name, {}))
    if name in bat_tf.losses.balanced.NAMES:
        counts = 1 + 5000 // np.arange(1, num_labels + 1)
        settings.update(class_counts=counts, num_examples=10_000)
    return bat_tf.losses.get(name, **settings)


def step(loss, jit_compile=False):
    """Value and gradient as a graph."""

    def run(y_true, y_pred):
        with tf.GradientTape() as tape:
            tape.watch(y_pred)
            value = loss(y_true, y_pred)
        return value, tape.gradient(value, y_pred)

    return tf.function(run, jit_compile=jit_compile)


def seconds(run, y_true, y_pred, repeats):
    """Seconds of one step, from several in a row."""
    started = time.perf_counter()
    for _ in range(repeats):
        value, _ = run(y_true, y_pred)
    float(value)
    return (time.perf_counter() - started) / repeats


def compare(rows, num_labels, turns, jit_compile):
    """Name → (milliseconds, ratio to Keras' loss)."""
    hot, ids, scores = batch(rows, num_labels)
    plain = keras.losses.BinaryCrossentropy(from_logits=True)
    runs = {"keras": (step(plain, jit_compile), hot)}
    for name in NAMES:
        runs[name] = (step(make(name, num_labels), jit_compile), hot)
    runs["zlpr, ids"] = (step(make("zlpr", num_labels), jit_compile), ids)
    for run, y_true in runs.values():
        seconds(run, y_true, scores, 2)  # traces, compiles and warms up
    repeats = max(1, 40_000 // num_labels // 2)
    times = {name: [] for name in runs}
    for _ in range(turns):
        for name, (run, y_true) in runs.items():
            slow = name in ("rl", "warp")
            each = max(1, repeats // 10) if slow else repeats
            times[name].append(seconds(run, y_true, scores, each))
    return {
        name: (
            1e3 * statistics.median(values),
            statistics.median(
                a / b for a, b in zip(values, times["keras"], strict=True)
            ),
        )
        for name, values in times.items()
    }


def direct(ranked):
    """The hinge over all pairs as it is written."""

    def loss(y_true, y_pred):
        totals = []
        for y, s in zip(tf.unstack(y_true), tf.unstack(y_pred), strict=True):
            positive, negative = tf.boolean_mask(s, y > 0), tf.boolean_mask(s, y == 0)
            apart = tf.nn.relu(1 + negative[None, :] - positive[:, None])
            weight = tf.ones_like(positive)
            if ranked:
                larger = tf.cast(s[None, :] > positive[:, None], "float32")
                weight = 1 + tf.reduce_sum(larger, axis=-1)
            totals.append(tf.reduce_sum(weight[:, None] * apart))
        return tf.reduce_mean(tf.stack(totals))

    return loss


def measure(name, form, rows, num_labels, positives):
    """Milliseconds and MiB of one step; runs in a process of its own."""
    random = np.random.default_rng(0)
    hot = np.zeros((rows, num_labels), "float32")
    hot[:, :positives] = 1
    scores = tf.constant(random.normal(0, 2, hot.shape).astype("float32"))
    hot = tf.constant(hot)
    loss = make(name, num_labels) if form == "sorted" else direct(name == "warp")
    run = step(loss)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds(run, hot, scores, 1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    milliseconds = 1e3 * min(seconds(run, hot, scores, 1) for _ in range(3))
    print(json.dumps([milliseconds, (peak - before) / 1024]))


def pairs_table(rows, num_labels):
    """Sorted and direct hinges by number of positives."""
    table = Table(title=f"Hinges, batch {rows}, {num_labels:,} labels")
    for column in ("loss", "positives", "form", "ms", "MiB"):
        table.add_column(column, justify="right")
    for name in ("rl", "warp"):
        for positives in (5, 500):
            for form in ("sorted", "direct"):
                request = [name, form, *map(str, (rows, num_labels, positives))]
                output = subprocess.run(
                    [sys.executable, __file__, "--measure", *request],
                    capture_output=True,
                    text=True,
                    check=True,
                ).stdout
                milliseconds, memory = json.loads(output.splitlines()[-1])
                row = (f"{milliseconds:.1f}", f"{memory:.0f}")
                table.add_row(name, str(positives), form, *row)
    return table


def share_table(rows, sizes, turns=5):
    """Which share of a training step a loss and its gradient are."""
    table = Table(title=f"Loss as a share of a training step, batch {rows}, 64 tokens")
    table.add_column("loss")
    for size in sizes:
        table.add_column(f"{size:,} labels", justify="right")
    cells = {name: [] for name in SHARES}
    for size in sizes:
        hot, _, scores = batch(rows, size)
        ids = np.random.default_rng(0).integers(2, 5000, (rows, 64))
        inputs = {"token_ids": tf.constant(ids), "padding_mask": tf.ones_like(ids) > 0}
        for name in SHARES:
            loss = make(name, size)
            whole, alone = training_step(loss, size), step(loss)
            shares = []
            for turn in range(turns + 1):
                parts = seconds(alone, hot, scores, 5), seconds(whole, hot, inputs, 2)
                if turn:  # the first one traces
                    shares.append(parts[0] / parts[1])
            cells[name].append(f"{100 * statistics.median(shares):.1f} %")
    for name, shares in cells.items():
        table.add_row(name, *shares)
    return table


def training_step(loss, num_labels):
    """Loss, gradients and Adam for BAT with a mean and a linear layer."""
    encoder = bat_tf.encoders.BATEncoder(5000)
    head = keras.layers.Dense(num_labels)
    optimizer = bat_tf.optimizers.Adam(1e-3)
    encoder.build(None)
    head.build((None, encoder.d_model))
    variables = encoder.trainable_variables + head.trainable_variables
    optimizer.build(variables)

    @tf.function
    def run(y_true, inputs):
        with tf.GradientTape() as tape:
            states = encoder(inputs, training=True)[-1]
            value = loss(y_true, head(tf.reduce_mean(states, axis=1)))
        gradients = tape.gradient(value, [v.value for v in variables])
        optimizer.apply(gradients, variables)
        return value, gradients[-1]

    return run


def main():
    """Prints one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--labels", type=int, nargs="*", default=[90, 1000, 20_000])
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--jit", action="store_true", help="compile with XLA")
    parser.add_argument("--pairs", action="store_true", help="sorted against direct")
    parser.add_argument("--share", action="store_true", help="share of a step")
    parser.add_argument("--measure", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        name, form, *sizes = options.measure
        return measure(name, form, *map(int, sizes))
    console = Console()
    if options.pairs:
        return console.print(pairs_table(options.batch_size, max(options.labels)))
    if options.share:
        return console.print(share_table(options.batch_size, options.labels))
    results = {
        size: compare(options.batch_size, size, options.turns, options.jit)
        for size in options.labels
    }
    table = Table(title=f"Times Keras' BCE (ms), batch {options.batch_size}")
    table.add_column("loss")
    for size in results:
        table.add_column(f"{size:,} labels", justify="right")
    for name in next(iter(results.values())):
        cells = [results[size][name] for size in results]
        table.add_row(name, *(f"{ratio:.2f} ({ms:.2f})" for ms, ratio in cells))
    return console.print(table)


if __name__ == "__main__":
    main()
