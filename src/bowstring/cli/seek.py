"""`bowstring subscription seek`: sets a subscription to another place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from bowstring.cli import completing
from bowstring.cli.connecting import Context, Server, Timeout, connect
from bowstring.cli.options import TIMEOUT
from bowstring.cli.output import Output, Printer, many, note
from bowstring.cli.place import place, settled, told_as_given

if TYPE_CHECKING:
    from bowstring.client.seek import Seek

SEEK_HELP = """Sets a subscription to another place, in all partitions at once: messages before it
count as settled, those from there on come again. Leases end; consumers that work on a message are
told when they settle it. --dry-run says what would come again or be skipped, and changes nothing.

Examples:

\b
  bowstring subscription seek orders billing --to -1h --dry-run
  bowstring subscription seek orders billing --to 2026-11-15T09:00+01:00
  bowstring subscription seek orders billing --to latest
"""
PARTITIONS_SHOWN = 64


def seek(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.", autocompletion=completing.topics)],
    name: Annotated[str, typer.Argument(metavar="SUBSCRIPTION", help="The subscription.", autocompletion=completing.subscriptions)],
    to: Annotated[str, typer.Option("--to", metavar="PLACE", help="Where to: beginning, latest, 17, 0:17,1:4, -100, -1h.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would come again or be skipped.")] = False,
    output: Output = None,
    server: Server = None,
    context: Context = None,
    timeout: Timeout = TIMEOUT,
) -> None:
    from bowstring.cli.subscription import named

    printer = Printer(output)
    wanted = place(to, "--to")
    with connect(server, context, timeout) as client, told_as_given(to=to), named("name"):
        found = client.seek_subscription(topic, name, settled(client, [topic], wanted), dry_run=dry_run)
    if printer.is_data:
        printer.objects([row(found)])
    else:
        _print(printer, found)
    if dry_run:
        note("Nothing was changed.")


def row(found: Seek) -> dict[str, Any]:
    """What a seek comes to, as JSON: the names of the Python face."""
    return {
        "topic": found.topic,
        "name": found.name,
        "offsets": {str(partition): offset for partition, offset in found.offsets.items()},
        "again": found.again,
        "skipped": found.skipped,
        "leased": found.leased,
        "dry_run": found.dry_run,
    }


def _print(printer: Printer, found: Seek) -> None:
    come, are, end = ("would come", "would be", "would end") if found.dry_run else ("come", "are", "ended")
    printer.line(f"{found.name} of {found.topic}: {many(found.again, 'message')} {come} again, {found.skipped:,} {are} skipped")
    printer.line(f"leases on {many(found.leased, 'message')} {end}")
    printer.line()
    shown = list(found.offsets.items())[:PARTITIONS_SHOWN]
    printer.table({"partition": "right", "next offset": "right"}, [(number, f"{offset:,}") for number, offset in shown])
    if len(shown) < len(found.offsets):
        note(f"These are the first {len(shown):,} partitions; -o json has them all.")
