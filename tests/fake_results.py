"""Results as runs leave them, with scores that a test chooses."""

import json

from examples.papers.reproduce import table_cells
from examples.papers.tables import TABLES

VERSIONS = {"tensorflow": "2", "keras": "3", "numpy": "2"}


def fake_result(cell, f1, f2, epochs=None):
    """A result of a tagging run whose curves rise to the given scores."""
    settings = {**cell.settings.to_dict()}
    settings.pop("output")
    epochs = epochs or settings["budget"]["epochs"]
    encoder = settings["encoder"]["name"]
    rise = [1 - 0.5 ** (number + 1) for number in range(epochs)]
    tokens = [("none", 9000, 9000), ("brand", int(700 * f2), 600)]
    tokens.append(("product", int(3500 * f2), 3000))
    names = ("name", "predicted", "actual")
    values = {"token_macro_f1": f1, "token_macro_f2": f2}
    values |= {f"{name}_no_none": value for name, value in values.items()}
    return {
        "settings": settings,
        "versions": VERSIONS,
        "cores": 2,
        "seconds": 60.0,
        "epoch_seconds": 4.0 + len(encoder),
        "warmup_steps": settings["optimizer"]["warmup_steps"] or 600,
        "parameters": 1_000_000 + 20_000 * len(encoder),
        "history": {
            "epoch": list(range(1, epochs + 1)),
            "val_token_macro_f1": [f1 * part for part in rise],
            "val_token_macro_f2": [f2 * part for part in rise],
        },
        "test": {
            "tokens": [dict(zip(names, row, strict=True)) for row in tokens],
            "values": values,
        },
    }


def fake_cells(folder, id, scores, seeds=(0, 1), **options):
    """Writes results of a table and returns its cells.

    Args:
        folder: of results and runs.
        id: of the table.
        scores: a function of (names of the run, seed) → (F1, F2), or None: not run.
        seeds: of the runs.
        **options: of `table_cells`.
    """
    options = {"epochs": 15, **options}
    where = (folder / "results", folder / "runs")
    cells = table_cells(TABLES[id], *where, seeds=seeds, **options)
    for cell in cells:
        found = scores(cell.row, cell.settings.budget.seed)
        if found:
            cell.path.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps(fake_result(cell, *found))
            cell.path.write_text(text, encoding="utf-8")
    return cells
