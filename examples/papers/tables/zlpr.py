"""S2, ZLPR: losses with and without a threshold, on short texts."""

from bat_tf.runs.settings import merged, nested
from examples.papers.tables.table import Table, recipe, table

ADAPTIVE = {n: {"loss": n.lower()} for n in "BCE FL DL1 DL2 ZLPR".split()}
RANKING = {n: {"loss": n.lower()} for n in "RL WARP BP-MLL LSEP".split()}
SCORES = {
    "SubACC": "subset_accuracy",
    "MLC-F1": "mlc_f1",
    "Micro-F1": "micro_f1",
    "Macro-F1": "macro_f1",
    "AvgPrec": "average_precision",
    "RankLoss": "ranking_loss",
}
_SHORT_TEXTS = merged(recipe("labels_words"), {"report": {"zero_division": 1.0}})
GOEMOTIONS = merged(
    _SHORT_TEXTS,
    nested({"data": "goemotions", "budget.epochs": 5, "budget.batch_size": 64}),
)
# Titles of questions on cooking, with 735 tags.
COOKING_DATA = {
    "data": {"name": "fasttext_cooking", "parts": {"train": "train", "test": "valid"}}
}
COOKING = merged(_SHORT_TEXTS, COOKING_DATA)
_PAPER = nested(
    {
        "encoder": "bert-base",
        "budget.epochs": 20,
        "optimizer.learning_rate": 2e-4,
    }
)
_ALL_SETS = {**_PAPER, **nested({"data": "eleven data sets"})}
# Number of the table → the paper's set, by its name in `bat_tf.data.read`.
SETS = {
    3: "cnipa/title",
    4: "cnipa/abstract",
    5: "toutiao",
    6: "uspto/title",
    7: "uspto/abstract",
    8: "archive/title",
    9: "archive/abstract",
    10: "cmu_movie/name",
    11: "cmu_movie/summary",
    12: "goemotions/raw",
    13: "toxic",
}
_STAND_INS = {3: COOKING, 12: GOEMOTIONS}


def tables():
    """Table 1, Tables 3 to 13, and one of our own."""
    base = {"scores": SCORES, "runs": ADAPTIVE, "stand_ins": (GOEMOTIONS, COOKING)}
    note = "Counted over data sets and seeds that were run with all five losses."
    yield table("s2-table1", paper=_ALL_SETS, note=note, **base)
    losses = {**ADAPTIVE, **RANKING}
    runs = {f"{name}, Bert": value for name, value in losses.items()}
    note = "One encoder stands in for Bert; there is none for Roberta."
    for number, name in SETS.items():
        own = nested({"data": name})
        stand_in = _STAND_INS.get(number, merged(_SHORT_TEXTS, own))
        yield table(
            f"s2-table{number}",
            paper={**_PAPER, **own},
            stand_ins=(stand_in,),
            runs=runs,
            scores=SCORES,
            note=note,
        )
    yield _rates()


def _rates():
    """The light model has a rate of its own; here the losses have the paper's."""
    runs = {
        f"{name}, Bert": {**own, "optimizer": _PAPER["optimizer"]}
        for name, own in ADAPTIVE.items()
    }
    return Table(
        "s2-rates",
        "Five losses at the paper's learning rate, 0.0002",
        tuple(runs),
        tuple(SCORES),
        runs=runs,
        scores=SCORES,
        paper=_ALL_SETS,
        stand_ins=(COOKING, GOEMOTIONS),
        note="As Tables 3 and 12, where all losses have 0.001.",
    )
