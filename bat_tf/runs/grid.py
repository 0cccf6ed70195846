"""A grid of runs: every row under every seed, one small result file each.

A cell that has its file is not run again, and one that was killed goes on from its last
epoch, so that a grid of hours may be stopped and started as it suits.
"""

import contextlib
import csv
import dataclasses
import importlib.metadata
import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from bat_tf._internal.files import atomic_write
from bat_tf._internal.validation import check_choice, check_number, sentence
from bat_tf.runs.recipes import Recipe
from bat_tf.runs.run import run
from bat_tf.runs.settings import Settings, differences, flat, merged, nested, read_yaml

PACKAGES = ("tensorflow", "keras", "numpy")
# Scores of single labels are kept in a result while they are few enough to look at.
MOST_LABELS = 200
# Settings that make no difference to what is learned, or say where and on what.
ANYHOW = ("output", "cluster", "worker", "data.parts", "encoder.cache", "report")
ANYHOW += ("scores.monitor", "scores.metrics", "scores.train_metrics")
ANYHOW += ("optimizer.warmup_share", "budget.seed", "budget.patience")
ANYHOW += ("budget.jit_compile", "budget.backup_minutes")
WORDS = {"optimizer.warmup_steps": "warm-up steps", "budget.batch_size": "batch size"}
WORDS |= {"optimizer.learning_rate": "learning rate", "budget.epochs": "epochs"}
WORDS |= {f"{group}.name": group for group in ("data", "encoder", "loss", "optimizer")}


@dataclasses.dataclass(frozen=True)
class Cell:
    """One run of a grid.

    Args:
        row: name of the row it belongs to.
        settings: its `Settings`.
        path: its result file.
        expected: for a cell of a paper's table, the paper's settings; what differs is
            noted in the result.
    """

    row: str
    settings: Settings
    path: Path
    expected: dict | None = None

    @property
    def result(self):
        """What the run came to, or None if it has not been run."""
        if not self.path.exists():
            return None
        result = json.loads(self.path.read_text(encoding="utf-8"))
        self._check(result.get("settings", {}))
        return result

    def _check(self, found):
        """Raises if a result is of other settings than the cell's."""
        found = Settings.of(**{**found, "output": self.settings.output})
        other = differences(found, self.settings)
        if other:
            raise ValueError(
                f"{self.path} is the result of other settings: {'; '.join(other)}. "
                "Remove it to run the cell anew, or name another folder of results."
            )


@dataclasses.dataclass(frozen=True)
class Grid:
    """Settings that all runs share, rows of changes to them, and seeds.

    Args:
        name: of its folders.
        base: shared settings, see `Settings`.
        rows: name of a row → settings that differ from `base`. Of settings that are
            themselves names and values, those given are changed; `{}` clears them.
        seeds: each row is run with each.

    Example:
        >>> base = {"data.train": "a.jsonl"}
        >>> grid = Grid("news", base, {"PBP": {"loss": "pbp"}}, (0, 1))
        >>> [cell.path.name for cell in grid.cells("results", "runs")]
        ['PBP_0.json', 'PBP_1.json']
    """

    name: str
    base: dict
    rows: dict
    seeds: tuple = (0,)

    @classmethod
    def load(cls, path):
        """Reads a grid from YAML: `recipe`, `base`, `rows` and `seeds`.

        Args:
            path: the file; its name is the grid's. `recipe` is a name or a file, looked
                for beside this one; `base` are settings that win over it.
        """
        path = Path(path)
        values = read_yaml(path)
        for name in values:
            check_choice("setting of a grid", name, ("recipe", "base", "rows", "seeds"))
        base, rows = values.get("base", {}), values.get("rows")
        if not isinstance(base, dict) or not isinstance(rows, dict):
            expected = "the settings of all runs, and `rows` what each row changes"
            raise ValueError(sentence("base", expected, base, f"See {path}."))
        recipe = values.get("recipe")
        if recipe:
            recipe = path.parent / recipe if "." in recipe else recipe
            base = merged(Recipe.load(recipe).settings, nested(base))
        return cls(path.stem, base, rows, tuple(values.get("seeds", (0,))))

    def cells(self, results, runs):
        """All runs, seed by seed.

        Args:
            results: folder of the result files.
            runs: folder of the runs' own folders.
        """
        cells = []
        for seed in self.seeds:
            for row, changes in self.rows.items():
                name = f"{re.sub(r'[^0-9A-Za-z]+', '-', row).strip('-')}_{seed}"
                own = {"budget.seed": seed, "output": str(Path(runs, self.name, name))}
                values = merged(nested(self.base), nested(changes or {}))
                settings = Settings.of(**merged(values, nested(own)))
                path = Path(results, self.name, f"{name}.json")
                cells.append(Cell(row, settings, path))
        return cells


