"""A producer for asyncio: the program's half (`sender`) and the loop's half (`outbox`) together.

`Sender.send` is an attribute of each producer, in front of the method that is documented here: it
saves a call per message.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Final, NamedTuple

import pyarrow as pa

from bowstring import errors, times
from bowstring.client import arguments, receipts
from bowstring.client.arguments import Span, SpanOrMoment
from bowstring.client.connection import Connection
from bowstring.client.message import Message
from bowstring.client.outbox import Outbox
from bowstring.client.reader import Reader
from bowstring.client.receipts import Answers, BatchReceipt, Receipt, Stored
from bowstring.client.sender import Sender
from bowstring.client.statistics import ProducerStatistics
from bowstring.messages.limits import DELETED_IDS_MAX
from bowstring.wire import forks
from bowstring.wire.codec import HEADER_BYTES_MAX
from bowstring.wire.error_messages import from_message
from bowstring.wire.generated import bowstring_pb2 as pb

DELETED_BYTES_MAX: Final = HEADER_BYTES_MAX // 2
"""The bytes of the ids in one request: half of the broker's limit, so that the rest of the request
has room.
"""

Deleted = Callable[[str, int, Sequence[tuple[int, int]]], object]
"""Called with a topic, its id, and the partitions and offsets of the deleted messages."""


class ProducerSettings(NamedTuple):
    """What a producer is made with, checked."""

    topic: str
    group: str
    timeout: float
    compression: str | None
    max_bytes: int

    @classmethod
    def checked(cls, topic: object, group: object, timeout: object, compression: object, max_bytes: object, now: int) -> ProducerSettings:
        """Refuses what makes no sense."""
        if isinstance(max_bytes, bool) or not isinstance(max_bytes, int) or max_bytes < 1:
            raise errors.InvalidArgument(f"max_bytes={max_bytes!r} is not valid.", hint="Use a whole number of bytes, such as 64 * 2**20.")
        seconds = arguments.timeout(timeout, now)
        return cls(arguments.topic_name(topic), arguments.group(group), seconds, arguments.compression(compression), max_bytes)


class Producer:
    """Sends messages to one topic. Leaving its `async with` block waits until all is durable, and
    raises what failed.
    """

    def __init__(
        self,
        connection: Connection,
        settings: ProducerSettings,
        *,
        batch_bytes_max: int,
        partitions: int = 0,
        call_seconds: float = 10.0,
        closed: Callable[[Producer], object] = id,
        deleted: Deleted = lambda topic, topic_id, places: None,
        read: Callable[[str], Reader] | None = None,
        sender: type[Sender] = Sender,
        lock: Any = None,
        wake: Callable[[Callable[[], object]], object] | None = None,
    ) -> None:
        self.topic = settings.topic
        self.group = settings.group
        self._connection = connection
        self._call_seconds = call_seconds
        self._closed = closed
        self._deleted = deleted
        self._read = read
        """Makes a reader of the topic, up to its end, with a filter."""
        self._open = True
        self._sender = sender(
            settings.topic,
            connection.world.randomness.unique(),
            clock=connection.world.clock,
            broker_time=connection.broker_time,
            randomness=connection.world.randomness,
            lock=lock or nullcontext(),
            timeout=settings.timeout,
            compression=settings.compression,
            max_bytes=settings.max_bytes,
            batch_bytes_max=batch_bytes_max,
        )
        self._outbox = Outbox(connection.another(), self._sender, settings.group, settings.compression)
        schedule = wake or asyncio.get_running_loop().call_soon
        self._sender.attach(lambda: schedule(self._outbox.work))
        if partitions:
            self._sender.know_partitions(partitions)
        for name in ("send", "send_batch"):
            setattr(self, name, getattr(self._sender, name))

    def send(
        self,
        value: bytes | str | None = None,
        *,
        json: object = None,
        key: bytes | str | None = None,
        attributes: Mapping[str, str] | None = None,
        id: str | None = None,
        delay: Span | None = None,
        at: datetime | None = None,
        expires: SpanOrMoment | None = None,
        timeout: SpanOrMoment | None = None,
        transaction: None = None,
    ) -> Receipt:
        """Sends one message, and returns at once. The receipt has its id; `await` it to know that
        the message is durable. Raises `Full` when `max_bytes` are under way: `await
        producer.ready()` waits for room.
        """
        raise NotImplementedError

    def send_batch(
        self, data: object, *, partition: int | None = None, transaction: None = None, timeout: SpanOrMoment | None = None
    ) -> BatchReceipt:
        """Sends many messages: a list of values, or anything with `__arrow_c_stream__` that has a
        column `value` (binary or text) and any of key, attributes, id, due, expires, created. Other
        columns of a batch that was read are ignored. With `partition` all rows go there, whatever
        their keys and ids say. The receipt turns into `Answers`, one per row.
        """
        raise NotImplementedError

    def _leave_to_parent(self) -> None:
        """This is a forked child: the producer takes nothing here."""
        self._open = False
        self._sender.leave_to_parent(forks.forked())

    async def ready(self) -> None:
        """Waits until there is room for more."""
        self._connection.check_process()
        await self._outbox.ready()

    async def flush(self, timeout: Span | None = None) -> None:
        """Waits until everything that was sent so far is decided, and raises what failed and was
        not looked at. After `timeout` only the waiting ends, with `Unavailable`: the sends go on.
        """
        self._connection.check_process()
        seconds = None if timeout is None else times.span(timeout, "timeout")
        try:
            async with asyncio.timeout(seconds):
                await self._outbox.flush()
        except TimeoutError:
            message = f"not all that was sent to '{self.topic}' is decided after {seconds:g} s; the sends go on."
            raise errors.Unavailable(message, hint="Wait and flush again.") from None
        self._raise_failures()

    async def find(self, id: str) -> Stored | None:
        """Where the message of this id is stored, if it is: the newest, if several have it. An id
        is known until retention takes its message, or its owner deletes it.
        """
        request = pb.FindRequest(topic=self.topic, id=arguments.message_id(id)).SerializeToString()
        answer = pb.FindAnswer.FromString(await self._connection.call("Find", request, self._call_seconds))
        return Stored(self.topic, answer.partition, answer.offset, id, False) if answer.found else None

    async def delete(self, ids: Iterable[str]) -> Answers:
        """Deletes messages of this producer's group by their ids, whichever producer has sent them:
        they are not delivered any more. Durable when it returns, with one answer per id: `offsets`
        says where the message was; unknown ids are refused with `MessageNotFound`, those of another
        group with `NotAuthorised`. Messages that this producer has sent before are stored first.
        The ids stay taken for the deduplication window. Deleting again does no harm, and is
        answered alike. An id that was published again after the window names several messages: the
        newest that is not deleted goes.
        """
        self._connection.check_process()
        wanted = arguments.message_ids(ids)
        await self._outbox.flush()
        return await self._delete(wanted, lambda request: self._connection.call("DeleteMessages", request, self._call_seconds))

    def scheduled(self, before: datetime | timedelta | None = None) -> AsyncIterator[Message]:
        """The messages of this producer's group that are not due yet, or only those that are due
        `before` a moment, or a timedelta from now: of each partition in the order of their offsets.
        """
        return _each(self._scheduled(before))

    def _scheduled(self, before: datetime | timedelta | None) -> AsyncIterator[list[Message]]:
        """The same, some at a time."""
        self._connection.check_process()
        now = self._connection.broker_time.now()
        where = f"due > '{times.to_text(now)}'"
        if before is not None:
            where += f" and due < '{times.to_text(times.moment_or_span(before, 'before', now))}'"
        assert self._read is not None
        return _pages(self._read(where), self.group)

    async def cancel(self, ids: Iterable[str]) -> Answers:
        """Deletes messages of this producer's group that are not due yet, as `delete` does: no consumer
        gets them, and no reader any more. A message that is due is refused with `Conflict`.
        """
        self._connection.check_process()
        wanted = arguments.message_ids(ids)
        await self._outbox.flush()
        return await self._delete(wanted, lambda request: self._connection.call("CancelMessages", request, self._call_seconds))

    async def move(self, ids: Iterable[str], *, delay: Span | None = None, at: datetime | None = None) -> Answers:
        """Gives messages of this producer's group that are not due yet another due time: so long from
        now (`delay`), or `at` a moment; one that has passed means now. Durable when it returns, with
        one answer per id. A message that is due is refused with `Conflict`, one that expires before it
        would be due with `InvalidArgument`, others as by `delete`. Readers see the new due time too.
        """
        self._connection.check_process()
        wanted, due = arguments.message_ids(ids), times.delivery(delay, at, self._connection.broker_time.now())
        if due is None:
            raise errors.InvalidArgument("neither delay= nor at= was given.", hint="Give one of them.")
        await self._outbox.flush()
        outcomes: list[pb.DeletedMessage] = []
        for some in _delete_requests(wanted):
            request = pb.MoveMessagesRequest(topic=self.topic, group=self.group, ids=some, due=due).SerializeToString()
            answer = pb.MoveMessagesAnswer.FromString(await self._connection.call("MoveMessages", request, self._call_seconds))
            outcomes += _checked(answer.messages, some)
        return _delete_answers(self.topic, outcomes)

    async def _delete(self, ids: Sequence[str], asked: Callable[[bytes], Awaitable[bytes]]) -> Answers:
        """Deletes messages in as many requests as it takes. A request whose answer is lost is sent
        again, and gets the same answer. The requests and answers of both calls are alike.
        """
        outcomes: list[pb.DeletedMessage] = []
        for some in _delete_requests(ids):
            request = pb.DeleteMessagesRequest(topic=self.topic, group=self.group, ids=some).SerializeToString()
            answer = pb.DeleteMessagesAnswer.FromString(await asked(request))
            outcomes += _checked(answer.messages, some)
            places = [(each.partition, each.offset) for each in answer.messages if not each.HasField("refused")]
            self._deleted(self.topic, answer.topic_id, places)
        return _delete_answers(self.topic, outcomes)

    def statistics(self) -> ProducerStatistics:
        """How much was sent."""
        return self._outbox.counts.frozen(self._sender.bytes_under_way)

    async def close(self) -> None:
        """Waits until everything that was sent is decided, ends the producer, and raises what
        failed and was not looked at.
        """
        await self._end(flush=True)
        self._raise_failures()

    async def _end(self, *, flush: bool) -> None:
        if not self._open:
            return
        self._open = False
        self._sender.close(errors.Conflict("this producer is closed.", hint="Make another with client.producer()."))
        try:
            if flush:
                await self._outbox.flush()
        finally:
            await self._outbox.close()
            self._closed(self)

    def _raise_failures(self) -> None:
        error = receipts.unseen(self.topic, self._outbox.failures())
        if error is not None:
            raise error

    async def __aenter__(self) -> Producer:
        await self._outbox.ready()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if error is None:
            await self.close()
            return
        await self._end(flush=isinstance(error, Exception))
        failure = receipts.unseen(self.topic, self._outbox.failures())
        if failure is not None:
            error.add_note(f"Closing the producer also raised {type(failure).__name__}: {failure}")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.topic!r}, group {self.group!r}>"

    def __reduce__(self) -> Any:
        raise TypeError("A producer cannot be pickled. Connect in the other process: bowstring.connect(…).producer(…).")


def _delete_requests(ids: Sequence[str]) -> Iterator[list[str]]:
    """The ids, divided as the broker takes them."""
    some: list[str] = []
    size = 0
    for text in ids:
        length = len(text.encode())
        if some and (len(some) >= DELETED_IDS_MAX or size + length > DELETED_BYTES_MAX):
            yield some
            some, size = [], 0
        some.append(text)
        size += length
    yield some


def _checked(outcomes: Sequence[pb.DeletedMessage], ids: Sequence[str]) -> Sequence[pb.DeletedMessage]:
    """Raises if a request was not answered id by id."""
    if len(outcomes) != len(ids):
        raise errors.Error(f"the broker has answered {len(outcomes)} of {len(ids)} ids.")
    return outcomes


def _delete_answers(topic: str, outcomes: Sequence[pb.DeletedMessage]) -> Answers:
    """One answer for each id."""
    refused = {row: from_message(outcome.refused) for row, outcome in enumerate(outcomes) if outcome.HasField("refused")}
    ok = [row not in refused for row in range(len(outcomes))]
    partitions = pa.array([outcome.partition if good else None for outcome, good in zip(outcomes, ok, strict=True)], pa.int32())
    offsets = pa.array([outcome.offset if good else None for outcome, good in zip(outcomes, ok, strict=True)], pa.int64())
    return Answers(topic, pa.array(ok), partitions, offsets, pa.array([False] * len(ok)), refused)


async def _pages(reader: Reader, group: str) -> AsyncIterator[list[Message]]:
    """The messages of a group, some at a time."""
    async with reader:
        async for batch in reader.batches():
            found = [message for message in batch if message.producer_group == group]
            if found:
                yield found


async def _each(pages: AsyncIterator[list[Message]]) -> AsyncIterator[Message]:
    async for page in pages:
        for message in page:
            yield message
