"""S1, balanced losses: Reuters' topics by frequency and by number."""

from bat_tf.runs.settings import merged, nested
from examples.papers.tables.table import Table, recipe, table

_REBALANCED = ("R-FL", "DB-0FL", "DB")
# The paper's own μ and weights of Reuters, where a loss has them.
_OWN = {"constants": "reuters"}
BALANCED = {
    name: {"loss": {"name": name.lower(), **(_OWN if name in _REBALANCED else {})}}
    for name in "BCE FL CB R-FL NTR-FL DB-0FL CB-NTR DB".split()
}
SVM = {"model": "svm", "encoder": {}, "heads": {}}
_GROUPS = {"total": "", "single-label": "1 label ", "multi-label": "2 labels and more "}
_GROUPS |= {name: f"{name} " for name in ("head", "medium", "tail")}
SCORES = {
    f"reuters {group} {kind}-f1": f"{ours}{kind}_f1"
    for group, ours in _GROUPS.items()
    for kind in ("micro", "macro")
}
_PAPER = nested(
    {
        "data": "reuters21578",
        "encoder": "bert-base-uncased",
        "budget": {"epochs": 40, "batch_size": 32},
        "optimizer.learning_rate": 1e-4,
    }
)
# A light model stands in for BERT-base.
REUTERS = merged(
    recipe("labels_light"),
    nested({"data": "reuters21578", "data.valid_fraction": 0.12872}),
)
_NOTE = (
    "PubMed takes hours of a GPU and was not run. Documents are cut at 256 words (512 "
    "pieces in the paper)."
)


def tables():
    """Tables 2 and 3, and one of our own."""
    base = {"scores": SCORES, "paper": _PAPER, "stand_ins": (REUTERS,), "note": _NOTE}
    yield table("s1-table2", runs={**BALANCED, "SVM": SVM}, **base)
    yield table("s1-table3", runs=BALANCED, **base)
    runs = {
        "C = 1": {},
        "C searched": {"heads": {"C": [0.1, 0.3, 1.0, 3.0, 10.0]}},
    }
    yield Table(
        "s1-svm",
        "The linear SVM with one C, and with the best C of the valid part",
        tuple(runs),
        tuple(SCORES),
        runs=runs,
        scores=SCORES,
        paper=_PAPER,
        stand_ins=({**REUTERS, **SVM},),
        note="The paper searches C, among what it does not say; here 0.1, 0.3, 1, 3, 10.",
    )
