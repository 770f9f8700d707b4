"""A producer for programs without asyncio: `send` gathers in the program's own thread (`sender`),
the rest happens on the loop (`sync`).

**At the end of a program** that has closed nothing, sent messages get a moment to be stored, and a
warning reports those that were not: the program does not hang, and loses nothing in silence. **In a
forked child** producers and receipts of the parent refuse (`wire.forks`); the parent goes on.
"""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Final

from bowstring import errors
from bowstring.client import producer as asynchronous
from bowstring.client.arguments import Span, SpanOrMoment
from bowstring.client.client import Client
from bowstring.client.message import Message
from bowstring.client.receipts import Answers, MessageReceipt, RowsReceipt, Stored
from bowstring.client.sender import Sender
from bowstring.client.statistics import ProducerStatistics
from bowstring.client.sync_wait import wait
from bowstring.wire import forks
from bowstring.wire.loops import LoopThread

# This module is the other face of these classes, and uses what they keep from programs.
# pyright: reportPrivateUsage=false

ROOM_SHARE: Final = 0.75
"""A call that waits for room continues when this share of max_bytes is under way, and not for every
single batch.
"""
EXIT_SECONDS: Final = 5.0
"""How long what was sent may take to be stored when the program ends without having closed its
producers.
"""

_log = logging.getLogger("bowstring.client")


class Receipt(MessageReceipt, eq=False, gc=False):
    """The receipt of one message. Ask for its `result` to know that the message is durable, or
    ignore it: `flush` raises what failed.
    """

    def result(self, timeout: Span | None = None) -> Stored:
        """Waits until the message is durable, and says where it is; raises what failed. After
        `timeout` only the waiting ends, with `TimeoutError`: the send goes on.
        """
        while not self.done():
            wait(self._batch.outcome.when_settled, timeout)
        return self._result()


class BatchReceipt(RowsReceipt):
    """The receipt of a `send_batch`. Its `result` is `Answers`, one per row."""

    __slots__ = ()

    def result(self, timeout: Span | None = None) -> Answers:
        """Waits until it is decided what became of every row. After `timeout` only the waiting
        ends, with `TimeoutError`.
        """
        while (outcome := self._undecided()) is not None:
            wait(outcome.when_settled, timeout)
        return self._result()


class _Sender(Sender):
    """Gathers from any thread, and waits where asyncio programs get `Full`."""

    _receipts = Receipt
    _batch_receipt = BatchReceipt
    _blocks = True
    wait_for_room: Callable[[], object]

    def _make_room(self) -> None:
        self.wait_for_room()


