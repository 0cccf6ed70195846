"""Results of the papers' tables → a page with tables, pictures and verdicts.

Ours stand beside the printed values; what was not run says so.
"""

import statistics
from collections import Counter
from pathlib import Path

from bat_tf.runs.grid import deviations
from examples.papers import claims, pictures
from examples.papers.reproduce import data_of, paper_settings, variants
from examples.papers.tables import TABLES, zlpr
from examples.papers.tables.bat import ENCODERS

NOT_RUN = "not run"
ENCODER_CURVES = {
    "s0-table4": "curves_encoders.png",
    "s0-table6": "curves_encoders_japanese.png",
}
HEAD = """# The papers' tables, run again

This page is written by `python -m examples.papers report` from the result files, which
`python -m examples.papers run` makes. A value is the mean ± the standard deviation over
seeds, or that of a single one, on the test part, of the model of the epoch that is best on
the valid part (for tags by macro F2, in tables of F1 too); scores in percent. † marks runs
that were best in their last epoch: longer ones might be better. In brackets stands what the
paper prints. The data are not the papers' own (EC-Zh and EC-JP are private): what can be
compared is who is ahead, not the height of the scores.
"""


def write_report(results, folder):
    """Writes README.md and its pictures.

    Args:
        results: what `load_results` returns.
        folder: where they go.

    Returns:
        The path of the page.
    """
    folder = Path(folder)
    parts = [HEAD, *_verdicts(results)]
    for heading, ids in _sections():
        parts.append(f"## {heading}\n")
        for id in ids:
            parts += table_section(TABLES[id], results)
        if heading.startswith("S0"):
            parts += _pictures(results, folder)
        if heading.startswith("S3"):
            parts += _expert_layers(results, folder)
    folder.mkdir(parents=True, exist_ok=True)
    text = "\n".join(parts).rstrip("\n") + "\n"
    (folder / "README.md").write_text(text, encoding="utf-8")
    return folder / "README.md"


def _sections():
    names = {
        "s0": "S0, Born for Auto-Tagging",
        "bat": "Parts of BAT",
        "s1": "S1, balanced losses",
        "s2": "S2, ZLPR",
        "s3": "S3, ME-XML",
    }
    for prefix, heading in names.items():
        yield heading, [id for id in TABLES if id.startswith(f"{prefix}-")]


def _verdicts(results):
    yield "## The claims\n"
    rule = claims.__doc__.split("The rule: ", 1)[1].strip().replace("\n", " ")
    yield f"The rule: {rule}\n"
    yield "| claim | here | |"
    yield "|---|---|---|"
    for claim in claims.CLAIMS:
        for verdict in claims.verdicts(claim, results):
            yield f"| {claim.text} | **{verdict.word}** | {verdict.reason} |"
    yield ""


def table_section(table, results):
    """The lines on one table: every variant of it that was run, the fullest first."""
    yield f"### {title(table)}\n"
    if table.note:
        yield f"{table.note}\n"
    found = variants(table, results)
    if table.id == "s2-table1":
        yield from _wins(table, found)
        return
    if not found:
        runs, values = len(table.places), len(table.printed)
        data = ", ".join(map(data_of, table.stand_ins))
        yield f"Not run: {runs} runs on {data}, {values} printed values.\n"
    for number, variant in enumerate(found):
        yield from variant_lines(variant, whole=number == 0)


def title(table):
    """A heading such as "S0 Table 3: …".

    >>> title(TABLES["s0-table9"])
    'S0 Table 9: Effect of the factor λ on the positive weights'
    """
    paper, _, what = table.id.partition("-")
    for kind in ("table", "figure"):
        if what.startswith(kind):
            number = what.removeprefix(kind)
            return f"{paper.upper()} {kind.title()} {number}: {table.title}"
    return table.title


def variant_lines(variant, whole=True):
    """Markdown of one variant.

    Args:
        variant: a `reproduce.Variant`.
        whole: False leaves out rows and columns of which nothing was run.
    """
    table = variant.table
    rows, columns = _runnable(table)
    if not whole:
        values = {(r, c): variant.value(r, c) for r in rows for c in columns}
        rows = [r for r in rows if any(values[r, c] for c in columns)]
        columns = [c for c in columns if any(values[r, c] for r in rows)]
    yield f"{variant.label}; {_seeds(variant)}.\n"
    said = _deviations(variant)
    if said:
        yield f"Otherwise than in the paper: {'; '.join(said)}.\n"
    true = _true_counts(variant, rows)
    if true:
        yield f"Truly there are {true}.\n"
    yield "| | " + " | ".join(map(_escape, columns)) + " |"
    yield "|---|" + "---|" * len(columns)
    for row in rows:
        cells = [cell_text(variant, row, column) for column in columns]
        yield f"| {_escape(row)} | " + " | ".join(cells) + " |"
    yield ""


