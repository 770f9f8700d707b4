"""`bowstring`: finds the command, and turns what goes wrong into one sentence on stderr and an exit code.

Commands that need much (a broker, a client) import it when they run, so that `bowstring --help` answers at once.

Exit codes are the same for all commands: 0 done, 1 refused or conflict, 2 wrong usage, 3 unavailable, 4 outcome unknown, 5 corrupt,
130 interrupted.
"""

from __future__ import annotations

import sys
from typing import Final

import typer

from bowstring import errors
from bowstring.cli import backup, inspect, output, serve

EXIT_CODES: Final[tuple[tuple[type[errors.Error], int], ...]] = (
    (errors.Unavailable, 3),
    (errors.OutcomeUnknown, 4),
    (errors.Corrupt, 5),
    (errors.Error, 1),
)
INTERRUPTED: Final = 130

app = typer.Typer(
    name="bowstring",
    help="Bowstring: a message broker whose messages are Arrow batches.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
serve.add_to(app)
inspect.add_to(app)
backup.add_to(app)


@app.command()
def version() -> None:
    """Prints the version of this software."""
    import importlib.metadata

    try:
        installed = importlib.metadata.version("bowstring")
    except importlib.metadata.PackageNotFoundError:
        installed = "(not installed, run from its source)"
    typer.echo(f"bowstring {installed}")


@app.callback()
def commands() -> None:
    """Bowstring: a message broker whose messages are Arrow batches."""


def main() -> None:
    """The command `bowstring`."""
    try:
        app()
    except errors.Error as error:
        output.error(error)
        sys.exit(exit_code(error))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def exit_code(error: errors.Error) -> int:
    """The exit code that tells a script what to do about it."""
    return next(code for cls, code in EXIT_CODES if isinstance(error, cls))


if __name__ == "__main__":
    main()
