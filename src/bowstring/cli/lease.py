"""`bowstring lease list|release`: who holds messages of a subscription, and until when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from bowstring import times
from bowstring.cli import commands, completing
from bowstring.cli.connecting import Context, Server, Timeout, connect, span
from bowstring.cli.options import TIMEOUT
from bowstring.cli.output import Output, Printer, age, check_can_ask, many, note
from bowstring.cli.subscription import Name, Topic, named

if TYPE_CHECKING:
    from bowstring.client.subscriptions import Lease

HELP = """Leases, by which consumers hold messages: list, release.

Examples:

\b
  bowstring lease list orders billing
  bowstring lease list orders billing --consumer worker-7
  bowstring lease release orders billing --consumer worker-7 --yes
"""
LIST_HELP = """Lists the leases of a subscription: who holds which messages, since when and until
when, by partition.

Examples:

\b
  bowstring lease list orders billing
  bowstring lease list orders billing --older-than 10m
  bowstring lease list orders billing -o json | jq -s 'map(.messages) | add'
"""
RELEASE_HELP = """Takes messages away from the consumers that hold them: the broker delivers them
again at once, and does not count the delivery that ended. A consumer that still works on them
cannot settle them any more. On a terminal it asks first; elsewhere it needs --yes.

Use it when a consumer is gone and its leases are long. A lease that is not extended ends by itself.

Examples:

\b
  bowstring lease release orders billing --consumer worker-7
  bowstring lease release orders billing --older-than 1h --yes
"""
PAGE = 500
"""Rows of a table that are printed together; they decide the widths of its columns."""

Consumer = Annotated[
    str | None, typer.Option(metavar="NAME", help="Only those of this consumer.", autocompletion=completing.consumers, show_default=False)
]
OlderThan = Annotated[str | None, typer.Option(metavar="SPAN", help="Only those that were granted this long ago: 10m.", show_default=False)]


def add_to(app: typer.Typer) -> None:
    group = commands.group("lease", HELP)
    group.command("list", help=LIST_HELP)(list_leases)
    group.command("release", help=RELEASE_HELP)(release)
    app.add_typer(group)


def list_leases(
    topic: Topic,
    subscription: Name,
    consumer: Consumer = None,
    older_than: OlderThan = None,
    output: Output = None,
    server: Server = None,
    context: Context = None,
    timeout: Timeout = TIMEOUT,
) -> None:
    printer = Printer(output)
    seconds = None if older_than is None else span(older_than, "--older-than")
    page: list[Lease] = []
    with connect(server, context, timeout) as client, named():
        for lease in client.leases(topic, subscription, consumer=consumer, older_than=seconds):
            page.append(lease)
            if len(page) == PAGE:
                _print(printer, page)
                page.clear()
    _print(printer, page)


def release(
    topic: Topic,
    subscription: Name,
    consumer: Consumer = None,
    older_than: OlderThan = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    output: Output = None,
    server: Server = None,
    context: Context = None,
    timeout: Timeout = TIMEOUT,
) -> None:
    printer = Printer(output)
    check_can_ask("a consumer loses the messages that it works on", yes=yes)
    given: dict[str, Any] = {"consumer": consumer, "older_than": None if older_than is None else span(older_than, "--older-than")}
    with connect(server, context, timeout) as client, named():
        if not yes:
            held = sum(lease.messages for lease in client.leases(topic, subscription, **given))
            if not held:
                return note("There is no such lease.")
            if not typer.confirm(f"Take {many(held, 'message')} of '{subscription}' away?", err=True):
                return note("Nothing was released.")
        messages = client.release_leases(topic, subscription, **given)
    if printer.is_data:
        return printer.objects([{"topic": topic, "subscription": subscription, "released": messages}])
    return printer.line(f"{messages:,} {'message is' if messages == 1 else 'messages are'} released.")


# What is printed


def row(lease: Lease) -> dict[str, Any]:
    """A lease as JSON: the names of the Python face."""
    return {
        "consumer": lease.consumer,
        "topic": lease.topic,
        "subscription": lease.subscription,
        "partition": lease.partition,
        "number": lease.number,
        "messages": lease.messages,
        "offsets": [{"first": run.start, "next": run.stop} for run in lease.offsets],
        "granted": times.to_text(times.moment(lease.granted, "granted")),
        "until": times.to_text(times.moment(lease.until, "until")),
        "left": lease.left.total_seconds(),
    }


def _print(printer: Printer, leases: list[Lease]) -> None:
    if printer.is_data:
        return printer.objects(map(row, leases))
    if leases:
        columns = {"consumer": "cut", "partition": "right", "messages": "right", "offsets": "cut", "held for": "right", "ends in": "right"}
        printer.table(columns, map(_cells, leases))
    return None


def _cells(lease: Lease) -> tuple[object, ...]:
    offsets = ",".join(f"{run.start}" if len(run) == 1 else f"{run.start}–{run.stop - 1}" for run in lease.offsets)
    held = age(max(0.0, (lease.until - lease.left - lease.granted).total_seconds()))
    left = lease.left.total_seconds()
    return lease.consumer, lease.partition, f"{lease.messages:,}", offsets, held, age(left) if left > 0 else "ended"