def _true_counts(variant, rows):
    """How many tokens the classes have whose predictions are counted."""
    counted = [row for row in rows if "predicted" in variant.table.scores.get(row, "")]
    classes = _keyword_classes(variant)
    return ", ".join(
        f"{classes[int(variant.table.scores[row].split()[1]) - 1]['actual']:,} of {row}"
        for row in counted
    )


def _keyword_classes(variant):
    """The classes of the test part without "none", the most frequent one first."""
    tokens = variant.results[0]["test"].get("tokens", ())
    return sorted(tokens[1:], key=lambda one: -one["actual"])


def _seeds(variant):
    """The seeds of a variant, and how many runs have each if not all have."""
    runs = Counter(result["settings"]["budget"]["seed"] for result in variant.results)
    names = f"seeds {', '.join(map(str, sorted(runs)))}"
    if len(set(runs.values())) == 1:
        return names
    return f"{names} ({', '.join(str(runs[seed]) for seed in sorted(runs))} runs)"


def _runnable(table):
    """Rows and columns without those that cannot be run at all."""
    rows = [r for r in table.rows if any(table.place(r, c) for c in table.columns)]
    return rows, [c for c in table.columns if any(table.place(r, c) for r in rows)]


def cell_text(variant, row, column):
    """One value of ours, and the printed one in brackets."""
    table = variant.table
    spread, printed = variant.value(row, column), table.printed.get((row, column))
    is_count = (table.place(row, column) or ("", ""))[1].startswith("predicted")
    ours = "–" if variant.was_run(row, column) else NOT_RUN
    if spread is not None:
        ours = _count(spread) if is_count else str(spread)
        ours += "†" if _unfinished(variant, row, column) else ""
    if printed is None:
        return ours
    return f"{ours} ({printed:,})" if is_count else f"{ours} ({printed})"


def _unfinished(variant, row, column):
    """Whether all runs of a value were best in their last epoch."""
    place, score = variant.table.place(row, column)
    return not score.startswith("last ") and all(
        result.get("best", {}).get("epoch") == result["settings"]["budget"]["epochs"]
        for result in variant.runs[place]
    )


def _count(spread):
    more = "" if spread.deviation is None else f" ± {spread.deviation:,.0f}"
    return f"{spread.mean:,.0f}{more}"


def _escape(name):
    return f"`{name}`" if "{" in name else name


def _deviations(variant):
    """What the runs of a variant do otherwise than the paper, each once.

    What only some rows or columns do says which.
    """
    table, found = variant.table, {}
    for place, results in variant.runs.items():
        for result in results:
            stand_in = _stand_in(table, result)
            expected = paper_settings(table, place, stand_in)
            for text in deviations(
                result["settings"], expected, result.get("warmup_steps")
            ):
                found.setdefault(text, {})[place] = True
    return [text + _where(places, variant.runs) for text, places in found.items()]


def _where(places, all_places):
    """Names that set some places apart from all, in brackets, if there are any.

    >>> _where([("12-layer", "BAT")], [("4-layer", "BAT"), ("12-layer", "BAT")])
    ' (12-layer)'
    """
    for mine, others in zip(
        zip(*places, strict=True), zip(*all_places, strict=True), strict=True
    ):
        names = dict.fromkeys(mine)
        rest = [name for name in dict.fromkeys(others) if name not in names]
        if rest:
            but = len(rest) < len(names)
            return f" ({'all but ' * but}{', '.join(rest if but else names)})"
    return ""


def _stand_in(table, result):
    data = data_of(result["settings"])
    known = [one for one in table.stand_ins if data_of(one) == data]
    return known[0] if known else table.stand_ins[0]


