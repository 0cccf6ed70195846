"""What the tuner of tf.data costs at the end of an epoch.

    python tests/benchmarks/epoch_ends.py

Trains the same small tagger on the invented pages from the same batches, with the tuner
on, as TensorFlow has it, and off, as `bat_tf.data.pipeline` has it; the two take turns.
TensorFlow 2.21 may miss the call that ends the tuner's thread, which then sleeps on
while the training waits. It sleeps for 10 ms, 20, 40 and so on, so the wait is up to
the length of the epoch.
"""

import argparse
import itertools
import statistics
import time

import keras
import tensorflow as tf
from rich.console import Console
from rich.table import Table

import bat_tf


class Clock(keras.callbacks.Callback):
    """Seconds from the first step of an epoch to the first step of the next."""

    def __init__(self):
        super().__init__()
        self.starts = []

    def on_train_batch_begin(self, batch, logs=None):
        if batch == 0:
            self.starts.append(time.perf_counter())

    @property
    def epochs(self):
        return [end - start for start, end in itertools.pairwise(self.starts)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--pages", type=int, default=2400)
    arguments = parser.parse_args()
    bat_tf.training.set_seed(0)
    train = bat_tf.data.read("product_pages/en", split="train").take(arguments.pages)
    model = bat_tf.BATTagger.for_data(train, d_model=64, d_ff=128, num_layers=2)
    model.compile(loss="ce")
    batches = model.batches(train, 8, seed=0)
    on = tf.data.Options()
    on.autotune.enabled = True
    ways = {"on": batches.with_options(on), "off": batches}
    model.fit(batches, epochs=1, shuffle=False, verbose=0)  # traces
    seconds = {name: [] for name in ways}
    for _ in range(arguments.turns):
        for name, data in ways.items():
            clock = Clock()
            # One epoch more: the last has no next one.
            epochs = arguments.epochs + 1
            model.fit(data, epochs=epochs, shuffle=False, verbose=0, callbacks=[clock])
            seconds[name] += clock.epochs
    table = Table("tuner", "seconds an epoch: median", "least", "most")
    for name, found in seconds.items():
        values = statistics.median(found), min(found), max(found)
        table.add_row(name, *[f"{value:.1f}" for value in values])
    Console().print(table)
    ratio = statistics.fmean(seconds["on"]) / statistics.fmean(seconds["off"])
    print(f"On takes {ratio:.2f} times as long as off ({len(found)} epochs each).")


if __name__ == "__main__":
    main()