def run_grid(cells, jobs=1, progress=None):
    """Runs the cells that have no result yet, each in a process of its own.

    Args:
        cells: what `Grid.cells` returns.
        jobs: how many at a time; they share the cores.
        progress: a function that is told (epochs done, epochs in all, cells that run)
            every few seconds.

    Raises:
        RuntimeError: names the cells that failed and their logs; the others are done.
    """
    check_number("jobs", jobs, low=1, integer=True)
    waiting = [cell for cell in cells if cell.result is None]
    total = sum(cell.settings.budget.epochs for cell in cells)
    running, failed = {}, []
    with _stopped_together(running):
        while waiting or running:
            while waiting and len(running) < jobs:
                cell = waiting.pop(0)
                running[_start(cell, jobs)] = cell
            time.sleep(0.5)
            for process in [p for p in running if p.poll() is not None]:
                cell = running.pop(process)
                if process.returncode or not cell.path.exists():
                    failed.append(cell)
            if progress:
                epochs = sum(_epochs_done(cell) for cell in cells)
                progress(epochs, total, list(running.values()))
    if failed:
        logs = ", ".join(str(_log(cell)) for cell in failed)
        raise RuntimeError(
            f"{len(failed)} of {len(cells)} runs failed; what they said is in {logs}. "
            f"The first ended with: {_last_words(failed[0])} Start again to run only "
            "what is missing."
        )


@contextlib.contextmanager
def _stopped_together(processes):
    """Stops processes when the block ends early, by `kill` too; they can go on later.

    Left alone they would work on unseen, and a second call beside them.
    """

    def stop(number, frame):
        raise SystemExit(128 + number)

    # Only the main thread may say what a signal does.
    catches = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, stop) if catches else None
    try:
        yield
    finally:
        if catches:
            signal.signal(signal.SIGTERM, before)
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()


def run_cell(settings, path, expected=None):
    """Runs one cell in this process and writes its result."""
    _, report = run(settings, verbose=2)
    report["history"] = history(settings.output)
    if expected is not None:
        report["deviations"] = deviations(
            settings.to_dict(), expected, report.get("warmup_steps")
        )
    report["versions"] = {name: importlib.metadata.version(name) for name in PACKAGES}
    report["cores"] = os.cpu_count()
    report["peak_mib"] = _peak_mib()
    report["settings"].pop("output")
    report["model"].pop("thresholds", None)  # the report of each part has them
    for part in ("valid", "test"):
        labels = report.get(part, {}).get("labels", ())
        if len(labels) > MOST_LABELS:
            for name in ("labels", "label_counts"):
                report[part].pop(name)
    with atomic_write(path) as file:
        json.dump(report, file, ensure_ascii=False)
        file.write("\n")


def _peak_mib():
    """The most memory that this process has held."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(most / (2**20 if sys.platform == "darwin" else 2**10))


def _start(cell, jobs):
    folder = Path(cell.settings.output)
    folder.mkdir(parents=True, exist_ok=True)
    values = json.dumps([cell.settings.to_dict(), str(cell.path), cell.expected])
    environment = dict(os.environ)
    if jobs > 1:
        cores = str(max(1, (os.cpu_count() or 2) // jobs))
        for name in ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS"):
            environment.setdefault(name, cores)
    command = [sys.executable, "-m", "bat_tf.runs.grid", values]
    with open(_log(cell), "ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, env=environment)


def _log(cell):
    return Path(cell.settings.output) / "log.txt"


def _last_words(cell):
    lines = _log(cell).read_text(encoding="utf-8", errors="replace").split("\n")
    said = next((line for line in reversed(lines) if line.strip()), "nothing")
    return re.sub(r"^[\w.]+Error: ", "", said).rstrip(".") + "."


def _epochs_done(cell):
    if cell.path.exists():
        return cell.settings.budget.epochs
    history = Path(cell.settings.output) / "history.csv"
    return max(0, len(history.read_bytes().splitlines()) - 1) if history.exists() else 0


def deviations(settings, expected, warmup_steps=None):
    """What a run does otherwise than a paper, in words.

    Args:
        settings: those of the run, as `Settings.to_dict` has them.
        expected: the paper's, nested; what they do not name is as `Settings` has it.
        warmup_steps: how many the run came to, if its settings leave that open.

    >>> ours = {"data": "a", "budget.epochs": 15}
    >>> deviations(ours, {"data": "a", "budget.epochs": 50})
    ['epochs 15 instead of 50']
    """
    ours = flat(Settings.of(**settings).to_dict())
    theirs = flat(Settings.of(data="-").to_dict()) | flat(nested(expected))
    steps = "optimizer.warmup_steps"
    ours[steps] = ours[steps] or warmup_steps
    paths = {**theirs, **ours}
    if ours["model"] == "svm":  # has no epochs
        paths = ("model", "data.name")
    return [
        f"{WORDS.get(path, path)} {_plain(ours.get(path))} instead of "
        f"{_plain(theirs.get(path))}"
        for path in paths
        if path not in ANYHOW
        and ours.get(path) != theirs.get(path)
        and theirs.get(path, "not named") is not None
    ]


def _plain(value):
    if isinstance(value, dict):
        return ", ".join(f"{key} {_plain(v)}" for key, v in value.items()) or "none"
    if value is None:
        return "none"
    return f"{value:,}" if isinstance(value, int) else str(value)


def history(folder):
    """Scores of every epoch out of a run's history.csv, None if there is none.

    A resumed run may have an epoch twice: the later one counts.
    """
    path = Path(folder) / "history.csv"
    if not path.exists():
        return None
    with path.open(newline="") as file:
        epochs = {int(row["epoch"]): row for row in csv.DictReader(file)}
    rows = [epochs[number] for number in sorted(epochs)]
    return {
        "epoch": [int(row["epoch"]) + 1 for row in rows],
        **{
            name: [float(f"{float(row[name]):.5g}") for row in rows]
            for name in (rows[0] if rows else ())
            if name != "epoch"
        },
    }


if __name__ == "__main__":
    values, target, paper = json.loads(sys.argv[1])
    run_cell(Settings.of(**values), Path(target), paper)
