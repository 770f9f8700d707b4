"""`bowstring context list|add|use|remove`: names for servers."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from bowstring import contexts, errors
from bowstring.cli import commands
from bowstring.cli.output import Output, Printer, note

HELP = """Short names for servers: list, add, use, remove.

Examples:

\b
  bowstring context add shop bowstring://shop.example.com
  bowstring context use shop
  bowstring topic list                     asks shop
  bowstring topic list --context test      asks test, this once
"""
Name = Annotated[str, typer.Argument(metavar="NAME", help="The context.")]


def add_to(app: typer.Typer) -> None:
    group = commands.group("context", HELP)
    group.command("list", help="Lists the names; the one in use has a star.")(list_contexts)
    group.command("add", help="Adds a name for a server, or changes it. The first name added is in use.")(add)
    group.command("use", help="Uses this server from now on.")(use)
    group.command("remove", help="Removes a name.")(remove)
    app.add_typer(group)


def list_contexts(output: Output = None) -> None:
    printer = Printer(output)
    known = contexts.load()
    rows = [{"name": name, "server": server, "current": name == known.current} for name, server in sorted(known.servers.items())]
    if printer.is_data:
        printer.objects(rows)
    elif rows:
        columns = {"": "left", "context": "left", "server": "wrap"}
        printer.table(columns, [("*" if row["current"] else "", row["name"], row["server"]) for row in rows])
    else:
        note("There is none. Use: bowstring context add NAME SERVER.")


def add(
    name: Name,
    server: Annotated[str, typer.Argument(metavar="SERVER", help="bowstring://host[:27769], or several with commas between.")],
) -> None:
    from bowstring.client import addresses

    if not contexts.NAME.fullmatch(name):
        raise errors.InvalidArgument(f"'{name}' is not a name for a context.", hint="Use letters, digits, dots and dashes.")
    try:
        addresses.seeds(server)
    except errors.Error as error:
        raise type(error)(error.message.removeprefix("server="), hint=error.hint) from None
    known = contexts.load()
    contexts.save(contexts.Contexts({**known.servers, name: server}, known.current or name))
    note(f"{name} is {server}.")


def use(name: Name) -> None:
    known = contexts.load()
    server = contexts.server_of(known, name)
    contexts.save(contexts.Contexts(known.servers, name))
    note(f"{name} is in use: {server}.")
    if os.environ.get("BOWSTRING_SERVER"):
        note("But BOWSTRING_SERVER is set, and takes precedence.")


def remove(name: Name) -> None:
    known = contexts.load()
    contexts.server_of(known, name)
    servers = {other: server for other, server in known.servers.items() if other != name}
    contexts.save(contexts.Contexts(servers, None if known.current == name else known.current))
    note(f"{name} is removed.")
