"""Verbs that train: `train` and `grid`."""

from typing import Annotated

import typer
from rich.text import Text

from bat_tf.cli.progress import JobProgress
from bat_tf.cli.terminal import (
    OUTPUT,
    OnError,
    as_pairs,
    console,
    errors,
    kept,
    or_asked,
    print_values,
    say,
)

DIVERGED = 3  # the exit code of a run whose numbers are no longer finite

# Options of `train` → settings of a run.
SETTINGS = {
    "file": "data.train",
    "valid": "data.valid",
    "test": "data.test",
    "on_error": "data.options.on_error",
    "data": "data.name",
    "backbone": "encoder.backbone",
    "tokenizer": "text.tokenizer",
    "scheme": "text.scheme",
    "loss": "loss.name",
    "thresholds": "heads.thresholds",
    "optimizer": "optimizer.name",
    "learning_rate": "optimizer.learning_rate",
    "epochs": "budget.epochs",
    "batch_size": "budget.batch_size",
    "patience": "budget.patience",
    "seed": "budget.seed",
    "jit_compile": "budget.jit_compile",
    "output": "output",
    "continue_from": "continue_from",
    "ship": "ship",
    "cluster": "cluster",
    "worker": "worker",
}


def train(
    file: Annotated[str | None, typer.Argument(help="Texts to learn from.")] = None,
    valid: Annotated[
        str | None, typer.Option(help="File to choose the best epoch on.")
    ] = None,
    test: Annotated[str | None, typer.Option(help="File to report on.")] = None,
    output: Annotated[
        str | None, typer.Option(*OUTPUT, help="Folder of the run.")
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="A named set with its parts, instead of files.")
    ] = None,
    on_error: OnError = None,
    recipe: Annotated[
        str,
        typer.Option(
            help="Settings by name, from a YAML file, or none; auto finds some."
        ),
    ] = "auto",
    config: Annotated[str | None, typer.Option(help="YAML file with settings.")] = None,
    task: Annotated[
        str | None, typer.Option(help="spans (keywords in texts) or labels (of texts).")
    ] = None,
    backbone: Annotated[
        str | None,
        typer.Option(help="Pretrained encoder: a folder or a name, see `backbones`."),
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="characters, words or wordpiece.")
    ] = None,
    scheme: Annotated[str | None, typer.Option(help="bio or plain.")] = None,
    loss: Annotated[str | None, typer.Option(help="pbp, ce … or zlpr, db …")] = None,
    thresholds: Annotated[
        str | None, typer.Option(help="Of labels: none, global, by_count or per_label.")
    ] = None,
    optimizer: Annotated[str | None, typer.Option(help="adamw or bat.")] = None,
    learning_rate: float | None = None,
    minutes: Annotated[
        float | None,
        typer.Option(help="How long it may take: 10, unless there are --epochs."),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Passes over the texts; with --minutes, at most.")
    ] = None,
    batch_size: int | None = None,
    patience: Annotated[
        int | None, typer.Option(help="Epochs without a better one before it stops.")
    ] = None,
    seed: int | None = None,
    jit_compile: Annotated[bool | None, typer.Option(help="Use XLA.")] = None,
    cluster: Annotated[
        str | None, typer.Option(help="File of workers, or local for all GPUs.")
    ] = None,
    worker: Annotated[
        int | None, typer.Option(help="Which of them this is, from 0.")
    ] = None,
    continue_from: Annotated[
        str | None,
        typer.Option(help="A run whose model goes on learning, from these texts."),
    ] = None,
    ship: Annotated[
        str | None,
        typer.Option(help="baseline keeps the linear model instead of the full one."),
    ] = None,
    read: Annotated[
        list[str] | None,
        typer.Option(help="How to read the files, as name=value: separator=';'"),
    ] = None,
    set: Annotated[
        list[str] | None,
        typer.Option(
            help="Any other setting, as name=value; a dot reaches inside: "
            "encoder.d_model=64"
        ),
    ] = None,
):
    """Train a model, or continue a run that was stopped.

    Finds out what the texts are for and how they are written, takes a recipe that suits
    them, and shows a linear model beside the result.
    """
    given = locals()
    if file and data:
        raise ValueError("Give a file to learn from or `--data`, not both.")
    changes = {
        path: given[option]
        for option, path in SETTINGS.items()
        if given[option] is not None
    }
    from bat_tf.runs.run import run
    from bat_tf.runs.train import output_of
    from bat_tf.training import DivergedError

    changes |= as_pairs(set or [], "--set")
    if file:
        changes.setdefault("output", output_of(file))
    options = as_pairs(read or [], "--read")
    settings = _prepared(recipe, config, task, minutes, changes, options)
    again = "the same command goes on from there."
    with kept(f"What was learned stays in {settings.output}; {again}"):
        try:
            model, report = run(settings)
        except DivergedError as error:
            errors.print(Text(f"Error: {error}", style="red"), soft_wrap=True)
            raise typer.Exit(DIVERGED) from None
    if report is None:
        say("This worker is done; the first one writes the model.")
        return
    say(f"Best epoch {report['best']['epoch']}, model in {settings.output}")
    for name, value in report.get("loss", {}).items():
        given = {name, "constants"}.intersection(settings.loss.settings)
        say(f"{name} of the loss: {value:.4g}" + " (found in the labels)" * (not given))
    for part in ("valid", "test"):
        if part in report:
            print_values(part, report[part]["values"])
    if "micro_f1" in report.get("baseline", {}):
        from bat_tf.runs.baseline import in_words

        say(in_words(report["baseline"]))
    say(f"A page about it: bat-tf report {settings.output}")


