"""The printed tables hang together, and their settings are those of the papers."""

import json
import os
from pathlib import Path

import pytest

from bat_tf import encoders, losses
from bat_tf.runs.recipes import Recipe
from examples.papers.tables import TABLES, bat
from examples.papers.tables.table import PRINTED

WANTED = {"s0": [1, *range(3, 14)], "s1": [2, 3], "s2": [1, *range(3, 14)]}
WANTED["s3"] = [2, 3, 4]


def printed(id, columns):
    """Printed values of some columns, by row."""
    table = TABLES[id]
    return {row: [table.printed[row, name] for name in columns] for row in table.rows}


def test_totals_of_s1_are_the_same_in_both_tables():
    totals = [f"reuters total {kind}-f1" for kind in ("micro", "macro")]
    by_frequency = printed("s1-table2", totals)
    for row, values in printed("s1-table3", totals).items():
        assert by_frequency[row] == values


def test_wins_of_s2_add_up_to_its_experiments():
    rows = printed("s2-table1", TABLES["s2-table1"].columns).values()
    # 22 each; ranking loss has one tie (Toxic, Roberta).
    totals = [sum(column) for column in zip(*rows, strict=True)]
    assert totals == [22, 22, 22, 22, 22, 23]


def test_all_tables_and_figures_are_there():
    wanted = {f"{paper}-table{n}" for paper, ns in WANTED.items() for n in ns}
    wanted |= {f"s0-figure{number}" for number in (1, 2, 4, 5, 6)} | {"s3-figure2"}
    own = {f"s0-{what}-f{beta}" for what in ("last", "weights") for beta in (1, 2)}
    own |= {
        "s1-svm",
        "s0-keywords",
        "bat-ablation",
        "bat-ablation-jp",
        "s0-pbp18",
        "s2-rates",
        "s3-averaging",
    }
    assert wanted | own == set(TABLES)
    for table in TABLES.values():
        assert table.places, table.id
        assert "figure" not in table.id or not table.printed


def test_printed_values_are_those_of_the_source():
    path = Path(os.environ.get("BAT_TF_DATA", "-")).parent / "papers.json"
    if not path.exists():
        pytest.skip("the source of the printed values is not at hand")
    source = {table["id"]: table for table in json.loads(path.read_text("utf-8"))}
    assert set(PRINTED) == set(source)
    for id, copy in PRINTED.items():
        assert copy == {name: source[id][name] for name in copy}
        values = [v for row in copy["rows"] for v in row["values"] if v is not None]
        if id in TABLES:
            assert list(TABLES[id].printed.values()) == values


def test_figure_6_is_of_three_losses_over_epochs():
    figure = TABLES["s0-figure6"]
    assert figure.columns == ("WCE", "PBP_{0,8}", "CLA_{1,20}")
    assert {figure.changes(place)["loss"]["name"] for place in figure.places} == {
        "wce",
        "pbp",
        "cecla",
    }


def test_tags_of_the_paper_s_tables_are_plain():
    for table in TABLES.values():
        if table.paper.get("model") == "tagger":
            schemes = {one["text"]["scheme"] for one in table.stand_ins}
            assert schemes == {"plain"}, table.id
    assert Recipe.load("paper").settings["text"]["scheme"] == "plain"


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
        changes = bat.loss_changes(printed)
        settings = dict(changes["loss"])
        named = settings.pop("name")
        loss = losses.get(named, class_counts=counts, **settings)
        found = (named, loss.gamma, loss.positive_scale, loss.weighting)
        assert found == (name, gamma, scale, weighting), printed


def test_settings_of_a_place():
    table = TABLES["s0-table3"]
    assert len(table.places) == 28
    assert table.printed["CE", "BAT"] == 85.7
    for encoder in bat.ENCODERS.values():
        encoders.get(encoder, vocabulary_size=9, d_model=8, num_heads=2)
    assert TABLES["s0-table5"].changes(("CE", "BAT"))["optimizer"] == {
        "schedule_scale": 0.93
    }
    assert TABLES["s0-table9"].place("macro F2", "λ=12") == (
        ("λ=12",),
        "token_macro_f2",
    )
    assert TABLES["s2-table12"].place("BCE, Roberta", "SubACC") is None


def test_depth_rules():
    def rule(layers, encoder):
        changes = TABLES["s0-table7"].changes((f"{layers}-layer", encoder))
        changes = changes.get("optimizer", {})
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
