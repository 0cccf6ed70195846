"""What a training step and an answer cost with each encoder of the BAT paper.

    python tests/benchmarks/encoder_steps.py --data zh_ecommerce_ner/phantom

The encoders have the paper's sizes and take turns in one process, so that whatever else
the machine does hits all of them: a ratio is the median over the turns of an encoder's
time by that of the Transformer in the same turn.
"""

import argparse
import statistics
import time

from rich.console import Console
from rich.progress import track
from rich.table import Table

import bat_tf
from examples.papers.tables.bat import ENCODERS

BASE = "Transformer"


def tagger(name, dataset, batch_size):
    """A tagger and its batches, both warm."""
    bat_tf.training.set_seed(0)
    model = bat_tf.BATTagger.for_data(dataset, ENCODERS[name], scheme="plain")
    optimizer = bat_tf.optimizers.bat_optimizer(model.encoder.d_model, "v1")
    model.compile(optimizer, loss="ce")
    batches = model.batches(dataset, batch_size, seed=0).cache()
    model.fit(batches, epochs=1, shuffle=False, verbose=0)
    model.tag(dataset.texts, batch_size=batch_size)
    return model, batches


def seconds(function, *arguments, **settings):
    """How long a call takes."""
    started = time.perf_counter()
    function(*arguments, **settings)
    return time.perf_counter() - started


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="product_pages/zh")
    parser.add_argument("--texts", type=int, default=800)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    bat_tf.training.set_threads(options.batch)
    dataset = bat_tf.data.read(options.data, split="train").take(options.texts)
    taggers = {
        name: tagger(name, dataset, options.batch)
        for name in track(ENCODERS, "building")
    }
    learning = {name: [] for name in ENCODERS}
    answering = {name: [] for name in ENCODERS}
    for _ in track(range(options.turns), "measuring"):
        for name, (model, batches) in taggers.items():
            fit = {"epochs": 1, "shuffle": False, "verbose": 0}
            learning[name].append(seconds(model.fit, batches, **fit))
        for name, (model, _) in taggers.items():
            texts = dataset.texts
            answering[name].append(seconds(model.tag, texts, batch_size=options.batch))
    steps = -(-len(dataset) // options.batch)
    title = f"{options.data}, {len(dataset)} texts, batch {options.batch}"
    table = Table(title=f"{title}, {options.turns} turns")
    costs = ("ms a step", f"× {BASE}", "ms an answer", f"× {BASE}")
    for column in ("", "parameters", *costs):
        table.add_column(column, justify="right" if column else "left")
    for name, (model, _) in taggers.items():
        cells = [name, f"{model.count_params():,}"]
        for times, count in ((learning, steps), (answering, len(dataset))):
            pairs = zip(times[name], times[BASE], strict=True)
            ratio = statistics.median(mine / base for mine, base in pairs)
            cells += [f"{1000 * min(times[name]) / count:.1f}", f"{ratio:.2f}"]
        table.add_row(*cells)
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
