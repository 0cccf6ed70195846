"""Writes examples/labels/README.md: the losses of S1 and S2 on data anyone can get.

    python examples/label_report.py

It only reads results; `bat-tf grid examples/grids/….yaml --output examples/results`
makes them. The picture of the labels needs the corpus itself, see BAT_TF_DATA.
"""

import argparse
from collections import Counter
from pathlib import Path

import bat_tf
from bat_tf.runs import tables
from bat_tf.runs.grid import Grid
from examples.papers import pictures
from examples.papers.tables import TABLES, zlpr

HERE = Path(__file__).parent
S2_COLUMNS = tuple(zlpr.SCORES.values())
ADAPTIVE = ("BCE", "FL", "DL1", "DL2", "ZLPR")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=HERE / "labels")
    folder = parser.parse_args().output
    parts = ["# Losses for document labels, measured\n"]
    parts += [__doc__.split("\n", 1)[1].strip("\n") + "\n"]
    sections = (reuters(folder), headlines(), catalogue(), emotions(), cooking())
    for section in (*sections, winners()):
        parts += section
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "README.md").write_text("\n".join(parts) + "\n", encoding="utf-8")
    print(f"Written: {folder / 'README.md'}")


def reuters(folder):
    cells = load("reuters_losses")
    rows = tables.summary(cells)
    yield "## Reuters-21578, the tables of S1\n"
    if not rows:
        yield "Not run.\n"
        return
    yield about(cells)
    for id in ("s1-table2", "s1-table3"):
        yield with_paper(rows, TABLES[id])
    pictures.plot_groups(rows, folder / "reuters_groups.png", "Reuters-21578, test")
    yield "![F1 of frequent and rare labels by loss](reuters_groups.png)\n"
    try:
        data = bat_tf.data.read("reuters21578", split="train")
        pictures.plot_cooccurrence(data, folder / "reuters_labels.png", most=36)
    except FileNotFoundError as error:
        print(f"The picture of labels stays as it is: {error}")
    yield "![Labels that meet in a document](reuters_labels.png)\n"
    yield "Pairs that each loss confuses most (label given → label missed, documents of"
    yield "all seeds):\n"
    for row in rows:
        yield f"- {row}: {confused(cells, row)}"
    yield ""


def headlines():
    yield "## The same with a pretrained encoder\n"
    yield from one_table(
        "reuters_minilm", lambda rows: with_paper(rows, TABLES["s1-table2"])
    )


def catalogue():
    yield "## Subjects of library titles (yso_finna_en_xmc), for S1's PubMed\n"
    columns = [*runnable(TABLES["s1-table2"]).values(), "average_precision"]
    yield from one_table(
        "yso_losses", lambda rows: tables.markdown(rows, columns) + "\n"
    )


def one_table(name, table):
    """A grid's results in one table, which `table` makes of its rows."""
    cells = load(name)
    rows = tables.summary(cells)
    if not rows:
        yield "Not run.\n"
        return
    yield about(cells)
    yield table(rows)


def emotions():
    cells = load("goemotions_losses")
    yield "## GoEmotions, S2's Table 12\n"
    yield from zlpr_tables(cells, TABLES["s2-table12"])


def cooking():
    cells = load("cooking_losses")
    yield "## Questions of cooking.stackexchange\n"
    yield from zlpr_tables(cells, None)


def zlpr_tables(cells, paper):
    rows = tables.summary(cells)
    if not rows:
        yield "Not run.\n"
        return
    yield about(cells)
    adaptive = {row: rows[row] for row in ADAPTIVE if row in rows}
    if paper:
        note = "the paper, with BERT-base on the raw annotations, which is other data"
        yield with_paper(adaptive, paper, note)
    else:
        yield tables.markdown(adaptive, S2_COLUMNS) + "\n"
    yield "Losses that only rank have no threshold of their own:\n"
    ranking = {row: scores for row, scores in rows.items() if row not in ADAPTIVE}
    ranking |= {"ZLPR": rows["ZLPR"]} if "ZLPR" in rows else {}
    yield tables.markdown(ranking, S2_COLUMNS[-2:]) + "\n"


