"""A reader's stream out of the broker: whole pages as they are, new ones as they are committed,
nothing that was deleted. `page_cutting` tells what goes out of a page.

A reader that follows gets new rows in the step in which their commit is told (`row_wait`): their
pages are in memory then. Everything else, such as old rows, filters and errors, is the task's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from bowstring import errors
from bowstring.broker.reading.cursor import Cursor, cursor_at
from bowstring.broker.reading.fetched import NO_RUNS, Fetched, joined
from bowstring.broker.reading.notices import Notices, Runs, deleted_runs
from bowstring.broker.reading.page_cutting import cut
from bowstring.broker.reading.places import offset_at
from bowstring.broker.reading.reading import Reading
from bowstring.broker.reading.row_wait import Receiver, RowWait
from bowstring.broker.reading.selection import Selection
from bowstring.core.pages import PageEntry
from bowstring.ports.failures import Damaged
from bowstring.ports.store import Page

ANSWER_BYTES = 4 * 1024 * 1024
"""Bytes that one round reads for one reader."""
PAGES_A_READ = 256


class Fetcher:
    """One reader over partitions of one topic."""

    def __init__(
        self, reading: Reading, durable: Callable[[], Awaitable[None]], topic: str, cursors: list[Cursor], selection: Selection
    ) -> None:
        self._reading = reading
        self._durable = durable
        """Waits until everything that was decided up to now is committed."""
        self._topic = topic
        self._cursors = cursors
        self._selection = selection
        self._notices: Notices | None = None
        self._turn = 0

    async def next(self, bytes_max: int, receiver: Receiver | None = None) -> list[Fetched]:
        """What comes next, about so many bytes, of one partition; waits until there is something.
        Empty when every range is read (`done`). While it waits, a receiver is offered new rows at
        once; empty, too, if it has no room left for what comes then.
        """
        while True:
            if self.done:
                return []
            for _ in self._cursors:
                cursor = self._cursors[self._turn % len(self._cursors)]
                self._turn += 1
                if cursor.actor.gone is not None:
                    raise cursor.actor.gone.with_traceback(None)
                if cursor.done:
                    continue
                fetched = await self._of(cursor, min(bytes_max, ANSWER_BYTES))
                if fetched:
                    self._count(cursor, fetched)
                    return fetched
            left = await self._wait(receiver)
            if left or (receiver is not None and receiver.room() <= 0):
                return left

    @property
    def done(self) -> bool:
        """Whether every range is read."""
        return all(cursor.done for cursor in self._cursors)

    def _count(self, cursor: Cursor, fetched: list[Fetched]) -> None:
        rows, size = sum([piece.rows for piece in fetched]), sum([piece.size for piece in fetched])
        self._reading.counters.fetched(cursor.actor.partition.topic, len(fetched), rows, size)
        self._reading.witness.fetched(self._topic, self._selection.where, fetched)

    async def _wait(self, receiver: Receiver | None) -> list[Fetched]:
        """Until there may be something to read in one of the partitions, or the moment has come
        until which they are read. No polling. Gives what the receiver was offered and could not
        take.
        """
        waiting = [cursor for cursor in self._cursors if not cursor.done]
        if not waiting or any(cursor.offset < cursor.limit or cursor.actor.gone is not None for cursor in waiting):
            return []  # something has come while others were looked at
        left: list[Fetched] = []
        event = asyncio.Event() if receiver is None else RowWait(lambda: self._offer(event, waiting, receiver, left))
        alarm = self._alarm(event)
        for cursor in waiting:
            cursor.actor.wake_when_readable(event, cursor.offset)
        try:
            await event.wait()
        finally:
            if alarm is not None:
                alarm.cancel()
            for cursor in waiting:
                cursor.actor.forget(event)
        return left

    def _offer(self, event: asyncio.Event, waiting: list[Cursor], receiver: Receiver, left: list[Fetched]) -> bool:
        """Offers what has become visible to the receiver. Says whether that was everything, so that
        the wait goes on; rows that the receiver cannot take are `left`.
        """
        for cursor in waiting:
            room = receiver.room()
            fetched = self._at_once(cursor, room) if room > 0 else []
            if fetched:
                self._count(cursor, fetched)
                left += receiver.take(fetched)
                cursor.actor.wake_when_readable(event, cursor.offset)
                return not left and not any(each.done or each.offset < each.limit for each in waiting)
        return False

    def _at_once(self, cursor: Cursor, bytes_max: int) -> list[Fetched]:
        """What comes next of one partition, if it needs no waiting: pages in memory that are not
        sealed.
        """
        partition, limit = cursor.actor.partition, cursor.limit
        if not partition.sealed_end <= cursor.offset < limit:
            return []
        if cursor.until or cursor.actor.gone is not None or self._selection.where is not None:
            return []
        try:
            cursor.check_overtaken(self._topic)
            cursor.upto = limit
            entries = partition.pages.between(cursor.offset, limit, bytes_max, PAGES_A_READ)
            pages = self._reading.reader.held(partition, entries)
            return [] if pages is None else joined(self._pieces(cursor, entries, pages))
        except errors.Error:
            return []  # the task meets it again, and raises it

    def _alarm(self, event: asyncio.Event) -> asyncio.Task[None] | None:
        until = max((cursor.until for cursor in self._cursors), default=0)
        if not until:
            return None
        clock = self._reading.clock

        async def ring() -> None:
            await clock.sleep(max(0, until - clock.now()) / 1e6)
            event.set()

        return asyncio.create_task(ring())

    async def _of(self, cursor: Cursor, bytes_max: int) -> list[Fetched]:
        """What comes next of one partition; nothing if there is nothing yet."""
        partition = cursor.actor.partition
        while True:
            if cursor.until and self._reading.clock.now() >= cursor.until:
                cursor.end = await offset_at(self._reading, cursor.actor, cursor.until)
                cursor.until = 0
            cursor.check_overtaken(self._topic)
            if cursor.done or cursor.offset >= cursor.limit:
                return []
            moves, limit = partition.moves, cursor.limit
            cursor.upto = limit
            try:
                entries = await self._reading.reader.entries(partition, cursor.offset, limit, bytes_max, PAGES_A_READ)
                if not entries:
                    return self._passed_over(cursor, limit)
                return await self._fetch(cursor, entries)
            except Damaged as error:
                if moves == partition.moves:
                    self._reading.counters.damaged += 1
                    self._reading.note_damage(partition, error)
                    raise errors.Corrupt(f"{self._topic}/{partition.number}: {error}", hint="bowstring inspect tells more.") from error

    async def _fetch(self, cursor: Cursor, entries: list[PageEntry]) -> list[Fetched]:
        try:
            pages = await self._reading.reader.pages(cursor.actor.partition, entries)
        except Damaged:
            if len(entries) > 1:
                return await self._fetch(cursor, entries[:1])
            raise
        if cursor.actor.gone is not None:
            raise cursor.actor.gone.with_traceback(None)
        cursor.check_overtaken(self._topic)
        pieces = self._pieces(cursor, entries, pages)
        if self._selection.where is not None:  # it takes a while, and may give nothing to wait for
            await self._reading.clock.sleep(0)
        return joined(pieces)

    def _pieces(self, cursor: Cursor, entries: Sequence[PageEntry], pages: Sequence[Page]) -> list[Fetched]:
        """What the reader may have of these pages."""
        moments = self._reading.moments(cursor.actor.partition.topic)
        pieces: list[Fetched] = []
        for entry, page in zip(entries, pages, strict=True):
            try:
                piece = cut(cursor, entry, page, moments, self._selection, self._reading.witness, self._topic)
            except errors.OutOfRange:
                if pieces:  # what comes before is delivered first
                    break
                raise
            if piece is None:
                continue
            if pieces and not piece.rows and not pieces[-1].rows:
                pieces.pop()
            pieces.append(piece)
        return pieces

    def _passed_over(self, cursor: Cursor, offset: int) -> list[Fetched]:
        """Nothing is left up to there: whatever it was has expired as a whole."""
        cursor.check_overtaken(self._topic)
        cursor.offset = max(cursor.offset, offset)
        return [Fetched(cursor.actor.partition.number, cursor.offset, 0, 0, 0, 0, NO_RUNS, [], None, 0)]

    # For notices

    def follow(self, notices: Notices) -> None:
        """Subscribes to the deletions of the partitions."""
        self._notices = notices
        for cursor in self._cursors:
            cursor.actor.followers[notices] = None

    @property
    def retention(self) -> int:
        """For how long the topic keeps messages, in microseconds."""
        return round(self._reading.topics.by_id(self._cursors[0].actor.partition.topic).settings.retention * 1e6)

    def taken_upto(self, partition: int) -> int:
        """How far this reader has come in a partition."""
        return max((cursor.offset for cursor in self._cursors if cursor.actor.partition.number == partition), default=0)

    def deleted_since(self, partition: int, first: int) -> Runs:
        """The deleted rows from an offset on, up to this reader's position."""
        found = [cursor for cursor in self._cursors if cursor.actor.partition.number == partition]
        return deleted_runs(found[0].actor, first, found[0].offset) if found else []

    async def durable(self) -> None:
        """Waits until everything that was decided up to now is committed."""
        await self._durable()

    def keeping_time(self) -> int:
        """The time that retention and `expires` go by."""
        return self._reading.trusted.now()

    def close(self) -> None:
        """The stream has ended."""
        if self._notices is not None:
            for cursor in self._cursors:
                cursor.actor.followers.pop(self._notices, None)
        self._cursors = []


def make_fetcher(
    reading: Reading,
    durable: Callable[[], Awaitable[None]],
    topic: str,
    froms: list[tuple[int, int, int]],
    selection: Selection,
    until: int,
    topic_id: int = 0,
) -> Fetcher:
    """Raises TopicNotFound, InvalidArgument for a wrong partition, OutOfRange for an offset beyond
    the end.
    """
    found = reading.topics.topic(topic)
    if topic_id not in (0, found.row.id):
        raise errors.TopicNotFound(
            f"the topic '{topic}' was deleted and made again: it is another one now.",
            hint="Make another reader to read the new one.",
            details={"topic": topic},
        )
    if not froms:
        raise errors.InvalidArgument("no partition was asked for.", hint=f"'{topic}' has {len(found.actors)}, numbered from 0.")
    moments = reading.moments(found.row.id)
    cursors = [cursor_at(topic, found.actor(number), offset, end, until, moments) for number, offset, end in froms]
    return Fetcher(reading, durable, topic, cursors, selection)
