"""The verb `backbones`: pretrained encoders, those that are here and others."""

from typing import Annotated

import typer

from bat_tf.cli.terminal import console, say

app = typer.Typer(invoke_without_command=True)


@app.callback()
def backbones(context: typer.Context):
    """List the pretrained encoders: which are here, and which can be had."""
    if context.invoked_subcommand:
        return
    from rich.table import Table

    from bat_tf.encoders.catalogue import CATALOGUE, present

    here = present()
    table = Table()
    table.add_column("name", no_wrap=True)
    for column in ("languages", "layers", "to download", "license"):
        table.add_column(column)
    table.add_column("where", overflow="fold")
    for name, known in CATALOGUE.items():
        languages = ", ".join(known.languages).replace("*", "a hundred")
        row = name, languages, str(known.layers), f"{known.megabytes} MB", known.license
        table.add_row(*row, str(here.get(name, "not here")))
    for name, folder in here.items():
        if name not in CATALOGUE:
            table.add_row(name, "", "", "", "", str(folder))
    console.print(table)
    say("Get one: bat-tf backbones get NAME, also with a name of the hub: ORG/NAME.")
    say("Use one: bat-tf train FILE --backbone NAME, or a folder.")


@app.command()
def get(name: Annotated[str, typer.Argument(help="Of the list, or of the hub.")]):
    """Download a pretrained encoder, unless it is here."""
    from bat_tf.encoders.catalogue import get

    with console.status(f"Downloading {name} …"):
        folder = get(name)
    say(f"{name} is in {folder}")
