"""Calls between kit and broker, at the level of messages: bytes in, bytes out, unary or streamed.

The calls are those of the table in `ports.calls`. A transport does not look into messages: their
form is a matter of the codec. It tells the handler who calls. Errors of the product cross as
themselves: the caller raises the class of `bowstring.Error` that the handler has raised. A broken
connection is `Unavailable`.

There are two ways to use a stream. `read` and `write` are the plain one. `each` and `try_write` do
the same without waking a task: a transport that can do so hands a message over in the very step in
which it has arrived, and sends one in the step in which it was made. Small messages cost half that
way. A transport that cannot inherits them from the classes here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, Protocol

from bowstring.ports.disk import Buffer

Pieces = tuple[Buffer, ...]
"""A message in pieces, one behind the other. A transport sends them without joining them if it
can. Their bytes do not change afterwards."""

Take = Callable[[Buffer], Awaitable[None] | None]
"""Takes one message. If it returns something to wait for, the next message comes after that."""


def joined(message: Buffer | Pieces) -> bytes:
    """The bytes of a message, for a transport that cannot send pieces."""
    if type(message) is bytes:
        return message
    return b"".join(message) if isinstance(message, tuple) else bytes(message)


class Caller(NamedTuple):
    """Who makes a call, as its transport knows it."""

    who: str = ""
    """The user; empty, because there is no login yet."""
    address: str = ""
    """Where the call comes from, in the words of people: `127.0.0.1:51234`, `unix:`."""
    transport: str = ""
    """The transport that the call came by: `native` or `grpc`."""
    deadline: float | None = None
    """When the caller stops waiting for the answer, by the time of the running loop; None if it
    waits for ever."""


NOBODY: Final = Caller()
"""The caller of what the broker does by itself."""


class Duplex(Protocol):
    """What both ends of a stream have in common."""

    async def read(self) -> Buffer | None:
        """Gives the next message of the other side, or None when it has ended its side: bytes, or
        for a large one perhaps a view of memory of its own. The transport reads no more ahead than
        a small window: this is the back-pressure.
        """
        ...

    async def write(self, message: Buffer | Pieces) -> None:
        """Sends one message; waits while the receiver is slow."""
        ...

    async def each(self, take: Take) -> None:
        """Hands every message to `take` as it comes, until the other side has ended its side.
        Raises what `read` would raise, and what `take` raises.
        """
        while (message := await self.read()) is not None:
            waiting = take(message)
            del message  # its bytes go when they are used, not when the next message comes
            if waiting is not None:
                await waiting
            del waiting

    def try_write(self, message: Buffer | Pieces) -> bool:
        """Sends one message if that needs no waiting. Gives False, and sends nothing, otherwise;
        `write` then waits, or raises what is wrong.
        """
        del message
        return False


class Inbound(Duplex, Protocol):
    """A call's stream as its handler sees it."""


class Handler(Protocol):
    """The server's side. The gateway implements it."""

    async def call(self, method: str, request: bytes, caller: Caller) -> bytes: ...

    async def stream(self, method: str, inbound: Inbound, caller: Caller) -> None:
        """Serves a stream until it returns (the stream ends well), raises (it ends with that error)
        or is cancelled."""
        ...


class Stream(Duplex, Protocol):
    """A call's stream as its caller sees it. `read` raises the handler's error, or Unavailable."""

    async def end(self) -> None:
        """Ends the caller's side. What the handler still sends can be read."""
        ...

    def cancel(self) -> None: ...


class Channel(Protocol):
    """The way to one broker address. It connects by itself, and again after a break."""

    async def call(self, method: str, request: bytes, seconds: float) -> bytes: ...

    def stream(self, method: str) -> Stream: ...

    async def close(self) -> None: ...


class Dialer(Protocol):
    """Makes channels. `address` is host:port, or unix:path."""

    def dial(self, address: str) -> Channel: ...
