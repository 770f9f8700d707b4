"""`bowstring dev`: a broker to try things on, gone when it ends.

It serves a temporary directory, or --data, on the usual port of this machine alone, and creates
topics on first publish. It reads neither bowstring.toml nor variables: only the command line
counts. Ctrl-C ends it and removes the directory.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import tempfile
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from bowstring import errors, settings
from bowstring.cli import options
from bowstring.cli.output import note
from bowstring.cli.serve import stop_on_signals
from bowstring.logs import handlers

if TYPE_CHECKING:
    from bowstring.client.client import Client
    from bowstring.server import Server

HELP = """A throw-away broker on localhost:27769, to try things on. Ctrl-C ends it, and its messages
are gone.

The first publish to a topic creates it; --topic creates one at once. With --sample, plausible
orders flow into the first topic, or into `orders`: placed, paid, shipped, four new ones a second.

Examples:

\b
  bowstring dev
  bowstring dev --sample               then: bowstring read orders --follow
  bowstring dev --topic orders:4 --topic clicks
  bowstring dev --data ./data          keeps the messages
  bowstring dev --listen 127.0.0.1:0   any free port
"""
LISTEN: Final = "127.0.0.1:27769"
SAMPLE_TOPIC: Final = "orders"
SAMPLE_PARTITIONS: Final = 4


class Wanted(NamedTuple):
    """A topic to make."""

    name: str
    partitions: int


def add_to(app: typer.Typer) -> None:
    app.command("dev", help=HELP)(dev)


def dev(
    data: Annotated[str | None, typer.Option(metavar="DIR", help="Keep the messages here. [default: a temporary directory]")] = None,
    listen: Annotated[str, typer.Option(metavar="ADDRESS", help="Where to listen.")] = LISTEN,
    http: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Where to serve metrics and health, or off. [default: 127.0.0.1:27770]")
    ] = None,
    topic: Annotated[list[str] | None, typer.Option(metavar="NAME[:PARTITIONS]", help="Make this topic; may be repeated.")] = None,
    sample: Annotated[bool, typer.Option("--sample", help="Plausible orders flow in.")] = False,
    topic_retention: Annotated[str | None, typer.Option(metavar="SPAN", help="How long topics keep messages. [default: 7d]")] = None,
    topic_deduplication: Annotated[str | None, typer.Option(metavar="SPAN", help="How long topics recognise an id. [default: 10m]")] = None,
) -> None:
    from bowstring.wire import loops

    handlers.install(logging.DEBUG if options.given.verbose else logging.WARNING)
    topics = [_wanted(text) for text in topic or []]
    if sample and not topics:
        topics = [Wanted(SAMPLE_TOPIC, SAMPLE_PARTITIONS)]
    with ExitStack() as stack:
        place = (
            os.path.abspath(settings.at_home(data, "--data", os.environ))
            if data
            else stack.enter_context(tempfile.TemporaryDirectory(prefix="bowstring-dev-"))
        )
        loop = loops.new_event_loop()
        stack.callback(loop.close)
        topic_flags = {"topic_retention": topic_retention, "topic_deduplication": topic_deduplication}
        flags = {"data": place, "listen": listen, "http": http, **topic_flags}
        chosen = settings.load(settings.from_flags(flags), defaults={"topic_create": "on-publish"})
        loop.run_until_complete(_serve(chosen, topics, sample=sample, keeps=data is not None))


def _wanted(text: str) -> Wanted:
    name, colon, partitions = text.partition(":")
    if colon and not (partitions.isascii() and partitions.isdigit() and int(partitions)):
        hint = "Use --topic orders:4, or --topic orders for one partition."
        raise errors.InvalidArgument(f"--topic '{text}' does not say how many partitions.", hint=hint)
    return Wanted(name, int(partitions or 1))


async def _serve(chosen: settings.Settings, topics: list[Wanted], *, sample: bool, keeps: bool) -> None:
    from bowstring.server import open_broker

    stopped: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    stop_on_signals(stopped)
    server = await open_broker(chosen)
    try:
        await _with_topics(server, topics, stopped, sample=sample, keeps=keeps)
    finally:
        await server.stop(reason=stopped.result() if stopped.done() else "an error")
    if server.failed.done():
        raise errors.Unavailable(f"the broker has ended because its disk failed: {server.failed.result()}.")
    note("Ended; its messages are " + ("kept in " + chosen.data if keeps else "gone") + ".")


async def _with_topics(server: Server, topics: list[Wanted], stopped: asyncio.Future[str], *, sample: bool, keeps: bool) -> None:
    from bowstring.client.client import connect

    address = server.address if server.address.startswith("unix:") else f"bowstring://{server.address}"
    address = address.replace("//127.0.0.1:", "//localhost:").replace("//0.0.0.0:", "//localhost:")
    async with connect(address) as client:
        for wanted in topics:
            await client.create_topic(wanted.name, partitions=wanted.partitions, exists_ok=True)
        _tell(address, server, topics, sample=sample, keeps=keeps)
        flowing = asyncio.create_task(_flow(client, topics[0].name)) if sample else None
        ends: list[asyncio.Future[Any]] = [stopped, server.failed]
        await asyncio.wait([*ends, flowing] if flowing else ends, return_when=asyncio.FIRST_COMPLETED)
        if flowing is not None:
            if flowing.done() and not server.failed.done():
                flowing.result()  # raises why
            flowing.cancel()
            await asyncio.gather(flowing, return_exceptions=True)


def _tell(address: str, server: Server, topics: list[Wanted], *, sample: bool, keeps: bool) -> None:
    """Prints where the broker is: the address for programs, hints for people."""
    data, http = server.settings.data if keeps else None, server.http_address
    if (options.given.output or ("table" if sys.stdout.isatty() else "json")) == "json":
        made: dict[str, Any] = {"address": address, "data": data, "topics": [wanted.name for wanted in topics], "http": http}
        return typer.echo(json.dumps(made, ensure_ascii=False, separators=(",", ":")))
    typer.echo(f"bowstring dev serves {address}" + (f" from {data}" if data else ", in a temporary directory"))
    if http is not None:
        typer.echo(f"metrics and health are on {http}")
    where = "" if address.endswith(":27769") else f" --server {address}"
    name = topics[0].name if topics else "orders"
    if sample:
        note(f"\n  Orders flow into '{name}'. Elsewhere:\n\n    bowstring read {name} --follow{where}")
    else:
        note(f"\n  Elsewhere:\n\n    bowstring produce {name} --value 'one coffee'{where}\n    bowstring read {name} --follow{where}")
    note(f"    bowstring consume {name} billing{where}\n    bowstring topic list{where}")
    note(f"\n  Ctrl-C ends it{'' if data else ', and its messages are gone then'}.")
    return None


async def _flow(client: Client, topic: str) -> None:
    """Publishes orders at the speed at which they happen."""
    from bowstring.cli.sample import Shop

    loop = asyncio.get_running_loop()
    begun = loop.time()
    seed = int.from_bytes(os.urandom(4), "big")
    async with client.producer(topic, group="sample") as producer:
        for event in Shop(seed).events():
            await asyncio.sleep(max(0.0, begun + event.second - loop.time()))
            await producer.send(event.value, key=event.key, attributes=event.attributes, id=f"{event.id}-{seed:08x}")
