"""A consumer's session: credit and settlements in, leased rows and answers out.

As in a producer's session no task is woken on the usual path. The transport hands a request over in
the step in which it arrives, and the broker decides it there. When its flush is committed the broker
calls back, and answers and rows are encoded and sent there and then. Two coroutines serve the rest:
one waits in `each` for the caller's end, the other writes what the transport did not take at once.

What bounds memory here (invariant 10): at most `PUSH_BYTES_MAX` of rows wait for a slow caller, the
broker reads no more for it until they are sent; and a caller that does not take its answers is not
read either.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any, Final

from bowstring import errors, times
from bowstring.broker.broker import Broker
from bowstring.broker.queue.consumer import LiveConsumer
from bowstring.broker.queue.given_settings import check_lease
from bowstring.broker.queue.lease_by_id import check_ids, lease_by_id
from bowstring.broker.queue.opening import open_consumer, resume
from bowstring.broker.queue.pushes import Grants, PushedRows
from bowstring.broker.queue.settlement import check_together, grant_parts, timed_parts
from bowstring.core.settling import GrantRows, RowsDone, RowStanding
from bowstring.gateway.consume_calls import (
    ConsumeAnswers,
    ConsumeCall,
    ConsumeLeased,
    ConsumeLost,
    ConsumeOpened,
    ConsumePing,
    ConsumePush,
    ConsumeReply,
    ConsumeRevoked,
    Extending,
    LeasingIds,
    RowsAnswer,
    Settling,
)
from bowstring.gateway.value_stream import ValueStream
from bowstring.ports.disk import Buffer
from bowstring.ports.transport import Caller, Pieces

PUSH_BYTES_MAX: Final = 2 * 1024 * 1024
"""Bytes of rows that wait for a slow caller."""
ANSWERS_MAX: Final = 1024
"""Requests without an answer, and answers that wait for a slow caller, before the session stops
reading.
"""
LEASINGS_MAX: Final = 16
"""Requests for messages by their ids, before the session stops reading."""


class ConsumeSession:
    """One session of one consumer, from its first request to its end."""

    def __init__(self, broker: Broker, stream: ValueStream[ConsumeCall, ConsumeReply], caller: Caller) -> None:
        self._broker = broker
        self._stream = stream
        self._caller = caller
        self._consumer: LiveConsumer | None = None
        self._held: Grants = {}
        self._waiting: deque[tuple[Buffer | Pieces, int]] = deque()
        """Messages that the transport did not take at once, and the bytes of rows in each. The first
        stays until it is written, so that none overtakes it.
        """
        self._waiting_bytes = 0
        self._under_way = 0
        """Settlements and extensions without an answer."""
        self._pings = 0
        self._leasing: deque[LeasingIds] = deque()
        """Requests for messages by their ids; the first is at work."""
        self._leaser: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._failing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Holds the error that ends the session, whatever it waits for."""
        self._over = False
        self._changed = asyncio.Event()
        self._room = asyncio.Event()

    async def run(self) -> None:
        """Serves the session to its end. Raises what it ends with, if it does not end well."""
        self._reading = asyncio.create_task(self._read())
        self._reading.add_done_callback(lambda _: self._changed.set())
        writing = asyncio.create_task(self._write())
        try:
            await asyncio.wait((writing, self._failing), return_when=asyncio.FIRST_COMPLETED)
            if self._failing.done():
                self._failing.result()
            writing.result()
        finally:
            self._over = True
            if self._consumer is not None:
                self._consumer.close()  # before anything is awaited: a second cancellation would skip it
            if not self._failing.cancel():
                self._failing.exception()
            tasks = [self._reading, writing, *([] if self._leaser is None else [self._leaser])]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def end(self, error: errors.Error) -> None:
        """Ends the session with this error."""
        self._fail(error)

    # Reading

    async def _read(self) -> None:
        await self._stream.each(self._take)
        if self._consumer is not None:
            self._consumer.close()

    def _take(self, call: ConsumeCall) -> Coroutine[Any, Any, None] | None:
        """Takes a request; returns what to wait for before the next one."""
        if self._consumer is None:
            return self._open(call)
        if call.opening is not None:
            raise errors.InvalidArgument("this consume stream is open already.", hint="A stream is opened by its first request only.")
        self._carry_out(self._consumer, call)
        return None if self._has_room() else self._wait_for_room()

    async def _open(self, call: ConsumeCall) -> None:
        opening = call.opening
        if opening is None:
            raise errors.InvalidArgument("the first request of a consume stream has to open it.", hint="Send `open` in it.")
        consumer, created = await open_consumer(self._broker.serving.queues, opening, self, self._caller)
        self._consumer, self._held = consumer, opening.held
        if self._over or consumer.ended is not None:
            return consumer.close()
        subscription = consumer.subscription
        told = subscription.topic.row.id, subscription.number, subscription.settings.mode, consumer.lease
        retention = times.microseconds(subscription.topic.settings.retention)
        self._send(ConsumeOpened(consumer.now(), *told, created, retention, consumer.begin_series()))
        self._carry_out(consumer, call)

    def _carry_out(self, consumer: LiveConsumer, call: ConsumeCall) -> None:
        """In the order of the fields. Nothing of a request is carried out if something in it makes
        no sense.
        """
        check_together([request.named for request in (*call.settle, *call.extend)])
        settle = [(settling, timed_parts(*settling[3:])) for settling in call.settle]
        extend = [(extending, grant_parts(extending.named)) for extending in call.extend]
        for extending in call.extend:
            if extending.lease:
                check_lease(extending.lease)
        for partition in (request.partition for request in (*call.settle, *call.extend)):
            consumer.subscription.actor(partition)
        for leasing in call.lease:
            check_ids(leasing.ids)
        if call.credit is not None:
            consumer.limit(call.credit)
        if settle or extend:
            answers = _AnswerGroup(self, consumer, len(settle) + len(extend))
            self._under_way += len(settle) + len(extend)
            for settling, outcomes in settle:
                consumer.settle(settling.partition, settling.number, settling.answered, outcomes, partial(answers.settled, settling))
            for extending, parts in extend:
                lease = extending.lease or consumer.lease
                consumer.extend(extending.partition, lease, parts, partial(answers.extended, extending))
        if call.ready:
            resume(self._broker.serving.queues, consumer, self._held)
        if call.lease:
            self._leasing += call.lease
            self._under_way += len(call.lease)
            if self._leaser is None or self._leaser.done():
                self._leaser = asyncio.create_task(self._lease(consumer))
        if call.pong:
            consumer.pong()
        if call.leaving:
            consumer.leave()

    async def _lease(self, consumer: LiveConsumer) -> None:
        """Leases messages by their ids, one request after the other."""
        while self._leasing:
            number, ids = self._leasing[0]
            try:
                leased = await lease_by_id(self._broker.serving.queues, consumer, number, ids)
            except errors.Error as error:
                self._leasing.clear()
                return self._fail(error)
            self._leasing.popleft()
            self._under_way -= 1
            self._room.set()
            self._send(ConsumeLeased(consumer.now(), number, leased))

    def _has_room(self) -> bool:
        return len(self._waiting) < ANSWERS_MAX and self._under_way < ANSWERS_MAX and len(self._leasing) < LEASINGS_MAX

    async def _wait_for_room(self) -> None:
        while not self._has_room():
            self._room.clear()
            await self._room.wait()

    # Answering: the flusher calls these, so they raise nothing

    def answered(self, answers: ConsumeAnswers) -> None:
        """All settlements and extensions of a request are answered."""
        self._under_way -= len(answers.settled) + len(answers.extended)
        self._room.set()
        self._send(answers)
        self._go_on()

    def refused(self, error: BaseException) -> None:
        """One of them is refused as a whole."""
        self._under_way -= 1
        self._fail(error)

    def room(self) -> int:
        """How many bytes of rows the session takes; see `PushReceiver`."""
        return PUSH_BYTES_MAX - self._waiting_bytes

    def push(self, pushed: PushedRows) -> None:
        """Sends rows."""
        if self._consumer is not None:
            self._send(ConsumePush(self._consumer.now(), pushed), pushed.fetched.size)

    def lost(self, grants: Grants, standing: RowStanding | None = None) -> None:
        """Sends which leases the consumer has lost."""
        if self._consumer is not None:
            self._send(ConsumeLost(self._consumer.now(), grants, "" if standing is None else standing.value))

    def revoked(self, partition: int, parts: Sequence[GrantRows]) -> None:
        """Sends which rows were revoked."""
        if self._consumer is not None:
            self._send(ConsumeRevoked(self._consumer.now(), partition, parts))

    def ping(self) -> None:
        """Asks for an answer."""
        if self._consumer is not None:
            self._pings += 1
            self._send(ConsumePing(self._consumer.now(), self._pings))

    def _send(self, reply: ConsumeReply, size: int = 0) -> None:
        """Sends a reply at once, or puts it in line."""
        if self._over or self._failing.done():
            return
        try:
            message = self._stream.encoded(reply)
        except Exception as error:
            return self._fail(error)
        if self._waiting or not self._stream.try_send(message):
            self._waiting.append((message, size))
            self._waiting_bytes += size
            self._changed.set()
        elif self._reading is None or self._reading.done():
            self._changed.set()

    def _go_on(self) -> None:
        """There may be room for rows that wait."""
        if self._consumer is not None and self._consumer.delivery is not None:
            self._consumer.delivery.go_on()

    def _fail(self, error: BaseException) -> None:
        if not self._failing.done():
            self._failing.set_exception(error.with_traceback(None))

    async def _write(self) -> None:
        """Writes what is in line until the session has an end."""
        while True:
            self._changed.clear()
            while self._waiting:
                message, size = self._waiting[0]
                await self._stream.send(message)
                self._waiting.popleft()
                self._waiting_bytes -= size
                self._room.set()
                self._go_on()
            if self._reading is not None and self._reading.done():
                self._reading.result()
                if not self._under_way:
                    return
            await self._changed.wait()


class _AnswerGroup:
    """The answers to the settlements and extensions of one request: they go out together."""

    __slots__ = ("_answers", "_consumer", "_left", "_session")

    def __init__(self, session: ConsumeSession, consumer: LiveConsumer, count: int) -> None:
        self._session = session
        self._consumer = consumer
        self._left = count
        self._answers = ConsumeAnswers(0, [], [])

    def settled(self, settling: Settling, outcome: RowsDone | Exception) -> None:
        self._answered(self._answers.settled, settling.partition, settling.number, outcome)

    def extended(self, extending: Extending, outcome: RowsDone | Exception) -> None:
        self._answered(self._answers.extended, extending.partition, extending.number, outcome)

    def _answered(self, answers: list[RowsAnswer], partition: int, number: int, outcome: RowsDone | Exception) -> None:
        self._left -= 1
        if isinstance(outcome, Exception):
            self._session.refused(outcome)
        else:
            answers.append(RowsAnswer(partition, number, outcome.refused, outcome.until))
        if not self._left:
            self._session.answered(self._answers._replace(now=self._consumer.now()))
