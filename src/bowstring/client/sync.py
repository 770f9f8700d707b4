"""The sync face of the kit: the same names, parameters and defaults as in `bowstring.aio`, without await.

One thread runs a loop for all clients of the process, and everything happens there, in the very code that asyncio programs use. So it
works in scripts, in notebooks, under a running loop and from several threads at once. The calls here hand over and wait; there is no logic
in them. The thread is never stopped: grpc.aio stumbles over events of loops that are closed.

Two things do not go through the loop, because handing over and waiting costs as much as hundreds of messages. `send` gathers in the
calling thread (see `sending`), and pages that have arrived are taken there (see `fetching`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from types import EllipsisType, TracebackType
from typing import Any, TypeVar

from bowstring import times
from bowstring.client import client as asynchronous
from bowstring.client import producer as asynchronous_producer
from bowstring.client import reader as asynchronous_reader
from bowstring.client.outgoing import Outgoing
from bowstring.client.ranges import End, Start
from bowstring.client.receipts import Answers, MessageReceipt, RowsReceipt, Span, Stored
from bowstring.client.sending import Sending, SpanOrMoment
from bowstring.client.statistics import ClientStatistics, ProducerStatistics
from bowstring.client.sync_positions import PositionCalls
from bowstring.client.sync_reader import Reader
from bowstring.client.topics import Topic
from bowstring.wire.loops import LoopThread

# This module is the other face of these classes, and uses what they keep from programs.
# pyright: reportPrivateUsage=false

T = TypeVar("T")
ROOM_SHARE = 0.75
"""Whoever waited for room goes on when so much of max_bytes is under way, and not for every single batch."""


def connect(
    server: str | Sequence[str] | None = None,
    *,
    context: str | None = None,
    token: str | Callable[[], str] | None = None,
    user: str | None = None,
    password: str | None = None,
    name: str | None = None,
    timeout: timedelta | float = 10,
    drift_limit: timedelta | float = 0.5,
    on_drift: Callable[[float], object] | None = None,
) -> Client:
    """Connects to the first of the seeds that answers. Without `server` it is BOWSTRING_SERVER, else bowstring://localhost:27769. Raises
    `Unavailable` if no seed answers within `timeout`. `on_drift(seconds)` is called when this machine's clock is further from the
    brokers' than `drift_limit`."""
    connecting = asynchronous.connect(
        server,
        context=context,
        token=token,
        user=user,
        password=password,
        name=name,
        timeout=timeout,
        drift_limit=drift_limit,
        on_drift=on_drift,
    )
    thread = _loop_thread()
    return Client(thread.run(connecting.client.open()), thread)


_starting = threading.Lock()


@cache
def _only_loop_thread() -> LoopThread:
    return LoopThread("bowstring-client")


def _loop_thread() -> LoopThread:
    with _starting:
        return _only_loop_thread()


class Receipt(MessageReceipt, eq=False, gc=False):
    """The receipt of one message. Ask for its `result` to know that the message is durable, or ignore it: `flush` raises what failed."""

    def result(self, timeout: Span | None = None) -> Stored:
        """Waits until the message is durable, and says where it is; raises what failed. After `timeout` only the waiting ends, with
        `TimeoutError`: the send goes on."""
        while self._batch.outcome is None:
            _wait(self._batch, timeout)
        return self._result()


class BatchReceipt(RowsReceipt):
    """The receipt of a `send_batch`. Its `result` is `Answers`, one per row."""

    __slots__ = ()

    def result(self, timeout: Span | None = None) -> Answers:
        """Waits until it is decided what became of every row. After `timeout` only the waiting ends, with `TimeoutError`."""
        while (batch := self._undecided()) is not None:
            _wait(batch, timeout)
        return self._result()


def _wait(batch: Outgoing, timeout: Span | None) -> None:
    done = threading.Event()
    batch.when_done(done.set)
    if not done.wait(None if timeout is None else times.span(timeout, "timeout")):
        raise TimeoutError(f"it is not decided after {timeout}; the send goes on")


class _Sending(Sending):
    """Gathers from any thread, and waits where asyncio programs get `Full`."""

    _receipts = Receipt
    _batch_receipt = BatchReceipt
    _blocks = True
    wait_for_room: Callable[[], object]

    def _make_room(self) -> None:
        self.wait_for_room()


class Producer:
    """Sends messages to one topic. Leaving its `with` block waits until all is durable, and raises what failed."""

    def __init__(self, producer: asynchronous_producer.Producer, thread: LoopThread) -> None:
        self.topic = producer.topic
        self.group = producer.group
        self._producer = producer
        self._thread = thread
        sending = producer._sending
        assert isinstance(sending, _Sending)
        sending.wait_for_room = lambda: thread.run(producer._publisher.ready(ROOM_SHARE))
        for name in ("send", "send_batch"):
            setattr(self, name, getattr(sending, name))

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
        """Sends one message, and returns at once; waits only when `max_bytes` are under way. The receipt has its id, and its `result` says
        where the message is once it is durable."""
        raise NotImplementedError

    def send_batch(self, data: object, *, transaction: None = None, timeout: SpanOrMoment | None = None) -> BatchReceipt:
        """Sends many messages: a list of values, or anything with `__arrow_c_stream__` that has a column `value` (binary or text) and any
        of key, attributes, id, due, expires, created. The receipt's `result` is `Answers`, one per row."""
        raise NotImplementedError

    def ready(self) -> None:
        """Waits until there is room for more."""
        self._thread.run(self._producer.ready())

    def flush(self, timeout: Span | None = None) -> None:
        """Waits until everything that was sent so far is decided, and raises what failed and was not looked at."""
        self._thread.run(self._producer.flush(timeout))

    def find(self, id: str) -> Stored | None:
        """Where the message of this id is stored, if it is."""
        return self._thread.run(self._producer.find(id))

    def statistics(self) -> ProducerStatistics:
        """How much was sent."""
        return self._producer.statistics()

    def close(self) -> None:
        """Waits until everything that was sent is decided, ends the producer, and raises what failed and was not looked at."""
        if self._producer._open:
            self._thread.run(self._producer.close())

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if self._producer._open:
            self._thread.run(self._producer.__aexit__(kind, error, traceback))

    def __repr__(self) -> str:
        return repr(self._producer)

    def __reduce__(self) -> Any:
        return self._producer.__reduce__()


