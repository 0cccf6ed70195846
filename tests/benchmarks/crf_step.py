"""What a CRF costs in training: its step against that of softmax.

    python tests/benchmarks/crf_step.py --turns 15

Two taggers, with `crf=True` and without, take turns in one process at training steps of
32 texts of 128 words and about 30 tags. The table has the median of the ratios of their
times and a 95 % interval of it, by bootstrap. With `--clock cpu` times are of the
processor, which other work on a shared machine disturbs less.
"""

import argparse
import os
import platform
import time

import keras
import numpy as np
import tensorflow as tf
from before_after import interval

import bat_tf
from bat_tf.data import Example

ENCODERS = {
    "BAT, 4 layers of 128 (default)": {},
    "BAT, 2 layers of 64": {"num_layers": 2, "d_model": 64, "d_ff": 128},
}


def step_of(rows, crf, jit, metrics, settings):
    """A function that takes one training step."""
    keras.utils.set_random_seed(0)
    data = bat_tf.TextDataset(rows)
    model = bat_tf.BATTagger.for_data(data, tokenizer="words", crf=crf, **settings)
    model.compile(bat_tf.optimizers.AdamW(1e-4), metrics=metrics)
    inputs, tags = next(iter(model.batches(data, len(rows))))
    step = tf.function(lambda x, y: model.train_step((x, y)), jit_compile=jit)
    return lambda: step(inputs, tags)["loss"].numpy(), len(model.tags)


def rows_of(texts, length, kinds):
    """Texts in which each kind marks some words."""
    random = np.random.default_rng(0)
    rows = []
    for row in range(texts):
        words = random.integers(1000, 9999, length).astype(str)
        starts = 5 * np.sort(random.choice(length, 6, replace=False))
        names = [f"kind{(row * 6 + place) % kinds}" for place in range(6)]
        spans = [
            (start, start + 4, name)
            for start, name in zip(starts.tolist(), names, strict=True)
        ]
        rows.append(Example(" ".join(words), spans=spans))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--texts", type=int, default=32)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--kinds", type=int, default=15)
    parser.add_argument("--metrics", nargs="*", default=[])
    parser.add_argument("--jit", action="store_true")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    own = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    print(f"{platform.machine()}, {cores} cores, TensorFlow {tf.__version__}, {own}")
    clock = {"wall": time.perf_counter, "cpu": time.process_time}[own.clock]
    rows = rows_of(own.texts, own.length, own.kinds)
    for name, settings in ENCODERS.items():
        more = (own.jit, own.metrics, settings)
        steps = [step_of(rows, crf, *more) for crf in (False, True)]
        times = []
        for turn in range(own.turns + 3):
            taken = []
            for step, _ in steps:
                begin = clock()
                step()
                taken.append(clock() - begin)
            if turn >= 3:
                times.append(taken)
        soft, crf = np.array(times).T
        ratio = "{:.2f} ({:.2f} to {:.2f})".format(*interval(crf / soft))
        print(
            f"{name}, {steps[0][1]} tags: softmax {1e3 * np.median(soft):.1f} ms, "
            f"CRF {1e3 * np.median(crf):.1f} ms, ratio {ratio}"
        )


if __name__ == "__main__":
    main()
