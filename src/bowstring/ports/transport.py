"""Calls between kit and broker, at the level of messages: bytes in, bytes out, unary or streamed.

The calls are those of the table in `ports.calls`. A transport does not look into messages: their
form is a matter of the codec. It tells the handler who calls. Errors of the product cross as
themselves: the caller raises the class of `bowstring.Error` that the handler has raised. A broken
connection is `Unavailable`. gRPC implements this port for real, the simulation with delays, losses
and cuts.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from bowstring.ports.disk import Buffer


class Caller(NamedTuple):
    """Who makes a call, as its transport knows it."""

    who: str = ""
    """The user; empty, because there is no login yet."""
    address: str = ""
    """Where the call comes from, in the words of people: `127.0.0.1:51234`, `unix:`."""
    transport: str = ""
    """The transport that the call came by: `grpc`."""
    deadline: float | None = None
    """When the caller stops waiting for the answer, by the time of the running loop; None if it
    waits for ever."""


NOBODY: Final = Caller()
"""The caller of what the broker does by itself."""


class Inbound(Protocol):
    """A call's stream as its handler sees it."""

    async def read(self) -> bytes | None:
        """Gives the next message of the caller, or None when the caller has ended its side.
        The transport reads nothing ahead: this is the back-pressure."""
        ...

    async def write(self, message: Buffer) -> None:
        """Sends one message; waits while the receiver is slow."""
        ...


class Handler(Protocol):
    """The server's side. The gateway implements it."""

    async def call(self, method: str, request: bytes, caller: Caller) -> bytes: ...

    async def stream(self, method: str, inbound: Inbound, caller: Caller) -> None:
        """Serves a stream until it returns (the stream ends well), raises (it ends with that error)
        or is cancelled."""
        ...


class Stream(Protocol):
    """A call's stream as its caller sees it."""

    async def write(self, message: Buffer) -> None: ...

    async def read(self) -> bytes | None:
        """Gives the next message, None when the stream ended well; raises the handler's error, or
        Unavailable."""
        ...

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
    """Makes channels. `address` is host:port."""

    def dial(self, address: str) -> Channel: ...
