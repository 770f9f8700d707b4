"""A producer's stream: requests in, credit before each, answers out as they come.

Two coroutines serve a stream, however many batches are under way. One reads: a request, credit for its bytes, into the broker, the
next. The other writes: the broker settles a batch's future when its flush is committed, and the future's callback puts the answer in
line. So there is no task per batch.

What bounds memory here (invariant 10): the next request is read only when the one before has its credit from the broker, when fewer
than `window` bytes of this stream are under way, and when the caller takes its answers; a caller that never reads answers is not read
either.

An answer that refuses is final. So an error that is worth repeating (`Unavailable`: the broker loads again, the disk is full, a newer
stream has taken over) is never given as one: it ends the stream, and the kit sends again what was not answered. The exception is
`DeadlinePassed`, which says for certain that the batch is not stored and never will be.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import Final

from google.protobuf.message import DecodeError

from bowstring import errors
from bowstring.broker.broker import Broker
from bowstring.broker.log.publisher import PublishedBatch, Publisher
from bowstring.core.answers import Answer, Stored
from bowstring.ports.clock import Clock
from bowstring.ports.transport import Caller, Inbound
from bowstring.wire import status
from bowstring.wire.codec import HEADER_BYTES_MAX, split
from bowstring.wire.generated import bowstring_pb2 as pb

ANSWERS_MAX: Final = 1024
"""Answers that wait for a slow caller before nothing more is read."""
BATCH_COST: Final = 1024
"""What a batch under way counts of the window beside its bytes, so that empty ones do not come for nothing."""


class PublishStream:
    """One stream of one producer, from its first request to its end."""

    def __init__(self, broker: Broker, inbound: Inbound, caller: Caller, clock: Clock, window: int) -> None:
        self._broker = broker
        self._caller = caller
        self._inbound = inbound
        self._clock = clock
        self._window = window
        self._answers: deque[bytes] = deque()
        self._under_way = 0
        self._bytes_under_way = 0
        self._reading: asyncio.Task[None] | None = None
        self._publisher: Publisher | None = None
        self._failure: BaseException | None = None
        """Ends the stream as soon as the answers in line are written."""
        self._ending: errors.Error | None = None
        """Ends the stream once all that is under way is answered."""
        self._changed = asyncio.Event()
        self._room = asyncio.Event()

    async def run(self) -> None:
        """Serves the stream to its end; raises what it ends with, if it does not end well."""
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
        """Takes nothing more, answers what is under way, then ends with this error."""
        self._ending = error
        if self._reading is not None:
            self._reading.cancel()
        self._changed.set()

    # Reading

    async def _read(self) -> None:
        message = await self._inbound.read()
        if message is None:
            return
        publisher = self._publisher = await self._open(message)
        fenced = asyncio.create_task(self._watch(publisher))
        try:
            while (message := await self._inbound.read()) is not None:
                await self._take(publisher, message)
        finally:
            fenced.cancel()

    async def _open(self, message: bytes) -> Publisher:
        """The first request opens the stream and has nothing else."""
        request, batch = _parsed(message)
        if not request.HasField("open") or batch is not None:
            raise errors.InvalidArgument("the first request of a publish stream has to open it.", hint="Send `open` alone, then batches.")
        opened = request.open
        return await self._broker.publisher(opened.topic, opened.producer, opened.stream, opened.group, self._caller)

    async def _take(self, publisher: Publisher, message: bytes) -> None:
        """A batch into the broker, and then a wait until there is room for the next one."""
        batch = published_batch(message)
        await publisher.admit(len(batch.data))
        cost = len(message) + BATCH_COST
        self._under_way += 1
        self._bytes_under_way += cost
        publisher.publish(batch).add_done_callback(partial(self._answered, batch.partition, batch.number, cost))
        del message, batch
        while self._bytes_under_way >= self._window or len(self._answers) >= ANSWERS_MAX:
            self._room.clear()
            await self._room.wait()

    async def _watch(self, publisher: Publisher) -> None:
        await publisher.fenced.wait()
        self._fail(errors.Unavailable("a newer stream of this producer has taken over."))

    # Answering

    def _answered(self, partition: int, number: int, cost: int, future: asyncio.Future[Answer]) -> None:
        """The broker has settled a batch."""
        self._under_way -= 1
        self._bytes_under_way -= cost
        self._room.set()
        self._changed.set()
        error = asyncio.CancelledError() if future.cancelled() else future.exception()
        if error is None:
            self._answers.append(self._answer(partition, number, future.result()))
        elif isinstance(error, errors.Error) and (not error.retryable or isinstance(error, errors.DeadlinePassed)):
            self._answers.append(self._refusal(partition, number, error))
        else:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self._changed.set()

    def _answer(self, partition: int, number: int, answer: Answer) -> bytes:
        message = pb.PublishAnswer(partition=partition, number=number, broker_time=self._clock.now())
        if isinstance(answer, Stored):
            message.stored.first_offset = answer.first_offset
            message.stored.rows = answer.rows
            message.stored.duplicate = answer.duplicate
            for repeat in answer.repeats:
                message.stored.repeats.add(row=repeat.row, rows=repeat.rows, offset=repeat.offset)
            message.stored.SetInParent()
        else:
            message.resend_after = answer.number
        return message.SerializeToString()

    def _refusal(self, partition: int, number: int, error: errors.Error) -> bytes:
        refused = status.to_message(error)
        return pb.PublishAnswer(partition=partition, number=number, broker_time=self._clock.now(), refused=refused).SerializeToString()

    async def _write(self) -> None:
        """Writes answers until the stream has an end."""
        while True:
            self._changed.clear()
            while self._answers:
                await self._inbound.write(self._answers.popleft())
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


def published_batch(message: bytes) -> PublishedBatch:
    """A request behind the first: its header's numbers as they are, and a view of its batch, which is empty where there is none."""
    request, batch = _parsed(message)
    if request.HasField("open"):
        raise errors.InvalidArgument("this publish stream is open already.", hint="A stream is opened by its first request only.")
    if not request.number:
        raise errors.InvalidArgument("a batch has no number, so it cannot be answered.", hint="Numbers of batches begin at 1.")
    return PublishedBatch(
        partition=request.partition,
        number=request.number,
        previous=request.previous,
        sent=request.sent,
        timeout=request.timeout,
        schema=request.schema,
        columns=request.columns,
        rows=request.rows,
        data=memoryview(b"") if batch is None else batch,
    )


def _parsed(message: bytes) -> tuple[pb.PublishRequest, memoryview | None]:
    header, batch = split(message, HEADER_BYTES_MAX)
    try:
        return pb.PublishRequest.FromString(header), batch
    except DecodeError:
        raise errors.InvalidArgument("this is not a publish request.", hint="The schema is in proto/bowstring/v1.") from None
