"""Other packages for extreme labels, on the parts that our own runs have.

    python tests/benchmarks/xmc_peers.py --size 100000 --results examples/results/peers

Trains omikuji (as Parabel and as Bonsai), napkinxc (a probabilistic label tree) and
libpecos (XR-Linear) on TF-IDF of words and scores them with the metrics of bat_tf. None
of them is a dependency: each gets a virtual environment of its own, which is made when
it is first needed and kept in `--environments`, and runs in a process of its own.

A peer leaves one JSON file in `--results`; one that has its file is not run again.
Times are of a process that has its features in memory already: making them, reading
and writing models are left out. `--note` goes into the files, for whatever a reader
should know about the machine.

    ... --peers one-vs-rest

One classifier a label, by libpecos: twenty minutes and more, so not by default.
"""

import argparse
import dataclasses
import json
import os
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import numpy as np
import scipy.sparse
from rich.console import Console
from rich.table import Table

from bat_tf import metrics
from bat_tf._internal.files import atomic_write
from bat_tf.data import LabelSpace
from bat_tf.metrics.ranking import GROUPS
from bat_tf.runs.run import read_parts
from bat_tf.runs.settings import Settings

HERE = Path(__file__).parent
BATCH = 1000
METRICS = [
    *["precision_at_1", "precision_at_3", "precision_at_5"],
    *["psp_at_1", "psp_at_3", "psp_at_5", "macro_f_at_5"],
    *["macro_f_at_5_few", "macro_f_at_5_medium", "macro_f_at_5_many"],
]
COSTS = {
    "train_seconds": "train s",
    "predict_seconds_per_1000": "s per 1,000",
    "model_mib": "model MiB",
    "peak_mib": "peak MiB",
}
# What `pip install` is told, one call each. All that XR-Linear needs of libpecos are
# these three; its other requirements, PyTorch among them, are for its Transformers.
PACKAGES = {
    "features": [["scikit-learn", "scipy"]],
    "omikuji": [["omikuji", "numpy", "scipy"]],
    "napkinxc": [["napkinxc"]],
    "pecos": [
        ["numpy<2", "scipy<1.14", "scikit-learn<1.6"],
        ["--no-deps", "libpecos"],
    ],
}


@dataclasses.dataclass(frozen=True)
class Peer:
    """A package with its settings.

    Args:
        method: key of `PACKAGES`, and of the worker's `METHODS`.
        title: of its row.
        settings: what differs from the package's own defaults.
    """

    method: str
    title: str
    settings: dict = dataclasses.field(default_factory=dict)


PEERS = {
    "parabel": Peer("omikuji", "omikuji, Parabel"),
    "bonsai": Peer(
        "omikuji",
        "omikuji, Bonsai",
        {"cluster_k": 100, "cluster_balanced": False, "max_depth": 3},
    ),
    "plt": Peer("napkinxc", "napkinxc, PLT"),
    "plt-ensemble": Peer("napkinxc", "napkinxc, 3 PLTs", {"ensemble": 3}),
    "xr-linear": Peer("pecos", "libpecos, XR-Linear"),
    "one-vs-rest": Peer("pecos", "libpecos, one-vs-rest", {"tree": False}),
}
USUAL = [name for name in PEERS if name != "one-vs-rest"]


def environment(method, folder):
    """The interpreter of an environment that has a package; made if there is none.

    Args:
        method: key of `PACKAGES`.
        folder: where environments are kept.
    """
    home = Path(folder).resolve() / method
    python = home / ("Scripts" if os.name == "nt" else "bin") / "python"
    whole = home / "installed.json"
    if whole.exists() and json.loads(whole.read_text()) == PACKAGES[method]:
        return python
    venv.create(home, with_pip=True, clear=True)
    for packages in PACKAGES[method]:
        command = [python, "-m", "pip", "install", "--quiet", *packages]
        subprocess.run(command, check=True)
    # Written last: an installation that was interrupted is begun again.
    whole.write_text(json.dumps(PACKAGES[method]))
    return python


def ask(request, folder, environments, threads):
    """Runs the worker on a request and returns its answer."""
    request = {**request, "answer": str(folder / "answer.json"), "threads": threads}
    path = folder / "request.json"
    path.write_text(json.dumps(request), encoding="utf-8")
    python = environment(request["method"], environments)
    done = subprocess.run(
        [python, HERE / "xmc_peer_worker.py", path],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,  # thousands of progress bars
        env={**os.environ, "OMP_NUM_THREADS": str(threads)},
    )
    if done.returncode:
        said = done.stdout.decode(errors="replace")[-2000:]
        raise SystemExit(f"The worker of {request['method']} stopped:\n{said}")
    return json.loads(Path(request["answer"]).read_text(encoding="utf-8"))


def write_data(train, test, folder, environments, threads):
    """Writes features and labels; returns the label space, paths and facts.

    Args:
        train: a `TextDataset` with labels.
        test: one to predict; of its labels, those of `train` are known.
        folder: where to write.
        environments: see `environment`.
        threads: of the worker.
    """
    space = LabelSpace.fit(train.labels)
    names = ("train_texts", "test_texts")
    paths = {name: str(folder / f"{name}.json") for name in names}
    for name, part in (("train_texts", train), ("test_texts", test)):
        Path(paths[name]).write_text(json.dumps(part.texts), encoding="utf-8")
    for name in ("train_features", "test_features", "train_labels"):
        paths[name] = str(folder / f"{name}.npz")
    scipy.sparse.save_npz(paths["train_labels"], space.csr(train.labels))
    answer = ask({"method": "features", **paths}, folder, environments, threads)
    facts = {
        "train": len(train),
        "test": len(test),
        "labels": len(space),
        **{f"labels_{name}": size for name, size in group_sizes(space).items()},
        "features": answer["features"],
        "made_by": answer["version"],
    }
    return space, paths, facts


