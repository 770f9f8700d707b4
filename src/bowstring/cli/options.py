"""The flags that every command has: they stand before the command or behind it.

    bowstring --server bowstring://shop topic list
    bowstring topic list --server bowstring://shop

--quiet, --verbose and --no-color say how a command talks, and are added to each of them here. --output, --server, --context and --timeout
are arguments of the commands that use them, so that their help lists what counts there; before the command they count for any.
"""

from __future__ import annotations

import inspect
import logging
import os
import shutil
import sys
import textwrap
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, Final, TypeAlias, get_type_hints

import typer
from typer.core import TyperCommand

TIMEOUT: Final = "10s"
LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class Given:
    """What was given, anywhere on the command line."""

    quiet = False
    verbose = False
    no_color = False
    output: str | None = None
    server: str | None = None
    context: str | None = None
    timeout: str | None = None

    def __init__(self) -> None:
        self.at_end: list[Callable[[], object]] = []
        """What is written when a command has ended."""


given: Final = Given()


def forget() -> None:
    """A new command line begins."""
    given.__dict__.clear()
    given.at_end = []


def finish() -> None:
    """The command has ended, well or not."""
    while given.at_end:
        given.at_end.pop()()


def colours() -> bool:
    """Whether a terminal is shown colours."""
    return not given.no_color and not os.environ.get("NO_COLOR")


Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", "-q", help="Only data and errors: no hints, no progress.")]
Verbose: TypeAlias = Annotated[bool, typer.Option("--verbose", help="Tell more on stderr.")]
NoColor: TypeAlias = Annotated[bool, typer.Option("--no-color", help="No colours; NO_COLOR=1 does the same.")]
_MANNERS: Final[dict[str, Any]] = {"quiet": Quiet, "verbose": Verbose, "no_color": NoColor}


def add_to(app: typer.Typer, kind: type[TyperCommand]) -> None:
    """Adds how to talk to the commands of an app, and to those of its groups; each of them is of this kind then."""
    for command in app.registered_commands:
        command.cls = kind
        if command.callback is not None:
            command.callback = _mannered(command.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            add_to(group.typer_instance, kind)


def _mannered(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with these flags besides its own. typer reads flags off a function's signature."""

    @wraps(function)
    def run(**arguments: Any) -> Any:
        for name in _MANNERS:
            if arguments.pop(name):
                setattr(given, name, True)
        if given.verbose:
            logging.basicConfig(level=logging.INFO, format=LOG_FORMAT)
        return function(**arguments)

    kinds = {**get_type_hints(function, include_extras=True), **_MANNERS}
    own = inspect.signature(function).parameters.values()
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [parameter.replace(kind=keyword, annotation=kinds[parameter.name]) for parameter in own]
    parameters += [inspect.Parameter(name, keyword, default=False, annotation=kind) for name, kind in _MANNERS.items()]
    run.__annotations__ = kinds
    run.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportAttributeAccessIssue]
    return run


def fitted(text: str) -> str:
    """A text for stderr: if that is a terminal, broken between words and not within them."""
    if not sys.stderr.isatty():
        return text
    width = shutil.get_terminal_size().columns
    return "\n".join(textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False) for line in text.split("\n"))


def text(*flags: str, metavar: str, help: str) -> Any:
    """An option that stands before the command."""
    return typer.Option(*flags, metavar=metavar, help=help, show_default=False)
