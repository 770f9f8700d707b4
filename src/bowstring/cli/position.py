"""`bowstring position list|show|set|delete`: where the named readers of topics are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from bowstring import times
from bowstring.cli import commands, completing
from bowstring.cli.connecting import Context, Server, Timeout, connect
from bowstring.cli.options import TIMEOUT
from bowstring.cli.output import Output, Printer, check_can_ask, note
from bowstring.cli.place import place, settled, told_as_given

if TYPE_CHECKING:
    from bowstring.client.positions import Position

HELP = """Named positions of readers: list, show, set, delete.

A named reader commits its position, and the next reader of that name continues there:
`client.reader("orders", name="report")` in Python, `bowstring read orders --name report` here.

Examples:

\b
  bowstring position list
  bowstring position show report --topic orders
  bowstring position set report --topic orders --to -1h --dry-run
"""
SET_HELP = """Moves a position, also backwards, and creates it if there is none. Running readers do
not move.

--to is a place as for `bowstring read --start`: `beginning`, `latest`, an offset, `0:17,1:4`,
`-100`, `2026-11-15T09:00Z` or `-1h`.

Examples:

\b
  bowstring position set report --topic orders --to beginning
  bowstring position set report --topic orders --to 2026-11-15T09:00Z
  bowstring position set report --topic orders --to -1h --dry-run
"""
PARTITIONS_SHOWN = 64

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the reader.", autocompletion=completing.readers)]
Topic = Annotated[str, typer.Option("--topic", "-t", metavar="TOPIC", help="The topic that it reads.", autocompletion=completing.topics)]


def add_to(app: typer.Typer) -> None:
    group = commands.group("position", HELP)
    group.command("list", help="Lists positions, with how many messages are behind each.")(list_positions)
    group.command("show", help="Shows a position, partition by partition.")(show)
    group.command("set", help=SET_HELP)(set_position)
    group.command("delete", help="Deletes a position: the next reader of that name begins at its start.")(delete)
    app.add_typer(group)


def list_positions(
    topic: Annotated[str | None, typer.Option("--topic", "-t", metavar="TOPIC", help="Only those of this topic.")] = None,
    output: Output = None,
    server: Server = None,
    context: Context = None,
    timeout: Timeout = TIMEOUT,
) -> None:
    printer = Printer(output)
    with connect(server, context, timeout) as client:
        positions = list(client.positions(topic))
    if printer.is_data:
        printer.objects(map(row, positions))
    elif positions:
        columns = {"name": "cut", "topic": "cut", "partitions": "right", "behind": "right", "moved": "left"}
        rows = [(p.name, p.topic, len(p.offsets), f"{sum(p.lag.values()):,}", _moved(p)) for p in positions]
        printer.table(columns, rows)


def show(
    name: Name,
    topic: Topic,
    output: Output = None,
    server: Server = None,
    context: Context = None,
    timeout: Timeout = TIMEOUT,
) -> None:
    printer = Printer(output)
    with connect(server, context, timeout) as client:
        _print(printer, client.position(name, topic))


def set_position(
    name: Name,
    topic: Topic,
    to: Annotated[str, typer.Option("--to", metavar="PLACE", help="Where to: beginning, latest, 17, 0:17,1:4, -100, -1h.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say where it would be.")] = False,
    output: Output = None,
    server: Server = None,
    context: Context = None,
    timeout: Timeout = TIMEOUT,
) -> None:
    printer = Printer(output)
    wanted = place(to, "--to")
    with connect(server, context, timeout) as client, told_as_given(to=to):
        _print(printer, client.set_position(name, topic, settled(client, [topic], wanted), dry_run=dry_run))
    if dry_run:
        note("Nothing was changed.")


def delete(
    name: Name,
    topic: Topic,
    missing_ok: Annotated[bool, typer.Option("--missing-ok", help="A position that is not there is no error.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    output: Output = None,
    server: Server = None,
    context: Context = None,
    timeout: Timeout = TIMEOUT,
) -> None:
    printer = Printer(output)
    check_can_ask("a deleted position is forgotten", yes=yes)
    with connect(server, context, timeout) as client:
        if not yes and not typer.confirm(f"Forget where '{name}' is in '{topic}'?", err=True):
            return note(f"'{name}' was left as it is.")
        client.delete_position(name, topic, missing_ok)
    if printer.is_data:
        return printer.objects([{"name": name, "topic": topic, "deleted": True}])
    return printer.line(f"{name} in {topic} is deleted.")


def row(position: Position) -> dict[str, Any]:
    """A position as JSON: the names of the Python face."""
    return {
        "name": position.name,
        "topic": position.topic,
        "offsets": {str(partition): offset for partition, offset in position.offsets.items()},
        "lag": {str(partition): behind for partition, behind in position.lag.items()},
        "moved": None if position.moved is None else times.to_text(times.moment(position.moved, "moved")),
    }


def _print(printer: Printer, position: Position) -> None:
    if printer.is_data:
        return printer.objects([row(position)])
    printer.line(
        f"{position.name} in {position.topic}: {sum(position.lag.values()):,} messages behind, moved {_moved(position) or 'never'}"
    )
    printer.line()
    shown = list(position.offsets.items())[:PARTITIONS_SHOWN]
    rows = [(number, f"{offset:,}", f"{position.lag.get(number, 0):,}") for number, offset in shown]
    printer.table({"partition": "right", "next offset": "right", "behind": "right"}, rows)
    if len(shown) < len(position.offsets):
        note(f"These are the first {len(shown):,} partitions; -o json has them all.")
    return None


def _moved(position: Position) -> str | None:
    return None if position.moved is None else f"{position.moved:%Y-%m-%d %H:%M:%S}"
