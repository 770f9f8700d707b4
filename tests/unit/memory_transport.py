"""A connection to a native server without a socket: a test is the peer, and writes and reads bytes."""

from __future__ import annotations

import asyncio
from typing import Any

from bowstring import errors
from bowstring.wire import error_messages
from bowstring.wire import native_frames as frames
from bowstring.wire.generated import bowstring_pb2 as pb
from bowstring.wire.native_frames import Frame, FrameReader, Scratch
from bowstring.wire.native_server import NativeServer

TURNS = 12
"""Turns of the loop in which everything that can happen has happened."""


class MemoryTransport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self, protocol: Any) -> None:
        super().__init__()
        self.protocol = protocol
        self.written = bytearray()
        self.is_closed = False
        self.is_lost = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("203.0.113.7", 5) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Has none: a test says when the peer does not read."""

    def write(self, data: Any) -> None:
        assert not self.is_closed, "written after the end"
        self.written += data

    def writelines(self, list_of_data: Any) -> None:
        for data in list_of_data:
            self.write(data)

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            asyncio.get_running_loop().call_soon(self._lose)

    abort = close

    def _lose(self) -> None:
        self.is_lost = True
        self.protocol.connection_lost(None)


class Peer:
    """A client of a server that sends what a test wants, and reads what comes."""

    def __init__(self, server: NativeServer, *, greets: bool = True) -> None:
        self.served = server.connection()
        self.transport = MemoryTransport(self.served)
        self.served.connection_made(self.transport)
        self._reader = FrameReader(Scratch(), message_bytes_max=1 << 30)
        if greets:
            self.send(frames.PREFACE)

    def send(self, *sent: bytes) -> None:
        """These bytes arrive in as few reads as possible."""
        left = memoryview(b"".join(sent))
        while left and not self.transport.is_closed:
            buffer = self.served.get_buffer(-1)
            count = min(len(left), len(buffer))
            buffer[:count] = left[:count]
            self.served.buffer_updated(count)
            left = left[count:]

    def end(self) -> None:
        """The peer hangs up."""
        if not self.transport.is_closed:
            self.served.eof_received()
            self.transport.close()

    async def answers(self) -> list[Frame]:
        """The frames that have come, when nothing more can happen."""
        for _ in range(TURNS):
            await asyncio.sleep(0)
        left, found = bytes(self.transport.written), list[Frame]()
        self.transport.written.clear()
        while left:
            buffer = self._reader.buffer()
            count = min(len(left), len(buffer))
            buffer[:count] = left[:count]
            found += self._reader.received(count)
            left = left[count:]
        return [frame for frame in found if frame[0] != frames.GREETED]


def message(call: int, payload: bytes = b"", *, last: bool = False) -> bytes:
    """The frame of a message."""
    return frames.HEADER.pack(len(payload), call, frames.MESSAGE, frames.LAST if last else 0, 0) + payload


def credit(call: int, granted: int) -> bytes:
    """The frame of a credit."""
    return frames.frame(frames.CREDIT, call, frames.NUMBER.pack(granted))


def error_of(frame: Frame) -> errors.Error:
    """The error that a frame carries."""
    assert frame[0] == frames.ERROR, frame
    return error_messages.from_message(pb.Error.FromString(bytes(frame[3])))
