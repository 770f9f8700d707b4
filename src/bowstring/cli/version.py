"""`bowstring version`."""

from __future__ import annotations

import typer

HELP = """Prints the version of this software."""


def add_to(app: typer.Typer) -> None:
    app.command("version", help=HELP)(version)


def version() -> None:
    typer.echo(f"bowstring {installed()}")


def installed() -> str:
    """The version of this software."""
    import importlib.metadata

    try:
        return importlib.metadata.version("bowstring")
    except importlib.metadata.PackageNotFoundError:
        return "(not installed, run from its source)"
