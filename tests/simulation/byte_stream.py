"""A connection's bytes: the way in one direction, and the socket at an end.

What TCP and a kernel give, no more. Bytes arrive in the order in which they were sent, after a
delay, split and merged at any byte, or not at all from some byte on. A way holds a bounded number
of bytes that were sent and not read; what a process writes beyond that stays in its own memory,
and it is told to pause. `SimulatedSocket` is the transport of asyncio that the product's protocols
hold; it reports to them as the real ones do, in the receiving process, one read at a time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tests.simulation.digest import checksum

if TYPE_CHECKING:
    from tests.simulation.network import Connection
    from tests.simulation.node import Incarnation

HIGH_BYTES = 64 * 1024
"""The limit of unsent bytes before a protocol has set its own."""
HEADER_BYTES = 12
LOOK_SECONDS = 1.0
"""How often bytes on a clogged link look whether it is free before its time, because the world heals."""
CUT_EARLY = 0.4
"""The share of cuts that fall among the first bytes of what is sent."""


class ByteWay:
    """One direction of a connection."""

    def __init__(self, connection: Connection, sender: SimulatedSocket, receiver: SimulatedSocket) -> None:
        self.used = 0
        """Bytes that were sent and not read."""
        self.broken = False
        """What is sent from now on is lost, and nobody is told here."""
        self.acknowledged = True
        """Whether the sender learns what was read."""
        self.finished = False
        """The sender sends nothing more, and the receiver will learn that."""
        self._connection = connection
        self._network = connection.network
        self._loop = connection.network.world.loop
        self._sender = sender
        self._receiver = receiver
        self._flight: deque[tuple[float, bytes]] = deque()
        self._last = 0.0

    @property
    def room(self) -> int:
        return self._network.world.options.pipe_bytes - self.used

    @property
    def is_empty(self) -> bool:
        return not self._flight

    def arrives_in(self) -> float:
        """How many seconds from now everything has arrived that is on its way."""
        return max(0.0, self._flight[-1][0] - self._loop.time()) if self._flight else 0.0

    def carry(self, data: bytes) -> None:
        """Takes bytes from the sender's kernel."""
        self.used += len(data)
        if not self.broken and self._network.cuts_now():
            reach = HEADER_BYTES if self._network.random.random() < CUT_EARLY else len(data)
            self._fly(data[: self._network.random.randrange(min(reach, len(data)))])
            self._connection.break_anyhow(whole=True)
            self.broken = True
        elif not self.broken:
            self._fly(data)

    def finish(self) -> None:
        """Behind the last byte comes the end."""
        if not self.broken and not self.finished:
            self.finished = True
            self._fly(b"")

    def lose(self) -> None:
        """From some byte of what is on its way on, nothing arrives."""
        self.broken = True
        self.finished = False
        left = self._network.random.randint(0, sum(len(data) for _, data in self._flight))
        kept: deque[tuple[float, bytes]] = deque()
        for when, data in self._flight:
            if left > 0:
                kept.append((when, data[:left]))
            left -= len(data)
        self._flight = kept

    def taken(self, count: int) -> None:
        """The receiver has read so many bytes."""
        if self.acknowledged:
            self.used -= count
            self._sender.may_send(self._network.delay)

    def _fly(self, data: bytes) -> None:
        now = self._loop.time()
        self._last = max(self._last, now + self._network.delay()) + self._network.seconds(len(data))
        self._flight.append((self._last, data))
        if len(self._flight) == 1:
            self._loop.call_at(self._last, self._arrive, context=self._receiver.life.context)

    def _arrive(self) -> None:
        """Runs in the receiver's process."""
        now, flight = self._loop.time(), self._flight
        until = self._connection.link.held(now)
        if until > now:
            again = min(until, now + LOOK_SECONDS)
            self._loop.call_at(again, self._arrive, context=self._receiver.life.context)
            return
        came: list[bytes] = []
        while flight and flight[0][0] <= now:
            came.append(flight.popleft()[1])
        if flight:
            self._loop.call_at(flight[0][0], self._arrive, context=self._receiver.life.context)
        self._receiver.received(came, ended=self.finished and not flight)


