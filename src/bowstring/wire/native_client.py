"""The caller's side of the transport port over native frames.

A channel is one connection to one address. It connects when the first call needs it, and again
after a break; a call while there is no connection waits for one attempt to connect, and fails as
`Unavailable` with the reason if that fails. Pings detect a broker that hangs or whose cable is out,
also while no call is under way. A broker that says goodbye gets no new calls on that connection;
those under way go on.

As with gRPC, cancelling a task that waits in `read`, `each` or `write` cancels the whole call: a
read that was given up could otherwise lose a message.

If the connection breaks under a unary call, the call may have been carried out. The table of calls
says whether repeating it does harm; if it does, the error is `OutcomeUnknown`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from google.protobuf.message import DecodeError

from bowstring import errors
from bowstring.ports.calls import is_repeatable
from bowstring.ports.disk import Buffer
from bowstring.ports.transport import Channel, Pieces, Stream, Take
from bowstring.wire import error_messages, sockets
from bowstring.wire import native_frames as frames
from bowstring.wire.generated import bowstring_pb2 as pb
from bowstring.wire.native_call import NativeCall
from bowstring.wire.native_connection import CLOSING_SECONDS, TO_BROKER_BYTES, TO_CALLER_BYTES, NativeConnection, Pulse
from bowstring.wire.native_frames import Scratch

CONNECT_SECONDS: Final = 2.0
"""The time limit of one attempt to connect, and then of the broker's preface."""
SILENT_SECONDS: Final = 10.0
"""A broker that is silent for so long is asked whether it is there."""
PATIENT_SECONDS: Final = 5.0
"""So long it may take to answer that."""
MESSAGE_BYTES_MAX: Final = 1 << 30
SECONDS_MIN: Final = 0.001

_BROKE: Final = "the connection broke"
_UNCERTAIN: Final = (_BROKE, sockets.HANGS_UP, sockets.SILENT)
"""For these reasons a connection ends without a word of the broker: a call may have been carried
out."""

Connect = Callable[[Callable[[], asyncio.BaseProtocol], str], Awaitable[object]]
"""Makes a transport to an address, with this protocol."""


class NativeDialer:
    """Makes channels over native frames. `address` is host:port, or unix:path."""

    def __init__(
        self, connect: Connect | None = None, *, silent_seconds: float = SILENT_SECONDS, patient_seconds: float = PATIENT_SECONDS
    ) -> None:
        self._connect = connect or sockets.connect
        self._pulse = silent_seconds, patient_seconds
        self._scratch = Scratch()

    def dial(self, address: str) -> Channel:
        return NativeChannel(address, self._connect, self._scratch, self._pulse)


