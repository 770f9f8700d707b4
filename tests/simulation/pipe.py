"""One direction of one call: messages in order, each after its delay, and no more bytes on the way than fit.

What TCP and HTTP/2 give, no more: what was sent arrives in the order in which it was sent, or not at all from some message on. A sender
waits while the receiver has not taken what came before. Messages cross as bytes and errors as text, so that no object leaks from one
process to another.
"""

from __future__ import annotations

import asyncio
import enum
import json
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from bowstring import errors
from bowstring.ports.disk import Buffer
from tests.simulation.digest import checksum

if TYPE_CHECKING:
    from tests.simulation.network import Exchange
    from tests.simulation.node import Incarnation

WINDOW = 4 << 20


class Kind(enum.StrEnum):
    """What a frame is: the first of a call, a message, the good end, the bad one."""

    OPEN = "open"
    MESSAGE = "message"
    END = "end"
    ERROR = "error"


class Frame(NamedTuple):
    """What travels, and when it arrives."""

    when: float
    kind: Kind
    data: bytes


def encoded(error: errors.Error) -> bytes:
    return json.dumps([error.kind, error.message, error.hint, error.details]).encode()


def decoded(data: bytes) -> errors.Error:
    kind, message, hint, details = json.loads(data)
    return errors.of_kind(kind)(message, hint=hint, details=details)


class Pipe:
    """The direction. Each end learns by itself that the other is gone: `break_sender` and `break_receiver` tell it."""

    def __init__(self, exchange: Exchange, label: str, sender: Incarnation, receiver: Incarnation) -> None:
        self.label = label
        self.cut = exchange.connection.severed
        self.arrived_end = False
        self._exchange = exchange
        self._connection = exchange.connection
        self._network = exchange.connection.network
        self._loop = exchange.connection.network.world.loop
        self._sender = sender
        self._receiver = receiver
        self._bytes = 0
        self._last = 0.0
        self._flight: deque[Frame] = deque()
        self._inbox: deque[Frame] = deque()
        self._reader: asyncio.Future[None] | None = None
        self._writers: deque[asyncio.Future[None]] = deque()
        self._sender_error: bytes | None = None
        self._receiver_error: bytes | None = None

    # ---- the sender's end ------------------------------------------------------------------------------------------

    async def write(self, message: Buffer) -> None:
        """Sends a message; waits while too much is on its way."""
        data = bytes(message)
        waited = False
        while True:
            if self._sender.dead:
                await self._loop.never()
            if self._sender_error is not None:
                raise decoded(self._sender_error)
            if (waited or not self._writers) and (not self._bytes or self._bytes + len(data) <= WINDOW):
                break
            turn: asyncio.Future[None] = self._loop.create_future()
            self._writers.append(turn) if not waited else self._writers.appendleft(turn)
            waited = True
            self._network.world.sometimes("sender waited for its receiver")
            try:
                await turn
            except asyncio.CancelledError:
                if turn in self._writers:
                    self._writers.remove(turn)
                self._wake_writer()
                raise
        self.send(Kind.MESSAGE, data)
        self._wake_writer()

    def send(self, kind: Kind, data: bytes = b"") -> None:
        """Sends a frame without waiting."""
        if self._sender.dead or self._sender_error is not None:
            return
        if kind is Kind.MESSAGE:
            self._bytes += len(data)
        now = self._loop.time()
        if not self.cut and self._exchange.breaks_now(self, kind):
            self._connection.break_anyhow()
        if not self.cut:
            self._last = max(self._last, now + self._network.delay())
            self._flight.append(Frame(self._last, kind, data))
            if len(self._flight) == 1:
                self._loop.outside_at(self._last, self._arrive)

    def break_sender(self, error: errors.Error) -> None:
        """The sender learns that nothing it sends will arrive."""
        if self._sender_error is None:
            self._sender_error = encoded(error)
            while self._writers:
                self._wake_writer()

    def _wake_writer(self) -> None:
        while self._writers:
            turn = self._writers.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    # ---- on the way ------------------------------------------------------------------------------------------------

    @property
    def last_arrival(self) -> float:
        """When the last frame that was sent so far arrives, if nothing happens to it."""
        return self._last

    def _arrive(self) -> None:
        now = self._loop.time()
        if self.cut or self._receiver.dead:
            self._flight.clear()
            return
        until = self._connection.link.held(now)
        if until > now:
            self._loop.outside_at(until, self._arrive)
            return
        while self._flight and self._flight[0].when <= now:
            self._deliver(self._flight.popleft())
        if self._flight:
            self._loop.outside_at(self._flight[0].when, self._arrive)

    def _deliver(self, frame: Frame) -> None:
        self._network.world.digest.note(f"{self.label} {frame.kind} {len(frame.data)} {checksum(frame.data)}")
        if frame.kind is Kind.OPEN:
            return self._exchange.opened()
        self._inbox.append(frame)
        self._wake_reader()
        if frame.kind is not Kind.MESSAGE:
            self.arrived_end = True
            self._exchange.finished(self, frame)

    # ---- the receiver's end ----------------------------------------------------------------------------------------

    async def read(self) -> bytes | None:
        """The next message, None after a good end."""
        while True:
            if self._receiver.dead:
                await self._loop.never()
            if self._inbox:
                break
            if self._receiver_error is not None:
                raise decoded(self._receiver_error)
            if self._reader is not None:
                raise AssertionError(f"{self.label}: two readers at once")
            self._reader = self._loop.create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        frame = self._inbox[0]
        if frame.kind is Kind.END:
            return None
        if frame.kind is Kind.ERROR:
            raise decoded(frame.data)
        self._inbox.popleft()
        self._bytes -= len(frame.data)
        self._wake_writer()
        return frame.data

    def break_receiver(self, error: errors.Error, *, forget: bool) -> None:
        """The receiver learns that nothing more will come; what has come already may be lost to it, too."""
        if self._receiver_error is None and not self.arrived_end:
            self._receiver_error = encoded(error)
            self.cut = True
            if forget:
                self._inbox.clear()
            self._wake_reader()

    def _wake_reader(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
