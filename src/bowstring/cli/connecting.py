"""The flags that every command with a broker has, and the connection that they ask for."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from bowstring import contexts, errors, times

if TYPE_CHECKING:
    from bowstring.client.sync import Client

Server = Annotated[
    str | None,
    typer.Option("--server", "-s", metavar="ADDRESS", help="The broker: bowstring://host[:27769], or several with commas between."),
]
Context = Annotated[str | None, typer.Option("--context", metavar="NAME", help="The broker of this name: see `bowstring context`.")]
Timeout = Annotated[str, typer.Option("--timeout", metavar="SPAN", help="How long to try, such as 30s or 500ms.")]
TIMEOUT = "10s"


def connect(server: str | None, context: str | None, timeout: str) -> Client:
    """A client of the broker that was asked for."""
    seconds = span(timeout, "--timeout")
    if seconds <= 0:
        raise errors.InvalidArgument(f'--timeout = "{timeout}" leaves no time.', hint='Right would be "10s".')
    chosen = contexts.choose(server, context)
    import bowstring

    try:
        return bowstring.connect(chosen.server, timeout=seconds)
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
