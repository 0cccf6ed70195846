"""Results of a grid → tables: a row's scores over its seeds, for screens and files."""

import statistics
from typing import NamedTuple


class Spread(NamedTuple):
    """A score over several seeds.

    >>> str(Spread.of([0.901, 0.911])), str(Spread.of([0.9]))
    ('90.60 ± 0.71', '90.00')
    """

    mean: float
    deviation: float | None  # None for a single run

    @classmethod
    def of(cls, values):
        """The mean and the standard deviation of a sample."""
        deviation = statistics.stdev(values) if len(values) > 1 else None
        return cls(statistics.fmean(values), deviation)

    def __str__(self):
        mean = f"{100 * self.mean:.2f}"
        return (
            mean if self.deviation is None else f"{mean} ± {100 * self.deviation:.2f}"
        )


def flat_scores(report):
    """All headline scores of a report as names and values.

    Args:
        report: a part of a result, such as `result["test"]`.

    Returns:
        A dict: the report's own values, and `head micro_f1`, `1 label macro_f1` and so
        on for its groups.
    """
    scores = dict(report["values"])
    for group in report.get("label_groups", []) + report.get("row_groups", []):
        name = group["name"].partition(" (")[0]
        for kind in ("micro_f1", "macro_f1"):
            scores[f"{name} {kind}"] = group[kind]
    return scores


def summary(cells, part="test"):
    """Scores of every row that has results.

    Args:
        cells: what `Grid.cells` returns.
        part: `"test"` or `"valid"`.

    Returns:
        A dict: row → (name of a score → `Spread`), and under "runs" how many there are.
    """
    found = {}
    for cell in cells:
        result = cell.result
        if result and part in result:
            found.setdefault(cell.row, []).append(flat_scores(result[part]))
    return {
        row: {
            "runs": len(runs),
            **{n: Spread.of([run[n] for run in runs]) for n in runs[0]},
        }
        for row, runs in found.items()
    }


def rich_table(title, rows, columns):
    """A table for the terminal; a score that a row lacks is a dash."""
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for name in ("", *columns):
        table.add_column(name.replace("_", " "), justify="right" if name else "left")
    for row, cells in text_rows(rows, columns):
        table.add_row(row, *cells)
    return table


def markdown(rows, columns):
    """The same table for a Markdown file.

    >>> print(markdown({"DB": {"micro_f1": Spread.of([0.9])}}, ["micro_f1", "x"]))
    | | micro f1 | x |
    |---|---|---|
    | DB | 90.00 | – |
    """
    head = "".join(f" {name.replace('_', ' ')} |" for name in columns)
    lines = ["| |" + head, "|---|" + "---|" * len(columns)]
    lines += [
        "| " + " | ".join([r, *cells]) + " |" for r, cells in text_rows(rows, columns)
    ]
    return "\n".join(lines)


def text_rows(rows, columns):
    """Pairs of a row's name and the texts of its cells."""
    return [
        (row, [str(scores.get(name, "–")) for name in columns])
        for row, scores in rows.items()
    ]
