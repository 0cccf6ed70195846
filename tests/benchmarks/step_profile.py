"""Where the time of a training step goes: input, forward and backward, optimizer.

    python tests/benchmarks/step_profile.py --data zh_ecommerce_ner/phantom

Prints a table for one batch size, with and without XLA. "input" is the pipeline alone,
which runs beside the step; "waiting" is what the step really waits for it.
`--set-threads` measures the graph alone, with the threads of `training.set_threads`.
"""

import argparse
import time

import tensorflow as tf
from rich.console import Console
from rich.table import Table

import bat_tf


def seconds(function, repeats=3):
    """The shortest of a few runs: what the machine can do undisturbed."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        function()
        times.append(time.perf_counter() - started)
    return min(times)


def steps(model, jit_compile):
    """Three functions of a batch: gradients alone, gradients and update, nothing."""
    optimizer, variables = model.optimizer, model.trainable_variables

    def gradients(inputs, tags):
        with tf.GradientTape() as tape:
            loss = model.loss(tags, model(inputs, training=True))
        return tape.gradient(loss, [variable.value for variable in variables])

    def whole(inputs, tags):
        optimizer.apply(gradients(inputs, tags), variables)

    def only_gradients(inputs, tags):
        return [tf.reduce_sum(tf.convert_to_tensor(g)) for g in gradients(inputs, tags)]

    compiled = {"jit_compile": jit_compile, "reduce_retracing": True}
    return tf.function(only_gradients, **compiled), tf.function(whole, **compiled)


def profile(dataset, batch_size, jit_compile):
    """Milliseconds a step of each part, over one pass of the data."""
    bat_tf.training.set_seed(0, deterministic=False)
    model = bat_tf.BATTagger.for_data(dataset, scheme="plain")
    model.compile(bat_tf.optimizers.Adam(1e-4), loss="ce", jit_compile=jit_compile)
    model.optimizer.build(model.trainable_variables)
    counter = tf.Variable(0, dtype=tf.int64)
    batches = model.batches(dataset, batch_size, seed=0, epoch=counter)
    ready = list(batches)
    gradient, whole = steps(model, jit_compile)
    for function in (gradient, whole):
        for batch in ready:
            function(*batch)

    def run(function, source):
        for batch in source:
            function(*batch)
        model.trainable_variables[0].numpy()

    count = len(ready)
    times = {
        "input alone": seconds(lambda: run(lambda *_: None, batches)),
        "forward + backward": seconds(lambda: run(gradient, ready)),
        "whole step, batches ready": seconds(lambda: run(whole, ready)),
        "whole step, from pipeline": seconds(lambda: run(whole, batches)),
    }
    times = {name: 1000 * value / count for name, value in times.items()}
    ready_step = times["whole step, batches ready"]
    times["optimizer"] = max(0.0, ready_step - times["forward + backward"])
    times["waiting for input"] = max(
        0.0, times["whole step, from pipeline"] - ready_step
    )
    return times, count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="product_pages/zh")
    parser.add_argument("--texts", type=int, default=800)
    parser.add_argument("--batches", type=int, nargs="+", default=[8, 32])
    parser.add_argument("--set-threads", action="store_true")
    options = parser.parse_args()
    compilers = (False, True)
    if options.set_threads:
        bat_tf.training.set_threads(min(options.batches))
        compilers = (False,)
    dataset = bat_tf.data.read(options.data, split="train").take(options.texts)
    table = Table(title=f"BAT, 4 layers, d 128, {options.data}: ms a step (share)")
    table.add_column("")
    columns = [(size, jit) for size in options.batches for jit in compilers]
    results = []
    for size, jit in columns:
        table.add_column(f"batch {size}{', XLA' if jit else ''}", justify="right")
        results.append(profile(dataset, size, jit)[0])
    for name in results[0]:
        cells = []
        for times in results:
            share = times[name] / times["whole step, from pipeline"]
            cells.append(f"{times[name]:.2f} ({100 * share:.0f} %)")
        table.add_row(name, *cells)
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
