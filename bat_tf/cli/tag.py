"""`bat-tf tag`: texts in, answers out, for eyes, for pipes and for programs."""

import functools
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bat_tf.cli.progress import JobProgress, as_rate
from bat_tf.cli.terminal import (
    DEFAULT,
    INPUT,
    OUTPUT,
    ModelPath,
    Trust,
    closed,
    console,
    errors,
    kept,
    model_path,
    say,
)


def tag(
    texts: Annotated[list[str] | None, typer.Argument(help="Texts to tag.")] = None,
    model: ModelPath = DEFAULT,
    input: Annotated[
        str | None,
        typer.Option(*INPUT, help="File with a text a line, or .jsonl; .gz, .xz too."),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(*OUTPUT, help="File to write to, or folder/ for a job in shards."),
    ] = None,
    json_lines: Annotated[
        bool, typer.Option("--jsonl", help="Write JSONL instead of coloured text.")
    ] = False,
    top_k: Annotated[
        int | None,
        typer.Option(help="Of labels: the best so many, whatever their scores."),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="Of labels: those whose score is above it."),
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Texts a step.")] = 64,
    workers: Annotated[
        int | None, typer.Option(help="Of a job in shards: how many are at work.")
    ] = None,
    shard_rows: Annotated[int, typer.Option(help="Of a job: rows a shard.")] = 2000,
    trust: Trust = False,
):
    """Mark the keywords in texts, or label them: arguments, a file, or stdin.

    A job in shards can be stopped or killed; the same command does the rest.
    """
    if texts and input:
        raise ValueError("Give texts or `--input`, not both.")
    if not (texts or input or sys.stdin):
        raise ValueError("Standard input is closed. Give texts, or `--input`.")
    if not output and "stdout" in closed:
        raise ValueError("Standard output is closed. Give `--output`.")
    # Bytes that the locale has no characters for are UTF-8 like everything else.
    texts = [
        t.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        for t in texts or ()
    ]
    options = {"batch_size": batch_size, "top_k": top_k, "threshold": threshold}
    if workers is not None or _is_folder(output):
        if not input or not output:
            raise ValueError(
                "A job in shards reads a file and writes to a folder: give `--input` "
                "and `--output`, and no texts."
            )
        workers = 1 if workers is None else workers
        options.update(workers=workers, shard_rows=shard_rows)
        _run_job(input, output, model_path(model), options)
        return
    style, answered = _answered(model_path(model), texts, input, options)
    if json_lines or str(output).endswith(".jsonl"):
        as_line = style.json
    elif output or not console.is_terminal:
        as_line = style.plain
    else:
        for text, answer in answered:
            console.print(style.coloured(text, answer))
        return
    lines = (as_line(*row) + "\n" for row in answered)
    with kept(f"{output} is as it was before." if output else "Nothing is kept."):
        _write_lines(lines, output, _count(texts, input), batch_size)


def _is_folder(output):
    return bool(output) and (output.endswith("/") or Path(output).is_dir())


def _answered(model, texts, input, options):
    """How answers are shown, and the pairs of a text and its answer."""
    from bat_tf._internal import display
    from bat_tf.models.load import load
    from bat_tf.serving.rows import ask_in_chunks, read_texts

    model = load(model)
    ask = functools.partial(model.answer, **options)
    # Several batches at a time: texts of similar length share one.
    chunk = 16 * options["batch_size"]
    texts = texts or read_texts(input)
    return display.STYLES[model.task], ask_in_chunks(ask, texts, chunk)


def _count(texts, input):
    """How many texts there are, if that can be known."""
    from bat_tf.serving.rows import count_rows

    return len(texts) if texts else count_rows(input) if input else None


def _write_lines(lines, output, total, batch_size):
    from bat_tf._internal.files import atomic_write

    # On a terminal the lines themselves show how far it is.
    quiet = not output and sys.stdout.isatty()
    bar = JobProgress(Console(stderr=True, quiet=quiet))
    with bar, atomic_write(output) if output else nullcontext(sys.stdout) as file:
        for number, line in enumerate(lines):
            if number % batch_size == 0:
                bar.show(number, total)
            file.write(line)


def _run_job(input, output, model, options):
    """Tags a file in shards."""
    from bat_tf.serving.bulk import tag_corpus

    again = "run the same command again for the rest."
    with kept(f"What is done stays in {output}; {again}"):
        with JobProgress(errors) as bar:
            done = tag_corpus(input, output, model, progress=bar.show, **options)
    say(
        f"{done.rows:,} rows in {done.shards:,} parts in {output}; of them "
        f"{done.rows_now:,} now, {as_rate(done.rows_now, done.seconds)}. "
        f"Bad rows: {done.bad:,}{', see bad-*.jsonl' if done.bad else ''}."
    )
