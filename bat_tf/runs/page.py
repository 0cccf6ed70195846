"""The page of a run: one HTML file that needs nothing else."""

import html
import json
from pathlib import Path

import yaml

from bat_tf._internal.files import atomic_write
from bat_tf.runs.figures import figures

COLOURS = ("#1f6f8b", "#b5476a", "#8a6d1a", "#3c7a3c", "#5b4fa2", "#a0522d")
WIDTH, HEIGHT, LEFT, BOTTOM = 520, 240, 44, 28

STYLE = """
:root { color-scheme: light dark; --line: #8886; --soft: #8882; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto;
  padding: 0 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2.2rem }
table { border-collapse: collapse; width: 100% } .scroll, pre { overflow-x: auto }
th, td { padding: .25rem .6rem; text-align: right;
  border-bottom: 1px solid var(--line) }
th:first-child, td:first-child, .left td, .left th { text-align: left }
.big { font-size: 1.9rem; font-weight: 600 } .dim { opacity: .7 }
.cards { display: flex; flex-wrap: wrap; gap: 1rem } .card { border: 1px solid
  var(--line); border-radius: .5rem; padding: .6rem 1rem; min-width: 11rem }
.charts { display: flex; flex-wrap: wrap; gap: 1.5rem } svg { max-width: 100% }
svg text { font-size: 11px; fill: currentColor } .error { border-left: 3px solid
  var(--line); padding-left: .8rem; margin: .9rem 0; overflow-wrap: anywhere }
mark { color: inherit; background: none; border-bottom: 2px solid; padding: 0 .1rem }
mark small { opacity: .7; margin-left: .2rem } .bar { background: var(--soft) }
"""


def write_page(folder, output=None, part=None):
    """Writes the page of a run, and its figures as JSON beside it.

    Args:
        folder: the run's folder.
        output: the HTML file; None is `report.html` in the run's folder.
        part: see `figures`.

    Returns:
        The path of the page.
    """
    path = Path(output or Path(folder) / "report.html")
    found = figures(folder, part)
    with atomic_write(path.with_suffix(".figures.json")) as file:
        json.dump(found, file, ensure_ascii=False, indent=1)
    with atomic_write(path) as file:
        file.write(page(found))
    return path


def page(found):
    """The page, of what `figures` found."""
    what = "Keywords" if found["task"] == "spans" else "Labels"
    title = f"{what}: {found['folder']}"
    about = (
        f"{found['texts']:,} texts of the {found['part']} part ({found['data']}); "
        f"learned from {found['trained_on']:,}; best epoch {found['best']['epoch']}."
    )
    about += "".join(f" {n} of the loss: {v:.4g}." for n, v in found["loss"].items())
    settings = yaml.safe_dump(found["settings"], sort_keys=False, allow_unicode=True)
    sections = [
        ("", _cards(found)),
        ("Learning curves", _curves(found["history"])),
        ("Precision and recall by threshold", _threshold_chart(found)),
        ("By class", _class_table(found["classes"])),
        ("Labels that the model does not know", _unknown(found)),
        ("Taken for another", _confused_table(found["confused"])),
        ("The worst errors", _errors(found)),
        ("Settings", f"<pre>{_text(settings)}</pre>"),
    ]
    body = "".join(
        (f"<h2>{heading}</h2>" if heading else "") + content
        for heading, content in sections
        if content
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        # The texts are other people's: nothing in them may run or be fetched.
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{_text(title)}</title><style>{STYLE}</style></head><body>"
        f'<h1>{_text(title)}</h1><p class="dim">{_text(about)}</p>{body}'
        "</body></html>\n"
    )


def _text(value):
    return html.escape(str(value))


def _percent(value):
    return "–" if value is None else f"{100 * value:.1f}"


def _cards(found):
    """The scores with their intervals, and the baseline beside."""
    cards = []
    names = {"micro_f1": "F1", "macro_f1": "macro F1"}
    for name, (value, low, high) in found["scores"].items():
        cards.append(
            f'<div class="card">{names[name]}<div class="big">{_percent(value)}</div>'
            f'<span class="dim">95 %: {_percent(low)} to {_percent(high)}</span></div>'
        )
    for name, value in (found["baseline"] or {}).get("values", {}).items():
        cards.append(
            f'<div class="card">{_text(name)} of the baseline'
            f'<div class="big">{_percent(value)}</div></div>'
        )
    rest = ", ".join(f"{_text(n)} {_percent(v)}" for n, v in found["values"].items())
    return f'<div class="cards">{"".join(cards)}</div><p class="dim">{rest}</p>'


