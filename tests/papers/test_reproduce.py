"""Runs of a table: their settings, their files, and finding them again."""

import json
from pathlib import Path

import pytest
import tiny
from fake_results import fake_cells
from typer.testing import CliRunner

from bat_tf.data import CORPORA
from bat_tf.runs.grid import Grid, deviations, history
from bat_tf.runs.settings import Settings
from examples.papers.__main__ import app
from examples.papers.migrate import metric_name, migrate, nested_settings
from examples.papers.reproduce import (
    file_name,
    fingerprint,
    load_results,
    results_of,
    score,
    table_cells,
    variants,
)
from examples.papers.tables import TABLES, zlpr

EXAMPLES = Path(__file__).parents[2] / "examples"


def cells(id, **options):
    return table_cells(TABLES[id], "results", "runs", **options)


def test_the_paper_s_settings_unless_told_otherwise():
    (cell,) = cells("s0-table3", names=["BAT", "PBP"])
    assert cell.row == "PBP_{0,8}, BAT"
    settings = cell.settings
    assert (settings.budget.epochs, settings.budget.batch_size) == (50, 8)
    assert settings.optimizer.warmup_steps == 4000
    assert (settings.loss.name, settings.optimizer.name) == ("pbp", "bat")
    said = deviations(settings.to_dict(), cell.expected)
    assert said == ["data zh_ecommerce_ner/phantom instead of EC-Zh"]


def test_other_epochs_keep_the_share_of_the_warm_up_and_say_so():
    (cell,) = cells("s0-table3", names=["BAT", "CE"], epochs=15)
    optimizer = cell.settings.optimizer
    assert optimizer.warmup_steps is None and optimizer.warmup_share == 0.08
    said = deviations(cell.settings.to_dict(), cell.expected, 598)
    assert said[1:] == ["warm-up steps 598 instead of 4,000", "epochs 15 instead of 50"]
    (deep,) = cells("s0-table7", names=["12-layer", "MUSE"], epochs=10)
    assert deep.settings.optimizer.warmup_share == 0.08  # 8,000 of 100,000 steps
    (given,) = cells("s0-table3", names=["BAT", "CE"], warmup=300)
    assert given.settings.optimizer.warmup_steps == 300
    changes = {"encoder.d_model": 64}
    (small,) = cells("s0-table3", names=["BAT", "CE"], changes=changes)
    said = deviations(small.settings.to_dict(), small.expected)
    assert "encoder.d_model 64 instead of none" in said


def test_a_light_model_stands_in_for_documents():
    found = cells("s1-table2", names=["SVM", "DB"])
    said = [deviations(c.settings.to_dict(), c.expected) for c in found]
    assert said[0] == []  # the paper's SVM has no epochs either
    assert "encoder bat instead of bert-base-uncased" in said[1]
    assert len(cells("s2-table1")) == 10  # five losses on two sets
    assert len(cells("s2-table1", data="goemotions")) == 5


def test_tables_of_zlpr_run_on_the_paper_s_own_sets():
    """By the names that `read` knows; two have a stand-in unless told otherwise."""
    for number, name in zlpr.SETS.items():
        assert name in CORPORA
        found = cells(f"s2-table{number}", data=name)
        assert {cell.settings.data.name for cell in found} == {name}
        assert not any(cell.settings.data.parts for cell in found)
        said = deviations(found[0].settings.to_dict(), found[0].expected)
        assert not [text for text in said if text.startswith("data")]


def test_a_family_of_sets_means_the_one_that_stands_in():
    chosen = {
        name: cells("s0-table3", data=name, names=["BAT", "CE"])[0].settings.data.name
        for name in ("zh_ecommerce_ner", "zh_ecommerce_ner/ecommerce", "my.jsonl")
    }
    assert list(chosen.values()) == [
        "zh_ecommerce_ner/phantom",
        "zh_ecommerce_ner/ecommerce",
        "my.jsonl",
    ]


def test_tables_share_the_runs_they_have_in_common():
    options = {"epochs": 15, "warmup": 0.08, "seeds": (0, 1)}
    paths = {cell.path for cell in cells("s0-table3", **options)}
    assert len(paths) == 56
    assert paths == {cell.path for cell in cells("s0-table4", **options)}
    for id, row in (("s0-table1", "v1"), ("s0-table9", "λ=20")):
        assert {cell.path for cell in cells(id, names=[row], **options)} < paths


def test_a_file_is_named_after_settings_that_are_not_the_usual():
    first = Settings.of(data="a", loss="ce")
    assert fingerprint(first) == fingerprint(Settings.of(data="a", output="x"))
    other = first.changed(**{"budget.seed": 1})
    assert fingerprint(first) != fingerprint(other)
    other = first.changed(**{"encoder.d_model": 64})
    assert fingerprint(first) != fingerprint(other)