def _wins(table, found):
    """S2's Table 1: how often each loss is best, over data sets and seeds."""
    won, runs = {row: Counter() for row in table.rows}, 0
    for variant in found:
        seeds = {}
        for (row,), results in variant.runs.items():
            for result in results:
                seed = seeds.setdefault(result["settings"]["budget"]["seed"], {})
                seed[row] = result["test"]["values"]
        for rows in seeds.values():
            if len(rows) < len(table.rows):
                continue
            runs += 1
            for column, score in zlpr.SCORES.items():
                best = min if score == "ranking_loss" else max
                won[best(rows, key=lambda row, s=score: rows[row][s])][column] += 1
    if not runs:
        yield "Not run.\n"
        return
    labels = "; ".join(variant.label for variant in found)
    yield f"{runs} experiments here ({labels}), 22 in the paper.\n"
    said = dict.fromkeys(text for variant in found for text in _deviations(variant))
    yield f"Otherwise than in the paper: {'; '.join(said)}.\n"
    yield "| | " + " | ".join(table.columns) + " |"
    yield "|---|" + "---|" * len(table.columns)
    for row in table.rows:
        cells = [f"{won[row][c]} ({table.printed[row, c]})" for c in table.columns]
        yield f"| {row} | " + " | ".join(cells) + " |"
    yield ""


def _pictures(results, folder):
    draws = _trade_off, _encoder_curves, _loss_curves, _three, _predicted, _speed
    for draw in draws:
        yield from draw(results, folder)


def _trade_off(results, folder):
    """Macro F1 against F2 of every encoder and loss, ours beside the paper's."""
    panels = {}
    for f1, f2 in (("s0-table3", "s0-table4"), ("s0-table5", "s0-table6")):
        found = variants(TABLES[f1], results)
        if not found:
            continue
        data = data_of(TABLES[f1].paper)
        panels[f"{data}, as printed"] = _points(
            TABLES[f1], TABLES[f1].printed.get, TABLES[f2].printed.get
        )
        other = variants(TABLES[f2], results)[0]
        panels[f"{data_of(found[0].results[0]['settings'])}, here"] = _points(
            TABLES[f1], *(_percent(variant) for variant in (found[0], other))
        )
    if not panels:
        return
    path = folder / "f1_f2.png"
    texts = "Losses and encoders of S0", "macro F1 (%)", "macro F2 (%)"
    pictures.plot_points(panels, path, *texts)
    yield "### What losses trade (S0 Tables 3 to 6)\n"
    yield (
        "A loss that raises F2 at equal F1 lies above another; one that moves along "
        "a falling line trades F1 for it. On the grey line both are equal.\n"
    )
    yield f"![Macro F1 against macro F2, as printed and here]({path.name})\n"


def _points(table, *values):
    """(row, column) → one of each of the values, where all are known."""
    places = ((row, column) for row in table.rows for column in table.columns)
    found = {place: tuple(value(place) for value in values) for place in places}
    return {place: point for place, point in found.items() if None not in point}


def _percent(variant):
    """A function of (row, column): the mean in percent, or None."""

    def value(place):
        spread = variant.value(*place)
        return None if spread is None else 100 * spread.mean

    return value


def mean_curve(results, name):
    """The mean over seeds of a score by epoch, as far as all of them go."""
    curves = [result["history"][name] for result in results if result.get("history")]
    return [statistics.fmean(values) for values in zip(*curves, strict=False)]


def curves(variant, name, split_by_row):
    """Panels for `plot_curves` of a table of losses (rows) and encoders (columns)."""
    table, panels = variant.table, {}
    for row in table.rows:
        for column in table.columns:
            found = mean_curve(variant.runs.get((row, column), ()), name)
            panel, series = (row, column) if split_by_row else (column, row)
            if found:
                panels.setdefault(panel, {})[series] = found
    return panels


def _encoder_curves(results, folder):
    drawn = []
    for id, name in ENCODER_CURVES.items():
        found = variants(TABLES[id], results)
        panels = curves(found[0], "val_token_macro_f2", True) if found else {}
        if panels:
            texts = f"Encoders: {found[0].label}", "macro F2, valid part (%)"
            pictures.plot_curves(panels, folder / name, *texts, names=ENCODERS)
            drawn.append(f"![{texts[0]}; macro F2 by epoch]({name})\n")
    if drawn:
        yield "### Learning curves of the encoders, by loss\n"
        yield from drawn


def _loss_curves(results, folder):
    panels = {}
    for variant in variants(TABLES["s0-table3"], results):
        data, _, how = variant.label.partition(", ")
        for kind in ("f1", "f2"):
            series = curves(variant, f"val_token_macro_{kind}", False).get("BAT", {})
            if len(series) > 1:
                # Two lines: panels side by side have no room for a longer one.
                panels[f"macro {kind.upper()}, {data}\n{how}"] = series
    if not panels:
        return
    path = folder / "curves_losses.png"
    pictures.plot_curves(panels, path, "Losses, with BAT", "valid part (%)")
    yield "### Learning curves of the losses (S0 Figures 1 and 2)\n"
    yield f"![Macro F1 and F2 by epoch for each loss]({path.name})\n"


