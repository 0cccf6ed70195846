"""S0, "Born for Auto-Tagging": encoders, losses and learning-rate versions."""

import re

from bat_tf.runs.settings import merged, nested
from examples.papers.tables.table import PRINTED, Table, table

ENCODERS = {
    "BAT": "bat",
    "Admin": "admin",
    "Switch": "switch",
    "MUSE": "muse",
    "Transformer": "transformer",
    "Performers": "performer",
    "Informer": "informer",
}
# Head of a printed loss → its name and the focal and positive factors it has by itself.
_LOSSES = {"PBP": ("pbp", 0, 8), "PBPA": ("pbpa", 0, 8)}
_LOSSES |= {"CL": ("wcecl", 0, 1), "CLA": ("cecla", 1, 20)}


def loss_changes(printed):
    """Settings of a loss of S0 as printed: X_{γ,λ}, or X_{γ,s} with standard weights.

    >>> loss_changes("CLA_{1,20}")
    {'loss': {'name': 'cecla'}}
    >>> loss_changes("PBP_{0,s}")["loss"]
    {'name': 'pbp', 'weighting': 'standard', 'positive_scale': 1}
    """
    match = re.fullmatch(r"(\w+)_\{(\d+),(\d+|s)\}", printed)
    if not match:
        return {"loss": {"name": printed.lower()}}
    loss, gamma, scale = _LOSSES[match[1]]
    settings = {"weighting": "standard"} if match[3] == "s" else {}
    # Only what differs from the loss' own: equal runs have equal settings.
    if int(match[2]) != gamma:
        settings["gamma"] = int(match[2])
    factor = 1 if match[3] == "s" else int(match[3])
    if factor != scale:
        settings["positive_scale"] = factor
    return {"loss": {"name": loss, **settings}}


# Curves are averaged over so many epochs at their end.
LAST_EPOCHS = 5
_MACRO = {"macro F1": "token_macro_f1", "macro F2": "token_macro_f2"}
_KEYWORDS = {name: f"{score}_no_none" for name, score in _MACRO.items()}
# The two classes of keywords, the more frequent one first.
_KEYWORDS |= {"category 2": "predicted 1", "category 3": "predicted 2"}
_EC_ZH = nested(
    {
        "data": "EC-Zh",
        "model": "tagger",
        "encoder": "bat",
        "optimizer": {"name": "bat", "warmup_steps": 4000},
        "budget": {"batch_size": 8, "epochs": 50},
    }
)
_EC_JP = merged(_EC_ZH, nested({"data": "EC-JP"}))
# EC-Zh and EC-JP are private. Two sets stand in for them.
_TAGS = {"text": {"tokenizer": "characters", "scheme": "plain"}}
PHANTOM = {**_TAGS, **nested({"data": "zh_ecommerce_ner/phantom"})}
JA_WIKIPEDIA = {**_TAGS, **nested({"data": "ja_wikipedia_ner"})}
# 8,000 pages in batches of 8; of EC-JP there are twice as many.
_ZH = {"stand_ins": (PHANTOM,), "steps": 1000}
_JP = {"stand_ins": (JA_WIKIPEDIA,), "steps": 2000}
_FOUR = {n: loss_changes(n) for n in ("CE", "WCE", "PBP_{0,8}", "CLA_{1,20}")}
_FOUR_JP = {
    **_FOUR,
    "CE": nested({"loss": "ce", "optimizer.schedule_scale": 0.93}),
    "CLA_{1,20}": nested({"loss": "cecla", "optimizer.schedule": "v2"}),
}
_MODELS = {name: {"encoder": encoder} for name, encoder in ENCODERS.items()}
_DEPTHS = {"4-layer": {}}
_DEPTHS |= {
    f"{depth}-layer": {"encoder": {"num_layers": depth}} for depth in (6, 12, 24)
}
_ALL_LOSSES = {
    name: loss_changes(name)
    for id in ("s0-table10", "s0-table11")
    for name in PRINTED[id]["columns"]
}
_VERSIONS = {
    name: {} if name == "v1" else {"optimizer": {"schedule": name}}
    for name in PRINTED["s0-table1"]["columns"]
}
_LAMBDAS = {
    name: loss_changes(f"CLA_{{1,{name.removeprefix('λ=')}}}")
    for name in PRINTED["s0-table9"]["columns"]
}
_LONG = merged(_EC_ZH, {"budget": {"epochs": 100}})
_CLA = {"loss": {"name": "cecla"}}
_INFERRED = "The paper names neither data nor model; both are inferred (papers.json)."


def printed_tables():
    cla = {"paper": {**_EC_ZH, **_CLA}, **_ZH}
    yield table("s0-table1", runs=_VERSIONS, scores=_MACRO, note=_INFERRED, **cla)
    for number, score in ((3, "token_macro_f1"), (4, "token_macro_f2")):
        runs = {**_FOUR, **_MODELS}
        yield table(f"s0-table{number}", runs=runs, score=score, paper=_EC_ZH, **_ZH)
    for number, score in ((5, "token_macro_f1"), (6, "token_macro_f2")):
        runs = {**_FOUR_JP, **_MODELS}
        note = "The paper does not say how many epochs; 50 as for EC-Zh."
        id = f"s0-table{number}"
        yield table(id, runs=runs, score=score, paper=_EC_JP, note=note, **_JP)
    deep = {"paper": {**_LONG, **_CLA}, **_ZH}
    for number, score in ((7, "token_macro_f1"), (8, "token_macro_f2")):
        runs = {**_DEPTHS, **_MODELS}
        yield table(f"s0-table{number}", runs=runs, score=score, **deep)
    yield table("s0-table9", runs=_LAMBDAS, scores=_MACRO, note=_INFERRED, **deep)
    for number in (10, 11, 12, 13):
        paper = _EC_ZH if number < 12 else _LONG
        settings = {"runs": _ALL_LOSSES, "scores": _KEYWORDS, "paper": paper, **_ZH}
        same = f" Runs of other than 100 epochs are those of Table {number - 2}."
        note = _INFERRED + (same if number > 11 else "")
        yield table(f"s0-table{number}", note=note, **settings)


