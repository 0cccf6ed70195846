"""Runs of the papers' tables: their settings, their result files, and finding them.

A result file is named after the settings of its run, so that a run that two tables
share is made once.
"""

import dataclasses
import hashlib
import json
import re
import statistics
from pathlib import Path

from bat_tf._validation import check_number
from bat_tf.experiments.grid import Cell, merged
from bat_tf.experiments.papers import LAST_EPOCHS, TABLES
from bat_tf.experiments.run import RunSettings
from bat_tf.experiments.tables import Spread, flat_scores

# What may differ between a run and a table's own: such runs are variants of the table.
_OPEN = ("data", "data_settings", "parts", "epochs", "warmup_steps", "warmup_share")
# What makes no difference to a result.
_SAME = ("output", "seed", "metrics", "train_metrics", "jit_compile", "monitor")


def table_cells(
    table,
    results,
    runs,
    *,
    data=None,
    epochs=None,
    seeds=(0,),
    warmup=None,
    names=(),
    changes=None,
):
    """The runs of a table, seed by seed, for `run_grid`.

    Args:
        table: a `papers.Table`.
        results: folder of the result files.
        runs: folder of the runs' own folders.
        data: a named set; by default those that stand in for the paper's.
        epochs: passes over it; None is as many as in the paper or, where a light model
            stands in, as that has.
        seeds: each run is made with each.
        warmup: steps of equation 11's warm-up, or a share of all steps if below 1. None
            is the paper's steps, and with other epochs the paper's share.
        names: rows and columns to run, see `Table.pick`; all by default.
        changes: more settings, see `RunSettings`.

    Returns:
        A list of `Cell`.
    """
    if table.why_not:
        raise ValueError(f"{table.id} cannot be run. {table.why_not}")
    chosen = _chosen(table, names)
    cells = []
    for seed in seeds:
        for stand_in in _stand_ins(table, data):
            for place in chosen:
                own = table.changes(place)
                expected = paper_settings(table, place, stand_in)
                values = merged(merged(table.paper, stand_in), own)
                values |= _lengths(table, values, epochs, warmup)
                values = merged(values, changes or {}) | {"seed": seed}
                name = ", ".join(place)
                cells.append(_cell(name, values, expected, results, runs))
    return cells


def paper_settings(table, place, stand_in):
    """Settings of a run as the paper had it; a stand-in fills what it leaves open."""
    return merged({**stand_in, **table.paper}, table.changes(place))


def _chosen(table, names):
    """Places whose names are among those picked of their own row or column."""
    picked = set(table.pick(names))
    groups = [
        group
        for group in (set(table.rows) & picked, set(table.columns) & picked)
        if group
    ]
    return [
        place for place in table.places if all(set(place) & group for group in groups)
    ]


def _stand_ins(table, data):
    """Settings of the data to run on; a family means its set of the table."""
    known = [
        one
        for one in table.stand_ins
        if data in (None, one["data"], one["data"].partition("/")[0])
    ]
    return known or [{**table.stand_ins[0], "data": data}]


def _lengths(table, values, epochs, warmup):
    """Epochs and warm-up of a run."""
    found = {"epochs": epochs or values["epochs"]}
    if values["optimizer"] != "bat":
        return found
    if warmup is None and found["epochs"] == table.paper["epochs"]:
        return found
    share = values["warmup_steps"] / (table.paper["epochs"] * table.steps)
    warmup = share if warmup is None else check_number("warmup", warmup, low=0)
    if warmup >= 1:
        return found | {"warmup_steps": int(warmup)}
    return found | {"warmup_steps": None, "warmup_share": warmup}


def _cell(name, values, expected, results, runs):
    settings = RunSettings.of(**values)
    parts = (settings.encoder, settings.loss, settings.epochs, settings.seed)
    file = "_".join(map(str, (*parts, fingerprint(settings))))
    folder = re.sub(r"[^0-9A-Za-z]+", "-", settings.data or settings.train).strip("-")
    settings.output = str(Path(runs, folder, file))
    return Cell(name, settings, Path(results, folder, f"{file}.json"), expected)


