"""The command line: one file a group of verbs.

What a verb needs of TensorFlow it imports when it runs, so that `--help`, `--version`
and completion answer at once.
"""

import atexit
import gc
import os
import sys
from typing import Annotated

import typer
from rich.text import Text

from bat_tf._internal.version import VERSION
from bat_tf.cli import backbones, check, demo, model, serve, tag, train
from bat_tf.cli.quiet import hide_logs
from bat_tf.cli.terminal import errors, prepare

VERBS = {
    "Make a model": (demo.demo, check.check, train.train, train.recipes, train.grid),
    "Look at it": (model.evaluate, model.report, model.tune, model.info),
    "Use it": (tag.tag, model.export, serve.serve),
}

app = typer.Typer(
    help="Put tags on text: mark keywords, choose labels.",
    epilog="Everywhere, --model/-m is the model, --input/-i what is read, --output/-o "
    "where results go. Texts, and the file that train or grid is about, stand bare. "
    "Exit codes: 0 done; 1 nobody reads the output any more; 2 an error, in one "
    "sentence on stderr; 3 training met numbers that are not finite; "
    "4 check found something to correct; 130 Ctrl-C.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for group, verbs in VERBS.items():
    for verb in verbs:
        app.command(rich_help_panel=group)(verb)
app.add_typer(backbones.app, name="backbones", rich_help_panel="Make a model")


def main():
    """Runs the command line; errors of the user's input become one sentence."""
    prepare()
    # TensorFlow's import makes a million objects that stay. Looking for garbage among
    # them, again and again and at the end, takes a third of the time of a short verb.
    gc.set_threshold(100_000, 50, 100)
    atexit.register(gc.freeze)
    try:
        app()
    except (ValueError, TypeError, OSError, ImportError, RuntimeError) as error:
        if os.environ.get("BAT_TF_DEBUG"):
            raise
        # As it is: a path that is broken into lines cannot be copied.
        errors.print(Text(f"Error: {error}", style="red"), soft_wrap=True)
        sys.exit(2)


def _print_version(wanted):
    if wanted:
        print(f"bat_tf {VERSION}")
        raise typer.Exit


@app.callback()
def _options(
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show TensorFlow's log lines too.")
    ] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Show the version and exit.",
            callback=_print_version,
            is_eager=True,
        ),
    ] = False,
):
    if not verbose:
        hide_logs()
