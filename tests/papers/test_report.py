"""The page of all tables: what was run, what was not, and pictures of it."""

from pathlib import Path

import matplotlib.image
from fake_results import fake_cells
from typer.testing import CliRunner

from examples.papers.__main__ import app
from examples.papers.page import table_section, write_report
from examples.papers.reproduce import load_results, table_cells
from examples.papers.tables import TABLES

EXAMPLES = Path(__file__).parents[2] / "examples"


def scores(row, seed):
    if "Switch" in row:
        return None
    ahead = 0.05 * ("BAT" in row)
    return 0.7 + ahead + 0.01 * seed, 0.75 + ahead + 0.01 * seed


def test_the_page_has_ours_beside_the_paper_s(tmp_path):
    fake_cells(tmp_path, "s0-table3", scores)
    fake_cells(tmp_path, "s0-table5", scores, names=["BAT", "CE"])
    results = str(tmp_path / "results")
    command = ["report", "--results", results, "-o", str(tmp_path / "page")]
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 0, (shown.output, shown.exception)
    text = (tmp_path / "page" / "README.md").read_text("utf-8")
    assert "| CE | 75.50 ± 0.71 (85.7) | 70.50 ± 0.71 (84.5) | not run (82.1) |" in text
    assert "epochs 15 instead of 50" in text
    assert "| S0: BAT has the best macro F1 at 4 layers. | **held** |" in text
    assert "| BAT | 1,060,000 | 7.0 |" in text
    assert "### S2 Table 4" in text and "Not run: 9 runs on cnipa/abstract" in text
    assert "### S3 Table 2" in text and "Not run: 7 runs on fasttext_cooking" in text
    encoders = ("curves_encoders", "curves_encoders_japanese")
    losses = ("curves_losses", "curves_weighted_losses", "predicted")
    for name in (*encoders, "f1_f2", *losses, "speed"):
        assert f"({name}.png)" in text
        picture = matplotlib.image.imread(tmp_path / "page" / f"{name}.png")
        assert picture.std() > 0.01


def test_counts_of_predictions_are_counts(tmp_path):
    fake_cells(tmp_path, "s0-table10", lambda *_: (0.7, 0.8), names=["CE", "WCE"])
    results = load_results(tmp_path / "results")
    text = "\n".join(table_section(TABLES["s0-table10"], results))
    assert "| category 2 | 2,800 ± 0 (7,156) | 2,800 ± 0 (8,631) | not run" in text
    assert "| macro F2 | 80.00 ± 0.00 (79.8) |" in text


def test_it_says_how_many_runs_have_each_seed(tmp_path):
    fake_cells(
        tmp_path,
        "s0-table10",
        lambda row, seed: (0.7, 0.8) if row == "CE" or not seed else None,
        names=["CE", "WCE"],
    )
    results = load_results(tmp_path / "results")
    text = "\n".join(table_section(TABLES["s0-table10"], results))
    assert "; seeds 0, 1 (2, 1 runs).\n" in text
    assert "| macro F1 | 70.00 ± 0.00 (79.9) | 70.00 (79.8) |" in text


def test_what_a_run_cannot_have_is_no_run_that_is_missing():
    (cell,) = table_cells(TABLES["s2-table3"], "results", "runs", names=["RL"])
    names = cell.settings.data.name, cell.settings.loss.name
    assert names == ("fasttext_cooking", "rl")
    values = {"average_precision": 0.55, "ranking_loss": 0.07}
    result = {"settings": cell.settings.to_dict(), "test": {"values": values}}
    text = "\n".join(table_section(TABLES["s2-table3"], [result]))
    assert "| RL, Bert | – | – | – | – | 55.00 (71.59) | 7.00 (1.24) |" in text
    assert "| BCE, Bert | not run (42.75) |" in text


def test_without_results_everything_is_not_run(tmp_path):
    text = write_report([], tmp_path).read_text("utf-8")
    assert text.count("Not run") >= 30 and "**held**" not in text
    empty = CliRunner().invoke(app, ["report", "--results", str(tmp_path)])
    assert isinstance(empty.exception, ValueError)


def test_wins_are_counted_over_data_sets_and_seeds(tmp_path):
    found = []
    for cell in fake_cells(
        tmp_path, "s2-table1", lambda *_: None, seeds=(0,), epochs=None
    ):
        best = cell.row == "ZLPR"
        names = ("subset_accuracy", "mlc_f1", "micro_f1", "macro_f1")
        values = dict.fromkeys((*names, "average_precision"), 0.5 + 0.1 * best)
        values["ranking_loss"] = 0.1 + 0.1 * best
        settings = cell.settings.to_dict()
        found.append({"settings": settings, "versions": {}, "test": {"values": values}})
    text = "\n".join(table_section(TABLES["s2-table1"], found))
    assert "2 experiments here" in text
    assert "| ZLPR | 2 (16) | 2 (9) | 2 (5) | 2 (8) | 2 (13) | 0 (18) |" in text


def test_the_page_of_this_repository_is_what_its_results_say(tmp_path):
    results = load_results(EXAMPLES / "papers" / "results", EXAMPLES / "results")
    page = EXAMPLES / "papers" / "report" / "README.md"
    written = write_report(results, tmp_path).read_text("utf-8")
    assert written == page.read_text("utf-8"), "run `python -m examples.papers report`"
    for picture in tmp_path.glob("*.png"):
        assert page.with_name(picture.name).exists()
