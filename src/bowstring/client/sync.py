"""The sync face of the kit: the same names, parameters and defaults as in `bowstring.aio`, without
await.

One thread runs a loop for all clients of the process, and everything happens there, in the very
code that asyncio programs use. So it works in scripts, in notebooks, under a running loop and from
several threads at once. The calls here hand over and wait; there is no logic in them. The thread is
never stopped: grpc.aio, which `grpc://` uses, stumbles over events of loops that are closed. A
forked child gets a thread of its own.

Two things do not go through the loop, because handing over and waiting costs as much as hundreds of
messages. `send` gathers in the calling thread (see `sender`), and pages that have arrived are taken
there (see `read_ahead`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from datetime import timedelta
from types import EllipsisType, TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from bowstring.client import client as asynchronous
from bowstring.client.arguments import SpanOrMoment
from bowstring.client.positions import Position
from bowstring.client.ranges import End, Start
from bowstring.client.statistics import ClientStatistics, Info
from bowstring.client.sync_subscriptions import SyncSubscriptionCalls
from bowstring.client.topics import Topic
from bowstring.wire import forks
from bowstring.wire.loops import LoopThread

if TYPE_CHECKING:
    from bowstring.client import consumer as asynchronous_consumer
    from bowstring.client import reader as asynchronous_reader
    from bowstring.client.sync_consumer import Consumer
    from bowstring.client.sync_producer import Producer
    from bowstring.client.sync_reader import Reader

# This module is the other face of these classes, and uses what they keep from programs.
# pyright: reportPrivateUsage=false

T = TypeVar("T")


def connect(
    server: str | Sequence[str] | None = None,
    *,
    context: str | None = None,
    token: str | Callable[[], str] | None = None,
    user: str | None = None,
    password: str | None = None,
    name: str | None = None,
    timeout: SpanOrMoment = 10,
    drift_limit: timedelta | float = 0.5,
    on_drift: Callable[[float], object] | None = None,
) -> Client:
    """Connects to the first of the seeds that answers. The server is the one that is given, or that
    of the context, BOWSTRING_SERVER, BOWSTRING_CONTEXT, the context in use, else
    bowstring://localhost:27769. Raises `Unavailable` if no seed answers within `timeout`.
    `on_drift(seconds)` is called when this machine's clock is further from the brokers' than
    `drift_limit`, and again after it was right in between.
    """
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


class _Shared:
    """The loop thread of all clients of this process."""

    starting = threading.Lock()
    thread: LoopThread | None = None


def _loop_thread() -> LoopThread:
    with _Shared.starting:
        if _Shared.thread is None:
            _Shared.thread = LoopThread("bowstring-client")
        return _Shared.thread


def _in_child() -> None:
    """A forked child has no such thread yet. Clients of its parent keep theirs, and refuse."""
    _Shared.starting, _Shared.thread = threading.Lock(), None


forks.in_forked_child(_in_child)


class Client(SyncSubscriptionCalls):
    """A connection to Bowstring. Made by `bowstring.connect`."""

    def __init__(self, client: asynchronous.Client, thread: LoopThread) -> None:
        self.name = client.name
        self._client = client
        self._thread = thread
        self._open = True

    @property
    def info(self) -> Info:
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
        retention: timedelta | float | None = None,
        retention_bytes: int | None = None,
        table_retention: timedelta | float | None = None,
        deduplication: timedelta | float | None = None,
        payload: str = "inline",
        audited: bool = False,
        exists_ok: bool = False,
    ) -> Topic:
        """Creates a topic. None means the broker's default: its settings `topic.retention` and
        `topic.deduplication`, which is never longer than the retention. Raises `TopicExists` if
        there is one; with `exists_ok` returns it as it is.
        """
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
        """All topics by name, or those whose names match a glob such as `orders.*`; page by
        page."""
        after: str | None = ""
        while after is not None:
            page, after = self._run(self._client._topic_page(pattern, after))
            yield from page

    def alter_topic(
        self,
        name: str,
        *,
        partitions: int | EllipsisType = ...,
        retention: timedelta | float | EllipsisType = ...,
        retention_bytes: int | EllipsisType | None = ...,
        table_retention: timedelta | float | EllipsisType | None = ...,
        deduplication: timedelta | float | EllipsisType = ...,
        payload: str | EllipsisType = ...,
        audited: bool | EllipsisType = ...,
    ) -> Topic:
        """Changes the given settings, and no others; `retention_bytes=None` removes the limit. A
        retention below the deduplication window shortens the window too, until the retention is
        longer again. Raises `TopicNotFound`, and `NotSupported` for settings that cannot change.
        """
        return self._run(
            self._client.alter_topic(
                name,
                partitions=partitions,
                retention=retention,
                retention_bytes=retention_bytes,
                table_retention=table_retention,
                deduplication=deduplication,
                payload=payload,
                audited=audited,
            )
        )

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
        from bowstring.client import sync_producer

        return sync_producer.made(self._client, self._thread, topic, group, timeout, compression, max_bytes)

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
        """A reader of the log of a topic, or of several: from `start` on, up to `end` (not
        included; one that is not there yet is waited for), or for ever. With `name` it can commit
        its position, and a later reader of the name goes on there. `where` is a filter that the
        broker applies, `columns` are those to be sent. `window` is how many messages it hands out
        before some are committed.
        """

        from bowstring.client.sync_reader import Reader

        async def make() -> asynchronous_reader.Reader:
            made = self._client.reader(
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
            return await made.__aenter__()

        return Reader(self._run(make()), self._thread)

    def consumer(
        self,
        topic: str,
        subscription: str,
        *,
        mode: str | None = None,
        start: Start = None,
        name: str | None = None,
        lease: SpanOrMoment | None = None,
        credit: int | None = None,
        credit_bytes: int = 16 * 2**20,
        extend_max: timedelta | float = 3600,
        alive: Callable[[], object] | None = None,
        where: str | None = None,
        create: bool = True,
    ) -> Consumer:
        """A consumer of a subscription, which is created if there is none, at `start`, unless
        `create=False`. It holds each message by a lease until the program has settled it, at most
        `credit` messages and `credit_bytes`; by default the credit follows what the program works off
        in about a second. Leases are extended while `alive()`, if given, says yes, up to
        `extend_max`. Under its `name` a consumer gets its leases again; None stands for a name of
        its own. `lease` is how long it holds messages; None is as long as the subscription says.
        `where` is the filter of a subscription that is created; another one than an existing
        subscription has is a `Conflict`.
        """
        from bowstring.client import sync_consumer

        async def make() -> asynchronous_consumer.Consumer:
            made = self._client.consumer(
                topic,
                subscription,
                mode=mode,
                start=start,
                name=name,
                lease=lease,
                credit=credit,
                credit_bytes=credit_bytes,
                extend_max=extend_max,
                alive=alive,
                where=where,
                create=create,
            )
            return await sync_consumer.prepared(made, self._thread).__aenter__()

        return sync_consumer.Consumer(self._run(make()), self._thread)

    def offsets(self, topic: str, at: Start = "latest", *, partitions: Sequence[int] | None = None) -> dict[int, int]:
        """The offset that a place means in each partition: `"beginning"`, `"latest"` (the next
        message's), a moment (the first message that arrived then or later), `-100` (where the
        newest 100 of the topic begin).
        """
        return self._thread.run(self._client.offsets(topic, at, partitions=partitions))

    def positions(self, topic: str | None = None) -> Iterator[Position]:
        """All named positions by topic and name, or those of one topic; page by page."""
        after: tuple[str, str] | None = ("", "")
        while after is not None:
            page, after = self._thread.run(self._client._position_page(topic, after))
            yield from page

    def position(self, name: str, topic: str) -> Position:
        """A named position. Raises `NotFound`."""
        return self._thread.run(self._client.position(name, topic))

    def set_position(self, name: str, topic: str, to: Start, *, dry_run: bool = False) -> Position:
        """Moves a named position, also backwards, and creates it if there is none; `to` is a place
        as a reader's `start`. Running readers do not move. With `dry_run` it only returns the new
        position.
        """
        return self._thread.run(self._client.set_position(name, topic, to, dry_run=dry_run))

    def delete_position(self, name: str, topic: str, missing_ok: bool = False) -> None:
        """Deletes a named position: the next reader of that name begins at its `start`. Raises
        `NotFound`, unless `missing_ok`.
        """
        self._thread.run(self._client.delete_position(name, topic, missing_ok))

    def close(self) -> None:
        """Closes producers (waiting until what they sent is decided), readers, consumers (which give
        back what they hold) and the connection."""
        self._end(self._client.close)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._end(lambda: self._client.__aexit__(kind, error, traceback))

    def _end(self, closing: Callable[[], Coroutine[Any, Any, object]]) -> None:
        if self._open and self._client._open:
            self._open = False
            self._close(closing())

    def _end_reading(self) -> None:
        self._close(self._client._close_readers())

    def _close(self, closing: Coroutine[Any, Any, object]) -> None:
        """Closes readers, and perhaps more. Iteration in other threads ends at once; what a signal
        handler has interrupted goes on.
        """
        client = self._client
        hands = (*client._readers, *client._consumers)
        for hand in hands:
            hand._stop()
        held = [hand._taking for hand in hands] + [producer._sender._lock for producer in client._producers]
        self._thread.close(closing, [*held, *(consumer._threads for consumer in client._consumers)])

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._thread.run(coroutine)

    def __repr__(self) -> str:
        return repr(self._client)

    def __reduce__(self) -> Any:
        return self._client.__reduce__()
