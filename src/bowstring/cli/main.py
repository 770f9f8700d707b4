"""`bowstring`: finds the command, and turns errors into one sentence on stderr and an exit code.

Exit codes are the same for all commands: 0 done, 1 refused or conflict, 2 wrong usage, 3
unavailable, 4 outcome unknown, 5 corrupt, 130 interrupted.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Annotated, Any, Final

import typer

from bowstring import errors
from bowstring.cli import arguments, failures, options
from bowstring.cli.commands import HELP_NAMES, NO_RICH, Commands
from bowstring.version import VERSION

HELP = """Bowstring: a message broker whose messages are Arrow batches.

\b
  bowstring dev --sample               a broker to try things on
  bowstring serve --data ./data        a broker on localhost:27769
  bowstring topic create orders --partitions 4
  echo 'one coffee' | bowstring produce orders
  bowstring read orders --follow
  bowstring consume orders billing --exec ./bill.sh --concurrency 4

Every command has --help with examples. The broker is the one of --server, BOWSTRING_SERVER or
`bowstring context`, else localhost. Output is a table on a terminal and JSON, one object per line,
anywhere else: -o chooses.
"""
INTERRUPTED: Final = 130
WRONG_USAGE: Final = 2
COMPLETING: Final = "_BOWSTRING_COMPLETE"
"""A shell sets this variable to ask for completions: see `completion`."""

app = typer.Typer(name="bowstring", help=HELP, cls=Commands, no_args_is_help=True, context_settings=HELP_NAMES, **NO_RICH)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"bowstring {VERSION}")
        raise typer.Exit


@app.callback()
def commands(
    output: Annotated[str | None, options.text("--output", "-o", metavar="FORMAT", help="table, json, csv, raw, arrow, parquet.")] = None,
    server: Annotated[str | None, options.text("--server", "-s", metavar="ADDRESS", help="The broker: bowstring://host[:27769].")] = None,
    context: Annotated[str | None, options.text("--context", metavar="NAME", help="The broker of this name.")] = None,
    timeout: Annotated[str | None, options.text("--timeout", metavar="SPAN", help="How long to try: 30s. [default: 10s]")] = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    no_color: options.NoColor = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)] = False,
) -> None:
    """See HELP."""
    given = options.given
    given.quiet, given.verbose, given.no_color = quiet, verbose, no_color
    given.output, given.server, given.context, given.timeout = output, server, context, timeout


def main() -> None:
    """The command `bowstring`."""
    finder, stdout = _WithoutPandas(), sys.stdout
    sys.meta_path.insert(0, finder)
    if isinstance(raw := getattr(stdout, "buffer", None), io.RawIOBase):
        sys.stdout = io.TextIOWrapper(_WholeWrites(raw), stdout.encoding, stdout.errors, write_through=True)
    try:
        code = run()
    finally:
        sys.meta_path.remove(finder)
    sys.exit(code)


class _WholeWrites(io.BufferedWriter):
    """stdout when Python does not buffer it (PYTHONUNBUFFERED). When a signal comes, a raw file may
    write only part of its bytes and return how many. pyarrow ignores that return value, so an Arrow
    file would lack its middle.
    """

    def write(self, buffer: Any, /) -> int:
        written = super().write(buffer)
        self.flush()
        return written


class _WithoutPandas(MetaPathFinder):
    """Keeps pyarrow from importing pandas. If pandas is installed, pyarrow imports it at the first
    list or numpy array: a broker would stop for a second or two, and take 60 MB more. No command
    needs pandas. (Other programs decide for themselves.)
    """

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("the commands of Bowstring do without pandas", name=fullname)


def run() -> int:
    """Runs the command of this command line, reports its error, and returns the exit code."""
    from typer._click.exceptions import ClickException, NoArgsIsHelpError, UsageError

    arguments.use_plain()
    options.forget()
    failures.look_ahead(sys.argv[1:])
    if COMPLETING in os.environ:
        from typer._completion_classes import completion_init

        completion_init()
    try:
        ended: Any = app(prog_name="bowstring", standalone_mode=False)
    except errors.Error as error:
        failures.tell(error)
        return failures.exit_code(error)
    except NoArgsIsHelpError as asked:
        typer.echo(asked.format_message(), err=True)
        return WRONG_USAGE
    except UsageError as error:
        failures.tell_usage(error)
        return WRONG_USAGE
    except ClickException as error:
        failures.tell(errors.Rejected(error.format_message()))
        return 1
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    return ended if isinstance(ended, int) else 0


if __name__ == "__main__":
    main()
