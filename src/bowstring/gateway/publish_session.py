"""A producer's session: batches in, credit before each, answers out as they come.

Two coroutines serve a session, however many batches are under way. One reads: a batch, credit for
its bytes, into the broker, the next. The other writes: the broker settles a batch's future when its
flush is committed, and the future's callback puts the answer in line. So there is no task per
batch.

What bounds memory here (invariant 10): the session reads the next batch only when the one before
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
from functools import partial
from typing import Final, NamedTuple

from bowstring import errors
from bowstring.broker.broker import Broker
from bowstring.broker.log.published_batch import PublishedBatch
from bowstring.broker.log.publisher import Publisher
from bowstring.core.answers import Answer
from bowstring.gateway.value_stream import ValueStream
from bowstring.ports.clock import Clock
from bowstring.ports.transport import Caller

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
        self._answers: deque[BatchAnswer] = deque()
        self._under_way = 0
        self._bytes_under_way = 0
        self._reading: asyncio.Task[None] | None = None
        self._publisher: Publisher | None = None
        self._failure: BaseException | None = None
        """Ends the session as soon as the answers in line are written."""
        self._ending: errors.Error | None = None
        """Ends the session once every batch under way is answered."""
        self._changed = asyncio.Event()
        self._room = asyncio.Event()

    async def run(self) -> None:
        """Serves the session to its end. Raises what it ends with, if it does not end well."""
        self._reading = asyncio.create_task(self._read())
        self._reading.add_done_callback(lambda _: self._changed.set())
        try:
            await self._write()
        finally:
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
        opening = await self._stream.read()
        if opening is None:
            return
        publisher = self._publisher = await self._open(opening)
        fenced = asyncio.create_task(self._watch(publisher))
        try:
            while (batch := await self._stream.read()) is not None:
                await self._take(publisher, batch)
                del batch  # its bytes go when the broker is done with them, not when the next batch comes
        finally:
            fenced.cancel()

    async def _open(self, opening: PublishOpening | PublishedBatch) -> Publisher:
        if not isinstance(opening, PublishOpening):
            raise errors.InvalidArgument("the first request of a publish stream has to open it.", hint="Send `open` alone, then batches.")
        return await self._broker.publisher(opening.topic, opening.producer, opening.stream, opening.group, self._caller)

    async def _take(self, publisher: Publisher, batch: PublishOpening | PublishedBatch) -> None:
        """Gives a batch to the broker, and waits until there is room for the next one."""
        if isinstance(batch, PublishOpening):
            raise errors.InvalidArgument("this publish stream is open already.", hint="A stream is opened by its first request only.")
        if not batch.number:
            raise errors.InvalidArgument("a batch has no number, so it cannot be answered.", hint="Numbers of batches begin at 1.")
        cost = self._stream.request_bytes + BATCH_COST
        await publisher.admit(len(batch.data))
        self._under_way += 1
        self._bytes_under_way += cost
        publisher.publish(batch).add_done_callback(partial(self._answered, batch.partition, batch.number, cost))
        while self._bytes_under_way >= self._window or len(self._answers) >= ANSWERS_MAX:
            self._room.clear()
            await self._room.wait()

    async def _watch(self, publisher: Publisher) -> None:
        await publisher.fenced.wait()
        self._fail(errors.Unavailable("a newer stream of this producer has taken over."))

    # Answering

    def _answered(self, partition: int, number: int, cost: int, future: asyncio.Future[Answer]) -> None:
        """Puts the answer in line: the broker has settled a batch."""
        self._under_way -= 1
        self._bytes_under_way -= cost
        self._room.set()
        self._changed.set()
        error = asyncio.CancelledError() if future.cancelled() else future.exception()
        if error is None:
            self._answers.append(BatchAnswer(partition, number, self._clock.now(), future.result()))
        elif isinstance(error, errors.Error) and (not error.retryable or isinstance(error, errors.DeadlinePassed)):
            self._answers.append(BatchAnswer(partition, number, self._clock.now(), error))
        else:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self._changed.set()

    async def _write(self) -> None:
        """Writes answers until the session has an end."""
        while True:
            self._changed.clear()
            while self._answers:
                await self._stream.write(self._answers.popleft())
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