_UNKNOWN = "The series of the figure are not in our source: {}."
_CURVES = _UNKNOWN.format("learning curves of BAT are drawn, by epoch and loss")
_BARS = _UNKNOWN.format("the sixteen losses of Tables 10 and 11 are drawn")
_THREE = {name: _FOUR[name] for name in ("WCE", "PBP_{0,8}", "CLA_{1,20}")}


def figures():
    """Figures have no printed values; what they draw is in the notes."""
    f1, f2 = ({name: _MACRO[name]} for name in _MACRO)
    keywords = {"scores": _KEYWORDS, "runs": _ALL_LOSSES, "note": _BARS}
    for id, title, row, about in (
        ("s0-figure1", "Macro F1 by epoch", "macro F1", {"scores": f1}),
        ("s0-figure2", "Macro F2 by epoch", "macro F2", {"scores": f2}),
        ("s0-figure4", "Predictions of category 2", "category 2", keywords),
        ("s0-figure5", "Predictions of category 3", "category 3", keywords),
        (
            "s0-figure6",
            "WCE, PBP and CLA by epoch",
            "macro F2",
            {"scores": f2, "runs": _THREE},
        ),
    ):
        about = {"runs": _FOUR, "note": _CURVES, "paper": _EC_ZH, **_ZH, **about}
        yield Table(id, title, (row,), tuple(about["runs"]), **about)


def own_tables():
    """Comparisons that the papers only speak of."""
    parts = {
        "BAT": {},
        "without attention": {"attention": False},
        "without convolutions": {"kernel_sizes": []},
        "width 3 alone": {"kernel_sizes": [3]},
        "width 15 added": {"kernel_sizes": [1, 3, 15]},
        "identity residual": {"residual": "identity"},
        "no residual": {"residual": "none"},
        "pre-norm": {"norm": "pre"},
    }
    runs = {n: {"encoder": value} if value else {} for n, value in parts.items()}
    base = {"paper": {**_EC_ZH, **_CLA}, "scores": _MACRO, **_ZH}
    jp = {"paper": merged(_EC_JP, _FOUR_JP["CE"]), "scores": _MACRO, **_JP}
    note = "A convolution of width 15 is what MUSE has and BAT has not."
    about = {"runs": runs, "note": note}
    title = "Parts of BAT, left out, changed or added"
    names = tuple(runs), tuple(_MACRO)
    yield Table("bat-ablation", f"{title}: CLA", *names, **about, **base)
    yield Table("bat-ablation-jp", f"{title}: Japanese, CE", *names, **about, **jp)
    yield Table(
        "s0-keywords",
        "Macro F2 of keywords by loss, Tables 10 and 11 side by side",
        ("macro F2",),
        tuple(_ALL_LOSSES),
        runs=_ALL_LOSSES,
        scores=_KEYWORDS,
        paper=_EC_ZH,
        **_ZH,
    )
    pbp = loss_changes("PBP_{1,8}")
    quick = {**pbp, "optimizer": {"schedule": "v2", "schedule_scale": 0.999}}
    runs = {"PBP_{1,8}": pbp, "PBP_{1,8}, .999·v2": quick}
    title = "PBP_{1,8} with a rate of its own"
    note = "S0, section 4.3, has 85.5 / 88.0 with .999·v2 after 30 epochs."
    columns = tuple(runs)
    yield Table("s0-pbp18", title, tuple(_MACRO), columns, runs=runs, note=note, **base)
    kinds = (("F1", "token_macro_f1"), ("F2", "token_macro_f2"))
    for kind, score in kinds:
        yield Table(
            f"s0-last-{kind.lower()}",
            f"Macro {kind} of the valid part, mean of the last {LAST_EPOCHS} epochs",
            tuple(_FOUR),
            tuple(_MODELS),
            runs={**_FOUR, **_MODELS},
            score=f"last val_{score}",
            paper=_EC_ZH,
            note="The runs of Tables 3 and 4 as they end, no epoch chosen.",
            **_ZH,
        )
    rows = tuple(_FOUR)[1:]
    counted = {
        "training part": {},
        "batch": {"loss": {"class_counts": "batch"}},
    }
    for kind, score in kinds:
        yield Table(
            f"s0-weights-{kind.lower()}",
            f"Macro {kind} with class weights of the training part and of each batch",
            rows,
            tuple(counted),
            runs={**{row: _FOUR[row] for row in rows}, **counted},
            score=score,
            paper=_EC_ZH,
            note="S0 says so in its appendix, without numbers.",
            **_ZH,
        )


def tables():
    """Tables 1 and 3 to 13, the figures, and comparisons of our own."""
    yield from printed_tables()
    yield from figures()
    yield from own_tables()
