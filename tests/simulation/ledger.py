"""What goes into every call at one end, and what comes out at the other.

The ports of the transport are overheard at both ends, above the product's transport: what its
users write, and what they are given. A stream delivers what its other end has written: all of it
up to some message, in order, once. It ends well, or with the handler's error, only behind the last
message. An answer is one that the handler gave to this request. The fast ways of the port (`each`,
`try_write`) are passed on as such.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from bowstring import errors
from bowstring.ports.disk import Buffer
from bowstring.ports.transport import Caller, Channel, Handler, Inbound, Pieces, Stream, Take, joined
from bowstring.wire.native_client import NativeDialer
from tests.history.violations import Violation

if TYPE_CHECKING:
    from tests.simulation.network import Connection
    from tests.simulation.node import Incarnation
    from tests.simulation.world import World

Told = tuple[str, str]
"""The kind and the message of an error."""


class CallRecord:
    """One stream, as both of its ends were seen to use it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.up = Passage(f"{name} up")
        self.down = Passage(f"{name} down")
        self.told: set[Told] = set()
        """Errors that the broker has ended it with."""


class Passage:
    """One direction of a stream."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.sent: list[int] = []
        self.taken = 0
        self.waiting: deque[object] = deque()
        """Writes that have begun and not ended, in order."""
        self.held: asyncio.Future[None] | None = None
        """What the reader has waited for last."""
        self.raised: errors.Error | None = None
        """What the reader's own function has raised."""

    def is_own(self, error: errors.Error) -> bool:
        """Whether an error is one of the reader's own."""
        held = self.held
        return error is self.raised or (held is not None and held.done() and not held.cancelled() and held.exception() is error)


class Ledger:
    """All calls of a world."""

    def __init__(self, world: World, violations: list[Violation]) -> None:
        self._world = world
        self._violations = violations
        self._streams: dict[tuple[int, int], CallRecord] = {}
        self._answers: dict[tuple[str, str, int], set[int]] = {}

    def record(self, call: Any) -> CallRecord:
        """The record of a stream, from either end."""
        return self._record(call.connection.simulated.connection, call.number)

    def told(self, connection: Connection, number: int, error: errors.Error) -> None:
        """The broker ends a call with an error."""
        self._record(connection, number).told.add((error.kind, error.message))

    def _record(self, connection: Connection, number: int) -> CallRecord:
        key = connection.number, number
        if key not in self._streams:
            self._streams[key] = CallRecord(f"{connection.client.name}>{connection.server.name}#{key[0]} call {number}")
        return self._streams[key]

    def breaks(self, promise: str, case: str) -> None:
        """A promise of the transport is broken."""
        self._violations.append(Violation(promise, f"{case} at {self._world.loop.time():.3f} s"))

    # ---- streams ---------------------------------------------------------------------------------------------------

    def sent(self, passage: Passage, message: Buffer | Pieces, ticket: object = None) -> None:
        first = passage.waiting[0] if passage.waiting else None
        if first is not ticket:
            self.breaks("a_stream_keeps_its_order", f"{passage.name}: message {len(passage.sent)} has overtaken one that waits")
        passage.sent.append(zlib.crc32(joined(message)))

    def taken(self, passage: Passage, message: Buffer) -> None:
        at = passage.taken
        passage.taken += 1
        if at >= len(passage.sent) or passage.sent[at] != zlib.crc32(message):
            case = f"{passage.name}: message {at} of {len(message)} bytes is not the one that was written"
            self.breaks("a_stream_delivers_what_was_written", case)

    def is_over(self, passage: Passage, how: str) -> None:
        """The reader was told that nothing more comes."""
        if passage.taken < len(passage.sent):
            self.breaks("the_end_comes_last", f"{passage.name}: {how} came after {passage.taken} of {len(passage.sent)} messages")

    # ---- calls with one answer -------------------------------------------------------------------------------------

    def answered(self, client: str, method: str, request: bytes, answer: bytes) -> None:
        self._answers.setdefault((client, method, zlib.crc32(request)), set()).add(zlib.crc32(answer))

    def heard(self, client: str, method: str, request: bytes, answer: bytes) -> None:
        if zlib.crc32(answer) not in self._answers.get((client, method, zlib.crc32(request)), ()):
            self.breaks("an_answer_is_that_of_its_call", f"{client} {method}: the handler has not given this answer")


class LedgerHandler:
    """`ports.transport.Handler` around a process's own. What it did not foresee fails the seed."""

    def __init__(self, handler: Handler, life: Incarnation, ledger: Ledger) -> None:
        self._handler = handler
        self._life = life
        self._ledger = ledger

    async def call(self, method: str, request: bytes, caller: Caller) -> bytes:
        with self._serving(method):
            answer = await self._handler.call(method, request, caller)
        self._ledger.answered(caller.address.rpartition(":")[0], method, request, bytes(answer))
        return answer

    async def stream(self, method: str, inbound: Inbound, caller: Caller) -> None:
        socket = inbound.connection.simulated  # type: ignore[attr-defined]
        socket.handlers += 1
        with self._serving(method):
            try:
                await self._handler.stream(method, LedgerInbound(inbound, self._ledger.record(inbound), self._ledger), caller)
            finally:
                socket.handlers -= 1

    @contextmanager
    def _serving(self, method: str) -> Iterator[None]:
        self._life.under_way += 1
        try:
            yield
        except (errors.Error, asyncio.CancelledError):
            raise
        except Exception as error:
            self._life.world.bug(self._life, f"the handler of {method} failed", error)
            raise
        finally:
            self._life.under_way -= 1


