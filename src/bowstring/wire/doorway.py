"""Other protocols at the broker's port: told apart by their first bytes, and led to where they are
served.

    "PRI * HTTP/2.0"     gRPC: the connection's bytes pass through to the gRPC server of this process
    "GET /…", "POST …"   HTTP/1.1: they pass through to the broker's HTTP address, or get a sentence
    16 03                TLS, which the port does not speak
    anything else        is ended, with a line in the log

grpcio takes no accepted socket from Python, so a passage copies bytes between two sockets. It reads
from one side only while the other takes them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Any, Final

PASSAGE_BYTES: Final = 64 * 1024
DECIDE_SECONDS: Final = 10.0
"""So long a peer may take to send the bytes that tell what it speaks."""

_HTTP_2: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HTTP_1: Final = tuple(f"{method} ".encode() for method in "GET HEAD POST PUT DELETE OPTIONS PATCH CONNECT TRACE".split())
_TLS: Final = b"\x16\x03"


class Spoken(Enum):
    """What a peer speaks."""

    HTTP_2 = "HTTP/2"
    HTTP_1 = "HTTP/1.1"
    TLS = "TLS"
    UNKNOWN = "something else"
    UNFINISHED = "nothing that could be told apart in time"


def spoken(first: bytes) -> Spoken | None:
    """What a connection that begins so speaks; None if that takes more bytes to tell."""
    for signs, answer in (((_HTTP_2,), Spoken.HTTP_2), (_HTTP_1, Spoken.HTTP_1), ((_TLS,), Spoken.TLS)):
        if first.startswith(signs):
            return answer
    if any(sign.startswith(first) for sign in (_HTTP_2, *_HTTP_1, _TLS)):
        return None
    return Spoken.UNKNOWN


class Visitor(asyncio.BufferedProtocol):
    """A connection that does not speak native frames, until it is known what it speaks."""

    def __init__(self, first: bytes, known: Callable[[Spoken, bytes, Any], None], gone: Callable[[Any], object]) -> None:
        self._first = first
        self._known = known
        self._gone = gone
        self._buffer = bytearray(64)
        self._transport: Any = None
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, transport: Any) -> None:
        """Takes over a transport from another protocol."""
        self._transport = transport
        self._timer = asyncio.get_running_loop().call_later(DECIDE_SECONDS, self._decided, Spoken.UNFINISHED)
        transport.set_protocol(self)
        self._decide()

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._timer is not None:
            self._first += bytes(self._buffer[:nbytes])
            self._decide()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._gone(self._transport)

    def _decide(self) -> None:
        if (answer := spoken(self._first)) is not None:
            self._decided(answer)

    def _decided(self, answer: Spoken) -> None:
        self._stop_waiting()
        self._known(answer, self._first, self._transport)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class PassageEnd(asyncio.BufferedProtocol):
    """One end of a passage: what it reads, the other end writes. The outer end may be closed in one
    direction only, as some HTTP clients do; when the inner end is closed, the passage is over.
    """

    def __init__(self, buffer: bytearray, gone: Callable[[Any], object] | None = None) -> None:
        self.transport: Any = None
        """None before the end is connected, and again when it is lost."""
        self.other: PassageEnd | None = None
        self._buffer = buffer
        """All passages of a loop share it: it is empty between two reads."""
        self._gone = gone

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if (opposite := self._opposite()) is not None:
            opposite.write(bytes(self._buffer[:nbytes]))

    def eof_received(self) -> bool:
        is_outer = self._gone is not None
        if is_outer and (opposite := self._opposite()) is not None:
            opposite.write_eof()
        return is_outer

    def pause_writing(self) -> None:
        if (opposite := self._opposite()) is not None:
            opposite.pause_reading()

    def resume_writing(self) -> None:
        if (opposite := self._opposite()) is not None:
            opposite.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        transport, self.transport = self.transport, None
        if self._gone is not None:
            self._gone(transport)
        if (opposite := self._opposite()) is not None:
            opposite.close()

    def _opposite(self) -> Any:
        """The transport at the other end, if it is there and open."""
        transport = None if self.other is None else self.other.transport
        return None if transport is None or transport.is_closing() else transport


Connect = Callable[[Callable[[], PassageEnd]], Awaitable[object]]


async def lead(transport: Any, first: bytes, connect: Connect, buffer: bytearray, gone: Callable[[Any], object]) -> None:
    """Leads a transport, whose first bytes are these, to where `connect` connects to. Raises
    OSError. Calls `gone` when the transport is lost.
    """
    outside, inside = PassageEnd(buffer, gone), PassageEnd(buffer)
    outside.other, inside.other = inside, outside
    outside.transport = transport
    transport.pause_reading()
    transport.set_protocol(outside)
    try:
        await connect(lambda: inside)
    except OSError:
        transport.abort()
        raise
    if outside.transport is None or transport.is_closing():
        inside.transport.close()
        return
    inside.transport.write(first)
    transport.resume_reading()
