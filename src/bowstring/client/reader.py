"""A reader of the log, for asyncio. It removes nothing, and its position advances by itself. `hand`
says how tasks and threads share it, and how it is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from operator import length_hint
from types import TracebackType
from typing import Any

from bowstring import errors, times
from bowstring.client import ranges
from bowstring.client.arguments import Span
from bowstring.client.batch import Batch, messages
from bowstring.client.commit_window import CommitWindow
from bowstring.client.connection import Connection
from bowstring.client.hand import Hand
from bowstring.client.message import Message
from bowstring.client.pages import Chunk
from bowstring.client.positions import offsets_message
from bowstring.client.ranges import Clocks, Start
from bowstring.client.read_ahead import ReadAhead, closed
from bowstring.client.reader_settings import ReaderSettings, place, rows_limit
from bowstring.client.statistics import ReaderStatistics
from bowstring.wire.generated import bowstring_pb2 as pb

ROWS_MAX = 2**31 - 1
LOOK_SECONDS = 300.0
"""How often the page in hand is checked, at least: sooner than its rows can go from fresh to over
(`freshness`)."""


class Reader(Hand[ReadAhead, Message, Batch]):
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
        self._settings = settings
        self._clocks = clocks
        self._call_seconds = call_seconds
        self._closed = closed
        super().__init__(connection, self._begin(connection, settings.starts, settings.name))
        self._looking = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def _begin(self, connection: Connection, starts: dict[str, Any], name: str | None) -> ReadAhead:
        settings = self._settings
        window = None if settings.window is None else CommitWindow(settings.window, settings.window_share)
        patience = self._call_seconds if any(end is not None for end in settings.ends.values()) else None
        return ReadAhead(connection, settings.wanted(starts, name), window, patience, self._doubted)

    def _look(self) -> None:
        self._doubt = True
        self._looking = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    async def _begun(self) -> None:
        """Waits until "latest" is resolved, where it matters: messages that are sent afterwards
        come after it. Errors go to the program that reads."""
        if self._settings.depends_on_now:
            with suppress(errors.Error):
                await self._placed()

    async def _placed(self) -> None:
        """Waits until the reader's first offsets are known, as long as a call may take."""
        async with self._in_time():
            await self._read_ahead.placed()

    @asynccontextmanager
    async def _in_time(self) -> AsyncGenerator[None]:
        try:
            async with asyncio.timeout(self._call_seconds):
                yield
        except TimeoutError:
            raise self._connection.unanswered(self._call_seconds) from None

    # ---- reading

    def _made(self, chunk: Chunk) -> Iterator[Message]:
        return messages(chunk)

    def _batch_of(self, chunks: list[Chunk]) -> Batch:
        return Batch(chunks, self._settings.columns)

    def _grant(self) -> None:
        """Gives credit back for taken pages. It disturbs the loop only when it is worth a
        request."""
        if self._read_ahead.owes():
            self._on_loop(self._read_ahead.grant)

    async def batches(self, max_rows: int = 65536, max_wait: Span = 0.05) -> AsyncIterator[Batch]:
        """Returns batches of up to `max_rows`, or of about a MiB; one that is not full waits
        `max_wait` for more rows."""
        while (batch := await self._next_batch(max_rows, max_wait)) is not None:
            yield batch

    async def poll(self, timeout: Span = 0, max_rows: int | None = None) -> Batch:
        """Returns the messages that are there now, after waiting up to `timeout` for some; an empty
        batch if none came."""
        limit, seconds = ROWS_MAX if max_rows is None else rows_limit(max_rows), times.span(timeout, "timeout")
        self._check_open()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while length_hint(self._messages) or await self._available():
                    if batch := self._batch(limit, ROWS_MAX):
                        return batch
        return self._batch(limit, ROWS_MAX)

    # ---- places

    @property
    def position(self) -> dict[Any, Any]:
        """The next offset of each partition; empty until the reader's first offsets are known. For
        a list of topics it is such a dict by topic."""
        return self._shaped(self._position())

    def _position(self) -> dict[str, dict[int, int]]:
        with self._taking:
            position = self._read_ahead.position
            ahead = self._ahead()
        if ahead is not None:
            position[ahead.page.topic][ahead.page.partition] = int(ahead.page.offsets[ahead.first])
        return position

    def _shaped(self, by_topic: dict[str, dict[int, int]]) -> dict[Any, Any]:
        return by_topic if self._settings.several else by_topic[self._settings.topics[0]]

    async def seek(self, start: Start) -> None:
        """Goes on from another place."""
        self._check_open()
        settings, clocks = self._settings, self._clocks()
        starts = {topic: place(start, topic, "start", settings.several, clocks) for topic in settings.topics}
        begun = self._begin(self._connection, starts, None)
        with self._taking:
            old, self._read_ahead = self._read_ahead, begun
            self._rest()
        await old.close()
        await self._placed()

    async def lag(self) -> dict[Any, Any]:
        """How many offsets are behind the position, for each partition; for a list of topics, by
        topic."""
        self._check_open()
        async with self._in_time():
            await self._read_ahead.placed()
            topics = {topic: await self._read_ahead.describe(topic) for topic in self._settings.topics}
        position = self._position()
        return self._shaped(
            {
                name: {number: max(0, topic.ranges[number].next - offset) for number, offset in position[name].items()}
                for name, topic in topics.items()
            }
        )

    async def commit(self, position: Mapping[Any, Any] | None = None, transaction: None = None) -> None:
        """Commits the position under the reader's name, durably: behind everything that was handed
        out, or as given. A later reader of that name continues there. Going backwards is a
        `Conflict`. Several topics are committed one by one. What a reader had handed out can be
        committed after it is closed, too, while its client is open."""
        if transaction is not None:
            raise errors.NotSupported("transaction= is not in this version.", hint="Omit transaction=.")
        if self.name is None:
            raise errors.Conflict("this reader has no name to keep its position under.", hint="Make it with name='…'.")
        await self._placed()
        now = self._position()
        for topic, offsets in (now if position is None else self._given(position, now)).items():
            await self._commit(topic, self.name, offsets)

    def _given(self, position: Mapping[Any, Any], now: dict[str, dict[int, int]]) -> dict[str, dict[int, int]]:
        """A given position, in the form of `position`."""
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
        ahead = self._read_ahead
        request = pb.CommitPositionRequest(
            topic=topic, name=name, offsets=offsets_message(offsets), topic_id=ahead.topic_id(topic)
        ).SerializeToString()
        await self._connection.call("CommitPosition", request, self._call_seconds)
        with self._taking:
            ahead.committed(topic, offsets)

    # ---- the rest

    def statistics(self) -> ReaderStatistics:
        """How much this reader has read."""
        told, ahead = self._read_ahead, self._ahead()
        messages = told.messages - (0 if ahead is None else ahead.rows)
        return ReaderStatistics(messages, told.bytes, told.batches, told.bytes_ahead, told.connections, told.dropped)

    async def close(self) -> None:
        """Ends the reader and wakes those who wait for it: iteration ends, `poll` returns an empty
        batch. Closing again does nothing."""
        self._looking.cancel()
        self._stop()
        await self._read_ahead.close()
        self._closed(self)

    def _check_open(self) -> None:
        self._connection.check_process()
        if not self._open:
            raise closed()

    async def __aenter__(self) -> Reader:
        await self._begun()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.topic!r}>"

    def __reduce__(self) -> Any:
        raise TypeError("A reader cannot be pickled. Connect in the other process: bowstring.connect(…).reader(…).")
