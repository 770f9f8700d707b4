"""The flags of every command that talks to a broker, and the connection that they ask for."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from bowstring import contexts, errors, times
from bowstring.cli import options
from bowstring.cli.options import TIMEOUT

if TYPE_CHECKING:
    from bowstring.client.client import Connecting
    from bowstring.client.sync import Client

Server = Annotated[
    str | None,
    typer.Option("--server", "-s", metavar="ADDRESS", help="The broker: bowstring://host[:27769], or several with commas between."),
]
Context = Annotated[str | None, typer.Option("--context", metavar="NAME", help="The broker of this name: see `bowstring context`.")]
Timeout = Annotated[str, typer.Option("--timeout", metavar="SPAN", help="How long to try, such as 30s or 500ms.")]


def connect(server: str | None, context: str | None, timeout: str) -> Client:
    """A client of the broker that the flags name."""
    import bowstring

    with _named(server, context) as address:
        return bowstring.connect(address, timeout=seconds_of(timeout))


def connecting(server: str | None, context: str | None, timeout: str) -> Connecting:
    """The same for asyncio."""
    from bowstring.client.client import connect

    with _named(server, context) as address:
        return connect(address, timeout=seconds_of(timeout))


def seconds_of(timeout: str) -> float:
    """How long to try."""
    timeout = options.given.timeout or TIMEOUT if timeout == TIMEOUT else timeout
    seconds = span(timeout, "--timeout")
    if seconds <= 0:
        raise errors.InvalidArgument(f'--timeout = "{timeout}" leaves no time.', hint='Use "10s".')
    return seconds


@contextmanager
def _named(server: str | None, context: str | None) -> Generator[str | Sequence[str]]:
    """The address. Errors about it say where it comes from."""
    if server is None and context is None:
        server, context = options.given.server, options.given.context
    chosen = contexts.choose(server, context)
    try:
        yield chosen.server
    except (errors.InvalidArgument, errors.NotSupported) as error:
        if not error.message.startswith("server="):
            raise
        raise type(error)(f"{chosen.source}: {error.message.removeprefix('server=')}", hint=error.hint) from None


def span(text: str, name: str) -> float:
    """A span of a flag, in seconds."""
    return times.span_from_text(text, name)


def moment(text: str, name: str) -> int:
    """A moment of a flag, in microseconds since 1970."""
    return times.moment_from_text(text, name, time.time_ns() // 1000)


def span_until_due(text: str) -> float:
    """A span until messages are due. Refuses a number that looks like a Unix time."""
    seconds = span(text, "--delay")
    if seconds > times.DELAY_MAX:
        moment_meant = f"{times.to_datetime(times.microseconds(seconds)):%Y-%m-%dT%H:%MZ}"
        is_number = text.strip().replace(".", "", 1).isdecimal() and seconds < times.SPAN_MAX / 2
        hint = f"If it is a Unix time: --at {moment_meant}." if is_number else "A message may be put off by at most 10 years."
        raise errors.InvalidArgument(f'--delay = "{text}" is {times.years(seconds)}.', hint=hint)
    return seconds
