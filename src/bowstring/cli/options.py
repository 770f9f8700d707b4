"""The flags that every command has. They may stand before the command or after it.

    bowstring --server bowstring://shop topic list
    bowstring topic list --server bowstring://shop

This module adds --quiet, --verbose and --no-color to every command. --output, --server, --context
and --timeout are arguments of the commands that use them, so that the help of a command lists only
what applies to it; before the command they apply to any.
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
    """The flags that were given, anywhere on the command line."""

    quiet = False
    verbose = False
    no_color = False
    output: str | None = None
    server: str | None = None
    context: str | None = None
    timeout: str | None = None

    def __init__(self) -> None:
        self.at_end: list[Callable[[], object]] = []
        """Functions to call when the command has ended, last one first."""


given: Final = Given()


def forget() -> None:
    """Forgets the flags of an earlier command line."""
    given.__dict__.clear()
    given.at_end = []


def finish() -> None:
    """The command has ended, well or not."""
    while given.at_end:
        given.at_end.pop()()


def colours() -> bool:
    """Whether a terminal gets colours."""
    return not given.no_color and not os.environ.get("NO_COLOR")


Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", "-q", help="Only data and errors: no hints, no progress.")]
Verbose: TypeAlias = Annotated[bool, typer.Option("--verbose", help="Tell more on stderr.")]
NoColor: TypeAlias = Annotated[bool, typer.Option("--no-color", help="No colours; NO_COLOR=1 does the same.")]
_MANNERS: Final[dict[str, Any]] = {"quiet": Quiet, "verbose": Verbose, "no_color": NoColor}


def add_to(app: typer.Typer, kind: type[TyperCommand]) -> None:
    """Adds these flags to the commands of an app and of its groups."""
    for command in app.registered_commands:
        command.cls = kind
        if command.callback is not None:
            command.callback = _mannered(command.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            add_to(group.typer_instance, kind)


def _mannered(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with these flags in addition to its own. typer reads flags from a function's
    signature.
    """

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
    """Prints a text to stderr; on a terminal, it breaks lines between words."""
    if not sys.stderr.isatty():
        return text
    width = shutil.get_terminal_size().columns
    return "\n".join(textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False) for line in text.split("\n"))


def text(*flags: str, metavar: str, help: str) -> Any:
    """An option that stands before the command."""
    return typer.Option(*flags, metavar=metavar, help=help, show_default=False)
