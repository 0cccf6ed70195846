"""A grid runs what is missing, keeps what is there, and shows both."""

import json
import os
import signal
import subprocess
import sys
import threading

import pytest
import tiny
import yaml
from typer.testing import CliRunner

from bat_tf import cli
from bat_tf.runs import grid as grid_module
from bat_tf.runs import tables
from bat_tf.runs.grid import Grid, run_grid


@pytest.fixture
def grid(tmp_path):
    tiny.dataset(24).save(tmp_path / "pages.jsonl")
    pages = str(tmp_path / "pages.jsonl")
    recipe = {"encoder": tiny.ENCODER, "budget.epochs": 1}
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(recipe))
    values = {
        "recipe": "tiny.yaml",
        "base": {"data": {"train": pages, "valid": pages, "test": pages}},
        "rows": {
            "CE": None,
            "PBP 0,8": {"loss": "pbp", "encoder": {"dropout": 0.1}},
        },
        "seeds": [0, 1],
    }
    (tmp_path / "losses.yaml").write_text(yaml.safe_dump(values))
    return tmp_path / "losses.yaml"


def write(cell, report):
    """A result as a run leaves it."""
    cell.path.parent.mkdir(parents=True, exist_ok=True)
    settings = cell.settings.to_dict()
    cell.path.write_text(json.dumps({"settings": settings, "test": report}))


def test_cells_are_the_base_with_the_changes_of_a_row(grid):
    cells = Grid.load(grid).cells("results", "runs")
    assert [cell.path.name for cell in cells] == [
        "CE_0.json",
        "PBP-0-8_0.json",
        "CE_1.json",
        "PBP-0-8_1.json",
    ]
    assert [cell.settings.budget.seed for cell in cells] == [0, 0, 1, 1]
    changed = cells[1].settings
    assert changed.loss.name == "pbp"
    assert changed.encoder.settings == {**tiny.ENCODER, "dropout": 0.1}


def test_only_what_is_missing_is_run(grid, tmp_path):
    cells = Grid.load(grid).cells(tmp_path / "results", tmp_path / "runs")
    for cell in cells[1:]:
        write(cell, {"values": {"micro_f1": 0.5}})
    said = []
    run_grid(cells, progress=lambda *state: said.append(state))
    assert said[-1] == (4, 4, [])
    result = cells[0].result
    assert result["settings"]["budget"]["seed"] == 0 and result["versions"]["keras"]
    assert "output" not in result["settings"]
    assert 0 <= result["test"]["values"]["span_f1"] <= 1
    assert cells[1].result["test"] == {"values": {"micro_f1": 0.5}}


def test_a_result_of_other_settings_is_not_taken_for_this_one(grid, tmp_path):
    cells = Grid.load(grid).cells(tmp_path / "results", tmp_path / "runs")
    write(cells[0], {"values": {}})
    grid.write_text(grid.read_text().replace("CE: null", "CE: {budget.epochs: 3}"))
    changed = Grid.load(grid).cells(tmp_path / "results", tmp_path / "runs")
    with pytest.raises(
        ValueError, match="CE_0.json is .*: budget.epochs 1 instead of 3"
    ):
        run_grid(changed)


def test_a_row_that_is_wrong_is_found_before_anything_runs(grid, tmp_path):
    grid.write_text(grid.read_text().replace("loss: pbp", "loss: no-such-loss"))
    with pytest.raises(ValueError, match=r"`loss.name` must be .*no-such-loss"):
        Grid.load(grid).cells(tmp_path / "results", tmp_path / "runs")


@pytest.mark.slow
def test_a_run_that_fails_is_named_and_the_others_are_done(grid, tmp_path):
    text = grid.read_text().replace("loss: pbp", "data: {valid: no-such-file.jsonl}")
    grid.write_text(text)
    cells = Grid.load(grid).cells(tmp_path / "results", tmp_path / "runs")[:2]
    said = "1 of 2 runs failed.*PBP-0-8_0.log.txt.*with: .*no-such-file"
    with pytest.raises(RuntimeError, match=said):
        run_grid(cells, jobs=2)
    assert cells[0].result
    assert "no-such-file" in (tmp_path / "runs/losses/PBP-0-8_0/log.txt").read_text()


@pytest.mark.fault(
    "`bat-tf grid` is ended with `kill`",
    "its runs end with it; the same command goes on, at most one epoch behind",
)
def test_a_grid_that_is_ended_leaves_no_run_behind(grid, tmp_path, monkeypatch):
    started = []

    def start(cell, jobs):
        command = [sys.executable, "-c", "import time; time.sleep(60)"]
        started.append(subprocess.Popen(command))
        return started[-1]

    monkeypatch.setattr(grid_module, "_start", start)
    before = signal.getsignal(signal.SIGTERM)
    cells = Grid.load(grid).cells(tmp_path / "results", tmp_path / "runs")
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
    with pytest.raises(SystemExit) as ended:
        run_grid(cells, jobs=2)
    assert ended.value.code == 143
    assert [process.poll() for process in started] == [-signal.SIGTERM] * 2
    assert signal.getsignal(signal.SIGTERM) == before


def test_scores_of_groups_and_spread_over_seeds(grid, tmp_path):
    cells = Grid.load(grid).cells(tmp_path / "results", tmp_path / "runs")
    for cell, score in zip(cells, (0.5, 0.25, 0.7, 0.25), strict=True):
        groups = [{"name": "tail (≤ 8)", "micro_f1": score, "macro_f1": 0.1}]
        write(cell, {"values": {"micro_f1": score}, "label_groups": groups})
    rows = tables.summary(cells)
    assert str(rows["CE"]["tail micro_f1"]) == "60.00 ± 14.14"
    assert rows["CE"]["runs"] == 2
    command = ["grid", str(grid), "--output", str(tmp_path / "results"), "--show"]
    out = tmp_path / "table.md"
    shown = CliRunner().invoke(
        cli.app, [*command, "--columns", "micro_f1,tail macro_f1", "--table", str(out)]
    )
    assert shown.exit_code == 0, shown.output
    assert "| PBP 0,8 | 25.00 ± 0.00 | 10.00 ± 0.00 | 2 |" in out.read_text()
    wrong = CliRunner().invoke(cli.app, [*command, "--columns", "micro"])
    assert isinstance(wrong.exception, ValueError)


def test_files_that_are_no_grid(tmp_path):
    path = tmp_path / "grid.yaml"
    for text, match in (
        ("a: [", "not YAML"),
        ("- a", "names and values"),
        ("rows: {}\nbas: {}", "setting of a grid"),
        ("base: {}", "`base` must be"),
        ("recipe: no-such-recipe\nrows: {}", "`recipe` must be one of"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=match):
            Grid.load(path)