def fingerprint(settings, without=("output",)):
    """Eight digits that equal settings share; new settings do not change them.

    >>> fingerprint(RunSettings(data="a")) == fingerprint(RunSettings(data="a", seed=0))
    True
    """
    usual = RunSettings(task=settings.task, data="-").to_dict()
    chosen = {
        name: value
        for name, value in settings.to_dict().items()
        if name not in without and value != usual[name]
    }
    text = json.dumps(chosen, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def load_results(*folders):
    """All results under some folders, one for each run.

    Returns:
        A list of results. A file without the versions it was made with is none, and of
        two results of the same settings the first counts.
    """
    found = {}
    for folder in folders:
        for path in sorted(Path(folder).rglob("*.json")):
            result = json.loads(path.read_text(encoding="utf-8"))
            if isinstance(result, dict) and {"settings", "versions"} <= set(result):
                key = fingerprint(RunSettings.of(**result["settings"]))
                found.setdefault(key, result)
    return list(found.values())


def results_of(cells, results):
    """The result of each cell, or None; it may have been made by another command.

    Args:
        cells: what `table_cells` returns.
        results: what `load_results` returns.
    """
    known = {fingerprint(RunSettings.of(**one["settings"])): one for one in results}
    return [known.get(fingerprint(cell.settings)) for cell in cells]


@dataclasses.dataclass(frozen=True)
class Variant:
    """Results of a table that were made alike.

    Args:
        table: the `papers.Table`.
        label: what they have in common, in words.
        runs: names of a run → its results, one for each seed.
    """

    table: object
    label: str
    runs: dict

    def value(self, row, column):
        """The `Spread` of a value over seeds; None if no run has it."""
        place = self.table.place(row, column)
        results = self.runs.get(place[0], ()) if place else ()
        found = scores(results, place[1]) if place else ()
        return Spread.of(found) if found else None

    def was_run(self, row, column):
        """Whether there are results of this place, with or without the value."""
        place = self.table.place(row, column)
        return bool(place) and place[0] in self.runs

    @property
    def results(self):
        """All of them."""
        return [result for results in self.runs.values() for result in results]


def variants(table, results):
    """The results that belong to a table, by data, epochs and warm-up; most first."""
    if table.why_not:
        return []
    # A set that stands in for other data of the papers is not of this table.
    others = {one["data"] for other in TABLES.values() for one in other.stand_ins}
    others -= {one["data"] for one in table.stand_ins}
    alike = {}
    for result in results:
        if result["settings"]["data"] in others:
            continue
        alike.setdefault(_core(table, RunSettings.of(**result["settings"])), []).append(
            result
        )
    found = {}
    for stand_in in table.stand_ins:
        for place in table.places:
            own = table.changes(place)
            values = merged(merged(table.paper, stand_in), own)
            for result in alike.get(_core(table, RunSettings.of(**values)), ()):
                # A row with epochs of its own stands beside the others.
                alone = result["settings"]["epochs"] == own.get("epochs")
                epochs = stand_in["epochs"] if alone else result["settings"]["epochs"]
                runs = found.setdefault(_label(result, epochs), {})
                runs.setdefault(place, []).append(result)
    ordered = sorted(found.items(), key=lambda pair: -sum(map(len, pair[1].values())))
    return [Variant(table, label, runs) for label, runs in ordered]


def _core(table, settings):
    tags = table.paper.get("task") == "spans"
    return fingerprint(settings, (*_SAME, *(_OPEN if tags else ())))


def _label(result, epochs):
    settings = result["settings"]
    label = f"{settings['data']}, {epochs} epochs"
    if settings["optimizer"] == "bat" and "warmup_steps" in result:
        label += f", warm-up {result['warmup_steps']:,} steps"
    return label


def scores(results, name):
    """A score of several results, of those that have it: some losses only rank."""
    found = (score(result, name) for result in results)
    return [value for value in found if value is not None]


def score(result, name, part="test"):
    """A score of a result by name: one of its values, `predicted 1` or `last …`.

    `predicted n` is how many tokens got the n-th most frequent class of keywords;
    `last x` is the mean of x over the last epochs, whichever of them was chosen. None
    if the result has no such value.

    >>> tokens = [{"name": "none", "predicted": 9, "actual": 9}]
    >>> tokens += [{"name": "brand", "predicted": 3, "actual": 2}]
    >>> score({"test": {"values": {}, "tokens": tokens}}, "predicted 1")
    3
    """
    if name.startswith("last "):
        curve = result["history"][name.removeprefix("last ")]
        return statistics.fmean(curve[-LAST_EPOCHS:])
    report = result[part]
    if name.startswith("predicted "):
        classes = sorted(report["tokens"][1:], key=lambda one: -one["actual"])
        return classes[int(name.removeprefix("predicted ")) - 1]["predicted"]
    return flat_scores(report).get(name)