def winners():
    """S2's Table 1: who is best how often; here over data sets and seeds."""
    won = {name: Counter() for name in ADAPTIVE}
    runs = 0
    for grid in ("goemotions_losses", "cooking_losses"):
        seeds = {}
        for cell in load(grid):
            if cell.row in ADAPTIVE and cell.result:
                scores = cell.result["test"]["values"]
                seeds.setdefault(cell.settings.budget.seed, {})[cell.row] = scores
        for scores in seeds.values():
            if len(scores) < len(ADAPTIVE):
                continue
            runs += 1
            for column in S2_COLUMNS:
                best = min if column == "ranking_loss" else max
                won[best(scores, key=lambda row: scores[row][column])][column] += 1
    yield f"## Who wins how often: data sets and seeds compared {runs}, S2: 22\n"
    head = [f" {column.replace('_', ' ')} |" for column in S2_COLUMNS]
    yield "| |" + "".join(head)
    yield "|---|" + "---|" * len(head)
    for name, counts in won.items():
        paper = TABLES["s2-table1"].printed
        cells = [
            f"{counts[score]} (S2: {paper[name, column]})"
            for column, score in zlpr.SCORES.items()
        ]
        yield f"| {name} | " + " | ".join(cells) + " |"


def load(name):
    """The cells of a grid with the results in this folder."""
    grid = Grid.load(HERE / "grids" / f"{name}.yaml")
    return grid.cells(HERE / "results", "runs")


def about(cells):
    """A sentence on what was run."""
    results = [cell.result for cell in cells if cell.result]
    trained = [r for r in results if r["settings"]["model"] != "svm"]
    first = trained[0]
    settings = first["settings"]
    seconds = sorted(result["seconds"] for result in trained)
    seeds = sorted({result["settings"]["budget"]["seed"] for result in results})
    return (
        f"Test part, percent, mean ± standard deviation over the seeds {seeds}; "
        f"{settings['budget']['epochs']} epochs, {first['parameters']:,} parameters, "
        f"the encoder {settings['encoder']['name']} (settings in examples/grids); a run took "
        f"{seconds[len(seconds) // 2] / 60:.1f} minutes (median) on a share of "
        f"{first['cores']} cores. TensorFlow {first['versions']['tensorflow']}, Keras "
        f"{first['versions']['keras']}.\n"
    )


def runnable(table):
    """The columns of a printed table that are scored here: its name → ours."""
    return {name: table.scores[name] for name in table.columns if name in table.scores}


def with_paper(rows, table, note="the paper, with BERT-base"):
    """A table of ours with the printed values in brackets."""
    columns = runnable(table)
    lines = ["| |" + "".join(f" {c.replace('_', ' ')} |" for c in columns.values())]
    lines.append("|---|" + "---|" * len(columns))
    for row, scores in rows.items():
        # S2's rows also say which backbone they are of.
        name = next((n for n in (row, f"{row}, Bert") if n in table.rows), None)
        if name is None:
            continue
        printed = [table.printed.get((name, column)) for column in columns]
        cells = [
            f"{scores[c]} ({'–' if p is None else f'{p:.2f}'})"
            for c, p in zip(columns.values(), printed, strict=True)
        ]
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, f"\nIn brackets: {note}.\n"])


def confused(cells, row, most=4):
    """The most confused pairs of a row, over its seeds."""
    pairs = Counter()
    for cell in cells:
        if cell.row == row and cell.result:
            for chosen, missed, count in cell.result["test"]["confused"]:
                pairs[chosen, missed] += count
    return ", ".join(f"{a} → {b} {n}" for (a, b), n in pairs.most_common(most))


if __name__ == "__main__":
    main()
