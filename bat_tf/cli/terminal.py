"""What the verbs share: the terminal, the option for a model, and Ctrl-C."""

import contextlib
import json
import logging
import os
import shlex
import signal
import sys
from pathlib import Path
from typing import Annotated

import click
import typer
from rich.console import Console

console, errors = Console(), Console(stderr=True)
# Models that come along: inside the package where it is installed, else beside it.
_INSIDE = Path(__file__).parents[1] / "saved_models"
BUNDLED = _INSIDE if _INSIDE.is_dir() else _INSIDE.parents[1] / "saved_models"
MODEL = ("--model", "-m")
INPUT = ("--input", "-i")
OUTPUT = ("--output", "-o")

ModelPath = Annotated[
    str,
    typer.Option(
        *MODEL,
        help="A .keras file, a run's folder, a SavedModel, or a bundled model: "
        "product_pages or reuters_topics.",
    ),
]
# Of verbs that need the whole model.
TrainedModel = Annotated[
    str, typer.Option(*MODEL, help="A .keras file or a run's folder.")
]
DataPath = Annotated[str, typer.Option(*INPUT, help="A file or a named set.")]
OnError = Annotated[
    str | None, typer.Option(help="raise, or skip to leave faulty rows out.")
]
Split = Annotated[str | None, typer.Option(help="Part of a named set.")]


def _trust(trusted):
    """Lets this process, and those it starts, load models unseen."""
    if trusted:
        os.environ["BAT_TF_TRUST"] = "1"
    return trusted


Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        callback=_trust,
        help="Load the model whatever it does: files it reads or writes, code it runs.",
    ),
]
# Any verb's default model.
DEFAULT = "product_pages"
# Standard streams that were closed when the command was started, by name.
closed = []


def prepare():
    """Makes the best of whatever the command was started with."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # or the first file that is opened takes the place of it
            os.open(os.devnull, os.O_RDWR)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            closed.append(name)
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if stream and stream.encoding.lower() in (
            "ascii",
            "ansi_x3.4-1968",
            "us-ascii",
        ):
            stream.reconfigure(encoding="utf-8")  # the C locale says nothing about it
    if signal.getsignal(signal.SIGINT) in (signal.default_int_handler, signal.SIG_DFL):
        signal.signal(signal.SIGINT, _interrupt)


def _interrupt(number, frame):
    # Whoever presses Ctrl-C again does not want to wait, nor to read where it was.
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    raise KeyboardInterrupt


def model_path(name=DEFAULT):
    """The path of a model: as it is, or that of a bundled one."""
    bundled = BUNDLED / name / "1"
    return bundled if bundled.is_dir() and not Path(name).exists() else Path(name)


def say(text):
    """Prints a sentence as it is: no markup, and no line breaks inside paths."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def as_pairs(texts, option):
    """`name=value` of an option as names and values."""
    import yaml

    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"`{option}` must be name=value. Received: {text!r}.")
        found[name] = yaml.safe_load(value)
    return found


def or_asked(read, options):
    """Reads data; in a terminal, a file that reads in two ways is asked about.

    Args:
        read: `read(**options)` reads.
        options: what is known of how to read it.
    """
    from bat_tf.data import AmbiguousFile

    while True:
        try:
            return read(**options)
        except AmbiguousFile as error:
            options = options | _asked(error)


def _asked(error):
    """The options of the way to read a file that its owner chooses."""
    ways, reason = error.readings, str(error).partition(" Choose one of:")[0]
    if not (console.is_terminal and sys.stdin and sys.stdin.isatty()):
        listed = "".join(f"\n  {_flags(way.options)}   {way.says}" for way in ways)
        raise ValueError(f"{reason} Choose one of:{listed}") from None
    say(reason)
    for number, way in enumerate(ways, 1):
        say(f"  {number}  {way.says}")
    chosen = typer.prompt("Which is right?", type=click.IntRange(1, len(ways)))
    say(f"Next time: {_flags(ways[chosen - 1].options)}")
    return ways[chosen - 1].options


def _flags(options):
    """Options of reading as they are written on the command line."""
    pairs = (f"{name}={json.dumps(value)}" for name, value in options.items())
    return " ".join(f"--read {shlex.quote(pair)}" for pair in pairs)


def print_values(part, values):
    """Prints the scores of a part in a line."""
    shown = "  ".join(f"{name} {100 * value:.2f}" for name, value in values.items())
    console.print(f"[bold]{part}[/]  {shown}", highlight=False, soft_wrap=True)


def log_to_stderr(all_requests):
    """Shows what a server logs: warnings, and if wanted a line for each request."""
    logging.basicConfig(
        format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING
    )
    level = logging.INFO if all_requests else logging.WARNING
    logging.getLogger("bat_tf.serving").setLevel(level)


@contextlib.contextmanager
def kept(what):
    """Says on Ctrl-C what is kept, and leaves with 130, as shells expect."""
    try:
        yield
    except KeyboardInterrupt:
        say(f"Stopped. {what}")
        raise typer.Exit(130) from None
