"""A reader of the log, for asyncio. It removes nothing, and its position advances by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from operator import length_hint
from types import TracebackType
from typing import Any

from bowstring import errors, times
from bowstring.client import ranges
from bowstring.client.batch import Batch, messages
from bowstring.client.commit_window import CommitWindow
from bowstring.client.connection import Connection
from bowstring.client.fetching import Fetching
from bowstring.client.message import Message
from bowstring.client.pages import Chunk
from bowstring.client.positions import offsets_message
from bowstring.client.ranges import Clocks, Start
from bowstring.client.reader_settings import ReaderSettings, place, rows_limit
from bowstring.client.sending import Span
from bowstring.client.statistics import ReaderStatistics
from bowstring.wire.generated import bowstring_pb2 as pb

ROWS_MAX = 2**31 - 1
LOOK_SECONDS = 300.0
"""How often the rows that `for` is in are looked at, at least: sooner than they can go from fresh to over (`freshness`)."""
JOINED_BYTES = 1024 * 1024
"""Small pages are joined up to this into one of `batches`, which copies them. A page that is larger comes alone, and as it is."""


class Reader:
    """Reads topics from a place on. `async for message in reader`, or `batches()`, or `poll()`."""

    def __init__(
        self,
        connection: Connection,
        settings: ReaderSettings,
        *,
        clocks: Callable[[], Clocks],
        call_seconds: float = 10.0,
        closed: Callable[[Reader], object] = id,
    ) -> None:
        self.topic = settings.topics[0] if not settings.several else list(settings.topics)
        self.name = settings.name
        self._connection = connection
        self._settings = settings
        self._clocks = clocks
        self._call_seconds = call_seconds
        self._closed = closed
        self._open = True
        self._doubt = False
        """Whether the rows that `for` is in have to be looked at before the next is handed out. All that is asked for each message."""
        self._fetching = self._begin(settings.starts, settings.name)
        self._chunk: Chunk | None = None
        """The rows that `async for` is in."""
        self._messages: Iterator[Message] = iter(())
        self._looking = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)
        self._taking: AbstractContextManager[Any] = nullcontext()
        """Held while pages are taken. Where threads take them (`sync`) it is a lock."""
        self._on_loop: Callable[[Callable[[], object]], object] = lambda call: call()

    def _taken_by_threads(self, lock: AbstractContextManager[Any], on_loop: Callable[[Callable[[], object]], object]) -> None:
        """From now on pages are taken in any thread, under this lock; `on_loop` has something called on the loop."""
        self._taking, self._on_loop = lock, on_loop

    def _begin(self, starts: dict[str, Any], name: str | None) -> Fetching:
        settings = self._settings
        window = None if settings.window is None else CommitWindow(settings.window, settings.window_share)
        return Fetching(self._connection, settings.wanted(starts, name), window, self._doubted)

    def _doubted(self) -> None:
        self._doubt = True

    def _look(self) -> None:
        self._doubt = True
        self._looking = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    async def _begun(self) -> None:
        """Waits until it is decided what is the latest, where that matters: what is sent afterwards comes after it. What goes wrong is
        told to whoever reads."""
        if self._settings.depends_on_now:
            with suppress(errors.Error, TimeoutError):
                async with asyncio.timeout(self._call_seconds):
                    await self._fetching.placed()

    # ---- reading

    def __aiter__(self) -> Reader:
        return self

    async def __anext__(self) -> Message:
        while True:
            message = next(self._messages, None)
            if message is not None:
                if self._doubt and not self._may_hand_out(message):
                    continue
                return message
            if not await self._next_messages():
                raise StopAsyncIteration

    async def _next_messages(self) -> bool:
        """Goes on to the next rows; False at the end."""
        self._check_open()
        while not self._messages_at_hand():
            if not await self._fetching.available():
                return False
        return True

    def _messages_at_hand(self) -> bool:
        """Goes on to the next rows if they are there; in any thread."""
        with self._taking:
            chunk = self._fetching.take(None) if self._open else None
            if chunk is None:
                return False
            self._chunk, self._messages = chunk, messages(chunk)
            if self._fetching.is_near(chunk):
                self._doubt = True
        self._grant()
        return True

    def _may_hand_out(self, message: Message) -> bool:
        """Looks again at the rows that `for` is in, from this one on; in any thread. If some are over, the rest of them comes next."""
        with self._taking:
            self._doubt = False  # before looking: what is heard meanwhile counts for the next
            chunk = self._chunk
            if chunk is None or message._page is not chunk.page:  # pyright: ignore[reportPrivateUsage]
                return True
            row = message._row  # pyright: ignore[reportPrivateUsage]
            rest = Chunk(chunk.page, row, chunk.first + chunk.rows - row)
            fresh = self._fetching.fresh(rest)
            if fresh is None:
                self._chunk, self._messages = None, iter(())
                return False
            if self._fetching.is_near(fresh):
                self._doubt = True
            if fresh is not rest:
                self._chunk, self._messages = fresh, messages(fresh)
            return fresh is rest

    async def batches(self, max_rows: int = 65536, max_wait: Span = 0.05) -> AsyncIterator[Batch]:
        """Batches of up to `max_rows`, or of about a MiB; one that is not full waits `max_wait` for more rows."""
        while (batch := await self._next_batch(max_rows, max_wait)) is not None:
            yield batch

    async def _next_batch(self, max_rows: int = 65536, max_wait: Span = 0.05) -> Batch | None:
        """What `batches` gives next; None at the end."""
        limit, seconds = rows_limit(max_rows), times.span(max_wait, "max_wait")
        self._check_open()
        while (left := length_hint(self._messages)) or await self._fetching.available():
            if not self._fetching.holds(limit - left, JOINED_BYTES):
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await self._fetching.filled(limit - left)
            if batch := self._batch(limit, JOINED_BYTES):
                return batch
        return None

    def _batch_at_hand(self, max_rows: int) -> Batch | None:
        """What `batches` gives next if there is enough for it without waiting; in any thread."""
        if self._open and self._fetching.holds(rows_limit(max_rows), JOINED_BYTES):
            return self._batch(max_rows, JOINED_BYTES) or None
        return None

    async def poll(self, timeout: Span = 0, max_rows: int | None = None) -> Batch:
        """What is there now, after waiting up to `timeout` for something; an empty batch if nothing came."""
        limit, seconds = ROWS_MAX if max_rows is None else rows_limit(max_rows), times.span(timeout, "timeout")
        self._check_open()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while length_hint(self._messages) or await self._fetching.available():
                    if batch := self._batch(limit, ROWS_MAX):
                        return batch
        return self._batch(limit, ROWS_MAX)

    def _batch(self, rows_max: int, bytes_max: int) -> Batch:
        """What is there now."""
        with self._taking:
            chunks = self._left_over(rows_max)
            rows, size = sum(chunk.rows for chunk in chunks), sum(chunk.size for chunk in chunks)
            while rows < rows_max and not (chunks and size + self._fetching.next_size() > bytes_max):
                chunk = self._fetching.take(rows_max - rows)
                if chunk is None:
                    break
                chunks.append(chunk)
                rows += chunk.rows
                size += chunk.size
        self._grant()
        return Batch(chunks, self._settings.columns)

    def _grant(self) -> None:
        """Gives credit back for what was taken. The loop is bothered only when it is worth while."""
        if self._fetching.owes():
            self._on_loop(self._fetching.grant)

    def _left_over(self, limit: int) -> list[Chunk]:
        """What `async for` has begun and not handed out."""
        chunk, remaining = self._chunk, length_hint(self._messages)
        self._chunk, self._messages = None, iter(())
        if chunk is None or not remaining:
            return []
        chunk = self._fetching.fresh(Chunk(chunk.page, chunk.first + chunk.rows - remaining, remaining))
        if chunk is not None and chunk.rows > limit:
            self._chunk = Chunk(chunk.page, chunk.first + limit, chunk.rows - limit)
            self._messages = messages(self._chunk)
            chunk = Chunk(chunk.page, chunk.first, limit)
        return [] if chunk is None else [chunk]

    # ---- places

    @property
    def position(self) -> dict[Any, Any]:
        """The next offset of each partition; empty until the reader knows where it begins. Of a list of topics it is one such dict by
        topic."""
        return self._shaped(self._position())

    def _position(self) -> dict[str, dict[int, int]]:
        position = self._fetching.position
        remaining = length_hint(self._messages)
        if self._chunk is not None and remaining:
            chunk = self._chunk
            position[chunk.page.topic][chunk.page.partition] = int(chunk.page.offsets[chunk.first + chunk.rows - remaining])
        return position

    def _shaped(self, by_topic: dict[str, dict[int, int]]) -> dict[Any, Any]:
        return by_topic if self._settings.several else by_topic[self._settings.topics[0]]

    async def seek(self, start: Start) -> None:
        """Goes on from another place."""
        self._check_open()
        settings, clocks = self._settings, self._clocks()
        starts = {topic: place(start, topic, "start", settings.several, clocks) for topic in settings.topics}
        old = self._fetching
        self._fetching = self._begin(starts, None)
        self._chunk, self._messages = None, iter(())
        await old.close()
        await self._fetching.placed()

    async def lag(self) -> dict[Any, Any]:
        """How many offsets are behind the position, for each partition; of a list of topics, by topic."""
        self._check_open()
        async with asyncio.timeout(self._call_seconds):
            await self._fetching.placed()
            topics = {topic: await self._fetching.describe(topic) for topic in self._settings.topics}
        position = self._position()
        return self._shaped(
            {
                name: {number: max(0, topic.ranges[number].next - offset) for number, offset in position[name].items()}
                for name, topic in topics.items()
            }
        )

    async def commit(self, position: Mapping[Any, Any] | None = None, transaction: None = None) -> None:
        """Keeps the position under the reader's name, durably: behind everything that was handed out, or as given. A later reader of the
        name goes on there. Backwards is a `Conflict`. Of several topics each is committed by itself."""
        self._check_open()
        if transaction is not None:
            raise errors.NotSupported("transaction= is not in this version.", hint="Leave transaction= away.")
        if self.name is None:
            raise errors.Conflict("this reader has no name to keep its position under.", hint="Make it with name='…'.")
        async with asyncio.timeout(self._call_seconds):
            await self._fetching.placed()
        with self._taking:
            now = self._position()
        for topic, offsets in (now if position is None else self._given(position, now)).items():
            await self._commit(topic, self.name, offsets)

    def _given(self, position: Mapping[Any, Any], now: dict[str, dict[int, int]]) -> dict[str, dict[int, int]]:
        """A position that was given, in the form that `position` has."""
        by_topic = position if self._settings.several else {self._settings.topics[0]: position}
        for topic, offsets in by_topic.items():
            ranges.check(offsets if isinstance(offsets, Mapping) and topic in now else {}, "position", self._clocks())
            for number in offsets:
                if number not in now[topic]:
                    raise errors.InvalidArgument(
                        f"this reader does not read partition {number} of '{topic}'.", hint=f"It reads {sorted(now[topic])}."
                    )
        return {topic: dict(offsets) for topic, offsets in by_topic.items()}

    async def _commit(self, topic: str, name: str, offsets: dict[int, int]) -> None:
        fetching = self._fetching
        request = pb.CommitPositionRequest(
            topic=topic, name=name, offsets=offsets_message(offsets), topic_id=fetching.topic_id(topic)
        ).SerializeToString()
        await self._connection.call("CommitPosition", request, self._call_seconds)
        with self._taking:
            fetching.committed(topic, offsets)

    # ---- the rest

    def statistics(self) -> ReaderStatistics:
        """How much was read."""
        told = self._fetching
        ahead = told.bytes_ahead
        return ReaderStatistics(told.messages - length_hint(self._messages), told.bytes, told.batches, ahead, told.connections)

    async def close(self) -> None:
        """Ends the reader."""
        if self._open:
            self._open = False
            self._looking.cancel()
            await self._fetching.close()
            self._closed(self)

    def _check_open(self) -> None:
        if not self._open:
            raise errors.Conflict("this reader is closed.", hint="Make another with client.reader().")

    async def __aenter__(self) -> Reader:
        await self._begun()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.topic!r}>"

    def __reduce__(self) -> Any:
        raise TypeError("A reader cannot be pickled. Connect in the other process: bowstring.connect(…).reader(…).")
