"""`bowstring version`."""

from __future__ import annotations

import typer

from bowstring.cli.output import Output, Printer

HELP = """Prints the version of this software."""


def add_to(app: typer.Typer) -> None:
    app.command("version", help=HELP)(version)


def version(output: Output = None) -> None:
    # Not a Printer's default: this is one line for people and scripts alike, unless they ask for JSON.
    if Printer(output or "text").is_json:
        Printer(output).objects([{"version": installed()}])
    else:
        typer.echo(f"bowstring {installed()}")


def installed() -> str:
    """The version of this software."""
    import importlib.metadata

    try:
        return importlib.metadata.version("bowstring")
    except importlib.metadata.PackageNotFoundError:
        return "(not installed, run from its source)"