class Producer:
    """Sends messages to one topic. Leaving its `with` block waits until all is durable, and raises
    what failed.
    """

    def __init__(self, producer: asynchronous.Producer, thread: LoopThread) -> None:
        self.topic = producer.topic
        self.group = producer.group
        self._producer = producer
        self._thread = thread
        sender = producer._sender
        assert isinstance(sender, _Sender)
        sender.wait_for_room = lambda: thread.run(producer._outbox.ready(ROOM_SHARE))
        for name in ("send", "send_batch"):
            setattr(self, name, getattr(sender, name))
        _open[:] = [other for other in _open if other._producer._open]
        _open.append(self)

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
        """Sends one message, and returns at once; waits only when `max_bytes` are under way. The
        receipt has its id, and its `result` says where the message is once it is durable.
        """
        raise NotImplementedError

    def send_batch(
        self, data: object, *, partition: int | None = None, transaction: None = None, timeout: SpanOrMoment | None = None
    ) -> BatchReceipt:
        """Sends many messages: a list of values, or anything with `__arrow_c_stream__` that has a
        column `value` (binary or text) and any of key, attributes, id, due, expires, created. Other
        columns of a batch that was read are ignored. With `partition` all rows go there, whatever
        their keys and ids say. The receipt's `result` is `Answers`, one per row.
        """
        raise NotImplementedError

    def ready(self) -> None:
        """Waits until there is room for more."""
        self._thread.run(self._producer.ready())

    def flush(self, timeout: Span | None = None) -> None:
        """Waits until everything that was sent so far is decided, and raises what failed and was
        not looked at. After `timeout` only the waiting ends, with `Unavailable`: the sends go on.
        """
        self._thread.run(self._producer.flush(timeout))

    def find(self, id: str) -> Stored | None:
        """Where the message of this id is stored, if it is: the newest, if several have it. An id
        is known until retention takes its message, or its owner deletes it.
        """
        return self._thread.run(self._producer.find(id))

    def delete(self, ids: Iterable[str]) -> Answers:
        """Deletes messages of this producer's group by their ids, whichever producer has sent them:
        they are not delivered any more. Durable when it returns, with one answer per id: `offsets`
        says where the message was; unknown ids are refused with `MessageNotFound`, those of another
        group with `NotAuthorised`. Messages that this producer has sent before are stored first.
        The ids stay taken for the deduplication window. Deleting again does no harm, and is
        answered alike. An id that was published again after the window names several messages: the
        newest that is not deleted goes.
        """
        return self._thread.run(self._producer.delete(ids))

    def scheduled(self, before: datetime | timedelta | None = None) -> Iterator[Message]:
        """The messages of this producer's group that are not due yet, or only those that are due
        `before` a moment, or a timedelta from now: of each partition in the order of their offsets.
        """

        async def begun() -> AsyncIterator[list[Message]]:
            return self._producer._scheduled(before)

        return self._each(self._thread.run(begun()))

    def _each(self, pages: AsyncIterator[list[Message]]) -> Iterator[Message]:
        async def following() -> list[Message]:
            return await anext(pages, [])

        while page := self._thread.run(following()):
            yield from page

    def cancel(self, ids: Iterable[str]) -> Answers:
        """Deletes messages of this producer's group that are not due yet, as `delete` does: no consumer
        gets them, and no reader any more. A message that is due is refused with `Conflict`.
        """
        return self._thread.run(self._producer.cancel(ids))

    def move(self, ids: Iterable[str], *, delay: Span | None = None, at: datetime | None = None) -> Answers:
        """Gives messages of this producer's group that are not due yet another due time: so long from
        now (`delay`), or `at` a moment; one that has passed means now. Durable when it returns, with
        one answer per id. A message that is due is refused with `Conflict`, one that expires before it
        would be due with `InvalidArgument`, others as by `delete`. Readers see the new due time too.
        """
        return self._thread.run(self._producer.move(ids, delay=delay, at=at))

    def statistics(self) -> ProducerStatistics:
        """How much was sent."""
        return self._producer.statistics()

    def close(self) -> None:
        """Waits until everything that was sent is decided, ends the producer, and raises what
        failed and was not looked at.
        """
        if self._producer._open:
            self._thread.close(self._producer.close(), [self._producer._sender._lock])

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if self._producer._open:
            self._thread.run(self._producer.__aexit__(kind, error, traceback))

    def __repr__(self) -> str:
        return repr(self._producer)

    def __reduce__(self) -> Any:
        return self._producer.__reduce__()


def made(
    client: Client, thread: LoopThread, topic: str, group: str, timeout: SpanOrMoment, compression: str | None, max_bytes: int
) -> Producer:
    """A producer of this client that is ready to send."""
    settings = asynchronous.ProducerSettings.checked(topic, group, timeout, compression, max_bytes, client._broker_time.now())

    async def make() -> asynchronous.Producer:
        producer = client._make_producer(settings, sender=_Sender, lock=threading.RLock(), wake=thread.loop.call_soon_threadsafe)
        return await producer.__aenter__()

    return Producer(thread.run(make()), thread)


_open: list[Producer] = []
"""Producers that were made, until they are closed."""


def _at_exit() -> None:
    """The program ends."""
    for producer in _open:
        if producer._producer._open and producer._producer._sender.bytes_under_way:
            try:
                producer._thread.run(producer._producer.flush(), timeout=EXIT_SECONDS)
            except (errors.Error, TimeoutError) as error:
                why = f"{type(error).__name__}: {error}" if isinstance(error, errors.Error) else f"no answer within {EXIT_SECONDS:g} s"
                _log.warning("a producer of %r was not closed, and not all that it sent is known to be stored (%s)", producer.topic, why)


atexit.register(_at_exit)
forks.in_forked_child(_open.clear)