def test_results_are_found_by_their_settings(tmp_path):
    fake_cells(tmp_path, "s0-table3", lambda row, seed: (0.7, 0.8), names=["BAT"])
    fake_cells(tmp_path, "s0-table3", lambda *_: (0.6, 0.7), seeds=(0,), epochs=50)
    (tmp_path / "results" / "other.json").write_text(json.dumps({"settings": {}}))
    results = load_results(tmp_path / "results")
    assert len(results) == 8 + 28
    long, short = variants(TABLES["s0-table4"], results)
    assert short.label.endswith("phantom, 15 epochs, warm-up 600 steps")
    assert str(short.value("CE", "BAT")) == "80.00 ± 0.00"
    assert short.value("CE", "MUSE") is None
    assert str(long.value("CE", "MUSE")) == "70.00"
    # EC-JP has another stand-in.
    assert not variants(TABLES["s0-table5"], results)
    counted = variants(TABLES["s0-table10"], results)[0].value("category 2", "CE")
    assert counted.mean == 2450 or counted.mean == 2800


def fake_precision(cell, **values):
    return {
        "settings": cell.settings.to_dict(),
        "versions": {},
        "test": {"values": values},
    }


def test_a_row_with_epochs_of_its_own_stands_beside_the_others():
    found = cells("s3-table2", names=["XML-CNN", "ME-XML (1", "SVM"])
    assert sorted(cell.settings.budget.epochs for cell in found) == [4, 4, 10]
    assert {cell.settings.model for cell in found} == {"svm", "classifier", "experts"}
    (same,) = cells("s3-table4", names=["1E (D-12)"])
    assert same.path in {cell.path for cell in found}
    results = [fake_precision(cell, precision_at_1=0.7) for cell in found]
    (variant,) = variants(TABLES["s3-table2"], results)
    assert variant.label == "fasttext_cooking, 4 epochs" and len(variant.runs) == 3


def test_losses_that_only_rank_lack_some_scores():
    found = cells("s2-table3", names=["BCE", "RL"])
    both, ranks = (
        {"micro_f1": 0.5, "average_precision": 0.6},
        {"average_precision": 0.7},
    )
    results = [
        fake_precision(cell, **values)
        for cell, values in zip(found, (both, ranks), strict=True)
    ]
    (variant,) = variants(TABLES["s2-table3"], results)
    assert str(variant.value("RL, Bert", "AvgPrec")) == "70.00"
    assert variant.value("RL, Bert", "Micro-F1") is None
    assert variant.was_run("RL, Bert", "Micro-F1")
    assert not variant.was_run("ZLPR, Bert", "Micro-F1")
    assert not variant.was_run("RL, Roberta", "AvgPrec")


def test_runs_of_a_grid_are_not_made_again():
    """S1's Table 2 and S2's Table 1 were run by `bat-tf grid`."""
    results = load_results(EXAMPLES / "results")
    for id, count in (("s1-table2", 9), ("s2-table1", 10), ("s2-table3", 9)):
        found = results_of(cells(id), results)
        assert len(found) == count and all(found), id
    assert results_of(cells("s1-table2", seeds=[7], names=["DB"]), results) == [None]


WHOLE = [
    ("s0-table3", {"epochs": 15, "seeds": (0, 1)}),
    ("s0-table4", {"epochs": 15, "seeds": (0, 1)}),
    ("s0-table10", {"epochs": 15}),
    ("s0-weights-f2", {"epochs": 15}),
    ("s1-table2", {"seeds": (0, 1, 2)}),
    ("s1-svm", {}),
    ("s2-table12", {}),
    ("s2-rates", {"seeds": (0, 1)}),
    ("s3-table2", {}),
    ("s3-table3", {}),
    ("s0-table13", {"epochs": 15, "warmup": 0.08}),
    ("s3-table4", {}),
    ("s3-averaging", {}),
    ("s3-figure2", {}),
]


@pytest.mark.slow
def test_tables_that_are_whole_have_nothing_to_run():
    results = load_results(EXAMPLES / "papers" / "results", EXAMPLES / "results")
    for id, options in WHOLE:
        assert all(results_of(cells(id, **options), results)), id


def test_result_files_are_named_after_their_settings():
    folder = EXAMPLES / "papers" / "results"
    paths = list(folder.rglob("*.json"))
    assert len(paths) == 207
    for path in paths:
        result = json.loads(path.read_text("utf-8"))
        assert path.stem == file_name(Settings.of(**result["settings"]))