def _curves(history):
    """A chart of the losses and one of the scores."""
    losses = {n: v for n, v in history.items() if n.endswith("loss")}
    scores = {n: v for n, v in history.items() if n not in losses and max(v) <= 1}
    charts = [
        chart({n: list(enumerate(v, 1)) for n, v in group.items()}, "epoch", span)
        for group, span in ((losses, None), (scores, (0, 1)))
        if group and len(next(iter(group.values()))) > 1
    ]
    return f'<div class="charts">{"".join(charts)}</div>' if charts else ""


def _threshold_chart(found):
    if not found["curve"]:
        return ""
    lines = {"precision": [], "recall": [], "F1": []}
    for threshold, precision, recall in found["curve"]:
        lines["recall"].append((threshold, recall))
        if precision is not None:
            lines["precision"].append((threshold, precision))
            both = precision + recall
            lines["F1"].append(
                (threshold, 2 * precision * recall / both if both else 0)
            )
    precision, recall = map(_percent, found["chosen"])
    sentence = f"As it answers: precision {precision}, recall {recall}."
    return chart(lines, "threshold on the score", (0, 1)) + f"<p>{sentence}</p>"


def chart(lines, label, span=None):
    """Lines as a drawing: {name: [(x, y), …]}; `span` bounds the y axis."""
    points = [point for line in lines.values() for point in line]
    xs, ys = zip(*points, strict=True)
    x0, x1 = min(xs), max(xs)
    y0, y1 = span or (min(0, *ys), max(ys))
    right, top = WIDTH - 8, 8

    def place(x, y):
        across = (x - x0) / ((x1 - x0) or 1)
        up = (y - y0) / ((y1 - y0) or 1)
        height = HEIGHT - BOTTOM - top
        return LEFT + across * (right - LEFT), HEIGHT - BOTTOM - up * height

    parts = []
    for step in range(5):
        value = y0 + step * (y1 - y0) / 4
        _, y = place(x0, value)
        parts.append(
            f'<line x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" '
            f'stroke="currentColor" opacity=".15"/>'
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.3g}</text>'
        )
    for value in (x0, (x0 + x1) / 2, x1):
        x, _ = place(value, y0)
        parts.append(
            f'<text x="{x:.1f}" y="{HEIGHT - 12}" text-anchor="middle">'
            f"{value:.3g}</text>"
        )
    middle = (LEFT + right) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT}" text-anchor="middle">{label}</text>')
    legend = []
    for number, (name, line) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        where = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*p) for p in line))
        parts.append(
            f'<polyline points="{where}" fill="none" stroke="{colour}" '
            f'stroke-width="2"><title>{_text(name)}</title></polyline>'
        )
        legend.append(f'<span style="color:{colour}">■ {_text(name)}</span>')
    head = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}">'
    below = " &nbsp; ".join(legend)
    return f"<div>{head}{''.join(parts)}</svg><div>{below}</div></div>"


def _table(head, rows, kind=""):
    cells = "".join(f"<th>{name}</th>" for name in head)
    lines = "".join(f"<tr>{''.join(f'<td>{c}</td>' for c in row)}</tr>" for row in rows)
    return (
        f'<div class="scroll"><table class="{kind}"><thead><tr>{cells}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div>"
    )


def _class_table(rows):
    head = ("", "precision", "recall", "F1", "found", "true")
    return _table(
        head,
        [
            [_text(name), *map(_percent, shares), f"{found:,}", f"{true:,}"]
            for name, *shares, found, true in rows
        ],
    )


def _confused_table(rows):
    lines = [[_text(true), _text(said), f"{count:,}"] for true, said, count in rows]
    return _table(("it was", "it said", "times"), lines, "left") if rows else ""


def _unknown(found):
    names = found.get("unknown_labels") or ()
    return ", ".join(f"{_text(name)} ({count:,})" for name, count in names)


def _errors(found):
    return "".join(_error(error, found["task"]) for error in found["errors"])


def _error(error, task):
    """A text as it should be, and as the model has it."""
    text, rows = error["text"], []
    for title, answer in (("should be", error["gold"]), ("found", error["found"])):
        if task == "spans":
            shown = _marked(text, answer)
        else:
            shown = ", ".join(map(_text, answer)) or "nothing"
        rows.append(f'<div><span class="dim">{title}:</span> {shown}</div>')
    head = f"<div>{_text(text[:600])}</div>" if task == "labels" else ""
    return f'<div class="error">{head}{"".join(rows)}</div>'


def _marked(text, spans):
    """A text with its spans marked, each kind in a colour of its own."""
    kinds = sorted({kind for _, _, kind in spans})
    parts, last = [], 0
    for start, end, kind in sorted(spans):
        if start < last:  # overlaps the one before
            continue
        colour = COLOURS[kinds.index(kind) % len(COLOURS)]
        parts.append(_text(text[last:start]))
        parts.append(
            f'<mark style="border-color:{colour}">{_text(text[start:end])}'
            f'<small style="color:{colour}">{_text(kind)}</small></mark>'
        )
        last = end
    return "".join(parts) + _text(text[last:])
