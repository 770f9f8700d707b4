"""`bowstring top`: the queues of a broker, live."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from bowstring import errors, times
from bowstring.cli import completing, subscription
from bowstring.cli.connecting import Context, Server, Timeout, connect, span
from bowstring.cli.options import TIMEOUT
from bowstring.cli.output import Output, Printer, age, many, short

if TYPE_CHECKING:
    from bowstring.client.subscriptions import Subscription

HELP = """Shows the queues of a broker live, those with the oldest message first: messages a second that
were delivered, acked, nacked and whose lease expired in the last minute, how many are not settled
(backlog) and how old the oldest of them is, how many are leased, and how many consumers are at work.

Ctrl-C ends it. With --once it looks once. In a narrow terminal long names are cut, and the columns
`leased`, `delivered`, `nacked` and `expired` make room for names, in this order. In a pipe, or with
-o json, it prints an object for each queue every time it looks, with all figures in full.

Examples:

\b
  bowstring top
  bowstring top orders --every 5s
  bowstring top --once -o json | jq 'select(.oldest > 60)'
"""
SUBSCRIPTIONS_SHOWN = 40
EVERY_SECONDS = (0.1, 3600)
NAMES = ("topic", "name")
FIGURES = ("delivered", "acked", "nacked", "expired", "backlog", "oldest", "leased", "consumers")
DROPPED = ("leased", "delivered", "nacked", "expired")
"""What a narrow terminal does without, the first one first. The line above the table has all that are leased."""
NAME_ROOM = 14
"""Columns are dropped until each name has this room, or the room that it needs."""
OLDEST_ROOM = len("47h 59m")


def add_to(app: typer.Typer) -> None:
    app.command("top", help=HELP)(top)


def top(
    topic: Annotated[
        str | None,
        typer.Argument(metavar="TOPIC", help="Only the queues of this topic.", autocompletion=completing.topics, show_default=False),
    ] = None,
    every: Annotated[str, typer.Option(metavar="SPAN", help="How often it looks: 1s, 500ms.")] = "1s",
    once: Annotated[bool, typer.Option("--once", help="Look once.")] = False,
    output: Output = None,
    server: Server = None,
    context: Context = None,
    timeout: Timeout = TIMEOUT,
) -> None:
    printer, seconds = Printer(output), _seconds(every)
    with connect(server, context, timeout) as client:
        while True:
            found = sorted(client.subscriptions(topic), key=lambda each: (-(each.oldest or 0), each.topic, each.name))
            if printer.is_data:
                now = times.to_text(times.moment(datetime.now(UTC), "now"))
                printer.objects({"time": now, **subscription.row(each)} for each in found)
            else:
                if not once:
                    printer.clear()
                _show(printer, found)
            if once:
                return
            time.sleep(seconds)


def _seconds(every: str) -> float:
    seconds = span(every, "--every")
    if not EVERY_SECONDS[0] <= seconds <= EVERY_SECONDS[1]:
        what = "too often" if seconds < EVERY_SECONDS[0] else "too seldom"
        raise errors.InvalidArgument(f'--every = "{every}" is {what}.', hint="It looks every 100ms to 1h.")
    return seconds


def _show(printer: Printer, found: list[Subscription]) -> None:
    backlog, leased = sum(each.backlog for each in found), sum(each.leased for each in found)
    consumers = sum(_connected(each) for each in found)
    queues = f"{many(len(found), 'queue')}: {many(backlog, 'message')} not settled, {leased:,} leased to {many(consumers, 'consumer')}"
    printer.line(f"{datetime.now(UTC):%H:%M:%S}Z  {queues}")
    if found:
        printer.line()
        rows = [_cells(each) for each in found[:SUBSCRIPTIONS_SHOWN]]
        columns = fitting(rows, printer.width)
        printer.table(columns, [[row[name] for name in columns] for row in rows])
    if len(found) > SUBSCRIPTIONS_SHOWN:
        printer.line(f"These are the first {SUBSCRIPTIONS_SHOWN}; -o json has them all.")


def fitting(rows: list[dict[str, str | None]], room: int) -> dict[str, str]:
    """The columns that fit. Figures are never wider than their headings, so the choice does not
    change from look to look.
    """
    names = sum(max(len(name), *(min(len(row[name] or ""), NAME_ROOM) for row in rows)) for name in NAMES)
    shown = [*FIGURES]
    for dropped in DROPPED:
        figures = sum(2 + (OLDEST_ROOM if name == "oldest" else len(name)) for name in shown)
        if names + 2 + figures <= room:
            break
        shown.remove(dropped)
    return dict.fromkeys(NAMES, "cut") | dict.fromkeys(shown, "right")


def _cells(each: Subscription) -> dict[str, str | None]:
    rates = each.rates
    flow = (rates.delivered, rates.acked, rates.nacked, rates.expired)
    counts = (each.backlog, _oldest(each.oldest), each.leased, _connected(each))
    figures = (*(short(rate, digits=1) for rate in flow), *(short(count) if isinstance(count, int) else count for count in counts))
    return {"topic": each.topic, "name": each.name, **dict(zip(FIGURES, figures, strict=True))}


def _oldest(seconds: float | None) -> str | None:
    """Its age, from two days on in days."""
    if seconds is None:
        return None
    return f"{int(seconds // 86_400)}d" if seconds >= 2 * 86_400 else age(seconds)


def _connected(each: Subscription) -> int:
    return sum(consumer.connected for consumer in each.consumers)
