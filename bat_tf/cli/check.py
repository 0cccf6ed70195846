"""The verb `check`: what is wrong with data, before a model learns it."""

import json
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from bat_tf.cli.terminal import as_pairs, console, or_asked, say

FOUND = 4  # the exit code where there is something to correct


def check(
    files: Annotated[
        list[str], typer.Argument(help="Files, the one to learn from first.")
    ],
    max_length: Annotated[
        int, typer.Option(help="Tokens that the model will read of a text.")
    ] = 256,
    json_output: Annotated[
        bool, typer.Option("--json", help="Print all that was found as JSON.")
    ] = False,
    read: Annotated[
        list[str] | None,
        typer.Option(help="How to read the files, as name=value: separator=';'"),
    ] = None,
):
    """Check data before training: counts, faulty rows, leaks, typos in labels.

    Exit code 0 if there are notes at most, 4 if there is something to correct.
    """
    from bat_tf import data
    from bat_tf.data import checking

    options = as_pairs(read or [], "--read") | {"on_error": "skip"}
    datasets = [or_asked(partial(data.read, file), options) for file in files]
    found = checking.check(*datasets, max_length=max_length)
    if json_output:
        print(json.dumps(found.to_dict(), ensure_ascii=False, indent=1))
    else:
        _show(found)
    raise typer.Exit(0 if found.clean else FOUND)


def _show(found):
    from rich.table import Table
    from rich.text import Text

    for description, counts in zip(found.descriptions, found.counts, strict=True):
        say(f"{description.name}\n  {description}\n  {_distribution(counts)}\n")
    if not found.findings:
        say("Nothing to correct.")
        return
    names = _short(path for one in found.findings for path, _ in _places(one))
    table = Table("", "what", "n")
    table.add_column("where", overflow="fold", ratio=1)
    table.add_column("what it is, and what to do", ratio=2)
    colours = {"error": "red", "warning": "yellow", "note": "cyan"}
    for one in found.findings:
        name = names[one.path]
        where = f"{name}:{one.line}" if one.line else name
        for path, line in one.more:
            where += f", {line}" if path == one.path else f", {names[path]}:{line}"
        if one.count > 1 + len(one.more):
            where += " …"
        level = Text(one.level, style=colours[one.level])
        words = f"{one.message} {one.remedy}".strip()
        table.add_row(level, one.kind, f"{one.count:,}", Text(where), Text(words))
    console.print(table)


def _places(finding):
    return [(finding.path, finding.line), *finding.more]


def _short(paths):
    """The names of files without their folders, unless two have the same."""
    paths = dict.fromkeys(paths)
    names = {path: Path(path).name for path in paths}
    return names if len({*names.values()}) == len(names) else {p: p for p in paths}


def _distribution(counts):
    """How unequal the names are, in a line."""
    if not counts:
        return "no names"
    values = sorted(counts.values(), reverse=True)
    head = sum(values[: max(1, len(values) // 10)]) / sum(values)
    return (
        f"most frequent {values[0]:,}, median {values[len(values) // 2]:,}, "
        f"rarest {values[-1]:,}; the first tenth of the names is {100 * head:.0f} %"
    )
