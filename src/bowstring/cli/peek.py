"""`bowstring peek`: looks at the messages that a subscription would deliver next."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from bowstring.cli import completing
from bowstring.cli.connecting import Context, Server, Timeout, connect
from bowstring.cli.options import TIMEOUT
from bowstring.cli.read import Form_
from bowstring.cli.subscription import named

HELP = """Looks at the messages that a subscription would deliver next, to any consumer, and takes
nothing. Messages that a consumer holds are not among them: `bowstring lease list` shows those.

Examples:

\b
  bowstring peek orders billing
  bowstring peek orders billing --limit 100 --key customer-42 -o json
  bowstring peek orders billing --id order-7
"""


def add_to(app: typer.Typer) -> None:
    app.command("peek", help=HELP)(peek)


def peek(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.", autocompletion=completing.topics)],
    subscription: Annotated[str, typer.Argument(metavar="SUBSCRIPTION", help="The subscription.", autocompletion=completing.subscriptions)],
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", help="At most this many messages.")] = 20,
    key: Annotated[str | None, typer.Option(metavar="KEY", help="Only messages of this key.")] = None,
    id: Annotated[list[str] | None, typer.Option("--id", metavar="ID", help="Only this message; may be repeated.")] = None,
    where: Annotated[str | None, typer.Option(metavar="EXPR", help="Only messages for which this holds.")] = None,
    columns: Annotated[str | None, typer.Option(metavar="A,B", help="Only these fields.")] = None,
    format: Annotated[str | None, typer.Option(metavar="TEXT", help="A line per message: '{offset} {key}: {value}'.")] = None,
    output: Form_ = None,
    server: Server = None,
    context: Context = None,
    timeout: Timeout = TIMEOUT,
) -> None:
    from bowstring.cli import forms

    form = forms.chosen(output, format, columns)
    if key is not None:
        given = f"key = x'{os.fsencode(key).hex()}'"  # a key may be bytes that are no text
        where = given if where is None else f"({where}) and {given}"
    with connect(server, context, timeout) as client, named():
        batch = client._peek(topic, subscription, limit, where, id or ())  # pyright: ignore[reportPrivateUsage]
    if len(batch):
        form.write(batch.to_arrow())
    form.close()
    sys.stdout.buffer.flush()
