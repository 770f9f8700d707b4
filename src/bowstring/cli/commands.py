"""The commands by name: what each does in a line, and the module that has it.

A module is imported when its command is called, so that `bowstring --help` and a typing error are
answered at once, however much the commands import. Every module has `add_to(app)`, which adds the
commands that are listed with it here.
"""

from __future__ import annotations

import difflib
import os
import re
import sys
from importlib import import_module
from typing import Any, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from bowstring.cli import options, pointers

PREFIX: Final = "bowstring.cli."
NO_RICH: Final[dict[str, Any]] = {"rich_markup_mode": None, "pretty_exceptions_enable": False, "add_completion": False}
"""Help without boxes: people read it in pipes and editors too, and it appears faster."""


class Listed(NamedTuple):
    """A command that is not loaded yet."""

    module: str
    summary: str


TABLE: Final[dict[str, Listed]] = {
    "serve": Listed("serve", "Runs a broker."),
    "dev": Listed("dev", "A throw-away broker to try things on."),
    "topic": Listed("topic", "Topics: create, list, describe, alter, delete."),
    "produce": Listed("produce", "Publishes lines, or whole files."),
    "read": Listed("read", "Reads a topic as a log; removes nothing."),
    "message": Listed("message", "Single messages by their ids: find, delete."),
    "position": Listed("position", "Where named readers are: list, show, set, delete."),
    "subscription": Listed("subscription", "Queues: create, list, describe, alter, seek, delete."),
    "peek": Listed("peek", "Looks at the messages that a queue would deliver next; takes nothing."),
    "consume": Listed("consume", "Takes messages from a queue: prints them, or runs a command."),
    "lease": Listed("lease", "Who holds messages of a queue: list, release."),
    "explain": Listed("explain", "Who holds a key of a key-shared queue, and what it waits for."),
    "scheduled": Listed("scheduled", "Messages that are not due yet: list, cancel, move."),
    "top": Listed("top", "Shows queues live: rates, backlog, oldest, leases, consumers."),
    "dead-letters": Listed("dead_letters", "What a queue has given up on: list, show, redrive, purge."),
    "bench": Listed("bench", "Measures a broker: publishing, reading, delivery."),
    "inspect": Listed("inspect", "Looks into a data directory offline: is it whole?"),
    "backup": Listed("backup", "Makes a backup of a data directory, served or not."),
    "restore": Listed("backup", "Makes a data directory out of a backup."),
    "context": Listed("context", "Names for servers: list, add, use, remove."),
    "config": Listed("config", "The settings of a broker, and where each comes from."),
    "completion": Listed("completion", "Prints a script that completes commands in your shell."),
    "help": Listed("help", "Shows the help of a command."),
    "version": Listed("version", "Prints the version of this software."),
}


class Commands(TyperGroup):
    """The group `bowstring`, whose commands are loaded when they are called."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(TABLE)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        listed = TABLE.get(cmd_name)
        if listed is None:
            return None
        loaded = typer.Typer(**NO_RICH)
        import_module(PREFIX + listed.module).add_to(loaded)
        options.add_to(loaded, Command)
        return get_group(loaded).commands[cmd_name]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, listed.summary) for name, listed in TABLE.items()])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and not args[0].startswith("-") and args[0] not in TABLE:
            raise no_such("command", args[0], TABLE, ctx, "`bowstring --help` lists them.", pointers.COMMANDS.get(args[0], ""))
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            try:
                return super().invoke(ctx)
            finally:
                options.finish()
        except BrokenPipeError:
            raise closed_pipe() from None


class Command(TyperCommand):
    """A command that is not a group. Its help is for people: `TOPIC <list[str]>` is `TOPIC` there."""

    def get_help(self, ctx: Any) -> str:
        usage, newline, rest = super().get_help(ctx).partition("\n")
        return re.sub(r"[{}]", "", usage) + newline + re.sub(r" <(?:list\[)?\w+\]?>|  \[(?:required|x[<>]=\S+|\d+<=x<=\d+)\]", "", rest)


class CommandGroup(TyperGroup):
    """A group of commands for one noun, such as `bowstring topic`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            typed = f"{self.name} {args[0]}"
            raise no_such(
                "command", typed, [f"{self.name} {name}" for name in self.commands], ctx, pointer=pointers.COMMANDS.get(typed, "")
            )
        return super().resolve_command(ctx, args)


def group(name: str, text: str) -> typer.Typer:
    """An empty group of commands."""
    return typer.Typer(name=name, help=text, cls=CommandGroup, no_args_is_help=True, context_settings=HELP_NAMES, **NO_RICH)


HELP_NAMES: Final = {"help_option_names": ["-h", "--help"]}


def no_such(what: str, given: str, known: Any, ctx: Any = None, otherwise: str = "", pointer: str = "") -> Exception:
    """The error for an unknown name, with its pointer or the nearest known name."""
    close = difflib.get_close_matches(given, list(known), n=1)
    hint = pointer or (f"Did you mean '{close[0]}'?" if close else otherwise or f"Use {either(known)}.")
    from typer._click.exceptions import UsageError  # the one that typer itself raises; it exports only a subclass

    return UsageError(f"there is no {what} '{given}'. {hint}", ctx)


def either(names: Any) -> str:
    """'a', 'b' or 'c'."""
    quoted = [f"'{name}'" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"


def closed_pipe() -> typer.Exit:
    """The reader of our output, for example `head`, has closed the pipe. That is not a failure.
    Python must not write anything more at exit.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
    return typer.Exit(0)
