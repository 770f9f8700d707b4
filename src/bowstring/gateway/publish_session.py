"""A producer's session: batches in, credit before each, answers out as they come.

No task runs for a batch, and on the usual path none is woken. The transport hands a batch over in
the step in which it has arrived; if there is credit, the broker takes it in the same step. When its
flush is committed, the broker calls back, and the answer is encoded and sent there and then. Two
coroutines serve what cannot be done at once. One waits in `each` for the caller's end; it also
waits for credit, or for room, before the next batch is taken. The other writes the answers that the
transport did not take at once, and ends the session.

What bounds memory here (invariant 10): the session takes the next batch only when the one before
has its credit from the broker, when fewer than `window` bytes of this session are under way, and
when the caller takes its answers; a caller that never reads answers is not read either.

An answer that refuses is final. So an error that is worth repeating (`Unavailable`: the broker
loads again, the disk is full, a newer session has taken over) is never given as one: it ends the
session, and the kit sends again what was not answered. The exception is `DeadlinePassed`, which
says for certain that the batch is not stored and never will be.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final, NamedTuple

from bowstring import errors
from bowstring.broker.broker import Broker
from bowstring.broker.log.published_batch import PublishedBatch
from bowstring.broker.log.publisher import Publisher
from bowstring.core.answers import Answer
from bowstring.gateway.value_stream import ValueStream
from bowstring.ports.clock import Clock
from bowstring.ports.disk import Buffer
from bowstring.ports.transport import Caller, Pieces

ANSWERS_MAX: Final = 1024
"""Answers that wait for a slow caller before the session stops reading."""
BATCH_COST: Final = 1024
"""How much of the window a batch takes in addition to its bytes, so that empty batches are not
free.
"""


class PublishOpening(NamedTuple):
    """The first request of a session."""

    topic: str
    producer: bytes
    stream: int
    """Rises with each session of this producer: a newer one fences an older."""
    group: str


class BatchAnswer(NamedTuple):
    """What became of one batch."""

    partition: int
    number: int
    broker_time: int
    outcome: Answer | errors.Error
    """An error refuses the batch for good."""


class PublishSession:
    """One session of one producer, from its first request to its end."""

    def __init__(
        self, broker: Broker, stream: ValueStream[PublishOpening | PublishedBatch, BatchAnswer], caller: Caller, clock: Clock, window: int
    ) -> None:
        self._broker = broker
        self._stream = stream
        self._caller = caller
        self._clock = clock
        self._window = window
        self._answers: deque[Buffer | Pieces] = deque()
        """Messages that the transport did not take at once. The first stays until it is written, so
        that none overtakes it.
        """
        self._under_way = 0
        self._bytes_under_way = 0
        self._reading: asyncio.Task[None] | None = None
        self._publisher: Publisher | None = None
        self._watching: asyncio.Task[None] | None = None
        """Waits for a newer session of the same producer."""
        self._failure: BaseException | None = None
        """Ends the session as soon as the answers in line are written."""
        self._ending: errors.Error | None = None
        """Ends the session once every batch under way is answered."""
        self._over = False
        self._changed = asyncio.Event()
        self._room = asyncio.Event()

    async def run(self) -> None:
        """Serves the session to its end. Raises what it ends with, if it does not end well."""
        self._reading = asyncio.create_task(self._read())
        self._reading.add_done_callback(lambda _: self._changed.set())
        try:
            await self._write()
        finally:
            self._over = True
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
            if self._publisher is not None:
                self._publisher.close()

    def end(self, error: errors.Error) -> None:
        """Accepts nothing more, answers batches under way, then ends with this error."""
        self._ending = error
        if self._reading is not None:
            self._reading.cancel()
        self._changed.set()

    # Reading

    async def _read(self) -> None:
        try:
            await self._stream.each(self._take)
        finally:
            if self._watching is not None:
                self._watching.cancel()

    async def _open(self, opening: PublishOpening | PublishedBatch) -> None:
        if not isinstance(opening, PublishOpening):
            raise errors.InvalidArgument("the first request of a publish stream has to open it.", hint="Send `open` alone, then batches.")
        topic, producer, stream, group = opening
        self._publisher = await self._broker.publisher(topic, producer, stream, group, self._caller)
        self._watching = asyncio.create_task(self._watch(self._publisher))

    def _take(self, batch: PublishOpening | PublishedBatch) -> Coroutine[Any, Any, None] | None:
        """Gives a batch to the broker; returns what to wait for before the next one."""
        publisher = self._publisher
        if publisher is None:
            return self._open(batch)
        if isinstance(batch, PublishOpening):
            raise errors.InvalidArgument("this publish stream is open already.", hint="A stream is opened by its first request only.")
        if not batch.number:
            raise errors.InvalidArgument("a batch has no number, so it cannot be answered.", hint="Numbers of batches begin at 1.")
        cost = self._stream.request_bytes + BATCH_COST
        if not publisher.try_admit(len(batch.data)):
            return self._take_later(publisher, batch, cost)
        self._publish(publisher, batch, cost)
        return None if self._has_room() else self._wait_for_room()

    async def _take_later(self, publisher: Publisher, batch: PublishedBatch, cost: int) -> None:
        await publisher.admit(len(batch.data))
        self._publish(publisher, batch, cost)
        del batch  # its bytes go when the broker is done with them
        await self._wait_for_room()

    def _publish(self, publisher: Publisher, batch: PublishedBatch, cost: int) -> None:
        self._under_way += 1
        self._bytes_under_way += cost
        publisher.publish(batch, partial(self._answered, batch.partition, batch.number, cost))

    def _has_room(self) -> bool:
        return self._bytes_under_way < self._window and len(self._answers) < ANSWERS_MAX

    async def _wait_for_room(self) -> None:
        while not self._has_room():
            self._room.clear()
            await self._room.wait()

    async def _watch(self, publisher: Publisher) -> None:
        await publisher.fenced.wait()
        self._fail(errors.Unavailable("a newer stream of this producer has taken over."))

    # Answering

    def _answered(self, partition: int, number: int, cost: int, outcome: Answer | Exception) -> None:
        """Answers: the broker has settled a batch. Raises nothing, because the flusher calls it."""
        self._under_way -= 1
        self._bytes_under_way -= cost
        self._room.set()
        if not isinstance(outcome, Exception) or (
            isinstance(outcome, errors.Error) and (not outcome.retryable or isinstance(outcome, errors.DeadlinePassed))
        ):
            try:
                self._send(self._stream.encoded(BatchAnswer(partition, number, self._clock.now(), outcome)))
            except Exception as error:
                self._fail(error)
        else:
            self._fail(outcome)

    def _send(self, answer: Buffer | Pieces) -> None:
        """Sends an answer at once, or puts it in line."""
        if self._over:
            return
        if self._answers or not self._stream.try_send(answer):
            self._answers.append(answer)
            self._changed.set()
        elif self._ending is not None or self._reading is None or self._reading.done():
            self._changed.set()

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self._changed.set()

    async def _write(self) -> None:
        """Writes answers until the session has an end."""
        while True:
            self._changed.clear()
            while self._answers:
                await self._stream.send(self._answers[0])
                self._answers.popleft()
                self._room.set()
            if self._failure is not None:
                raise self._failure.with_traceback(None)
            if self._ending is not None and not self._under_way:
                raise self._ending.with_traceback(None)
            if self._reading is not None and self._reading.done() and self._ending is None:
                self._reading.result()
                if not self._under_way:
                    return
            await self._changed.wait()
