"""`bowstring scheduled list|cancel|move`: messages that are not due yet."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bowstring import errors, times
from bowstring.cli import commands
from bowstring.cli.connecting import Context, Server, Timeout, connect, moment, span_until_due
from bowstring.cli.options import TIMEOUT
from bowstring.cli.output import Output, Printer, many, note
from bowstring.cli.refused_messages import raise_refused
from bowstring.cli.subscription import Topic, named

if TYPE_CHECKING:
    from bowstring.client.message import Message
    from bowstring.client.receipts import Answers
    from bowstring.client.sync_producer import Producer

HELP = """Messages that are published for later and not due yet: list, cancel, move.

Examples:

\b
  bowstring scheduled list orders
  bowstring scheduled cancel orders --id order-7
  bowstring scheduled move orders --id order-7 --at 2030-01-01T08:00Z
"""
LIST_HELP = """Lists the messages of a producer group that are not due yet, of each partition in the order of
their offsets.

Examples:

\b
  bowstring scheduled list orders --before +1h
  bowstring scheduled list orders --group shop -o json | jq -r .id
"""
CANCEL_HELP = """Deletes messages that are not due yet: no consumer gets them, and no reader any more. They
belong to a producer group, and only that may cancel them. A message that is due is refused.

Examples:

\b
  bowstring scheduled cancel orders --id order-7 --id order-8
  bowstring scheduled cancel orders --before +1h --dry-run
"""
MOVE_HELP = """Gives messages that are not due yet another due time: so long from now, or at a moment. They
belong to a producer group, and only that may move them. A message that is due is refused.

Examples:

\b
  bowstring scheduled move orders --id order-7 --delay 2h
  bowstring scheduled move orders --before +1h --delay 1d --dry-run
"""
PAGE = 500
"""Rows of a table that are printed together; they decide the widths of its columns."""

Group = Annotated[str, typer.Option(metavar="NAME", help="The producer group that owns the messages.")]
Before = Annotated[str | None, typer.Option(metavar="MOMENT", help="Only those that are due before: +1h.", show_default=False)]
Ids = Annotated[list[str] | None, typer.Option("--id", metavar="ID", help="This message; may be given again.", show_default=False)]


def add_to(app: typer.Typer) -> None:
    group = commands.group("scheduled", HELP)
    group.command("list", help=LIST_HELP)(list_scheduled)
    group.command("cancel", help=CANCEL_HELP)(cancel)
    group.command("move", help=MOVE_HELP)(move)
    app.add_typer(group)


def list_scheduled(
    topic: Topic,
    id: Ids = None,
    group: Group = "default",
    before: Before = None,
    output: Output = None,
    server: Server = None,
    context: Context = None,
    timeout: Timeout = TIMEOUT,
) -> None:
    printer, until = Printer(output), _before(before)
    page: list[Message] = []
    is_empty = True
    with connect(server, context, timeout) as client, named(), client.producer(topic, group=group) as producer:
        for message in producer.scheduled(until):
            if id and message.id not in id:
                continue
            page.append(message)
            if len(page) == PAGE:
                _print(printer, page)
                page.clear()
                is_empty = False
    _print(printer, page)
    if is_empty and not page and not id and not printer.is_data:
        note(f"No message of the group '{group}' is scheduled. For another group: --group NAME.")


def cancel(
    topic: Topic,
    id: Ids = None,
    group: Group = "default",
    before: Before = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be cancelled.")] = False,
    output: Output = None,
    server: Server = None,
    context: Context = None,
    timeout: Timeout = TIMEOUT,
) -> None:
    printer, until = Printer(output), _before(before)
    _check_choice(id, until)
    with connect(server, context, timeout) as client, named(), client.producer(topic, group=group) as producer:
        if dry_run:
            return _print_chosen(printer, topic, producer, id, until)
        wanted = id or [message.id for message in producer.scheduled(until)]
        answers = producer.cancel(wanted) if wanted else None
    return _tell(printer, topic, "cancelled", wanted, answers)


def move(
    topic: Topic,
    id: Ids = None,
    group: Group = "default",
    before: Before = None,
    delay: Annotated[str | None, typer.Option(metavar="SPAN", help="Due so long from now: 10m.", show_default=False)] = None,
    at: Annotated[str | None, typer.Option(metavar="MOMENT", help="Due at: 2030-01-01T08:00Z, +1h.", show_default=False)] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be moved.")] = False,
    output: Output = None,
    server: Server = None,
    context: Context = None,
    timeout: Timeout = TIMEOUT,
) -> None:
    printer, until = Printer(output), _before(before)
    _check_choice(id, until)
    if (delay is None) == (at is None):
        raise errors.InvalidArgument("--delay or --at is needed, and only one of them.", hint="Say how long from now, or when.")
    span = None if delay is None else span_until_due(delay)
    due = None if at is None else times.to_datetime(moment(at, "--at"))
    with connect(server, context, timeout) as client, named(), client.producer(topic, group=group) as producer:
        if dry_run:
            return _print_chosen(printer, topic, producer, id, until)
        wanted = id or [message.id for message in producer.scheduled(until)]
        answers = producer.move(wanted, delay=span, at=due) if wanted else None
    return _tell(printer, topic, "moved", wanted, answers)


def _print_chosen(printer: Printer, topic: str, producer: Producer, ids: list[str] | None, until: datetime | None) -> None:
    """Prints what would be cancelled or moved, and raises if a message that was named is not scheduled."""
    chosen = [message for message in producer.scheduled(until) if not ids or message.id in ids]
    _print(printer, chosen)
    if left := sorted({*(ids or ())} - {message.id for message in chosen}):
        more = f" and {len(left) - 1:,} more" if len(left) > 1 else ""
        raise errors.Conflict(
            f"'{left[0]}'{more} would be refused: it is no scheduled message of the group '{producer.group}' in '{topic}'.",
            hint="It is due, gone, or another group's: --group.",
        )


def _check_choice(ids: list[str] | None, until: datetime | None) -> None:
    if (not ids) == (until is None):
        raise errors.InvalidArgument("--id or --before is needed, and only one of them.", hint="Name the messages, or say up to when.")


def _tell(printer: Printer, topic: str, done: str, wanted: list[str], answers: Answers | None) -> None:
    """Prints how many messages something was done with, and raises why not with others."""
    count = 0 if answers is None else sum(answers.ok.to_pylist())
    if printer.is_data and (count or not wanted):
        printer.objects([{"topic": topic, done: count}])
    elif count or not wanted:
        printer.line(f"{many(count, 'message')} {done}.")
    if answers is not None:
        raise_refused(answers, wanted)


def _before(text: str | None) -> datetime | None:
    return None if text is None else times.to_datetime(moment(text, "--before"))


# What is printed


def row(message: Message) -> dict[str, Any]:
    """A message as JSON: the names of the Python face."""
    assert message.due is not None
    return {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "id": message.id,
        "due": times.to_text(times.moment(message.due, "due")),
    }


def _print(printer: Printer, messages: list[Message]) -> None:
    if printer.is_data:
        return printer.objects(map(row, messages))
    if messages:
        columns = {"partition": "right", "offset": "right", "id": "left", "due": "left"}
        cells = ((each.partition, each.offset, each.id, f"{each.due:%Y-%m-%d %H:%M:%SZ}") for each in messages)
        printer.table(columns, cells)
    return None