def test_flat_settings_become_nested_ones(tmp_path):
    old = {
        "task": "labels",
        "data": "a",
        "data_settings": {"size": 9},
        "tokenizer": "words",
        "tokenizer_settings": {"min_count": 2},
        "encoder": "bert",
        "encoder_settings": {"backbone": "minilm", "frozen_layers": 6},
        "model_settings": {"experts": ["D-6"], "head_dropout": 0.1, "max_length": 32},
        "loss": "zlpr",
        "thresholds": "by-count",
        "monitor": "val_p@5",
        "metrics": ["p@1", "psp@5"],
        "report_settings": {"metrics": ["macro-f@5-few"]},
        "cache_backbone": "runs/states",
        "output": "runs/x",
    }
    new = Settings.of(**nested_settings(old))
    assert (new.model, new.data.name, new.data.options) == ("experts", "a", {"size": 9})
    assert (new.text.max_length, new.text.settings) == (32, {"min_count": 2})
    assert (new.encoder.backbone, new.encoder.cache) == ("minilm", "runs/states")
    assert new.encoder.settings == {"frozen_layers": 6}
    assert (new.heads.dropout, new.heads.thresholds) == (0.1, "by_count")
    assert new.scores.monitor == "val_precision_at_5"
    assert new.scores.metrics == ["precision_at_1", "psp_at_5"]
    assert new.report == {"metrics": ["macro_f_at_5_few"]}
    assert metric_name("macro-p@5-many") == "macro_precision_at_5_many"
    values = {"values": {"p@1": 0.5}}
    result = {"settings": old, "test": values, "best": {"val_p@5": 0.4, "epoch": 1}}
    (tmp_path / "bert_zlpr_10_0_00000000.json").write_text(json.dumps(result))
    ((_, path),) = migrate(tmp_path, tmp_path)
    found = json.loads(path.read_text("utf-8"))
    assert path.stem == file_name(Settings.of(**found["settings"]))
    assert found["test"] == {"values": {"precision_at_1": 0.5}}
    assert found["best"] == {"val_precision_at_5": 0.4, "epoch": 1}
    assert not migrate(tmp_path, tmp_path)


def test_a_curve_is_scored_at_its_end():
    curve = [0.1, 0.9, 0.5, 0.6, 0.7, 0.6, 0.6]
    result = {"history": {"val_token_macro_f2": curve}, "test": {"values": {}}}
    assert score(result, "last val_token_macro_f2") == pytest.approx(0.6)
    settings = cells("s0-last-f2", names=["BAT", "CE"], epochs=15)[0].settings
    (same,) = cells("s0-table4", names=["BAT", "CE"], epochs=15)
    assert settings == same.settings


def test_history_takes_the_last_of_a_repeated_epoch(tmp_path):
    assert history(tmp_path) is None
    text = "epoch,loss\n0,3.0\n1,2.0\n1,1.23456789\n"
    (tmp_path / "history.csv").write_text(text)
    assert history(tmp_path) == {"epoch": [1, 2], "loss": [3.0, 1.2346]}


@pytest.mark.slow
def test_a_table_is_run_once_and_its_result_is_whole(tmp_path, monkeypatch):
    command = ["run", "s0-table3", "--data", "product_pages/zh", "--epochs", "1"]
    command += ["--rows", "BAT", "--columns", "PBP"]
    for part in ("train", "test"):  # small ones; a tenth of the first is held out
        command += ["--set", f"data.parts.{part}=test"]
    for name, value in tiny.ENCODER.items():
        command += ["--set", f"encoder.{name}={value}"]
    for option in ("results", "runs"):
        command += [f"--{option}", str(tmp_path / option)]
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 0, (shown.output, shown.exception)
    (path,) = (tmp_path / "results").rglob("*.json")
    result = json.loads(path.read_text("utf-8"))
    assert result["history"]["epoch"] == [1]
    assert 0 <= result["history"]["val_token_macro_f2"][0] <= 1
    assert result["epoch_seconds"] > 0 and result["parameters"] > 1000
    assert "epochs 1 instead of 50" in result["deviations"]
    assert "warm-up steps 3 instead of 4,000" in result["deviations"]
    assert {"token_macro_f2", "token_macro_f2_no_none"} <= set(result["test"]["values"])
    assert all({"predicted", "actual"} <= set(one) for one in result["test"]["tokens"])

    monkeypatch.setattr("bat_tf.runs.grid._start", None)  # nothing is started
    again = CliRunner().invoke(app, command)
    assert again.exit_code == 0, (again.output, again.exception)


def test_the_tables_are_listed():
    shown = CliRunner().invoke(app, ["list"])
    assert "s0-table13" in shown.output and "28 runs" in shown.output
    assert "9 runs on cnipa/abstract" in shown.output
    wrong = CliRunner().invoke(app, ["run", "s0-table2"])
    assert isinstance(wrong.exception, ValueError)


def test_grids_of_files_are_as_before(tmp_path):
    grid = Grid("news", {"data.train": "a.jsonl"}, {"CE": {"loss": "ce"}})
    (cell,) = grid.cells(tmp_path, "runs")
    assert cell.expected is None and cell.settings.optimizer.warmup_share == 0.08
