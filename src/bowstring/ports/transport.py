"""Calls between kit and broker, at the level of messages: bytes in, bytes out, unary or streamed.

Every message is one protobuf message of `proto/bowstring/v1` whose last field may be a batch; `bowstring.wire.codec` splits the two
without copying. Errors of the product cross as themselves: what a handler raises as `bowstring.Error` is raised at the caller as the
same class. A broken connection is `Unavailable`. gRPC implements this for real, the simulation with delays, losses and cuts.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final, Protocol

from bowstring.ports.disk import Buffer

CALLER: Final[ContextVar[str]] = ContextVar("caller", default="")
"""The address of the client whose call is being served, for whoever tells of it; empty if it is not known."""


class Inbound(Protocol):
    """A call's stream as its handler sees it."""

    async def read(self) -> bytes | None:
        """The next message of the caller, or None when it has said all. Nothing is read ahead: this is the back-pressure."""
        ...

    async def write(self, message: Buffer) -> None:
        """Sends one message; waits while the receiver is slow."""
        ...


class Handler(Protocol):
    """The server's side: what the gateway implements."""

    async def call(self, method: str, request: bytes) -> bytes: ...

    async def stream(self, method: str, inbound: Inbound) -> None:
        """Serves a stream until it returns (the stream ends well), raises (it ends with that error) or is cancelled."""
        ...


class Stream(Protocol):
    """A call's stream as its caller sees it."""

    async def write(self, message: Buffer) -> None: ...

    async def read(self) -> bytes | None:
        """The next message, None when the stream ended well; raises the handler's error, or Unavailable."""
        ...

    async def end(self) -> None:
        """The caller has said all; what the handler still sends can be read."""
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
