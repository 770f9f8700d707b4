"""`bowstring explain`: who holds a key of a key-shared subscription, and what it waits for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bowstring import times
from bowstring.cli.connecting import Context, Server, Timeout, connect
from bowstring.cli.options import TIMEOUT
from bowstring.cli.output import Output, Printer, json_text
from bowstring.cli.subscription import Name, Topic, named

if TYPE_CHECKING:
    from bowstring.client.keys import KeyReport

HELP = """Says who holds a key of a key-shared subscription, since when, and what the messages of the
key wait for.

Messages of one key go to one consumer, in order: while it works on one of them, the later ones wait.

Examples:

\b
  bowstring explain orders billing customer-42
  bowstring explain orders billing customer-42 -o json | jq .reason
"""


def add_to(app: typer.Typer) -> None:
    app.command("explain", help=HELP)(explain)


def explain(
    topic: Topic,
    subscription: Name,
    key: Annotated[str, typer.Argument(metavar="KEY", help="The key of messages.", show_default=False)],
    output: Output = None,
    server: Server = None,
    context: Context = None,
    timeout: Timeout = TIMEOUT,
) -> None:
    printer = Printer(output)
    with connect(server, context, timeout) as client, named():
        report = client.explain(topic, subscription, os.fsencode(key))
    if printer.is_data:
        return printer.objects([row(report)])
    return printer.line(report.reason)


def row(report: KeyReport) -> dict[str, Any]:
    """A report as JSON: the names of the Python face."""
    return {
        "topic": report.topic,
        "subscription": report.subscription,
        "key": json_text(report.key),
        "partition": report.partition,
        "consumer": report.consumer,
        "since": None if report.since is None else times.to_text(times.moment(report.since, "since")),
        "until": None if report.until is None else times.to_text(times.moment(report.until, "until")),
        "left": None if report.left is None else report.left.total_seconds(),
        "held": report.held,
        "waiting": report.waiting,
        "first": report.first,
        "later": report.later,
        "preferred": report.preferred,
        "looked": report.looked,
        "stopped": report.stopped,
        "suspect": report.suspect,
        "reason": report.reason,
    }
