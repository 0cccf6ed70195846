"""Every notebook of examples/ runs as it stands."""

import runpy
import sys
from pathlib import Path

import pytest
import tiny

from bat_tf.runs.run import run
from bat_tf.runs.settings import Settings

EXAMPLES = Path(__file__).parent.parent / "examples"


NOTEBOOKS = sorted(path.name for path in EXAMPLES.glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook_runs(name, tmp_path):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    notebook = nbformat.read(EXAMPLES / name, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=180, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    outputs = [
        cell.get("outputs") for cell in notebook.cells if cell.cell_type == "code"
    ]
    assert all(outputs), "every code cell of a notebook shows something"


@pytest.mark.slow
def test_operating_point_compares_runs(tmp_path, monkeypatch, capsys):
    tiny.dataset(24).save(tmp_path / "pages.jsonl")
    pages = str(tmp_path / "pages.jsonl")
    parts = {"train": pages, "valid": pages, "test": pages}
    folder = str(tmp_path / "run")
    settings = Settings.of(
        data=parts,
        output=folder,
        text={"scheme": "plain"},
        encoder=tiny.ENCODER,
        budget={"epochs": 1},
    )
    run(settings, verbose=0)
    monkeypatch.setattr(sys, "argv", ["operating_point.py", folder])
    runpy.run_path(str(EXAMPLES / "operating_point.py"), run_name="__main__")
    assert "as trained" in capsys.readouterr().out


@pytest.mark.parametrize(
    "script, folder, row, picture",
    [
        ("label_report.py", "labels", "| DB |", "reuters_groups.png"),
        ("subject_report.py", "subjects", "| omikuji, Bonsai | 39.2 /", None),
    ],
)
def test_reports_are_made_of_the_results_here(
    script, folder, row, picture, tmp_path, monkeypatch
):
    monkeypatch.setattr(sys, "argv", [script, "--output", str(tmp_path)])
    runpy.run_path(str(EXAMPLES / script), run_name="__main__")
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert row in text
    assert picture is None or (tmp_path / picture).stat().st_size > 10_000
    committed = EXAMPLES / folder / "README.md"
    assert text == committed.read_text(encoding="utf-8"), f"run examples/{script}"
