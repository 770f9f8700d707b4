"""`bowstring version`."""

from __future__ import annotations

import typer

from bowstring.cli import options
from bowstring.cli.output import Output, Printer
from bowstring.version import VERSION

HELP = """Prints the version of this software."""


def add_to(app: typer.Typer) -> None:
    app.command("version", help=HELP)(version)


def version(output: Output = None) -> None:
    # Without a Printer's default: one line for people and scripts alike, unless they ask for
    # another format.
    printer = Printer(output or options.given.output or "table")
    if printer.is_data:
        printer.objects([{"version": VERSION}])
    else:
        typer.echo(f"bowstring {VERSION}")