class NativeChannel:
    """The way to one address. It belongs to the loop that it is made on."""

    def __init__(self, address: str, connect: Connect, scratch: Scratch, pulse: tuple[float, float]) -> None:
        self.address = address
        self._pulse = pulse
        self._loop = asyncio.get_running_loop()
        self._connect = connect
        self._scratch = scratch
        self._connection: DialledConnection | None = None
        self._dialling: asyncio.Task[DialledConnection] | None = None
        self._opening: dict[DialledCall, None] = {}
        """Streams that wait for a connection."""
        self._closed = False

    async def call(self, method: str, request: bytes, seconds: float) -> bytes:
        seconds = max(seconds, SECONDS_MIN)
        call = DialledCall(self._loop, method)
        try:
            async with asyncio.timeout(seconds):
                connection = self._connection
                if connection is None or not connection.is_usable:
                    connection = await asyncio.shield(self._dial())
                connection.open(call, seconds)
                if call.number:
                    connection.send_message(call.number, request, frames.LAST)
                answer = await call.read()
        except TimeoutError:
            raise _unanswered("there was no answer in time", is_repeatable(method) or not call.number) from None
        except errors.Unavailable as error:
            if (reason := error.details.get("reason")) in _UNCERTAIN and call.number and not is_repeatable(method):
                raise _unanswered(reason, repeatable=False) from None
            raise
        finally:
            call.cancel()
        if answer is None:
            raise errors.Error(f"the broker has ended {method} without an answer.")
        return bytes(answer)

    def stream(self, method: str) -> Stream:
        if self._closed:
            raise self._is_closed()
        call = DialledCall(self._loop, method)
        if self._connection is not None and self._connection.is_usable:
            self._connection.open(call)
        else:
            self._opening[call] = None
            self._dial()
        return call

    async def close(self) -> None:
        self._closed = True
        connection, self._connection = self._connection, None
        if self._dialling is not None:
            self._dialling.cancel()
        for call in tuple(self._opening):
            call.cancel()
        if connection is not None:
            for call in tuple(connection.calls.values()):
                call.ended(self._is_closed())
            connection.close()
            await asyncio.wait((connection.gone,), timeout=CLOSING_SECONDS)

    def _dial(self) -> asyncio.Task[DialledConnection]:
        """The attempt to connect that is under way, or a new one."""
        if self._dialling is None or self._dialling.done():
            self._dialling = self._loop.create_task(self._dialled(), name=f"bowstring connects to {self.address}")
            self._dialling.add_done_callback(self._open_waiting)
        return self._dialling

    async def _dialled(self) -> DialledConnection:
        if self._closed:
            raise self._is_closed()
        connection = DialledConnection(self._loop, self._scratch, self._pulse)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._connect(lambda: connection, self.address)
        except OSError as error:  # also a timeout
            raise _unreachable(sockets.reason(error)) from None
        self._connection = connection
        return connection

    def _open_waiting(self, dialling: asyncio.Task[DialledConnection]) -> None:
        """Opens the streams that waited for a connection, or ends them with the reason."""
        opening, self._opening = self._opening, {}
        if dialling.cancelled():
            error: BaseException | None = self._is_closed()
        else:
            error = dialling.exception()
        for call in opening:
            if error is None:
                dialling.result().open(call)
            else:
                call.ended(error if isinstance(error, errors.Error) else _unreachable(repr(error)))

    def _is_closed(self) -> errors.Unavailable:
        return errors.Unavailable(f"the channel to {self.address} is closed.")


class DialledCall(NativeCall, Stream):
    """A call as its caller sees it."""

    __slots__ = ("_cancelled", "method")

    def __init__(self, loop: asyncio.AbstractEventLoop, method: str) -> None:
        super().__init__(loop, window=TO_CALLER_BYTES, credit=TO_BROKER_BYTES)
        self.method = method
        self._cancelled = False

    async def read(self) -> Buffer | None:
        try:
            return await super().read()
        except asyncio.CancelledError:
            self.cancel()
            raise

    async def each(self, take: Take) -> None:
        try:
            await super().each(take)
        except asyncio.CancelledError:
            self.cancel()
            raise

    async def write(self, message: Buffer | Pieces) -> None:
        try:
            await super().write(message)
        except asyncio.CancelledError:
            self.cancel()
            raise

    def _may_write(self) -> bool:
        return self._error is None and not self._finished and not self._ended

    def _check_writable(self) -> None:
        super()._check_writable()
        if self._ended:
            raise errors.Unavailable("the broker has ended this stream.", hint="Open another.")

    async def end(self) -> None:
        if self._writers or not self._try_end():
            await self._in_turn(self._try_end)

    def _try_end(self) -> bool:
        if self._may_write():
            if self.connection is None:
                return False
            self.connection.send(frames.END, self.number)
        self._finished = True
        return True

    def cancel(self) -> None:
        if self._cancelled:
            return
        self._cancelled = True
        connection = self.connection
        if connection is not None and connection.calls.pop(self.number, None) is not None and not connection.is_over:
            connection.send(frames.CANCEL, self.number)
        if self._error is None:
            self._inbox.clear()
        self.ended(errors.Unavailable("this stream was cancelled here."))


