"""What the papers claim, as comparisons that results can decide.

The rule: the noise of a table is the pooled standard deviation over seeds of all its
runs that have several. Two means over m and n seeds differ if they are further apart
than twice the noise times √(1/m + 1/n). A claim that one thing is better held if it is
behind in no comparison and, against each of those it is compared with, ahead in more
than half; it held in part if that is so against some of them only. A claim that it is
not worse held if it is behind in none. A claim could not be tested if less than half of
its comparisons were run, or none with several seeds, or if nothing is ahead or behind
and the paper's own differences are too small to be seen through the noise.
"""

import dataclasses
import math
import statistics
from typing import NamedTuple

from examples.papers.reproduce import scores, variants
from examples.papers.tables import TABLES

HELD, PARTLY, FAILED = "held", "held in part", "did not hold"
OPEN = "could not be tested here"
_CURVE = "val_token_macro_f2"


@dataclasses.dataclass(frozen=True)
class Claim:
    """A sentence of a paper that compares rows or columns of tables.

    Args:
        text: the sentence.
        tables: ids of the tables it speaks of.
        better: names that are to come out ahead.
        worse: the names they are compared with; all others beside them by default.
        within: names of the other side that count; all by default.
        kind: `"higher"`, `"lower"` or `"not lower"`; or fewer epochs until macro F2 on
            the valid part is at 99 % of what the least of both gets to (`"sooner"`), or
            of what each gets to itself (`"sooner at its best"`).
        printed: ids of the tables whose values a figure draws.
    """

    text: str
    tables: tuple
    better: tuple
    worse: tuple = ()
    within: tuple = ()
    kind: str = "higher"
    printed: tuple = ()

    def pairs(self, table):
        """Pairs of (row, column), the one that is to be ahead first."""
        rows = self.better[0] in table.rows
        side, other = (table.rows, table.columns)[:: 1 if rows else -1]
        worse = self.worse or [name for name in side if name not in self.better]
        for across in self.within or other:
            for first in self.better:
                for second in worse:
                    both = (first, across), (second, across)
                    yield both if rows else tuple(place[::-1] for place in both)

    @property
    def sign(self):
        """1, or -1 where less is better."""
        return -1 if self.kind in ("lower", *_SOONER) else 1


