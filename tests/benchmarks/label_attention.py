"""Memory and time of a training step with label attention as the labels grow.

    python tests/benchmarks/label_attention.py

One step is forward, binary cross entropy over all labels, gradient and the optimizer.
`LabelAttention` goes label chunk by label chunk; the plain form is the formula as it is
written, with [B, L, T] weights and [B, L, D] states. Each measurement runs in a process
of its own, which may take no more than `--limit` GiB; what asks for more is refused.

"kept" is what must be there: the weights, their gradient, and the optimizer's moments
(Adam: two of the weights' size; SGD: none). "beyond" is the peak less what the process
had before and what is kept; it still holds logits and targets [B, L].
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from rich.console import Console
from rich.table import Table

from bat_tf import heads, losses
from bat_tf.heads.label_attention import chunk_size
from bat_tf.training import optimizers

MEBIBYTE = 2**20
MOMENTS = {"adam": 2, "sgd": 0}


class PlainLabelAttention(heads.LabelAttention):
    """The formula as it is written."""

    def call(self, states, padding_mask):
        scores = tf.einsum("btd,ld->blt", states, self.label_kernel.value)
        scores = tf.where(padding_mask[:, None, :], scores, -1e30)
        mixed = tf.matmul(tf.nn.softmax(scores), states)
        hidden = tf.nn.relu(tf.matmul(mixed, self.hidden_kernel) + self.hidden_bias)
        return tf.matmul(hidden, self.output_kernel)[..., 0] + self.output_bias


def peak():
    """The most that this process has ever held, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def limit(gibibytes):
    """Refuses what goes beyond what is mapped now and as much again as given."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + int(gibibytes * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def batch(options, num_labels):
    """States, mask, and five labels a text as a multi-hot."""
    random = np.random.default_rng(0)
    shape = (options.batch_size, options.length, options.width)
    states = random.normal(size=shape).astype("float32")
    lengths = random.integers(1, options.length + 1, options.batch_size)
    mask = np.arange(options.length) < lengths[:, None]
    hot = np.zeros((options.batch_size, num_labels), "float32")
    np.put_along_axis(hot, random.integers(0, num_labels, (len(hot), 5)), 1, axis=1)
    return [tf.constant(x) for x in (states, mask, hot)]


def train_step(form, options, num_labels):
    """A layer, and one step of its training."""
    settings = {"memory_mib": options.memory_mib, "d_ff": options.d_ff}
    kind = PlainLabelAttention if form == "plain" else heads.LabelAttention
    layer = kind(num_labels, **settings)
    layer.build((options.batch_size, options.length, options.width))
    if options.optimizer == "adam":
        optimizer = optimizers.Adam(1e-3)
    else:
        optimizer = keras.optimizers.SGD(1e-3)
    optimizer.build(layer.trainable_variables)
    loss = losses.get("bce")
    variables = [variable.value for variable in layer.trainable_variables]

    @tf.function(jit_compile=options.jit)
    def step(states, mask, hot):
        with tf.GradientTape() as tape:
            value = loss(hot, layer(states, mask))
        optimizer.apply(tape.gradient(value, variables), layer.trainable_variables)
        return value

    return layer, step


def measure(form, num_labels, options):
    """MiB and milliseconds of one size; runs in a process of its own."""
    limit(options.limit)
    _, small = train_step(form, options, 50)
    small(*batch(options, 50))  # what TensorFlow itself needs
    before = peak()
    layer, step = train_step(form, options, num_labels)
    inputs = batch(options, num_labels)
    float(step(*inputs))
    times = []
    for _ in range(options.steps):
        started = time.perf_counter()
        float(step(*inputs))
        times.append(time.perf_counter() - started)
    weights = 4 * layer.count_params() / MEBIBYTE
    print(json.dumps([before, peak(), weights, 1e3 * min(times)]))


def in_a_process(form, num_labels):
    """What `measure` prints, or None where memory did not suffice."""
    request = ["--measure", form, str(num_labels), *sys.argv[1:]]
    process = subprocess.run(
        [sys.executable, __file__, *request], capture_output=True, text=True
    )
    if process.returncode == 0:
        return json.loads(process.stdout.splitlines()[-1])
    refused = ("OOM", "Out of memory", "bad_alloc", "MemoryError", "allocate")
    if process.returncode < 0 or any(word in process.stderr for word in refused):
        return None
    raise RuntimeError(process.stderr)


def table_of(options):
    """One row a size and form."""
    title = (
        f"{options.optimizer}, batch {options.batch_size}, {options.length} tokens, "
        f"width {options.width}, d_ff {options.d_ff}{', XLA' if options.jit else ''}"
    )
    table = Table(title=title)
    columns = ("labels", "form", "chunk", "kept MiB", "peak MiB", "beyond MiB", "ms")
    for column in columns:
        table.add_column(column, justify="right")
    sizes = (options.batch_size, options.length, options.width, options.d_ff)
    for num_labels in options.labels:
        for form in options.forms:
            size = num_labels
            if form == "chunks":
                budget = int(options.memory_mib * MEBIBYTE)
                size = chunk_size(num_labels, *sizes, 4, budget)
            found = in_a_process(form, num_labels)
            cells = ["", f"> {1024 * options.limit:.0f}", "refused", ""]
            if found:
                before, most, weights, milliseconds = found
                kept = weights * (2 + MOMENTS[options.optimizer])
                numbers = (kept, most - before, most - before - kept, milliseconds)
                cells = [f"{number:,.0f}" for number in numbers]
            table.add_row(f"{num_labels:,}", form, f"{size:,}", *cells)
    return table


def main():
    """Prints one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    sizes = [4_000, 31_000, 131_000, 670_000]
    parser.add_argument("--labels", type=int, nargs="+", default=sizes)
    forms = ["chunks", "plain"]
    parser.add_argument("--forms", nargs="+", choices=forms, default=forms)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--d-ff", type=int, default=256)
    parser.add_argument("--memory-mib", type=float, default=64)
    parser.add_argument("--optimizer", choices=list(MOMENTS), default="adam")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--limit", type=float, default=12, help="GiB")
    parser.add_argument("--jit", action="store_true", help="compile with XLA")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        form, num_labels = options.measure
        return measure(form, int(num_labels), options)
    return Console(width=100).print(table_of(options))


if __name__ == "__main__":
    main()
