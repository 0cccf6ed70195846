"""What a training step costs as texts grow: Performer against full attention.

    python tests/benchmarks/long_inputs.py

One step is forward and gradient of an encoder with the sizes of the BAT paper. The
encoders take turns in one process, so that whatever else the machine does hits all of
them; a ratio is the median over the turns of the time of full attention by that of the
other in the same turn. Memory is what a step takes beyond what the process had before;
each measurement of it runs in a process of its own.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time

import numpy as np
import tensorflow as tf
from rich.console import Console
from rich.table import Table

from bat_tf import encoders

FORMS = {
    "full": ("transformer", {}),
    "relu": ("performer", {}),
    "softmax": ("performer", {"features": "softmax"}),
    "probsparse": ("informer", {}),
}
VOCABULARY = 1000


def make(form, options):
    """A function of a batch: forward and gradient."""
    name, settings = FORMS[form]
    encoder = encoders.get(
        name, vocabulary_size=VOCABULARY, num_layers=options.layers, **settings
    )
    encoder.build(None)
    weights = [weight.value for weight in encoder.trainable_weights]

    @tf.function(jit_compile=options.jit)
    def step(inputs):
        with tf.GradientTape() as tape:
            last = encoder(inputs, training=True)[-1]
            total = tf.reduce_mean(last[..., 0] ** 2)
        return [
            tf.reduce_sum(tf.convert_to_tensor(g))
            for g in tape.gradient(total, weights)
        ]

    return step


def batch(length, options):
    """Token ids without padding, of a shape that is known."""
    random = np.random.default_rng(0)
    ids = random.integers(1, VOCABULARY, (options.batch_size, length))
    return {"token_ids": tf.constant(ids), "padding_mask": tf.constant(ids > 0)}


def seconds(step, inputs):
    """Seconds of one step."""
    started = time.perf_counter()
    float(step(inputs)[-1])
    return time.perf_counter() - started


def measure_time(length, options):
    """Milliseconds of each form, turn by turn."""
    inputs = batch(length, options)
    steps = {form: make(form, options) for form in options.forms}
    for step in steps.values():
        seconds(step, inputs)  # traces, compiles and warms up
    return [
        {form: 1e3 * seconds(step, inputs) for form, step in steps.items()}
        for _ in range(options.turns)
    ]


def peak():
    """The most that this process has ever held, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure_memory(form, length, options):
    """MiB of a step beyond what was there before."""
    step = make(form, options)
    seconds(step, batch(16, options))  # what TensorFlow itself needs
    before = peak()
    seconds(step, batch(length, options))
    return peak() - before


def in_a_process(*request):
    """What a measurement prints."""
    process = subprocess.run(
        [sys.executable, __file__, "--measure", *request, *sys.argv[1:]],
        capture_output=True,
        text=True,
    )
    if process.returncode:
        raise RuntimeError(process.stderr)
    return json.loads(process.stdout.splitlines()[-1])


def table_of(options):
    """One row a length, one column a form."""
    title = (
        f"Forward and gradient, layers: {options.layers}, d 128, 4 heads, "
        f"batch {options.batch_size}{', XLA' if options.jit else ''}: "
        "ms (times as fast as full), MiB (times less)"
    )
    table = Table(title=title)
    table.add_column("tokens", justify="right")
    for form in options.forms:
        table.add_column(form, justify="right")
    for length in options.lengths:
        turns = in_a_process("time", "all", str(length))
        memory = {
            form: in_a_process("memory", form, str(length)) for form in options.forms
        }
        cells = []
        for form in options.forms:
            milliseconds = statistics.median(turn[form] for turn in turns)
            cell = f"{milliseconds:,.0f} ms, {memory[form]:,.0f} MiB"
            if form != "full":
                faster = statistics.median(turn["full"] / turn[form] for turn in turns)
                less = memory["full"] / max(memory[form], 1)
                cell = (
                    f"{milliseconds:,.0f} ms ({faster:.1f}), "
                    f"{memory[form]:,.0f} MiB ({less:.1f})"
                )
            cells.append(cell)
        table.add_row(f"{length:,}", *cells)
    return table


def main():
    """Prints one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    lengths = [256, 512, 1024, 2048, 4096, 8192]
    parser.add_argument("--lengths", type=int, nargs="+", default=lengths)
    forms = ["full", "relu", "softmax"]
    parser.add_argument("--forms", nargs="+", choices=list(FORMS), default=forms)
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=1)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--jit", action="store_true", help="compile with XLA")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if "full" not in options.forms:
        parser.error("--forms must name full: the others are compared with it")
    if not options.measure:
        return Console(width=120).print(table_of(options))
    what, form, length = options.measure
    if what == "time":
        result = measure_time(int(length), options)
    else:
        result = measure_memory(form, int(length), options)
    return print(json.dumps(result))


if __name__ == "__main__":
    main()
