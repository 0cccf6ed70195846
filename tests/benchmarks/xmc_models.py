"""What answers of our models for extreme labels cost: exact ones and shortlisted ones.

    python tests/benchmarks/xmc_models.py runs/yso_experts/* --results results.json

For each run: the size of its model, seconds for the five best labels of 1,000 texts of
the test part (from strings, tokens and encoder included) with every label scored, and
with a `Shortlist`; which share of the exact five best labels the shortlist finds; and
P@5 of both. The two ways take turns; times are the least of `--turns`.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from bat_tf._internal.files import atomic_write
from bat_tf.models import Shortlist
from bat_tf.models.load import load
from bat_tf.runs.run import read_parts
from bat_tf.runs.settings import Settings

COLUMNS = {
    "model_mib": "model MiB",
    "exact": "s per 1,000",
    "shortlist": "shortlist, s per 1,000",
    "recall": "its recall@5",
    "p5_exact": "P@5",
    "p5_shortlist": "its P@5",
}


def exact(model, texts):
    """The five best labels of each text, every label scored."""
    found = np.zeros((len(texts), 5), "int64")
    for rows, scores in model.score_batches(texts):
        best = np.argpartition(-scores, 5, axis=1)[:, :5]
        found[rows] = best
    return found


def precision(found, labels):
    """P@5 of label ids [N, 5]."""
    hits = [np.isin(row, labels[n].indices).sum() for n, row in enumerate(found)]
    return float(np.mean(hits) / 5)


def measure(folder, arguments):
    """The figures of one run."""
    settings = Settings.load(Path(folder) / "settings.yaml")
    test = read_parts(settings)[2].take(arguments.texts)
    model = load(folder)
    labels = model.labels.csr(test.labels, unknown="skip")
    ways = {"exact": lambda texts: exact(model, texts)}
    if any(expert.startswith("D") for expert in model.experts):
        shortlist = Shortlist(model, arguments.size)
        ways["shortlist"] = lambda texts: shortlist.top_k(texts, 5)[0]
    size = (Path(folder) / "best.keras").stat().st_size / 2**20
    result = {"run": Path(folder).name, "experts": model.experts, "model_mib": size}
    result |= {"labels": len(model.labels), "texts": len(test), "size": arguments.size}
    found, seconds = {}, {name: [] for name in ways}
    for way in ways.values():
        way(test.texts[:256])  # the first run of a shape is the slow one
    for _ in range(arguments.turns):
        for name, way in ways.items():
            started = time.perf_counter()
            found[name] = way(test.texts)
            seconds[name].append(time.perf_counter() - started)
    for name, ids in found.items():
        result[name] = 1000 * min(seconds[name]) / len(test)
        result[f"p5_{name}"] = precision(ids, labels)
    if "shortlist" in found:
        same = found["exact"][:, :, None] == found["shortlist"][:, None, :]
        result["recall"] = float(same.any(axis=2).mean())
    return result


def main():
    """Measures, prints and keeps."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", help="folders of runs with an expert model")
    parser.add_argument("--texts", type=int, default=2000, help="of the test part")
    parser.add_argument("--size", type=int, default=200, help="of the shortlist")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--results", help="also write the figures here")
    arguments = parser.parse_args()
    results = [measure(folder, arguments) for folder in arguments.runs]
    table = Table("run", *COLUMNS.values(), title=f"{arguments.texts:,} texts")
    for result in results:
        cells = [f"{result[k]:.3g}" if k in result else "–" for k in COLUMNS]
        table.add_row(" ".join(result["experts"]), *cells)
    Console(width=110).print(table)
    if arguments.results:
        with atomic_write(Path(arguments.results)) as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
