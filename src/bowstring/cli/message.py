"""`bowstring message find|delete`: single messages, by their ids."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from bowstring import errors
from bowstring.cli import commands, completing
from bowstring.cli.connecting import Context, Server, Timeout, connect
from bowstring.cli.options import TIMEOUT
from bowstring.cli.output import Output, Printer, check_can_ask, note

HELP = """Single messages, by their ids: find, delete.

Examples:

\b
  bowstring message find orders order-7
  bowstring message delete orders order-7 order-8 --group shop
"""
FIND_HELP = """Shows where messages are stored. Exit code 1 if an id is not found.

An id is known until retention takes its message. Of several messages of an id the newest is told.

Examples:

\b
  bowstring message find orders order-7
  bowstring message find orders order-7 order-8 -o json
"""
DELETE_HELP = """Deletes messages of a producer group by their ids: readers get them no more. A
deletion is durable once it is printed.

An id stays taken for the deduplication window, so a message that is published again under it within
that time is not stored. On a terminal it asks first; elsewhere it needs --yes. `-` reads ids from
stdin, one a line.

Examples:

\b
  bowstring message delete orders order-7 --group shop
  bowstring read orders --where "key = 'customer-42'" --format '{id}' | bowstring message delete orders - --yes
"""
Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.", autocompletion=completing.topics)]
Ids = Annotated[list[str], typer.Argument(metavar="ID", help="The ids; - reads them from stdin.")]
Group = Annotated[str, typer.Option("--group", metavar="NAME", help="The producer group, which owns the messages.")]


def add_to(app: typer.Typer) -> None:
    group = commands.group("message", HELP)
    group.command("find", help=FIND_HELP)(find)
    group.command("delete", help=DELETE_HELP)(delete)
    app.add_typer(group)


def find(
    topic: Topic,
    ids: Ids,
    output: Output = None,
    server: Server = None,
    context: Context = None,
    timeout: Timeout = TIMEOUT,
) -> None:
    printer = Printer(output)
    rows: list[dict[str, Any]] = []
    missing: list[str] = []
    with connect(server, context, timeout) as client, client.producer(topic) as producer:
        for id in _given(ids):
            stored = producer.find(id)
            if stored is None:
                missing.append(id)
            else:
                rows.append({"topic": topic, "partition": stored.partition, "offset": stored.offset, "id": id})
    _print(printer, rows)
    if missing:
        more = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
        hint = "An id is known until retention takes its message."
        raise errors.MessageNotFound(f"'{missing[0]}'{more} is not found in '{topic}'.", hint=hint)


def delete(
    topic: Topic,
    ids: Ids,
    group: Group = "default",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    output: Output = None,
    server: Server = None,
    context: Context = None,
    timeout: Timeout = TIMEOUT,
) -> None:
    printer = Printer(output)
    check_can_ask("a deleted message does not come back", yes=yes)
    wanted = _given(ids)
    if not wanted:
        return
    with connect(server, context, timeout) as client, client.producer(topic, group=group) as producer:
        many = f"'{wanted[0]}'" if len(wanted) == 1 else f"{len(wanted):,} messages"
        if not yes and not typer.confirm(f"Delete {many} of '{topic}'?", err=True):
            return note("Nothing was deleted.")
        answers = producer.delete(wanted)
    places = zip(wanted, answers.ok.to_pylist(), answers.partitions.to_pylist(), answers.offsets.to_pylist(), strict=True)
    rows = [
        {"topic": topic, "partition": partition, "offset": offset, "id": id, "deleted": True} for id, ok, partition, offset in places if ok
    ]
    _print(printer, rows)
    if answers.refused:
        note(f"{len(rows):,} of the {len(wanted):,} messages are deleted.")
        row, error = next(iter(answers.refused.items()))
        raise type(error)(f"'{wanted[row]}': {error.message}", hint=error.hint, details=error.details)


def _given(ids: list[str]) -> list[str]:
    if ids == ["-"]:
        ids = [line.rstrip("\r\n") for line in sys.stdin]
    return [id for id in dict.fromkeys(ids) if id]


def _print(printer: Printer, rows: list[dict[str, Any]]) -> None:
    if printer.is_data:
        printer.objects(rows)
    elif rows:
        columns = {"partition": "right", "offset": "right", "id": "left", "": "left"}
        printer.table(columns, [(row["partition"], f"{row['offset']:,}", row["id"], "deleted" if "deleted" in row else "") for row in rows])