class Comparison(NamedTuple):
    """Two places of a table.

    Attributes:
        rival: name of the one that is to be behind.
        gap: how far the other is ahead.
        noise: what chance may make of it.
        printed: the gap in the paper, or None.
        unit: what they are counted in.
    """

    rival: str
    gap: float
    noise: float
    printed: float | None
    unit: str

    def amount(self, value):
        """A value with its unit."""
        digits = 0 if self.unit == "tokens" else 1
        return f"{value:,.{digits}f} {self.unit}"


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What became of a claim.

    Args:
        claim: the `Claim`.
        word: one of `HELD`, `PARTLY`, `FAILED` and `OPEN`.
        reason: the count of the comparisons, or why there are none.
    """

    claim: Claim
    word: str
    reason: str


def verdicts(claim, results):
    """Decides a claim by the results, see the rule at the top of this file.

    Returns:
        A list of `Verdict`: one for each way the tables were run (data, epochs) that
        decides it, the fullest first; if none does, one that says what is missing.
    """
    alike = {}
    for id in claim.tables:
        for variant in variants(TABLES[id], results):
            alike.setdefault(variant.label, {})[id] = variant
    found = [_verdict(claim, label, of_label) for label, of_label in alike.items()]
    decided = [verdict for verdict in found if verdict.word != OPEN]
    return decided or found[:1] or [_verdict(claim, "", {})]


def _verdict(claim, label, of_table):
    """What the variants of one label say, by the table's id.

    Tables on other data are no part of it.
    """
    pairs = []
    for id in of_table or claim.tables:
        variant = of_table.get(id)
        for first, second in claim.pairs(TABLES[id]):
            pairs.append(variant and _comparison(claim, variant, first, second))
    run = [pair for pair in pairs if pair is not None]
    if len(run) < max(1, len(pairs) / 2):
        text = f"{len(run)} of {len(pairs)} comparisons were run with several seeds."
        return Verdict(claim, OPEN, text)
    noise = statistics.median(pair.noise for pair in run)
    ahead = [pair for pair in run if pair.gap > pair.noise]
    behind = [pair for pair in run if pair.gap < -pair.noise]
    known = [pair.printed for pair in run if pair.printed is not None]
    printed = statistics.median(known) if known else math.inf
    if not (ahead or behind or claim.kind == "not lower") and printed < noise:
        text = f"all {len(run)} comparisons are even, but {run[0].amount(noise)} may be"
        text += f" noise, and the paper's difference is {printed:,.1f} ({label})."
        return Verdict(claim, OPEN, text)
    even, missing = len(run) - len(ahead) - len(behind), len(pairs) - len(run)
    reason = f"ahead in {len(ahead)}, even in {even}, behind in {len(behind)}"
    reason += " comparisons" + (f", {missing} not run" if missing else "")
    rivals = dict.fromkeys(pair.rival for pair in run)
    level = [] if claim.kind == "not lower" else _not_left_behind(run, ahead)
    if level and not behind and len(rivals) > 1:
        reason += f"; level with {', '.join(level)}"
    reason += f"; what may be noise: {run[0].amount(noise)}"
    word = FAILED if behind or (level and len(level) == len(rivals)) else HELD
    word = PARTLY if word == HELD and level else word
    return Verdict(claim, word, f"{reason} ({label}).")


def _not_left_behind(run, ahead):
    """Rivals against which half of the comparisons or fewer are ahead, in order."""
    rivals = dict.fromkeys(pair.rival for pair in run)
    return [
        rival
        for rival in rivals
        if 2 * sum(pair.rival == rival for pair in ahead)
        <= sum(pair.rival == rival for pair in run)
    ]


def _comparison(claim, variant, first, second):
    """The `Comparison` of two places, or None if one was not run."""
    values = _values(claim, variant, first, second)
    noise = pooled(_groups(claim, variant, first)) if values else None
    if noise is None:
        return None
    ours, theirs = values
    gap = claim.sign * (statistics.fmean(ours) - statistics.fmean(theirs))
    noise = 2 * noise * math.sqrt(1 / len(ours) + 1 / len(theirs))
    unit, scale = _unit(claim, variant.table.place(*first)[1])
    tables = [TABLES[id] for id in claim.printed] or [variant.table]
    shown = {place: value for table in tables for place, value in table.printed.items()}
    printed = None
    if claim.kind not in _SOONER and first in shown and second in shown:
        printed = claim.sign * (shown[first] - shown[second])
    (rival,) = set(second) - set(first)
    return Comparison(rival, scale * gap, scale * noise, printed, unit)


def _unit(claim, score):
    """What differences are counted in, and how many of it a value's unit is."""
    if claim.kind in _SOONER:
        return "epochs", 1
    return ("tokens", 1) if score.startswith("predicted") else ("points", 100)


def _values(claim, variant, first, second):
    """Values of both by seed, or None if one was not run."""
    places = [variant.table.place(*place) for place in (first, second)]
    if any(place is None or place[0] not in variant.runs for place in places):
        return None
    pair = [variant.runs[place[0]] for place in places]
    if claim.kind in _SOONER:
        curves = all(run.get("history") for runs in pair for run in runs)
        return _SOONER[claim.kind](*pair) if curves else None
    values = [scores(runs, places[0][1]) for runs in pair]
    return values if all(values) else None