def _prepared(recipe, config, task, minutes, changes, options):
    """The settings of a run; a file that reads in two ways is asked about."""
    from bat_tf.runs.train import prepare

    def settings_of(**options):
        read = {f"data.options.{name}": value for name, value in options.items()}
        how = {"config": config, "task": task}
        return prepare(recipe, minutes, **how, **changes, **read)

    settings, said = or_asked(settings_of, options)
    if said:
        say(said)
    return settings


def recipes():
    """List the recipes: what each is for, and what it costs."""
    from rich.table import Table

    from bat_tf.runs.recipes import Recipe, names

    table = Table("recipe", "for", "epochs", "what it is and costs")
    for name in names():
        found = Recipe.load(name)
        settings = found.settings_for(data="-")
        table.add_row(name, settings.task, str(settings.budget.epochs), found.about)
    console.print(table)


def grid(
    file: Annotated[str, typer.Argument(help="YAML file: base, rows and seeds.")],
    output: Annotated[
        str, typer.Option(*OUTPUT, help="Folder of result files.")
    ] = "results",
    runs: Annotated[str, typer.Option(help="Folder of the runs themselves.")] = "runs",
    jobs: Annotated[int, typer.Option(help="Runs at a time.")] = 1,
    columns: Annotated[
        str | None, typer.Option(help="Scores to show, separated by commas.")
    ] = None,
    part: Annotated[str, typer.Option(help="test or valid.")] = "test",
    table: Annotated[
        str | None, typer.Option(help="Also write the table here, as Markdown.")
    ] = None,
    show: Annotated[bool, typer.Option(help="Only show what there is.")] = False,
):
    """Run every row of a grid under every seed, or what is missing of it."""
    from bat_tf._internal.files import atomic_write
    from bat_tf._internal.validation import check_choice
    from bat_tf.runs import tables
    from bat_tf.runs.grid import Grid, run_grid

    plan = Grid.load(file)
    cells = plan.cells(output, runs)
    if not show:
        again = "the same command goes on."
        with (
            kept(f"Results stay in {output}, whole epochs in {runs}; {again}"),
            JobProgress(console, "epochs", every=300) as bar,
        ):

            def draw(done, total, running):
                names = (
                    f"{cell.row} ({cell.settings.budget.seed})" for cell in running
                )
                bar.show(done, total, ", ".join(names))

            run_grid(cells, jobs, draw)
    rows = tables.summary(cells, part)
    if not rows:
        raise ValueError(f"There are no results of {file} in {output} yet.")
    names = [name for name in next(iter(rows.values())) if name != "runs"]
    chosen = [name.strip() for name in columns.split(",")] if columns else names[:6]
    for name in chosen:
        check_choice("columns", name, names)
    chosen.append("runs")
    console.print(tables.rich_table(f"{plan.name}, {part}", rows, chosen))
    if table:
        with atomic_write(table) as out:
            out.write(tables.markdown(rows, chosen) + "\n")
