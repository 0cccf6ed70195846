"""The papers' tables: list them, run them, write the page of what came of it.

python -m examples.papers list
python -m examples.papers run s0-table3 --epochs 15 --seeds 0,1
python -m examples.papers report
"""

import sys
from pathlib import Path
from typing import Annotated

import typer
import yaml
from rich.console import Console
from rich.markdown import Markdown
from rich.markup import escape
from rich.text import Text

from bat_tf.runs.grid import run_grid
from examples.papers.migrate import migrate as migrate_files
from examples.papers.page import variant_lines, write_report
from examples.papers.reproduce import (
    data_of,
    load_results,
    results_of,
    table_cells,
    variants,
)
from examples.papers.tables import TABLES

HERE = Path(__file__).parent
RESULTS = HERE / "results"
# Of `bat-tf grid`: some of its runs are those of a table.
GRID_RESULTS = HERE.parent / "results"

app = typer.Typer(
    help="Run the papers' tables again.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
console = Console()


@app.command("list")
def list_tables():
    """Show every table and figure, how many runs it has, and on which data."""
    for one in TABLES.values():
        data = ", ".join(map(data_of, one.stand_ins))
        what = f"{len(one.places)} runs on {data}"
        line = f"[bold]{one.id:<14}[/]{escape(one.title)} [dim]({escape(what)})[/]"
        console.print(line, highlight=False, soft_wrap=True)


@app.command()
def run(
    table: Annotated[str, typer.Argument(help="Such as s0-table3.")],
    data: Annotated[str | None, typer.Option(help="Named set to run it on.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Instead of the paper's.")] = None,
    seeds: Annotated[str, typer.Option(help="Separated by commas.")] = "0",
    rows: Annotated[str | None, typer.Option(help="Only these: BAT,MUSE.")] = None,
    columns: Annotated[str | None, typer.Option(help="Only these: CE,PBP.")] = None,
    warmup: Annotated[
        float | None, typer.Option(help="Steps, or a share of all steps below 1.")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Runs at a time.")] = 1,
    results: Annotated[Path, typer.Option(help="Folder of result files.")] = RESULTS,
    runs: Annotated[Path, typer.Option(help="Folder of the runs.")] = Path(
        "runs/papers"
    ),
    set: Annotated[
        list[str] | None, typer.Option(help="Other settings: encoder.d_model=64.")
    ] = None,
):
    """Run a table, or what is missing of it."""
    if table not in TABLES:
        raise ValueError(
            f"There is no table {table!r}. There are: {', '.join(TABLES)}."
        )
    cells = table_cells(
        TABLES[table],
        results,
        runs,
        data=data,
        epochs=epochs,
        seeds=[int(seed) for seed in seeds.split(",")],
        warmup=warmup,
        names=[name for text in (rows, columns) if text for name in text.split(",")],
        changes=dict(map(_pair, set or [])),
    )
    known = results_of(cells, load_results(results, GRID_RESULTS))
    missing = [cell for cell, result in zip(cells, known, strict=True) if not result]
    console.print(f"{len(cells)} runs, of them {len(missing)} to make.")
    run_grid(missing, jobs, _Progress().show)
    found = [result for result in known if result]
    for variant in variants(TABLES[table], found + [cell.result for cell in missing]):
        console.print(Markdown("\n".join(variant_lines(variant, whole=False))))


def _pair(text):
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"`--set` must be name=value. Received: {text!r}.")
    return name, yaml.safe_load(value)


class _Progress:
    """Prints a line whenever an epoch is done."""

    def __init__(self):
        self.done = None

    def show(self, done, total, running):
        if running and done != self.done:
            self.done = done
            names = ", ".join(f"{c.row} ({c.settings.budget.seed})" for c in running)
            line = f"{done} of {total} epochs: {names}"
            console.print(line, markup=False, highlight=False, soft_wrap=True)


@app.command()
def report(
    results: Annotated[
        list[Path] | None, typer.Option(help="Folders of results.", show_default=False)
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder of the page.")
    ] = HERE / "report",
):
    """Write what the tables came to: a page with tables and pictures."""
    found = load_results(*(results or [RESULTS, GRID_RESULTS]))
    if not found:
        what = "run `python -m examples.papers run s0-table3`"
        raise ValueError(f"There are no results yet: {what}.")
    path = write_report(found, output)
    console.print(f"{len(found)} results: {path}", soft_wrap=True, highlight=False)


@app.command()
def migrate(results: Path = RESULTS, grids: Path = GRID_RESULTS):
    """Bring result files of the first edition to today's form; done here already."""
    changed = migrate_files(results, grids)
    console.print(f"{len(changed)} files were changed.")


def main():
    """Runs the command line; errors of the user's input become one sentence."""
    try:
        app()
    except (ValueError, TypeError, OSError, ImportError, RuntimeError) as error:
        Console(stderr=True).print(Text(f"Error: {error}", "red"), soft_wrap=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