def _groups(claim, variant, place):
    """Values by seed of all places like this one: their spread is the noise."""
    table = variant.table
    if claim.kind in _SOONER:
        # Each pair has its own target, and what is far above it gets there at once.
        pairs = (_values(claim, variant, *pair) for pair in claim.pairs(table))
        return [values for pair in pairs if pair for values in pair]
    name = table.place(*place)[1]
    # Of a machine without chance all seeds are equal; they say nothing about noise.
    drawn = [r for r in variant.runs.values() if r[0]["settings"]["model"] != "svm"]
    return [scores(runs, name) for runs in drawn]


def _epochs_to_least(*groups):
    """Epochs of every run until 99 % of the least of their best: all get there.

    The last hundredth of a curve takes any number of epochs.
    """
    least = min(max(run["history"][_CURVE]) for runs in groups for run in runs)
    return [[epochs_to(run, 0.99 * least) for run in runs] for runs in groups]


def _epochs_to_best(*groups):
    """Epochs of every run until 99 % of its own best."""
    return [[_epochs_to_least([run])[0][0] for run in runs] for runs in groups]


_SOONER = {"sooner": _epochs_to_least, "sooner at its best": _epochs_to_best}


def epochs_to(result, target):
    """Epochs until macro F2 on the valid part reaches a value; all and one if never.

    >>> epochs_to({"history": {"val_token_macro_f2": [0.2, 0.6, 0.5]}}, 0.5)
    2
    """
    curve = result["history"][_CURVE]
    reached = (number for number, value in enumerate(curve, 1) if value >= target)
    return next(reached, len(curve) + 1)


def pooled(groups):
    """The pooled standard deviation of groups of values; None if all are single.

    >>> pooled([[1.0, 3.0], [5.0]]), pooled([[1.0], [2.0]])
    (1.4142135623730951, None)
    """
    groups = [group for group in groups if len(group) > 1]
    if not groups:
        return None
    squares = sum(statistics.variance(group) * (len(group) - 1) for group in groups)
    return math.sqrt(squares / sum(len(group) - 1 for group in groups))


