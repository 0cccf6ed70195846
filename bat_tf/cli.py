"""The command line: bat-tf demo, train, grid, tag, export, serve and the rest."""

import json
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import keras
import numpy
import tensorflow as tf
import typer
import yaml
from rich.console import Console
from rich.markdown import Markdown
from rich.markup import escape
from rich.text import Text

import bat_tf
from bat_tf import display
from bat_tf._validation import check_choice, import_optional
from bat_tf.data.files import atomic_write
from bat_tf.experiments import papers, tables
from bat_tf.experiments.demo import demo as run_demo
from bat_tf.experiments.grid import Grid, run_grid
from bat_tf.experiments.report import variant_lines, write_report
from bat_tf.experiments.reproduce import (
    load_results,
    results_of,
    table_cells,
    variants,
)
from bat_tf.experiments.run import RunSettings, run
from bat_tf.metrics.report import TaggingReport
from bat_tf.serving.bulk import tag_corpus
from bat_tf.serving.bulk_progress import RowsProgress, as_rate
from bat_tf.serving.bulk_rows import answers, ask_in_chunks, count_rows, read_texts
from bat_tf.training import save_model

app = typer.Typer(
    help="Put tags on text: train, evaluate, tag, export.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
console = Console()
RESULTS = "examples/reproduction/results"
# Of `bat-tf grid`: some of its runs are those of a table.
GRID_RESULTS = "examples/results"

ModelPath = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        help="A .keras file, a run's folder, a SavedModel, or a model that comes with "
        "the package: product_pages (without this option) or reuters_topics.",
    ),
]


def main():
    """Runs the command line; errors of the user's input become one sentence."""
    try:
        app()
    except (ValueError, TypeError, OSError, ImportError, RuntimeError) as error:
        if os.environ.get("BAT_TF_DEBUG"):
            raise
        # As it is: a path that is broken into lines cannot be copied.
        text = Text(f"Error: {error}", style="red")
        Console(stderr=True).print(text, soft_wrap=True)
        sys.exit(2)


def model_path(name=None):
    """The path of a model: as it is, or that of one that comes with the package.

    Those are installed inside the package and stand beside it in a checkout.
    """
    package = Path(bat_tf.__file__).parent
    installed = package / "saved_models"
    shelf = installed if installed.is_dir() else package.parent / "saved_models"
    if name and Path(name).exists():
        return Path(name)
    shipped = shelf / (name or "product_pages") / "1"
    return shipped if shipped.is_dir() else Path(name)


@app.command()
def train(
    config: Annotated[str | None, typer.Option(help="YAML file with settings.")] = None,
    task: Annotated[
        str | None, typer.Option(help="spans (keywords in texts) or labels (of texts).")
    ] = None,
    data: Annotated[str | None, typer.Option(help="Named set with its parts.")] = None,
    train: Annotated[str | None, typer.Option(help="File to learn from.")] = None,
    valid: Annotated[
        str | None, typer.Option(help="File to pick the epoch on.")
    ] = None,
    test: Annotated[str | None, typer.Option(help="File to report on.")] = None,
    output: Annotated[str | None, typer.Option("--output", "-o")] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="characters, words or wordpiece.")
    ] = None,
    scheme: Annotated[str | None, typer.Option(help="bio or plain.")] = None,
    loss: Annotated[str | None, typer.Option(help="pbp, ce … or zlpr, db …")] = None,
    thresholds: Annotated[
        str | None, typer.Option(help="Of labels: none, global, by-count or per-label.")
    ] = None,
    optimizer: Annotated[str | None, typer.Option(help="adamw or bat.")] = None,
    epochs: int | None = None,
    batch_size: int | None = None,
    learning_rate: float | None = None,
    patience: int | None = None,
    seed: int | None = None,
    jit_compile: Annotated[bool | None, typer.Option(help="Use XLA.")] = None,
    cluster: Annotated[
        str | None, typer.Option(help="File of workers, or local for all GPUs.")
    ] = None,
    worker: Annotated[
        int | None, typer.Option(help="Which of them this is, from 0.")
    ] = None,
    set: Annotated[
        list[str] | None,
        typer.Option(
            help="Any other setting, as name=value; a dot reaches inside: "
            "encoder_settings.d_model=64"
        ),
    ] = None,
):
    """Train a model, or continue a run that was stopped."""
    given = {key: value for key, value in locals().items() if value is not None}
    given.pop("config", None)
    pairs = given.pop("set", [])
    values = RunSettings.load(config).to_dict() if config else {}
    values.update(given)
    _set_pairs(values, pairs)
    settings = RunSettings.of(**values)
    model, report = run(settings)
    if report is None:
        console.print("This worker is done; the first one writes the model.")
        return
    epoch = report["best"]["epoch"]
    console.print(f"Best epoch {epoch}, model in {settings.output}", soft_wrap=True)
    for part in ("valid", "test"):
        if part in report:
            _print_values(part, report[part]["values"])


