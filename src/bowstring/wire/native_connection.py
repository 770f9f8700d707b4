"""A connection of the native transport: hands frames to their calls, and sends theirs.

What is small is coalesced: uvloop gathers the writes of one turn by itself, and on asyncio's own
loop this module does. A large message goes to the kernel in its pieces, without being joined.

A peer that is silent is asked whether it is there (`Pulse`), and given up if it does not answer.
Keepalive works while no call is open, too. A peer that does not read what it is sent stops being
written to: calls wait for room, and of control frames only one PONG is kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from bowstring import errors
from bowstring.ports.disk import Buffer
from bowstring.ports.transport import Pieces
from bowstring.wire import native_frames as frames
from bowstring.wire.native_call import NativeCall
from bowstring.wire.native_frames import Frame, FrameReader, Scratch

TO_BROKER_BYTES: Final = 1024 * 1024
"""The window of a call towards the broker. The windows belong to the version of the protocol."""
TO_CALLER_BYTES: Final = 16 * 1024 * 1024
"""The window of a call towards its caller."""

JOINED_BYTES: Final = 8 * 1024
"""Up to here it is cheaper to join the pieces of a message than to send each by itself."""
WRITE_BYTES_HIGH: Final = 2 * 1024 * 1024
WRITE_BYTES_LOW: Final = 512 * 1024
"""Calls wait while the kernel has not taken so many bytes."""
CLOSING_SECONDS: Final = 2.0
"""So long a peer may take to read the last bytes of a connection."""
CONTROL_FRAMES_MAX: Final = 1024
"""Control frames that may wait for a peer that does not read."""


class NativeConnection(asyncio.BufferedProtocol):
    """One end of one connection; `native_client` and `native_server` say what each end does."""

    def __init__(self, loop: asyncio.AbstractEventLoop, scratch: Scratch, *, message_bytes_max: int) -> None:
        self.loop = loop
        self.calls: dict[int, NativeCall] = {}
        self.writable = False
        self.blocked: dict[NativeCall, None] = {}
        """Calls that wait until the kernel takes more."""
        self.heard = loop.time()
        """When bytes came last."""
        self.gone: asyncio.Future[None] = loop.create_future()
        """Settled when the connection is lost."""
        self.transport: Any = None
        """None before the connection is made, and again when it is lost."""
        self.is_over = False
        """What still arrives is ignored."""
        self._message_bytes_max = message_bytes_max
        self._reader = FrameReader(scratch, message_bytes_max=message_bytes_max)
        self.within_since: float | None = None
        """Since when a frame has been arriving."""
        self._coalesces = not type(loop).__module__.startswith("uvloop")
        self._outbox: list[Buffer] = []
        """What is written at the end of this turn of the loop."""
        self._pong: bytes | None = None
        """The answer to the last ping, until the peer reads."""
        self._control_frames = 0
        """Control frames since the peer stopped reading."""

    # ---- what the transport below reports

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.writable = True
        transport.set_write_buffer_limits(WRITE_BYTES_HIGH, WRITE_BYTES_LOW)

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self.is_over = True
        if not self.gone.done():
            self.gone.set_result(None)
        self.writable = False
        self._outbox.clear()
        calls, self.calls = list(self.calls.values()), {}
        self.lost(calls)
        self._wake_blocked()

    def eof_received(self) -> bool:
        self.flush()
        self.is_over = True
        self.writable = False
        return False

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = not self.is_over
        self._control_frames = 0
        if self._pong is not None:
            pong, self._pong = self._pong, None
            self.send(frames.PONG, 0, pong)
        self._wake_blocked()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self.heard = self.loop.time()
        arrived = self._reader.received(nbytes)
        if not self._reader.is_within:
            self.within_since = None
        elif arrived or self.within_since is None:
            self.within_since = self.heard
        for frame in arrived:
            if self.is_over:
                return
            self._handle(frame)

    def _wake_blocked(self) -> None:
        blocked, self.blocked = self.blocked, {}
        for call in blocked:
            call.wake_writers()

    # ---- frames that arrive

    def _handle(self, frame: Frame) -> None:
        kind, number, flags, payload = frame
        call = self.calls.get(number)
        if kind == frames.MESSAGE:
            if call is None:
                self.stray(number)
            elif (problem := call.received(payload, bool(flags & frames.LAST))) is not None:
                self.refuse(call, problem)
            elif flags & frames.LAST:
                self.side_ended(call)
        elif kind == frames.CREDIT:
            if call is not None and not call.granted(frames.NUMBER.unpack(payload)[0]):
                self.refuse(call, errors.InvalidArgument("a credit is above zero, and at most 2 GiB in all."))
        elif kind == frames.END:
            if call is not None:
                call.ended()
                self.side_ended(call)
        elif kind == frames.PING:
            self._answer_ping(bytes(payload))
        elif kind == frames.BROKEN:
            self.give_up("a frame is longer or shorter than its kind allows", bytes(payload).decode())
        elif kind != frames.PONG:
            self.control(kind, number, flags, bytes(payload))

    def _answer_ping(self, payload: bytes) -> None:
        if self.writable:
            self.send(frames.PONG, 0, payload)
        else:
            self._pong = payload

    # ---- what the two ends do differently

    def control(self, kind: int, number: int, flags: int, payload: bytes) -> None:
        """A frame that only one end takes, or that the reader has passed over."""
        raise NotImplementedError

    def stray(self, number: int) -> None:
        """A message came for a call that is not open."""

    def side_ended(self, call: NativeCall) -> None:
        """The other side of this call has sent everything."""

    def refuse(self, call: NativeCall, error: errors.Error) -> None:
        """Ends one call, because its peer breaks the rules in it."""
        raise NotImplementedError

    def lost(self, calls: list[NativeCall]) -> None:
        """The connection is gone, and these calls with it."""
        raise NotImplementedError

    def give_up(self, why: str, more: str = "") -> None:
        """Ends the connection, because its peer breaks the rules. `more` has what differs from one
        such peer to the next.
        """
        raise NotImplementedError

    # ---- sending

    def send_message(self, number: int, message: Buffer | Pieces, flags: int = 0) -> int:
        """Sends a message, and gives its size."""
        if isinstance(message, tuple):
            size = 0
            for piece in message:
                size += len(piece)
            header = frames.HEADER.pack(size, number, frames.MESSAGE, flags, 0)
            if size > JOINED_BYTES:
                self._send_pieces((header, *message))
            else:
                self._write(b"".join((header, *message)))
        else:
            size = len(message)
            header = frames.HEADER.pack(size, number, frames.MESSAGE, flags, 0)
            if size > JOINED_BYTES:
                self._send_pieces((header, message))
            else:
                self._write(header + message)
        return size

    def send(self, kind: int, number: int, payload: bytes = b"") -> None:
        """Sends a control frame."""
        if self.is_over:
            return
        if not self.writable:
            self._control_frames += 1
            if self._control_frames > CONTROL_FRAMES_MAX:
                self.abort()
                return
        self._write(frames.frame(kind, number, payload))

    def send_credit(self, number: int, credit: int) -> None:
        """Tells the peer that so many bytes of a call were taken."""
        self.send(frames.CREDIT, number, frames.NUMBER.pack(credit))

    def close(self) -> None:
        """Ends the connection when what was written is on its way."""
        self.flush()
        self.is_over = True
        self.writable = False
        if self.transport is not None:
            self.transport.close()
            self.loop.call_later(CLOSING_SECONDS, self.abort)

    def abort(self) -> None:
        """Ends the connection at once."""
        self.is_over = True
        self.writable = False
        if self.transport is not None:
            self.transport.abort()

    def _write(self, data: Buffer) -> None:
        if self.is_over:
            return
        if not self._coalesces:
            self.transport.write(data)
            return
        if not self._outbox:
            self.loop.call_soon(self.flush)
        self._outbox.append(data)

    def flush(self) -> None:
        """Writes what was gathered in this turn."""
        if self._outbox and not self.is_over:
            gathered, self._outbox = self._outbox, []
            self.transport.write(gathered[0] if len(gathered) == 1 else b"".join(gathered))

    def _send_pieces(self, pieces: Pieces) -> None:
        if self.is_over:
            return
        self.flush()
        if self._coalesces:
            for piece in pieces:
                self.transport.write(piece)
        else:
            self.transport.writelines(pieces)


class Pulse:
    """Looks after a connection with one timer, however busy it is: asks a silent peer whether it is
    there, and gives up one that does not answer.
    """

    __slots__ = ("_connection", "_look", "_patient", "_silent", "_timer")

    def __init__(self, connection: NativeConnection, silent: float, patient: float, look: Callable[[], object] | None = None) -> None:
        self._connection = connection
        self._silent = silent
        """So long the peer may be silent before it is asked."""
        self._patient = patient
        """So long it may take to answer."""
        self._look = look
        self._timer = connection.loop.call_later(silent, self._beat)

    def _beat(self) -> None:
        connection = self._connection
        if connection.transport is None:
            return
        if self._look is not None:
            self._look()
        quiet = connection.loop.time() - connection.heard
        if quiet >= self._silent + self._patient:
            connection.abort()
            return
        if quiet >= self._silent:
            connection.send(frames.PING, 0, bytes(8))
        self._timer = connection.loop.call_later(self._patient if quiet >= self._silent else self._silent - quiet, self._beat)

    def stop(self) -> None:
        """Looks no more."""
        self._timer.cancel()