_ALL = tuple(TABLES["s0-figure4"].columns)
_NEW = tuple(name for name in _ALL if name.startswith(("PBP", "CL")))
_SIXTEEN = ("s0-table10", "s0-table11")
_TWO = ("PBP_{0,8}", "CLA_{1,20}")
_BALANCED = ("CB-NTR", "DB")
_ADAPTIVE = ("BCE, Bert", "FL, Bert", "DL1, Bert", "DL2, Bert")
_ZLPR = (
    (
        "ZLPR has a higher subset accuracy and average precision than the others (in "
        "the paper in 16 and 13 of 22 experiments).",
        ("SubACC", "AvgPrec"),
        "higher",
    ),
    (
        "ZLPR has a lower ranking loss than the others (in the paper in 18 of 22).",
        ("RankLoss",),
        "lower",
    ),
)
CLAIMS = (
    Claim("S0: BAT has the best macro F1 at 4 layers.", ("s0-table3",), ("BAT",)),
    Claim("S0: BAT has the best macro F2 at 4 layers.", ("s0-table4",), ("BAT",)),
    Claim(
        "S0: BAT converges in fewer epochs than the other encoders (epochs until macro "
        "F2 on the valid part is at 99 % of what the least of both gets to).",
        ("s0-table4",),
        ("BAT",),
        kind="sooner",
    ),
    Claim(
        "S0: BAT gets to 99 % of its own best in fewer epochs than they to theirs.",
        ("s0-table4",),
        ("BAT",),
        kind="sooner at its best",
    ),
    Claim(
        "S0: the new losses PBP and CLA raise macro F2 over cross-entropy.",
        ("s0-table4",),
        _TWO,
        ("CE",),
    ),
    Claim(
        "S0: with BAT they do so at a macro F1 that is no lower.",
        ("s0-table3",),
        _TWO,
        ("CE",),
        ("BAT",),
        "not lower",
    ),
    Claim(
        "S0: at the end of training, whichever epoch is best, the new losses have a "
        "higher macro F2 than cross-entropy.",
        ("s0-last-f2",),
        _TWO,
        ("CE",),
    ),
    Claim(
        "S0: with BAT they then have a macro F1 that is no lower.",
        ("s0-last-f1",),
        _TWO,
        ("CE",),
        ("BAT",),
        "not lower",
    ),
    Claim(
        "S0: BAT is the best encoder on Japanese too.",
        ("s0-table5", "s0-table6"),
        ("BAT",),
    ),
    Claim(
        "S0: BAT is better than MUSE and Transformer at 4, 6 and 12 layers.",
        ("s0-table7", "s0-table8"),
        ("BAT",),
        ("MUSE", "Transformer"),
        ("4-layer", "6-layer", "12-layer"),
    ),
    Claim(
        "S0: 4 layers of BAT are no worse than more.",
        ("s0-table7", "s0-table8"),
        ("4-layer",),
        within=("BAT",),
        kind="not lower",
    ),
    Claim(
        "S0: learning-rate versions v2 and v3 raise macro F1 over v1.",
        ("s0-table1",),
        ("v2", "v3"),
        ("v1",),
        ("macro F1",),
    ),
    Claim(
        "S0: learning-rate versions v3.1 and v4.1 raise macro F2 over v1.",
        ("s0-table1",),
        ("v3.1", "v4.1"),
        ("v1",),
        ("macro F2",),
    ),
    Claim(
        "S0: class weights of the training part learn better than those of each batch.",
        ("s0-weights-f1", "s0-weights-f2"),
        ("training part",),
        ("batch",),
    ),
    Claim("S0: λ = 20 is the best factor for CLA.", ("s0-table9",), ("λ=20",)),
    Claim(
        "S0: the new losses mark more keywords than cross-entropy.",
        ("s0-figure4", "s0-figure5"),
        _NEW,
        ("CE",),
        printed=_SIXTEEN,
    ),
    Claim(
        "S0: the new losses raise the macro F2 of keywords over cross-entropy.",
        ("s0-keywords",),
        _NEW,
        ("CE",),
        printed=_SIXTEEN,
    ),
    Claim(
        "S1: CB-NTR and DB have the best macro F1.",
        ("s1-table2",),
        _BALANCED,
        within=("reuters total macro-f1",),
    ),
    Claim(
        "S1: CB-NTR and DB find rare labels that BCE and FL do not.",
        ("s1-table2",),
        _BALANCED,
        ("BCE", "FL"),
        ("reuters tail micro-f1", "reuters tail macro-f1"),
    ),
    Claim(
        "S1: they do so at a micro F1 that is no lower.",
        ("s1-table2",),
        _BALANCED,
        ("BCE", "FL"),
        ("reuters total micro-f1",),
        "not lower",
    ),
    *(
        Claim(f"S2: {when}{text}", tables, ("ZLPR, Bert",), _ADAPTIVE, scores, kind)
        for when, tables in (
            ("", ("s2-table3", "s2-table12")),
            ("at the paper's learning rate ", ("s2-rates",)),
        )
        for text, scores, kind in _ZLPR
    ),
    Claim(
        "S3: several experts are better than one.",
        ("s3-table4",),
        ("2E (A-1+D-12) + L_ind + L_div",),
        ("1E (D-12)",),
    ),
    Claim(
        "S3: experts that learn by themselves are better than those that learn as one.",
        ("s3-table4",),
        ("2E (A-1+D-12) + L_ind",),
        ("2E (A-1+D-12) + L_col",),
    ),
    Claim(
        "S3: paying experts for differing makes them better.",
        ("s3-table4",),
        ("2E (A-1+D-12) + L_ind + L_div",),
        ("2E (A-1+D-12) + L_ind",),
    ),
    Claim(
        "S3: attention to the words of the first layer adds more to the last layer "
        "than a document expert on the first or attention on the last.",
        ("s3-table4",),
        ("2E (A-1+D-12) + L_ind + L_div",),
        ("2E (D-1+D-12) + L_ind + L_div", "2E (A-12+D-12) + L_ind + L_div"),
    ),
)
