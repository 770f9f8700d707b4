"""`bowstring help`: shows the help of a command, for people who try that name first."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from bowstring.cli.commands import HELP_NAMES, no_such

HELP = """Shows the help of a command, as its --help does.

Examples:

\b
  bowstring help
  bowstring help topic create
"""
Names = Annotated[list[str] | None, typer.Argument(metavar="COMMAND", help="The command.", show_default=False)]


def add_to(app: typer.Typer) -> None:
    app.command("help", help=HELP)(show_help)


def show_help(ctx: typer.Context, command: Names = None) -> None:
    context: Any = ctx.find_root()
    path: list[str] = []
    for name in command or []:
        path.append(name)
        known: Any = context.command
        names = known.list_commands(context) if hasattr(known, "list_commands") else []
        if name not in names:
            meant = [" ".join([*path[:-1], other]) for other in names]
            raise no_such("command", " ".join(path), meant, ctx, "`bowstring --help` lists them.")
        below = known.get_command(context, name)
        context = below.context_class(below, info_name=name, parent=context, **{**HELP_NAMES, **below.context_settings})
    typer.echo(context.command.get_help(context))
