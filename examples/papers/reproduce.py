"""Runs of the papers' tables: their settings, their result files, and finding them.

A result file is named after the settings of its run, so that a run that two tables
share is made once.
"""

import dataclasses
import functools
import hashlib
import json
import re
import statistics
from pathlib import Path

from bat_tf.runs.grid import Cell
from bat_tf.runs.settings import Settings, flat, merged, nested
from bat_tf.runs.tables import Spread, flat_scores
from examples.papers.tables import TABLES
from examples.papers.tables.bat import LAST_EPOCHS

# What may differ between a run and a table's own: such runs are variants of the table.
_OPEN = ("data.name", "data.options", "data.parts", "budget.epochs")
_OPEN += ("optimizer.warmup_steps", "optimizer.warmup_share")
# What makes no difference to a result.
_SAME = ("output", "budget.seed", "budget.jit_compile")
_SAME += ("scores.metrics", "scores.train_metrics", "scores.monitor")


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
        changes: more settings, see `Settings`.

    Returns:
        A list of `Cell`.
    """
    chosen = _chosen(table, names)
    cells = []
    for seed in seeds:
        for stand_in in _stand_ins(table, data):
            for place in chosen:
                own = table.changes(place)
                expected = paper_settings(table, place, stand_in)
                values = merged(merged(table.paper, stand_in), own)
                values = merged(values, _lengths(table, values, epochs, warmup))
                values = merged(values, nested(changes or {}))
                values = merged(values, {"budget": {"seed": seed}})
                name = ", ".join(place)
                cells.append(_cell(name, values, expected, results, runs))
    return cells


def paper_settings(table, place, stand_in):
    """Settings of a run as the paper had it; a stand-in fills what it leaves open."""
    return merged(merged(stand_in, table.paper), table.changes(place))


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
        if data in (None, data_of(one), data_of(one).partition("/")[0])
    ]
    return known or [merged(table.stand_ins[0], {"data": {"name": data, "parts": {}}})]


def data_of(settings):
    """The name of the data of nested settings."""
    return settings["data"]["name"]


def _lengths(table, values, epochs, warmup):
    """Epochs and warm-up of a run."""
    epochs = epochs or values["budget"]["epochs"]
    found, own = {"budget": {"epochs": epochs}}, values.get("optimizer", {})
    if own.get("name") != "bat":
        return found
    usual = table.paper["budget"]["epochs"]
    if warmup is None and epochs == usual:
        return found
    if warmup is None:
        warmup = own["warmup_steps"] / (usual * table.steps)
    if warmup < 0:
        raise ValueError(f"`warmup` must be a number >= 0. Received: {warmup}.")
    if warmup >= 1:
        return found | {"optimizer": {"warmup_steps": int(warmup)}}
    return found | {"optimizer": {"warmup_steps": None, "warmup_share": warmup}}


def _cell(name, values, expected, results, runs):
    settings = Settings.of(**values)
    data = settings.data.name or settings.data.train
    folder = re.sub(r"[^0-9A-Za-z]+", "-", data).strip("-")
    file = file_name(settings)
    settings.output = str(Path(runs, folder, file))
    return Cell(name, settings, Path(results, folder, f"{file}.json"), expected)


def file_name(settings):
    """The name of a run's files: what it is in short, and its fingerprint.

    >>> file_name(Settings.of(data="a", loss="pbp"))
    'bat_pbp_10_0_c62d56ee'
    """
    model = "svm" if settings.model == "svm" else settings.encoder.name
    parts = (model, settings.loss.name, settings.budget.epochs, settings.budget.seed)
    return "_".join(map(str, (*parts, fingerprint(settings))))


def fingerprint(settings, without=("output",)):
    """Eight digits that equal settings share; new settings do not change them.

    >>> same = Settings.of(data="a", **{"budget.seed": 0})
    >>> fingerprint(Settings.of(data="a")) == fingerprint(same)
    True
    """
    usual = flat(Settings.of(model=settings.model, data="-").to_dict())
    chosen = {
        path: value
        for path, value in flat(settings.to_dict()).items()
        if path not in without and (path not in usual or value != usual[path])
    }
    # Of what all runs have, the model says what is usual.
    text = json.dumps({**chosen, "model": settings.model}, sort_keys=True)
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
                key = fingerprint(Settings.of(**result["settings"]))
                found.setdefault(key, result)
    return list(found.values())


def results_of(cells, results):
    """The result of each cell, or None; it may have been made by another command.

    Args:
        cells: what `table_cells` returns.
        results: what `load_results` returns.
    """
    known = {fingerprint(Settings.of(**one["settings"])): one for one in results}
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
    # A set that stands in for other data of the papers is not of this table.
    others = {data_of(one) for other in TABLES.values() for one in other.stand_ins}
    others -= {data_of(one) for one in table.stand_ins}
    alike = {}
    for result in results:
        if data_of(result["settings"]) not in others:
            core = _core(table, result["settings"])
            alike.setdefault(core, []).append(result)
    found = {}
    for stand_in in table.stand_ins:
        for place in table.places:
            own = table.changes(place)
            values = merged(merged(table.paper, stand_in), own)
            for result in alike.get(_core(table, values), ()):
                # A row with epochs of its own stands beside the others.
                epochs = result["settings"]["budget"]["epochs"]
                if epochs == own.get("budget", {}).get("epochs"):
                    epochs = stand_in["budget"]["epochs"]
                runs = found.setdefault(_label(result, epochs), {})
                runs.setdefault(place, []).append(result)
    ordered = sorted(found.items(), key=lambda pair: -sum(map(len, pair[1].values())))
    return [Variant(table, label, runs) for label, runs in ordered]


def _core(table, values):
    """The fingerprint of what runs of a table must have in common."""
    tags = table.paper.get("model") == "tagger"
    return _fingerprint(json.dumps(values), (*_SAME, *(_OPEN if tags else ())))


@functools.cache
def _fingerprint(values, without):
    """That of settings as JSON: every table looks at every result."""
    return fingerprint(Settings.of(**json.loads(values)), without)


def _label(result, epochs):
    settings = result["settings"]
    label = f"{data_of(settings)}, {epochs} epochs"
    if settings["optimizer"]["name"] == "bat" and "warmup_steps" in result:
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