class DialledConnection(NativeConnection):
    """A connection to a broker."""

    def __init__(self, loop: asyncio.AbstractEventLoop, scratch: Scratch, pulse: tuple[float, float]) -> None:
        super().__init__(loop, scratch, message_bytes_max=MESSAGE_BYTES_MAX)
        self._silent, self._patient = pulse
        self.is_usable = True
        """Whether new calls may be opened."""
        self._number = 0
        self._why: errors.Error = _unreachable(sockets.HANGS_UP)
        """Why the calls of this connection end if it is lost now."""
        self._pulse: Pulse | None = None
        self._waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._write(frames.PREFACE)
        self._pulse = Pulse(self, self._silent, self._patient)
        self._waiting = self.loop.call_later(CONNECT_SECONDS, self._fail, _unreachable(sockets.SILENT))

    def open(self, call: DialledCall, seconds: float = 0.0) -> None:
        """Opens a call, whose caller waits for so long; 0 means without an end. The call ends at
        once if the connection was lost meanwhile; then it has no number.
        """
        if self.is_over:
            call.ended(self._why)
            return
        self._number += 1
        call.number, call.connection = self._number, self
        self.calls[self._number] = call
        self._write(frames.opening(self._number, call.method, int(seconds * 1000) + 1 if seconds else 0))
        call.wake_writers()

    def lost(self, calls: list[NativeCall]) -> None:
        self.is_usable = False
        if self._pulse is not None:
            self._pulse.stop()
        if self._waiting is not None:
            self._waiting.cancel()
        for call in calls:
            call.ended(self._why)

    def control(self, kind: int, number: int, flags: int, payload: bytes) -> None:
        if kind == frames.ERROR and number:
            if (call := self.calls.pop(number, None)) is not None:
                call.ended(_parsed(payload))
                self._leave_if_idle()
        elif kind == frames.ERROR:
            self._fail(_parsed(payload))
        elif kind == frames.GOODBYE:
            self.is_usable = False
            self._leave_if_idle()
        elif kind == frames.GREETED:
            self._greeted(payload[0])
        elif kind == frames.FOREIGN:
            self._fail(_unreachable(_foreign(payload)))
        elif kind == frames.TOO_LARGE and (call := self.calls.get(number)) is not None:
            self.refuse(call, errors.TooLarge(f"the broker sends a message of {frames.NUMBER.unpack(payload)[0]} bytes."))

    def _greeted(self, version: int) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
        self._why = errors.Unavailable(f"{_BROKE}.", hint="Wait and repeat.", details={"reason": _BROKE})
        if version != frames.VERSION:
            spoken = f"the broker speaks version {version} of the frames, this client speaks {frames.VERSION}."
            self._fail(errors.NotSupported(spoken, hint="Use software of the same age on both sides."))

    def side_ended(self, call: NativeCall) -> None:
        self.calls.pop(call.number, None)
        self._leave_if_idle()

    def refuse(self, call: NativeCall, error: errors.Error) -> None:
        call.ended(error)
        if self.calls.pop(call.number, None) is not None:
            self.send(frames.CANCEL, call.number)

    def give_up(self, why: str, more: str = "") -> None:
        why = f"{why} ({more})" if more else why
        self._fail(errors.Unavailable(f"the broker breaks the protocol: {why}.", details={"reason": f"it breaks the protocol: {why}"}))

    def _fail(self, error: errors.Error) -> None:
        """Every call ends with this error, and the connection too."""
        self._why = error
        self.is_usable = False
        self.is_over = True
        self.abort()

    def _leave_if_idle(self) -> None:
        """A connection to which the broker has said goodbye ends with its last call."""
        if not self.is_usable and not self.calls:
            self.close()


def _parsed(payload: bytes) -> errors.Error:
    try:
        return error_messages.from_message(pb.Error.FromString(payload))
    except DecodeError:
        return errors.Error("the broker has failed, and its error cannot be read.")


def _foreign(first: bytes) -> str:
    """What it is that answers with these bytes."""
    is_web = first.startswith(b"HTTP/") or first.lstrip().startswith(b"<")  # an old one answers with a page alone
    return "a web server listens there, not a broker" if is_web else "something listens there that is not a broker"


def _unanswered(reason: str, repeatable: bool) -> errors.Error:
    """The error of a call that may have been carried out, unless it was never sent or may be repeated."""
    if repeatable:
        return errors.Unavailable(f"{reason}.", hint="Wait and repeat.", details={"reason": reason})
    return errors.OutcomeUnknown(f"{reason}, so it may or may not have been done.", hint="Look, then repeat.")


def _unreachable(reason: str) -> errors.Unavailable:
    return errors.Unavailable(
        f"the broker cannot be reached: {reason}.", hint="Is it running, and is the address right?", details={"reason": reason}
    )