class Client(PositionCalls):
    """A connection to Bowstring. Made by `bowstring.connect`."""

    def __init__(self, client: asynchronous.Client, thread: LoopThread) -> None:
        self.name = client.name
        self._client = client
        self._thread = thread
        self._open = True

    @property
    def info(self) -> asynchronous.Info:
        """Brokers, versions, and how far this machine's clock is from theirs."""
        return self._client.info

    def statistics(self) -> ClientStatistics:
        """What this client has open."""
        return self._client.statistics()

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        retention: timedelta | float = asynchronous.WEEK,
        retention_bytes: int | None = None,
        table_retention: timedelta | float | None = None,
        deduplication: timedelta | float = 600,
        payload: str = "inline",
        audited: bool = False,
        exists_ok: bool = False,
    ) -> Topic:
        """Makes a topic. One that is there already is a `TopicExists`, unless `exists_ok`."""
        return self._run(
            self._client.create_topic(
                name,
                partitions=partitions,
                retention=retention,
                retention_bytes=retention_bytes,
                table_retention=table_retention,
                deduplication=deduplication,
                payload=payload,
                audited=audited,
                exists_ok=exists_ok,
            )
        )

    def topic(self, name: str) -> Topic:
        """A topic with its counts."""
        return self._run(self._client.topic(name))

    def topics(self, pattern: str | None = None) -> Iterator[Topic]:
        """All topics by name, or those whose names match a glob such as `orders.*`; page by page."""
        after: str | None = ""
        while after is not None:
            page, after = self._run(self._client._topic_page(pattern, after))
            yield from page

    def alter_topic(
        self,
        name: str,
        *,
        retention: timedelta | float | None = None,
        retention_bytes: int | EllipsisType | None = ...,
        deduplication: timedelta | float | None = None,
    ) -> Topic:
        """Changes what is given, and only that; `retention_bytes=None` takes the limit away. Raises `TopicNotFound`."""
        given = {"retention": retention, "retention_bytes": retention_bytes, "deduplication": deduplication}
        return self._run(self._client.alter_topic(name, **given))  # pyright: ignore[reportArgumentType]

    def delete_topic(self, name: str, missing_ok: bool = False) -> None:
        """Deletes a topic and its messages."""
        self._run(self._client.delete_topic(name, missing_ok))

    def producer(
        self,
        topic: str,
        *,
        group: str = "default",
        timeout: SpanOrMoment = 30,
        compression: str | None = None,
        max_bytes: int = 64 * 2**20,
    ) -> Producer:
        """A producer for one topic. `group` owns the messages. Each has a connection of its own."""
        now = self._client._broker_time.now()
        settings = asynchronous_producer.ProducerSettings.checked(topic, group, timeout, compression, max_bytes, now)
        return Producer(self._run(self._make_producer(settings)), self._thread)

    async def _make_producer(self, settings: asynchronous_producer.ProducerSettings) -> asynchronous_producer.Producer:
        wake = self._thread.loop.call_soon_threadsafe
        producer = self._client._make_producer(settings, sending=_Sending, lock=threading.Lock(), wake=wake)
        return await producer.__aenter__()

    def reader(
        self,
        topic: str | Sequence[str],
        *,
        start: Start = None,
        end: End = None,
        name: str | None = None,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        partitions: Sequence[int] | None = None,
        uncommitted: bool = False,
        window: int | None = None,
        window_share: float = 0.5,
    ) -> Reader:
        """A reader of the log of a topic, or of several: from `start` on, up to `end` (not included; one that is not there yet is waited
        for), or for ever. With `name` it can commit its position, and a later reader of the name goes on there. `where` is a filter that
        the broker applies, `columns` are those to be sent. `window` is how many messages it hands out before some are committed."""

        async def make() -> asynchronous_reader.Reader:
            return self._client.reader(
                topic,
                start=start,
                end=end,
                name=name,
                columns=columns,
                where=where,
                partitions=partitions,
                uncommitted=uncommitted,
                window=window,
                window_share=window_share,
            )

        return Reader(self._run(make()), self._thread)

    def close(self) -> None:
        """Closes producers (waiting until what they sent is decided), readers and the connection."""
        self._end(self._client.close)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._end(lambda: self._client.__aexit__(kind, error, traceback))

    def _end(self, closing: Callable[[], Coroutine[Any, Any, object]]) -> None:
        if self._open:
            self._open = False
            self._thread.run(closing())

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._thread.run(coroutine)

    def __repr__(self) -> str:
        return repr(self._client)

    def __reduce__(self) -> Any:
        return self._client.__reduce__()
