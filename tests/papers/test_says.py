"""What a page ascribes to a paper is in it: the sentences, with the printed values."""

import re
from pathlib import Path

import pytest

from examples.papers.tables.table import PRINTED

ROOT = Path(__file__).parents[2]
MEASURED, LOSSES = "examples/guides/measured.md", "examples/guides/losses.md"
PAPERS, CLAIMS = "examples/guides/papers.md", "examples/papers/claims.py"
MICRO, MACRO = "reuters total micro-f1", "reuters total macro-f1"
ME_XML = "2E (A-1+D-12) + L_ind + L_div"
# Page, the sentence, and (table, row, column) of each value in it.
SAID = [
    (
        "README.md",
        "{:.1f} / {:.1f} BERT-base, as printed",
        ("s1-table2", "DB", MICRO),
        ("s1-table2", "DB", MACRO),
    ),
    (
        MEASURED,
        "for BAT {} F1 under cross entropy, {} and {} under PBP and CLA",
        ("s0-table3", "CE", "BAT"),
        ("s0-table3", "PBP_{0,8}", "BAT"),
        ("s0-table3", "CLA_{1,20}", "BAT"),
    ),
    (
        MEASURED,
        "F2 that rises from {} to {} and {}",
        ("s0-table4", "CE", "BAT"),
        ("s0-table4", "PBP_{0,8}", "BAT"),
        ("s0-table4", "CLA_{1,20}", "BAT"),
    ),
    (
        MEASURED,
        "nearer the paper's {} and {}",
        ("s1-table2", "SVM", MICRO),
        ("s1-table2", "SVM", MACRO),
    ),
    (
        MEASURED,
        "forgets the tail (micro F1 {} in its Table 2)",
        ("s1-table2", "BCE", "reuters tail micro-f1"),
    ),
    (
        MEASURED,
        "(macro F1 {} and {}), DB is not ahead",
        ("s1-table2", "DB", MACRO),
        ("s1-table2", "CB-NTR", MACRO),
    ),
    (
        MEASURED,
        "DB with {:.1f} / {:.1f}",
        ("s1-table2", "DB", MICRO),
        ("s1-table2", "DB", MACRO),
    ),
    (
        MEASURED,
        "XML-CNN {}, AttentionXML {}, SVM {}, one expert {}, "
        "LightXML {}, two experts {}",
        ("s3-table2", "XML-CNN", "EUR-LEX P@1"),
        ("s3-table2", "AttnXML", "EUR-LEX P@1"),
        ("s3-table2", "SVM", "EUR-LEX P@1"),
        ("s3-table2", "ME-XML (1 expert)", "EUR-LEX P@1"),
        ("s3-table2", "LightXML", "EUR-LEX P@1"),
        ("s3-table2", "ME-XML (2 experts)", "EUR-LEX P@1"),
    ),
    (
        MEASURED,
        "{} in the paper, where attention has {}",
        ("s3-table4", ME_XML.replace("A-1", "D-1"), "P@1"),
        ("s3-table4", ME_XML, "P@1"),
    ),
    (
        MEASURED,
        "as in the paper ({} and {})",
        ("s3-table4", "2E (A-1+D-12) + L_col", "P@1"),
        ("s3-table4", "2E (A-1+D-12) + L_ind", "P@1"),
    ),
    (
        MEASURED,
        "the paper's gain from {} to {}",
        ("s3-table4", "2E (A-1+D-12) + L_ind", "P@1"),
        ("s3-table4", ME_XML, "P@1"),
    ),
    (
        LOSSES,
        "F2 {} in the paper, where plain classes have {} and class weights {}",
        ("s0-table4", "PBP_{0,8}", "BAT"),
        ("s0-table4", "CE", "BAT"),
        ("s0-table4", "WCE", "BAT"),
    ),
    (
        CLAIMS,
        "in the paper in {} and {} of 22 experiments",
        ("s2-table1", "ZLPR (ours)", "SubACC"),
        ("s2-table1", "ZLPR (ours)", "AvgPrec"),
    ),
    (CLAIMS, "in the paper in {} of 22)", ("s2-table1", "ZLPR (ours)", "RankLoss")),
]


def value(id, row, column):
    """A printed value."""
    rows = {one["name"]: one["values"] for one in PRINTED[id]["rows"]}
    return rows[row][PRINTED[id]["columns"].index(column)]


@pytest.mark.parametrize("said", SAID, ids=lambda said: said[1])
def test_a_value_ascribed_to_a_paper_is_printed_there(said):
    page, sentence, *places = said
    text = (ROOT / page).read_text("utf-8").replace('"\n        "', "")
    expected = sentence.format(*(value(*place) for place in places))
    assert expected in " ".join(text.split())


# Sections, appendices and equations of "Born for Auto-Tagging" and of the others that
# our sources name.
SECTIONS = {"1", "3", "3.1", "4", "4.3"}
APPENDICES = {"A", "A.2", "A.2.1", "B"}
EQUATIONS = {*range(2, 7), *range(9, 12), 12, 13, 14, *range(16, 23), 30, 35, 36, 37}


def test_only_sections_and_equations_that_our_sources_name_are_cited():
    """A wrong number sends a reader who knows the paper to the wrong page."""
    files = [*(ROOT / "bat_tf").rglob("*.py"), *(ROOT / "examples").rglob("*.py")]
    files += [*(ROOT / "examples" / "guides").glob("*.md"), ROOT / "README.md"]
    cited = 0
    for path in files:
        text = " ".join(path.read_text("utf-8").split())
        where = path.relative_to(ROOT)
        for number in re.findall(r"(?:[Ss]ections? |§)(\d+(?:\.\d+)*)", text):
            assert number in SECTIONS, f"{where}: section {number}"
            cited += 1
        for name in re.findall(r"[Aa]ppendix ([A-Z](?:\.\d)*)", text):
            assert name in APPENDICES, f"{where}: appendix {name}"
        for number in re.findall(r"(?:[Ee]quations? |[Ee]q\. )(\d+)", text):
            assert int(number) in EQUATIONS, f"{where}: equation {number}"
            cited += 1
    assert cited > 10