def _set_pairs(values, pairs):
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise ValueError(f"`--set` must be name=value. Received: {pair!r}.")
        *path, last = name.split(".")
        inner = values
        for key in path:
            inner = inner.setdefault(key, {})
        inner[last] = yaml.safe_load(text)


def _print_values(part, values):
    shown = "  ".join(f"{name} {100 * value:.2f}" for name, value in values.items())
    console.print(f"[bold]{part}[/]  {shown}", highlight=False, soft_wrap=True)


@app.command()
def grid(
    file: Annotated[str, typer.Argument(help="YAML file: base, rows and seeds.")],
    results: Annotated[str, typer.Option(help="Folder of result files.")] = "results",
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
    plan = Grid.load(file)
    cells = plan.cells(results, runs)
    if not show:
        with display.GridProgress(console) as progress:
            run_grid(cells, jobs, progress.show)
    rows = tables.summary(cells, part)
    if not rows:
        raise ValueError(f"There are no results of {file} in {results} yet.")
    names = [name for name in next(iter(rows.values())) if name != "runs"]
    chosen = [name.strip() for name in columns.split(",")] if columns else names[:6]
    for name in chosen:
        check_choice("columns", name, names)
    chosen.append("runs")
    console.print(tables.rich_table(f"{plan.name}, {part}", rows, chosen))
    if table:
        with atomic_write(table) as out:
            out.write(tables.markdown(rows, chosen) + "\n")


@app.command()
def reproduce(
    table: Annotated[str | None, typer.Argument(help="Such as s0-table3.")] = None,
    data: Annotated[str | None, typer.Option(help="Named set to run it on.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Instead of the paper's.")] = None,
    seeds: Annotated[str, typer.Option(help="Separated by commas.")] = "0",
    rows: Annotated[str | None, typer.Option(help="Only these: BAT,MUSE.")] = None,
    columns: Annotated[str | None, typer.Option(help="Only these: CE,PBP.")] = None,
    warmup: Annotated[
        float | None, typer.Option(help="Steps, or a share of all steps below 1.")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Runs at a time.")] = 1,
    results: Annotated[str, typer.Option(help="Folder of result files.")] = RESULTS,
    runs: Annotated[str, typer.Option(help="Folder of the runs.")] = "runs/reproduce",
    set: Annotated[
        list[str] | None, typer.Option(help="Other settings, as for train.")
    ] = None,
    list_tables: Annotated[bool, typer.Option("--list", help="Show them all.")] = False,
):
    """Run a table of the papers, or what is missing of it; --list shows the tables."""
    if list_tables or not table:
        for one in papers.TABLES.values():
            what = one.why_not or f"{len(one.places)} runs"
            line = f"[bold]{one.id:<14}[/]{escape(one.title)} [dim]({escape(what)})[/]"
            console.print(line, highlight=False, soft_wrap=True)
        return
    plan = papers.TABLES[check_choice("table", table, papers.TABLES)]
    names = [name for text in (rows, columns) if text for name in text.split(",")]
    changes = {}
    _set_pairs(changes, set or [])
    cells = table_cells(
        plan,
        results,
        runs,
        data=data,
        epochs=epochs,
        seeds=[int(seed) for seed in seeds.split(",")],
        warmup=warmup,
        names=names,
        changes=changes,
    )
    known = results_of(cells, load_results(results, GRID_RESULTS))
    missing = [cell for cell, result in zip(cells, known, strict=True) if not result]
    with display.GridProgress(console) as progress:
        run_grid(missing, jobs, progress.show)
    found = [result for result in known if result]
    for variant in variants(plan, found + [cell.result for cell in missing]):
        console.print(Markdown("\n".join(variant_lines(variant, whole=False))))


@app.command()
def report(
    results: Annotated[
        list[str] | None, typer.Option(help="Folders of results.", show_default=False)
    ] = None,
    output: Annotated[
        str, typer.Option("--output", "-o", help="Folder of the page.")
    ] = "examples/reproduction",
):
    """Write what the papers' tables came to: a page with tables and pictures."""
    found = load_results(*(results or [RESULTS, GRID_RESULTS]))
    if not found:
        raise ValueError("There are no results yet: run `bat-tf reproduce s0-table3`.")
    path = write_report(found, output)
    console.print(f"{len(found)} results: {path}", soft_wrap=True, highlight=False)


@app.command()
def evaluate(
    data: Annotated[str, typer.Argument(help="A file or a named set.")],
    model: ModelPath = None,
    split: Annotated[str | None, typer.Option(help="Part of a named set.")] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Also write JSON here.")
    ] = None,
    plot: Annotated[
        str | None, typer.Option(help="Of labels: draw F1 by frequency into this file.")
    ] = None,
):
    """Score a model on marked or labelled texts."""
    dataset = bat_tf.data.read(data, split=split)
    loaded = bat_tf.load(model_path(model))
    report = evaluation(loaded, dataset)
    console.print(report)
    if plot:
        if not hasattr(report, "plot"):
            raise ValueError("`--plot` is for models that label documents.")
        console.print(f"F1 by label frequency: {report.plot(plot)}", soft_wrap=True)
    if output:
        with atomic_write(output) as file:
            json.dump(report.to_dict(), file, ensure_ascii=False, indent=1)


def evaluation(model, dataset):
    """The report on a model, trained or served, of either kind."""
    if hasattr(model, "evaluate_report"):
        return model.evaluate_report(dataset)
    if hasattr(model, "tag"):
        return TaggingReport.of(model, dataset)
    raise ValueError(
        "An exported model names labels but gives no scores of all of them. "
        "Evaluate the .keras file or the run's folder it was exported from."
    )


@app.command()
def tune(
    model: Annotated[str, typer.Argument(help="A .keras file or a run's folder.")],
    data: Annotated[str, typer.Argument(help="Labelled texts it did not learn from.")],
    split: Annotated[str | None, typer.Option(help="Part of a named set.")] = None,
    per_label: Annotated[
        bool, typer.Option(help="A threshold for each label that is not too rare.")
    ] = False,
    by_count: Annotated[
        bool, typer.Option(help="Thresholds by how many training texts a label had.")
    ] = False,
    beta: Annotated[float, typer.Option(help="Weight of recall in F.")] = 1.0,
):
    """Fit the thresholds of a label classifier, and save them with it."""
    loaded = bat_tf.load(model)
    if not hasattr(loaded, "fit_thresholds"):
        raise ValueError(
            f"{model} has no thresholds to fit: give a .keras file or the run of a "
            "label classifier."
        )
    dataset = bat_tf.data.read(data, split=split)
    before = loaded.evaluate_report(dataset).values
    fitted = loaded.fit_thresholds(
        dataset, per_label=per_label, by_count=by_count, beta=beta
    )
    after = loaded.evaluate_report(dataset).values
    path = Path(model)
    save_model(loaded, path / "best.keras" if path.is_dir() else path)
    console.print(f"{fitted}, saved in {path}", soft_wrap=True, highlight=False)
    _print_values("before", before)
    _print_values("after, on the same texts", after)


@app.command()
def tag(
    texts: Annotated[list[str] | None, typer.Argument(help="Texts to tag.")] = None,
    model: ModelPath = None,
    input: Annotated[
        str | None,
        typer.Option(
            "--input", "-i", help="File with a text a line, or .jsonl; .gz and .xz too."
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", help="File to write to, or folder/ for a job in shards."
        ),
    ] = None,
    json_lines: Annotated[
        bool, typer.Option("--jsonl", help="Write JSONL instead of coloured text.")
    ] = False,
    batch_size: int = 64,
    top_k: Annotated[
        int | None,
        typer.Option(help="The best so many labels, not those above the threshold."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Of a job in shards: how many are at work.")
    ] = None,
    shard_rows: Annotated[int, typer.Option(help="Of a job: rows a shard.")] = 2000,
    engine: Annotated[str, typer.Option(help="Of a job: processes or ray.")] = (
        "processes"
    ),
):
    """Mark the keywords in texts, or label them: arguments, a file, or stdin.

    A job in shards can be stopped or killed; the same command does the rest.
    """
    if workers is not None or (output and (output[-1] == "/" or Path(output).is_dir())):
        if texts or not input or not output:
            raise ValueError(
                "A job in shards reads a file and writes to a folder: give `--input` "
                "and `--output`, and no texts."
            )
        workers = 1 if workers is None else workers
        settings = {"workers": workers, "shard_rows": shard_rows, "engine": engine}
        settings.update(batch_size=batch_size, top_k=top_k)
        _tag_corpus(input, output, model_path(model), settings)
        return
    style, ask = answers(bat_tf.load(model_path(model)), batch_size, top_k)
    # Several batches at a time: texts of similar length share one.
    tagged = ask_in_chunks(ask, texts or read_texts(input), 16 * batch_size)
    as_line = style.plain
    if json_lines or str(output).endswith(".jsonl"):
        as_line = style.json
    elif not output and console.is_terminal:
        for row in tagged:
            console.print(style.coloured(*row))
        return
    lines = (as_line(*row) + "\n" for row in tagged)
    total = len(texts) if texts else count_rows(input) if input else None
    _write_lines(lines, output, total, batch_size)


def _write_lines(lines, output, total, batch_size):
    # On a terminal the lines themselves show how far it is.
    quiet = not output and sys.stdout.isatty()
    bar = RowsProgress(Console(stderr=True, quiet=quiet))
    with bar, atomic_write(output) if output else nullcontext(sys.stdout) as file:
        for number, line in enumerate(lines):
            if number % batch_size == 0:
                bar.show(number, total)
            file.write(line)


def _tag_corpus(input, output, model, settings):
    # Workers write to the terminal too, across the bar.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        with RowsProgress(Console(stderr=True)) as progress:
            done = tag_corpus(input, output, model, progress=progress.show, **settings)
    except KeyboardInterrupt:
        console.print(
            f"Stopped. What is done stays in {output}; run the same command again for "
            "the rest.",
            soft_wrap=True,
        )
        raise typer.Exit(130) from None
    console.print(
        f"{done.rows:,} rows in {done.shards:,} parts in {output}; of them "
        f"{done.rows_now:,} now, {as_rate(done.rows_now, done.seconds)}. "
        f"Bad rows: {done.bad:,}{', see bad-*.jsonl' if done.bad else ''}.",
        highlight=False,
        soft_wrap=True,
    )


@app.command()
def export(
    model: Annotated[str, typer.Argument(help="A .keras file or a run's folder.")],
    folder: Annotated[str, typer.Argument(help="Where it goes, such as shop/1.")],
):
    """Write a SavedModel that takes raw strings, and check it in a fresh process."""
    loaded = bat_tf.load(model)
    if not hasattr(loaded, "export"):
        raise ValueError(f"{model} is exported already; give a .keras file or a run.")
    path = loaded.export(folder)
    about = json.loads((path / "assets.extra" / "bat_tf.json").read_text())
    ops = ", ".join(about["ops_beyond_core"]) or "none"
    oldest = about["tf_serving"]["oldest"] or "none is known"
    console.print(
        f"SavedModel in {path}; it answers as the model does.", soft_wrap=True
    )
    console.print(f"Operations beyond core TensorFlow: {ops}", soft_wrap=True)
    console.print(f"Oldest TF Serving: {oldest}", highlight=False)


@app.command()
def serve(
    model: Annotated[
        str | None, typer.Argument(help="A SavedModel, or a folder of its versions.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="0.0.0.0 lets other machines in: read SECURITY first.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Of REST and the page.")] = 8501,
    grpc_port: int = 8500,
    grpc: Annotated[bool, typer.Option(help="Serve gRPC too.")] = True,
    name: Annotated[str | None, typer.Option(help="What requests call it.")] = None,
    batching: Annotated[bool, typer.Option(help="Let requests share batches.")] = True,
    batch_threads: Annotated[
        int | None, typer.Option(help="Batches at a time; default: half of the cores.")
    ] = None,
    max_body: Annotated[int, typer.Option(help="Bytes of a request.")] = 1_000_000,
    max_text: Annotated[int, typer.Option(help="Characters of a text.")] = 20_000,
    max_rows: Annotated[int, typer.Option(help="Texts of a request or batch.")] = 64,
    max_requests: Annotated[int, typer.Option(help="Requests held at a time.")] = 256,
):
    """Answer TF Serving's REST and gRPC APIs, with a page to try the model on."""
    import_optional("starlette", "serve", "`bat-tf serve`")
    from bat_tf.serving.engine import Engine, Limits
    from bat_tf.serving.server import Server, check_ports

    grpc_port = grpc_port if grpc else None
    check_ports(host, port, grpc_port)
    limits = Limits(max_body, max_text, max_rows, max_requests)
    engine = Engine(model_path(model), name, batching, limits, batch_threads)
    engine.warm_up()
    Server(engine, host, port, grpc_port, ready=_announce).run()


def _announce(server):
    engine = server.engine
    also = f", gRPC on {server.host}:{server.grpc_port}" if server.grpc_port else ""
    text = f"{engine.name}, version {engine.version}: {server.url}{also}"
    console.print(text, highlight=False, soft_wrap=True)


@app.command()
def info(model: ModelPath = None):
    """Show versions, and what a model is."""
    console.print(
        f"bat_tf {bat_tf.__version__}, tensorflow {tf.__version__}, "
        f"keras {keras.__version__}, numpy {numpy.__version__}, "
        f"{os.cpu_count()} cores, {len(tf.config.list_physical_devices('GPU'))} GPUs",
        highlight=False,
    )
    path = model_path(model)
    about = path / "assets.extra" / "bat_tf.json"
    console.print(str(path), highlight=False, soft_wrap=True)
    if about.is_file():
        console.print_json(about.read_text(encoding="utf-8"))
        return
    loaded = bat_tf.load(path)
    loaded.summary()
    names = loaded.tags if loaded.task == "spans" else loaded.labels.names
    console.print(f"{loaded.task}: {', '.join(names)}", highlight=False)


@app.command()
def demo(
    folder: Annotated[str, typer.Option(help="Where models go.")] = "runs/demo",
    epochs: int = 4,
    size: Annotated[int | None, typer.Option(help="Training pages in all.")] = None,
):
    """Run the whole job on the embedded pages: train, score, tag, export, reload."""
    run_demo(console, Path(folder), epochs, size)