class SimulatedSocket(asyncio.Transport):
    """`asyncio.Transport`: one end of a connection, in one process."""

    def __init__(self, connection: Connection, life: Incarnation, label: str, peer: tuple[str, int]) -> None:
        super().__init__({"peername": peer})
        self.life = life
        self.connection = connection
        self.protocol: Any = None
        self.is_lost = False
        """The process has let go of it, or is dead."""
        self.was_told = False
        """The peer or the network has ended it."""
        self.heard = connection.network.world.loop.time()
        """When something was read last."""
        self.handlers = 0
        """How many streams its process serves."""
        self._label = label
        self._loop = connection.network.world.loop
        self._network = connection.network
        self._high = self._low = HIGH_BYTES
        self._unsent: deque[bytes] = deque()
        self._unsent_bytes = 0
        self._paused = False
        """The protocol was told to write no more."""
        self._reads = True
        self._closing = False
        self._sends_later = False
        self._arrived = bytearray()
        self._reads_later = False
        self._split = False
        """The last read was cut short: the rest arrives later."""
        self._reset = False
        self._eof = False

    def join(self, out: ByteWay, into: ByteWay) -> None:
        self.out, self._into = out, into

    def attach(self, protocol: Any) -> None:
        """The process has the connection now."""
        self.protocol = protocol
        protocol.simulated = self
        protocol.connection_made(self)
        self._read()

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is on its way from here or waits to be read here."""
        return not self._unsent and not self._arrived and self.out.is_empty

    # ---- what a protocol asks of its transport ---------------------------------------------------------------------

    def get_protocol(self) -> Any:
        return self.protocol

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def is_closing(self) -> bool:
        return self._closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = HIGH_BYTES if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        return self._unsent_bytes

    def is_reading(self) -> bool:
        return self._reads and not self._closing

    def pause_reading(self) -> None:
        self._reads = False

    def resume_reading(self) -> None:
        self._reads = True
        self._read_later(0.0)

    def write(self, data: Any) -> None:
        self.writelines((data,))

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        if self.is_lost or self.life.dead:
            return
        for data in list_of_data:
            if len(data):
                self._unsent.append(bytes(data))
                self._unsent_bytes += len(data)
        self._send()
        if self._unsent_bytes > self._high and not self._paused:
            self._paused = True
            self.protocol.pause_writing()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.out.finish()

    def close(self) -> None:
        """Stops reading; ends when everything is sent."""
        if not self._closing and not self.life.dead:
            self._closing = True
            self._end_if_sent()

    def abort(self) -> None:
        if self.is_lost or self.life.dead:
            return
        self.connection.given_up(self)
        self._closing = True
        self._forget_unsent()
        self._end_if_sent()

    # ---- sending ---------------------------------------------------------------------------------------------------

    def may_send(self, delay: Any) -> None:
        """There is room on the way; word of that arrives a little later."""
        if self._unsent and not self._sends_later and not self.is_lost:
            self._sends_later = True
            self._loop.call_at(self._loop.time() + delay(), self._send_more, context=self.life.context)

    def _send_more(self) -> None:
        self._sends_later = False
        if self.is_lost:
            return
        self._send()
        if self._paused and self._unsent_bytes <= self._low:
            self._paused = False
            self.protocol.resume_writing()
        if self._closing:
            self._end_if_sent()

    def _send(self) -> None:
        room = self.out.room
        if room <= 0 or not self._unsent:
            return
        if len(self._unsent) > 1 and self._unsent_bytes <= room:
            whole = b"".join(self._unsent)
            self._unsent.clear()
            self._unsent.append(whole)
        while self._unsent and room > 0:
            data = self._unsent.popleft()
            if len(data) > room:
                self._unsent.appendleft(data[room:])
                data = data[:room]
            room -= len(data)
            self._unsent_bytes -= len(data)
            self.out.carry(data)

    def _forget_unsent(self) -> None:
        self._unsent.clear()
        self._unsent_bytes = 0

    def _end_if_sent(self) -> None:
        if not self._unsent and not self.is_lost:
            self.is_lost = True
            self.connection.hung_up(self)
            self._loop.call_soon(self.protocol.connection_lost, None, context=self.life.context)

    # ---- receiving -------------------------------------------------------------------------------------------------

    def received(self, data: list[bytes], *, ended: bool) -> None:
        """Bytes have arrived in the kernel, or the end of them."""
        if self._closing:
            if any(data) and self.is_lost:
                self.connection.refused(self)
            return
        if self._reset:
            return
        for each in data:
            self._arrived += each
        self._eof |= ended
        self._read()

    def reset(self) -> None:
        """The kernel learns that the connection is gone. What has arrived is read first, or lost."""
        if self.is_lost or self._reset:
            return
        self._reset = True
        if self._network.random.random() < 0.5:
            self._arrived.clear()
        self._read_later(0.0)

    def die(self) -> None:
        """The process is dead. What it had not given to the kernel is gone."""
        self.is_lost = self._closing = True
        self._forget_unsent()

    def _read_later(self, seconds: float) -> None:
        if not self._reads_later:
            self._reads_later = True
            self._loop.call_at(self._loop.time() + seconds, self._read_again, context=self.life.context)

    def _read_again(self) -> None:
        self._reads_later = False
        self._read()

    def _read(self) -> None:
        """One read, as one turn of a loop does it."""
        if self.protocol is None or self.is_lost:
            return
        if self._arrived and self._reads and not self._closing:
            self._read_some()
        if self.is_lost:
            return
        if self._reset and (self._closing or not self._arrived):
            self._lose(ConnectionResetError(104, "the connection was reset"))
        elif self._closing or not self._reads:
            return
        elif self._arrived:
            self._read_later(self._network.delay() if self._split else 0.0)
        elif self._eof:
            self._eof = False
            self.was_told = True
            if not self.protocol.eof_received():
                self.close()

    def _read_some(self) -> None:
        buffer = self.protocol.get_buffer(-1)
        count = min(len(buffer), len(self._arrived))
        self._split = self._network.splits_now()
        if self._split:
            count = self._network.random.randint(1, count)
        data = bytes(self._arrived[:count])
        del self._arrived[:count]
        buffer[:count] = data
        self.heard = self._loop.time()
        self._network.world.digest.note(f"{self._label} {count} {checksum(data)}")
        self._into.taken(count)
        self.protocol.buffer_updated(count)

    def _lose(self, error: Exception) -> None:
        self.is_lost = self._closing = self.was_told = True
        self._forget_unsent()
        self.connection.ended(self)
        self.protocol.connection_lost(error)
