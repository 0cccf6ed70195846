"""The guide to the papers: every name in it exists and is spelled as in the paper."""

import importlib
import re
from pathlib import Path

import pytest

from bat_tf import encoders, losses, metrics
from bat_tf.data import CORPORA
from bat_tf.runs.build import AVERAGE
from bat_tf.schedules import BATSchedule
from examples.papers.tables import TABLES, bat, zlpr
from examples.papers.tables.table import PRINTED

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "examples" / "guides" / "papers.md").read_text("utf-8")
ROWS = [line for line in TEXT.splitlines() if line.startswith("| ")]
VERSIONS = ("v1", "v2", "v3", "v3.1", "v4", "v4.1", "v5")
# What is said of the tables themselves, and settings that are no names of parts.
OTHERS = {"bio", "plain", "paper", "official", "head"}


def cells(row):
    """The cells of a row of a Markdown table."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]


def resolve(dotted):
    """The object of a dotted name."""
    module, *rest = dotted.split(".")
    found = importlib.import_module(module)
    for name in rest:
        try:
            found = getattr(found, name)
        except AttributeError:
            found = importlib.import_module(f"{found.__name__}.{name}")
    return found


DOTTED = sorted(set(re.findall(r"`((?:bat_tf|examples)\.[\w.]*\w)", TEXT)))


@pytest.mark.parametrize("name", DOTTED)
def test_an_object_of_the_guide_exists(name):
    resolve(name)


def test_the_guide_names_the_public_parts():
    assert len(DOTTED) > 50
    for room in (losses, metrics):
        named = {name.rpartition(".")[2] for name in DOTTED}
        public = {name for name in room.__all__ if name[0].isupper()}
        # Those that no paper has, or that others stand for.
        own = {"SampleJaccard", "SpanF1", "PropensityScoredTopK", "DocumentLoss", "CRF"}
        assert public - named <= own | {"BalancedLoss"}


def test_short_names_are_known():
    quoted = set()
    for row in ROWS:
        quoted |= {
            name
            for code in re.findall(r"`([^`]+)`", cells(row)[1])
            for name in re.findall(r'(?<![=\[(])"([^"]+)"', code)
        }
    assert len(quoted) > 45
    for name in quoted - {*losses._NAMES, *encoders._NAMES, *VERSIONS, *OTHERS}:
        assert metrics.get(name, label_counts=[1, 2]).name == name
    for version in VERSIONS:
        BATSchedule.version(version, 128)
    assert {"diversity"} <= set(AVERAGE)


# Printed names → ours, where they are not the same in small letters.
OURS = {"CL": "wcecl", "CLA": "cecla", "DL1": "dl1", "Performers": "performer"}


def test_losses_are_spelled_as_in_the_papers():
    printed = set()
    for id in ("s0-table10", "s0-table11"):
        printed |= {name.partition("_")[0] for name in PRINTED[id]["columns"]}
    for id in ("s1-table2", "s2-table3"):
        printed |= {row["name"] for row in PRINTED[id]["rows"]} - {"SVM"}
    assert len(printed) > 20
    for name in printed:
        assert re.search(rf"(?<![\w-]){re.escape(name)}(?![A-Za-z0-9-])", TEXT), name
        ours = OURS.get(name, name.lower())
        assert losses.get(ours, **_needed(ours)) is not None
        assert f'"{ours}"' in TEXT


def _needed(name):
    counted = {"class_counts": [8, 2]}
    if name in losses.balanced.NAMES:
        return {**counted, "num_examples": 10}
    return counted if name in losses.tagging.NAMES else {}


def test_encoders_and_metrics_are_spelled_as_in_the_papers():
    for name in PRINTED["s0-table3"]["columns"]:
        assert f'"{bat.ENCODERS[name]}"' in TEXT and name in TEXT
        assert bat.ENCODERS[name] == OURS.get(name, name.lower())
    for name in PRINTED["s2-table3"]["columns"]:
        assert f"{name}" in TEXT and f'"{zlpr.SCORES[name]}"' in TEXT


def test_long_names_are_those_of_the_papers():
    for name in (
        "Punish Bad Prediction",
        "Contrastive Learning",
        "multi-feature self-attention",
        "attention tournament selection",
        "feed-forward tournament selection",
        "negative-tolerant regularization",
    ):
        assert name in TEXT
    # As the classes say of themselves.
    assert losses.PBP.__doc__.startswith("Punish Bad Prediction")
    assert losses.CECL.__doc__.startswith("Contrastive Learning")


def test_every_table_and_figure_has_its_row():
    runs = {id for id in TABLES if re.search(r"-(table|figure)\d", id)}
    for id in runs:
        assert f"`{id}`" in TEXT, id
    for id in PRINTED:
        paper, _, number = id.partition("-table")
        rows = [cells(row)[0] for row in ROWS if row.startswith(f"| {paper.upper()} T")]
        spans = [re.findall(r"\d+", row.partition(",")[0][2:]) for row in rows]
        found = [(int(span[0]), int(span[-1])) for span in spans]
        assert any(low <= int(number) <= high for low, high in found), id
    for name in zlpr.SETS.values():
        assert f"`{name}`" in TEXT and name in CORPORA


# What SPEC and the printed tables name by its number.
EQUATIONS = {
    "S0, BAT": {2, 3, 4, 5, 6, 9, 10, 11, 13, 14, 16, 19, 20, 21, 22},
    "S1, balanced losses": {6},
    "S2, ZLPR": {5, 6, 10, 11, 18, 30, 35, 36, 37},
    "S3, ME-XML": {12, 13, 14, 15},
}


@pytest.mark.parametrize("paper", EQUATIONS)
def test_equations_that_our_sources_name_have_a_place(paper):
    part = TEXT.partition(f"### {paper}")[2].partition("###")[0]
    cited = set()
    for low, high in re.findall(r"equations? (\d+)(?: (?:to|and) (\d+))?", part):
        cited |= set(range(int(low), int(high or low) + 1))
    assert EQUATIONS[paper] <= cited