def _three(results, folder):
    """Figure 6: a panel for each way of running, a line for each weighted loss."""
    panels = {}
    for variant in variants(TABLES["s0-figure6"], results):
        series = {
            name: mean_curve(variant.runs[(name,)], "val_token_macro_f2")
            for name in variant.table.columns
            if (name,) in variant.runs
        }
        if len(series) == len(variant.table.columns):
            panels[variant.label.replace(", ", "\n", 1)] = series
    if not panels:
        return
    path = folder / "curves_weighted_losses.png"
    title = "WCE, PBP and CECLA, with BAT"
    pictures.plot_curves(panels, path, title, "macro F2, valid part (%)")
    yield "### WCE, PBP and CECLA over epochs (S0 Figure 6)\n"
    yield f"![Macro F2 by epoch for the three weighted losses]({path.name})\n"


def _predicted(results, folder):
    found = variants(TABLES["s0-figure4"], results)
    if not found:
        return
    variant = found[0]
    classes = _keyword_classes(variant)[:2]
    bars = {}
    for name in variant.table.columns:
        runs = variant.runs.get((name,), ())
        bars[name] = [
            statistics.fmean(_predictions(run, one["name"]) for run in runs)
            if runs
            else None
            for one in classes
        ]
    path = folder / "predicted.png"
    xlabels = [f"tokens predicted as {one['name']}" for one in classes]
    marks = [(one["actual"], f"true: {one['actual']:,}") for one in classes]
    pictures.plot_bars(bars, path, f"BAT: {variant.label}", xlabels, marks)
    yield "### Predicted counts by loss (S0 Figures 4 and 5)\n"
    yield f"![Tokens that each loss marks, beside the true number]({path.name})\n"


def _predictions(result, name):
    tokens = result["test"]["tokens"]
    return next(one["predicted"] for one in tokens if one["name"] == name)


def _expert_layers(results, folder):
    found = variants(TABLES["s3-figure2"], results)
    if not found:
        return
    bars = {}
    for name in found[0].table.columns:
        runs = [r["test"] for r in found[0].runs.get((name,), ())]
        precision = [100 * run["values"]["precision_at_5"] for run in runs]
        apart = [run["expert_kl_true"] for run in runs]
        bars[name] = [statistics.fmean(x) if x else None for x in (precision, apart)]
    path = folder / "expert_layers.png"
    xlabels = ["P@5 of both experts (%)", "KL divergence over true labels"]
    pictures.plot_bars(bars, path, f"A-m beside D-6: {found[0].label}", xlabels)
    yield f"![P@5 and divergence by layer]({path.name})\n"


def _speed(results, folder):
    found = variants(TABLES["s0-table3"], results)
    if not found:
        return
    rows, bars = {}, {}
    for name in ENCODERS:
        runs = [
            result
            for (_, encoder), of_place in found[0].runs.items()
            for result in of_place
            if encoder == name
        ]
        seconds = [run["epoch_seconds"] for run in runs if run.get("epoch_seconds")]
        if runs:
            rows[name] = runs[0]["parameters"], min(seconds, default=0)
        bars[name] = (
            [rows[name][0] / 1e6, rows[name][1] or None] if runs else [None] * 2
        )
    path = folder / "speed.png"
    xlabels = ["parameters (millions)", "seconds an epoch, validation included"]
    pictures.plot_bars(bars, path, f"Encoders: {found[0].label}", xlabels)
    first = found[0].results[0]
    yield "### Speed and parameters of the encoders\n"
    yield (
        "The quickest run over losses and seeds, since other work slows the rest; a "
        f"share of {first['cores']} cores; parameters with the embeddings.\n"
    )
    yield "| | parameters | seconds an epoch |\n|---|---|---|"
    for name in ENCODERS:
        texts = [NOT_RUN] * 2
        if name in rows:
            parameters, seconds = rows[name]
            texts = [f"{parameters:,}", f"{seconds:.1f}" if seconds else "–"]
        yield f"| {name} | " + " | ".join(texts) + " |"
    yield f"\n![Parameters and seconds an epoch]({path.name})\n"
