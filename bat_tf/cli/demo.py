"""`bat-tf demo`."""

from pathlib import Path
from typing import Annotated

import typer

from bat_tf.cli.terminal import OUTPUT, console


def demo(
    output: Annotated[
        str, typer.Option(*OUTPUT, help="Where models go.")
    ] = "runs/demo",
    epochs: int = 4,
    size: Annotated[int | None, typer.Option(help="Training pages in all.")] = None,
):
    """Run the whole job on invented pages: train, score, tag, export, reload."""
    from bat_tf.runs import demo

    demo.demo(console, Path(output), epochs, size)