def group_sizes(space):
    """How many labels are few, medium and many: up to 20, up to 100 documents, more."""
    group = np.searchsorted((20, 100), space.counts, side="left")
    return dict(zip(GROUPS, np.bincount(group, minlength=3).tolist(), strict=True))


def score(space, true, ids, scores):
    """The metrics of the best labels found for test documents.

    Args:
        space: the `LabelSpace` of the training part, with counts.
        true: label ids [N, P], -1 where a document has no more.
        ids: label ids found [N, M], -1 where there are fewer.
        scores: their scores [N, M].

    Returns:
        Name → value, as in `METRICS`.
    """
    counts, documents = space.counts.tolist(), space.num_examples
    found = {
        name: metrics.get(name, label_counts=counts, num_examples=documents)
        for name in METRICS
    }
    for start in range(0, len(true), BATCH):
        part = slice(start, start + BATCH)
        for metric in found.values():
            metric.update_state(true[part], (ids[part], scores[part]))
    return {name: round(float(metric.result()), 6) for name, metric in found.items()}


def stored(path, data):
    """A result that is there already, or None; it must be of the same data."""
    if not path.exists():
        return None
    result = json.loads(path.read_text(encoding="utf-8"))
    if any(result["data"].get(name) != value for name, value in data.items()):
        raise SystemExit(
            f"{path} is of other data: {result['data']} instead of {data}. Choose "
            "another folder for the results, or remove the file to run it again."
        )
    return result


def run(names, results, settings, options):
    """Runs the peers that have no result and yields (name, result) of each.

    Args:
        names: keys of `PEERS`.
        results: folder of the result files.
        settings: `Settings` that say which data.
        options: `environments`, `threads`, `top_k` and `note`.
    """
    data = {
        "corpus": settings.data.name,
        "settings": settings.data.options,
        "min_label_count": settings.data.min_label_count,
    }
    paths = {name: Path(results) / f"{name}.json" for name in names}
    found = {name: stored(path, data) for name, path in paths.items()}
    if all(found.values()):
        yield from found.items()
        return
    train, _, test = read_parts(settings)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        worker = options.environments, options.threads
        space, files, facts = write_data(train, test, folder, *worker)
        true = space.padded_ids(test.labels, unknown="skip")
        for name, path in paths.items():
            if found[name]:
                yield name, found[name]
                continue
            result = _measure(PEERS[name], folder, files, options)
            with np.load(result.pop("predictions")) as best:
                result["scores"] = score(space, true, best["ids"], best["scores"])
            result["data"] = {**data, **facts}
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(path) as file:
                json.dump(result, file, indent=1)
                file.write("\n")
            yield name, result


def _measure(peer, folder, files, options):
    """Trains and asks one peer; its model is thrown away."""
    loads = [os.getloadavg()[0]]
    predictions = str(folder / "predictions.npz")
    with tempfile.TemporaryDirectory(dir=folder) as own:
        request = {
            "method": peer.method,
            "settings": peer.settings,
            "top_k": options.top_k,
            "folder": own,
            "predictions": predictions,
            **files,
        }
        cost = ask(request, folder, options.environments, options.threads)
    loads.append(os.getloadavg()[0])
    return {
        "peer": peer.title,
        "version": cost.pop("version"),
        "settings": peer.settings,
        "threads": options.threads,
        "cores": os.cpu_count(),
        "load_before_and_after": [round(load, 2) for load in loads],
        "note": options.note,
        "cost": cost,
        "predictions": predictions,
    }


def table(results):
    """The results as a table, scores in per cent.

    Args:
        results: name → result.
    """
    first = next(iter(results.values()))["data"]
    title = "{corpus}: {train:,} texts, {labels:,} labels, test {test:,}".format(
        **first
    )
    made = Table(title=title)
    made.add_column("")
    for name in METRICS:
        heading = re.sub(r"_(?=few|medium|many)", "\n", name).replace("psp", "PSP")
        heading = heading.replace("precision", "P").replace("_at_", "@")
        made.add_column(heading.replace("_", " "), justify="right")
    for heading in COSTS.values():
        made.add_column(heading.replace(" ", "\n", 1), justify="right")
    empty = [name for name in GROUPS if not first.get(f"labels_{name}", 1)]
    for result in results.values():
        scores = [
            "–" if name.endswith(tuple(empty)) else f"{100 * value:.2f}"
            for name, value in result["scores"].items()
        ]
        costs = [result["cost"][name] for name in COSTS]
        costs = [f"{cost:.2f}" if cost < 10 else f"{cost:,.0f}" for cost in costs]
        made.add_row(result["peer"], *scores, *costs)
    return made


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="yso_finna_en_xmc", help="a named set")
    parser.add_argument("--size", type=int, help="first texts of each part; else all")
    parser.add_argument("--min-label-count", type=int, default=1)
    parser.add_argument("--results", default="runs/xmc_peers", help="folder")
    parser.add_argument("--environments", default="runs/environments", help="folder")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=USUAL)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--top-k", type=int, default=10, help="labels a text")
    parser.add_argument("--note", default="", help="goes into the results")
    options = parser.parse_args(arguments)
    data = {
        "name": options.data,
        "options": {"size": options.size} if options.size else {},
        "min_label_count": options.min_label_count,
    }
    settings = Settings.of(model="classifier", data=data)
    console, found = Console(width=170), {}
    for name, result in run(options.peers, options.results, settings, options):
        found[name] = result
        console.print(f"{result['peer']}: {result['cost']['train_seconds']} s")
    console.print(table(found))


if __name__ == "__main__":
    sys.exit(main())
