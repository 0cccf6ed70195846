"""The printed tables hang together, and their settings are those of the papers."""

import json
import os
from pathlib import Path

import pytest

from bat_tf import encoders, losses
from bat_tf.experiments import papers
from bat_tf.experiments.papers import TABLES

NAMES = ["S1_TABLE_2", "S1_TABLE_3", "S2_TABLE_1", "S2_TABLE_12"]
WANTED = {"s0": [1, *range(3, 14)], "s1": [2, 3], "s2": [1, *range(3, 14)]}
WANTED["s3"] = [2, 3, 4]


@pytest.mark.parametrize("name", NAMES)
def test_every_row_has_a_value_for_every_column(name):
    table = getattr(papers, name)
    for row, values in table["rows"].items():
        assert len(values) == len(table["columns"]), row


def test_totals_of_s1_are_the_same_in_both_tables():
    for row, values in papers.S1_TABLE_3["rows"].items():
        assert papers.S1_TABLE_2["rows"][row][:2] == values[:2]


def test_wins_of_s2_add_up_to_its_experiments():
    rows = papers.S2_TABLE_1["rows"].values()
    # 22 each; ranking loss has one tie (Toxic, Roberta).
    totals = [sum(column) for column in zip(*rows, strict=True)]
    assert totals == [22, 22, 22, 22, 22, 23]


def test_all_tables_and_figures_are_there():
    wanted = {f"{paper}-table{n}" for paper, ns in WANTED.items() for n in ns}
    wanted |= {f"s0-figure{number}" for number in (1, 2, 4, 5, 6)} | {"s3-figure2"}
    own = {f"s0-{what}-f{beta}" for what in ("last", "weights") for beta in (1, 2)}
    own |= {"bat-ablation", "bat-ablation-jp", "s0-pbp18", "s2-rates", "s3-averaging"}
    assert wanted | own == set(TABLES)
    for table in TABLES.values():
        assert bool(table.why_not) != bool(table.places), table.id
        assert "figure" not in table.id or not table.printed


def test_printed_values_are_those_of_the_source():
    path = Path(os.environ.get("BAT_TF_DATA", "-")).parent / "papers.json"
    if not path.exists():
        pytest.skip("the source of the printed values is not at hand")
    source = {table["id"]: table for table in json.loads(path.read_text("utf-8"))}
    copy = Path(papers.__file__).with_name("papers.json").read_text("utf-8")
    for table in json.loads(copy):
        assert table == {name: source[table["id"]][name] for name in table}
        values = [v for row in table["rows"] for v in row["values"] if v is not None]
        assert list(TABLES[table["id"]].printed.values()) == values


def test_a_printed_loss_has_its_factors_and_weights():
    counts = [80, 15, 5]
    for printed, name, gamma, scale, weighting in (
        ("CE", "ce", 0, 1, "none"),
        ("FWCE", "fwce", 1, 1, "ee"),
        ("PBP_{0,8}", "pbp", 0, 8, "ee"),
        ("PBP_{0,s}", "pbp", 0, 1, "standard"),
        ("PBPA_{0,1}", "pbpa", 0, 1, "array"),
        ("CL_{1,20}", "wcecl", 1, 20, "ee"),
        ("CL_{0,s}", "wcecl", 0, 1, "standard"),
        ("CLA_{1,20}", "cecla", 1, 20, "array"),
        ("CLA_{0,1}", "cecla", 0, 1, "array"),
    ):
        changes = papers.loss_changes(printed)
        settings = changes.get("loss_settings", {})
        loss = losses.get(changes["loss"], class_counts=counts, **settings)
        found = (changes["loss"], loss.gamma, loss.positive_scale, loss.weighting)
        assert found == (name, gamma, scale, weighting), printed


def test_settings_of_a_place():
    table = TABLES["s0-table3"]
    assert len(table.places) == 28
    assert table.printed["CE", "BAT"] == 85.7
    for encoder in papers.ENCODERS.values():
        encoders.get(encoder, vocabulary_size=9, d_model=8, num_heads=2)
    assert TABLES["s0-table5"].changes(("CE", "BAT"))["schedule_scale"] == 0.93
    assert TABLES["s0-table9"].place("macro F2", "λ=12") == (
        ("λ=12",),
        "token_macro_f2",
    )
    assert TABLES["s2-table12"].place("BCE, Roberta", "SubACC") is None


def test_depth_rules():
    def rule(layers, encoder):
        changes = TABLES["s0-table7"].changes((f"{layers}-layer", encoder))
        steps = changes.get("warmup_steps", 4000)
        # A run of S steps has the rate of the paper times √(S / 4000).
        scale = changes.get("schedule_scale", 1) * (steps / 4000) ** 0.5
        return steps, round(1 / scale, 3)

    assert rule(6, "MUSE") == (4000, 1)
    assert rule(12, "BAT") == (8000, 3)
    assert rule(24, "BAT") == (8000, 5)
    assert rule(24, "Transformer") == (12000, 10)


def test_names_are_picked_as_people_write_them():
    table = TABLES["s0-table10"]
    assert table.pick(["pbp"]) == ["PBP_{0,s}", "PBP_{0,1}"]
    assert TABLES["s0-table3"].pick(["performer"]) == ["Performers"]
    with pytest.raises(ValueError, match="rows or columns"):
        table.pick(["BERT"])