class LedgerInbound(Inbound):
    """`ports.transport.Inbound`."""

    def __init__(self, inbound: Inbound, record: CallRecord, ledger: Ledger) -> None:
        self._inbound = inbound
        self._record = record
        self._ledger = ledger

    async def read(self) -> Buffer | None:
        message = await self._inbound.read()
        if message is None:
            self._ledger.is_over(self._record.up, "the end")
        else:
            self._ledger.taken(self._record.up, message)
        return message

    async def each(self, take: Take) -> None:
        await self._inbound.each(_overheard(self._ledger, lambda: self._record.up, take))
        self._ledger.is_over(self._record.up, "the end")

    async def write(self, message: Buffer | Pieces) -> None:
        passage, ticket = self._record.down, object()
        passage.waiting.append(ticket)
        try:
            await self._inbound.write(message)
            self._ledger.sent(passage, message, ticket)
        finally:
            passage.waiting.remove(ticket)

    def try_write(self, message: Buffer | Pieces) -> bool:
        sent = self._inbound.try_write(message)
        if sent:
            self._ledger.sent(self._record.down, message)
        return sent


def _overheard(ledger: Ledger, passage: Callable[[], Passage], take: Take) -> Take:
    def taken(message: Buffer) -> Any:
        way = passage()
        ledger.taken(way, message)
        if way.held is not None and not way.held.done():
            ledger.breaks("the_next_message_waits", f"{way.name}: message {way.taken - 1} came while the one before was waited for")
        try:
            waiting = take(message)
        except errors.Error as error:
            way.raised = error
            raise
        way.held = None if waiting is None else asyncio.ensure_future(waiting)
        return way.held

    return taken


class LedgerDialer:
    """`ports.transport.Dialer` of one process: the product's own, overheard."""

    def __init__(self, life: Incarnation) -> None:
        self._life = life
        self._native: NativeDialer | None = None

    def dial(self, address: str) -> LedgerChannel:
        if self._native is None:
            network = self._life.world.network
            silent, patient = network.pulse
            self._native = NativeDialer(
                lambda protocol, address: network.connect(self._life, protocol, address), silent_seconds=silent, patient_seconds=patient
            )
        return LedgerChannel(self._life, self._native.dial(address))


class LedgerChannel:
    """`ports.transport.Channel`."""

    def __init__(self, life: Incarnation, channel: Channel) -> None:
        self._client = life.name
        self._channel = channel
        self._ledger = life.world.network.ledger

    async def call(self, method: str, request: bytes, seconds: float) -> bytes:
        answer = await self._channel.call(method, request, seconds)
        self._ledger.heard(self._client, method, request, answer)
        return answer

    def stream(self, method: str) -> LedgerStream:
        return LedgerStream(self._channel.stream(method), self._ledger)

    async def close(self) -> None:
        await self._channel.close()


class LedgerStream(Stream):
    """`ports.transport.Stream`."""

    def __init__(self, stream: Any, ledger: Ledger) -> None:
        self._stream = stream
        self._ledger = ledger
        self._known: CallRecord | None = None
        self._waiting: deque[object] = deque()

    @property
    def _record(self) -> CallRecord:
        """Known when there is a connection."""
        if self._known is None:
            self._known = self._ledger.record(self._stream)
            self._known.up.waiting = self._waiting
        return self._known

    async def read(self) -> Buffer | None:
        with self._ending():
            message = await self._stream.read()
        if message is None:
            self._ledger.is_over(self._record.down, "the end")
        else:
            self._ledger.taken(self._record.down, message)
        return message

    async def each(self, take: Take) -> None:
        with self._ending():
            await self._stream.each(_overheard(self._ledger, lambda: self._record.down, take))
        self._ledger.is_over(self._record.down, "the end")

    async def write(self, message: Buffer | Pieces) -> None:
        ticket = object()
        self._waiting.append(ticket)
        try:
            await self._stream.write(message)
            self._ledger.sent(self._record.up, message, ticket)
        finally:
            self._waiting.remove(ticket)

    def try_write(self, message: Buffer | Pieces) -> bool:
        sent = self._stream.try_write(message)
        if sent:
            self._ledger.sent(self._record.up, message)
        return sent

    async def end(self) -> None:
        await self._stream.end()

    def cancel(self) -> None:
        self._stream.cancel()

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """A stream ends with an error of its handler, with its connection, or because its user
        wants it to."""
        try:
            yield
        except errors.Error as error:
            connection = self._stream.connection
            if connection is not None and not self._stream._cancelled and not self._record.down.is_own(error):
                self._check(error, connection)
            raise

    def _check(self, error: errors.Error, connection: Any) -> None:
        told = (error.kind, error.message)
        if told in self._record.told:
            self._ledger.is_over(self._record.down, f"'{error.message}'")
        elif connection.transport is not None and not connection.transport.is_closing():
            self._ledger.breaks(
                "a_call_ends_by_its_peer_or_its_connection", f"{self._record.name}: '{error.message}' was not told by the broker"
            )
