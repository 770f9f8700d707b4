"""A reader's stream out of the broker: whole pages as they are, new ones as they are committed,
nothing that was deleted.

A page goes out untouched when the reader may have all its rows. Where some are deleted or outside
the range, the rest is taken into a new message: a slice would carry its neighbours' bytes in its
padding (invariant 13). So it is where the reader wants only some of the rows or of the columns.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bowstring import errors
from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.reading.fetched import Fetched, joined
from bowstring.broker.reading.notices import Notices, Runs, deleted_runs
from bowstring.broker.reading.page_reader import arrivals
from bowstring.broker.reading.places import offset_at
from bowstring.broker.reading.reading import Reading
from bowstring.broker.reading.selection import Selection
from bowstring.broker.reading.visibility import Moments, is_whole, visible
from bowstring.core.offset_set import runs_of
from bowstring.core.pages import Origin, PageEntry, PageHeader, decode_header
from bowstring.core.partition import Partition
from bowstring.messages import encoding
from bowstring.ports.failures import Damaged
from bowstring.ports.store import Page

ANSWER_BYTES = 4 * 1024 * 1024
"""Bytes that one round reads for one reader."""
PAGES_A_READ = 256
BARE_BYTES = 256
"""What rows of which no column is wanted count, so that a reader that takes none bounds them, too."""


class _Cursor:
    """Where a reader is in one partition."""

    def __init__(self, actor: PartitionActor, offset: int, end: int, until: int, moments: Moments) -> None:
        retained = actor.partition.retained
        self.actor = actor
        self.offset = max(offset, retained.first)
        self.end = end
        """The first offset that is not wanted any more; 0 to follow for ever."""
        self.until = until
        """The reader does not want messages that arrive at this moment or later; 0 once that is an
        `end`, or if there is none.
        """
        self.upto = 0
        """What could be delivered when pages were looked for: none that came since may go out with
        them.
        """
        self.has_delivered = offset != 0
        """From then on nothing may be missing; a reader from the beginning begins with what is
        there.
        """
        self.floor = 0 if self.has_delivered else retained.floor
        self.horizon = 0 if self.has_delivered else moments.horizon
        """What retention had taken when it began it does not miss: what was below the floor, and
        what had arrived before the horizon.
        """

    @property
    def done(self) -> bool:
        return self.end != 0 and self.offset >= self.end

    @property
    def limit(self) -> int:
        """The first offset that cannot be delivered, now or ever."""
        readable = self.actor.partition.readable_upto(self.offset)
        return min(readable, self.end or readable)

    def check_overtaken(self, topic: str) -> None:
        """Raises OutOfRange when retention has overtaken a reader, instead of skipping messages. A
        reader that begins starts where it can.
        """
        retained = self.actor.partition.retained
        if retained.lacks(max(self.offset, self.floor)):
            if self.has_delivered:
                raise out_of_range(topic, self.actor.partition, self.offset)
            self.floor = retained.floor
        self.offset = max(self.offset, retained.first)


class Fetcher:
    """One reader over partitions of one topic."""

    def __init__(
        self, reading: Reading, durable: Callable[[], Awaitable[None]], topic: str, cursors: list[_Cursor], selection: Selection
    ) -> None:
        self._reading = reading
        self._durable = durable
        """Waits until everything that was decided up to now is committed."""
        self._topic = topic
        self._cursors = cursors
        self._selection = selection
        self._notices: Notices | None = None
        self._turn = 0

    async def next(self, bytes_max: int) -> list[Fetched]:
        """What comes next, about so many bytes, of one partition; waits until there is something.
        Empty when every range is read.
        """
        while True:
            if all(cursor.done for cursor in self._cursors):
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
                    rows, size = sum([piece.rows for piece in fetched]), sum([piece.size for piece in fetched])
                    self._reading.counters.fetched(cursor.actor.partition.topic, len(fetched), rows, size)
                    self._reading.witness.fetched(self._topic, self._selection.where, fetched)
                    return fetched
            await self._wait()

    async def _wait(self) -> None:
        """Until there may be something to read in one of the partitions, or the moment has come
        until which they are read. No polling.
        """
        event = asyncio.Event()
        waiting = [cursor for cursor in self._cursors if not cursor.done]
        if not waiting or any(cursor.offset < cursor.limit or cursor.actor.gone is not None for cursor in waiting):
            return  # something has come while others were looked at
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

    def _alarm(self, event: asyncio.Event) -> asyncio.Task[None] | None:
        until = max((cursor.until for cursor in self._cursors), default=0)
        if not until:
            return None
        clock = self._reading.clock

        async def ring() -> None:
            await clock.sleep(max(0, until - clock.now()) / 1e6)
            event.set()

        return asyncio.create_task(ring())

    async def _of(self, cursor: _Cursor, bytes_max: int) -> list[Fetched]:
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

    async def _fetch(self, cursor: _Cursor, entries: list[PageEntry]) -> list[Fetched]:
        try:
            pages = await self._reading.reader.pages(cursor.actor.partition, entries)
        except Damaged:
            if len(entries) > 1:
                return await self._fetch(cursor, entries[:1])
            raise
        if cursor.actor.gone is not None:
            raise cursor.actor.gone.with_traceback(None)
        cursor.check_overtaken(self._topic)
        moments = self._reading.moments(cursor.actor.partition.topic)
        pieces: list[Fetched] = []
        for entry, page in zip(entries, pages, strict=True):
            try:
                piece = self._cut(cursor, entry, page, moments)
            except errors.OutOfRange:
                if pieces:  # what comes before is delivered first
                    break
                raise
            if piece is None:
                continue
            if pieces and not piece.rows and not pieces[-1].rows:
                pieces.pop()
            pieces.append(piece)
        if self._selection.where is not None:  # it takes a while, and may give nothing to wait for
            await self._reading.clock.sleep(0)
        return joined(pieces)

    def _passed_over(self, cursor: _Cursor, offset: int) -> list[Fetched]:
        """Nothing is left up to there: whatever it was has expired as a whole."""
        cursor.check_overtaken(self._topic)
        cursor.offset = max(cursor.offset, offset)
        return [Fetched(cursor.actor.partition.number, cursor.offset, 0, 0, 0, 0, [], [], None, 0)]

    def _cut(self, cursor: _Cursor, entry: PageEntry, page: Page, moments: Moments) -> Fetched | None:
        """The rows of a page that the reader may have; None if there are none yet."""
        partition = cursor.actor.partition
        first = max(entry.first_offset, cursor.offset)
        end = min(entry.end, cursor.limit, cursor.upto)
        if end <= first:
            return None
        whole = (first, end) == (entry.first_offset, entry.end) and is_whole(partition, entry, moments)
        if whole and self._selection.takes_untouched(entry):
            cursor.offset = end
            cursor.has_delivered = True
            return _whole(cursor, entry, page)
        header = decode_header(page.header)
        batch = encoding.decode(header.columns, page.body)
        seen = visible(partition, entry, header, batch, moments, first, end)
        self._reading.witness.cut(partition, first, end, len(seen.offsets))
        if cursor.has_delivered and seen.youngest_hidden >= max(cursor.horizon, 0):
            raise out_of_range(self._topic, partition, first)
        cursor.offset = end
        cursor.has_delivered = cursor.has_delivered or len(seen.offsets) > 0
        offsets = self._selection.passing(entry, header, batch, seen.offsets)
        if whole and len(offsets) == entry.rows and self._selection.takes_columns(entry):
            return _whole(cursor, entry, page)
        return _some(cursor, entry, header, batch, offsets, self._selection)

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


def _whole(cursor: _Cursor, entry: PageEntry, page: Page) -> Fetched:
    header = decode_header(page.header)
    one = entry.arrived == entry.arrived_last
    runs = [(entry.first_offset, entry.rows, entry.arrived)] if one else _dated(entry, header, np.arange(entry.first_offset, entry.end))
    origins, body = list(header.origins), page.body
    number = cursor.actor.partition.number
    return Fetched(number, cursor.offset, entry.arrived, header.schema, header.columns, entry.rows, runs, origins, body, len(body))


def _some(
    cursor: _Cursor, entry: PageEntry, header: PageHeader, batch: pa.RecordBatch, offsets: NDArray[np.int64], selection: Selection
) -> Fetched:
    partition = cursor.actor.partition
    if not len(offsets):
        return Fetched(partition.number, cursor.offset, entry.arrived, header.schema, header.columns, 0, [], [], None, 0)
    rows = offsets - entry.first_offset
    runs, origins = _dated(entry, header, offsets), _origins(header.origins, rows)
    taken = selection.taken(batch, rows)
    if taken is None:
        number, count = partition.number, len(offsets)
        return Fetched(number, cursor.offset, entry.arrived, header.schema, 0, count, runs, origins, None, BARE_BYTES)
    data = taken.data
    return Fetched(partition.number, cursor.offset, entry.arrived, header.schema, taken.mask, taken.rows, runs, origins, data, len(data))


def _dated(entry: PageEntry, header: PageHeader, offsets: NDArray[np.int64]) -> list[tuple[int, int, int]]:
    """Runs of consecutive offsets that arrived together."""
    if entry.arrived == entry.arrived_last:
        return [(offset, rows, entry.arrived) for offset, rows in runs_of(offsets)]
    arrived = arrivals(header, entry)[offsets - entry.first_offset]
    breaks = np.flatnonzero((np.diff(offsets) != 1) | (np.diff(arrived) != 0)) + 1
    starts = np.concatenate(([0], breaks, [len(offsets)]))
    return [(int(offsets[a]), int(b - a), int(arrived[a])) for a, b in itertools.pairwise(starts)]


def _origins(origins: tuple[Origin, ...], rows: NDArray[np.int64]) -> list[Origin]:
    """The origins of the rows that are left: one for each run within one origin, since the kit
    makes ids from consecutive rows.
    """
    found: list[Origin] = []
    start = 0
    for origin in origins:
        inside = rows[(rows >= start) & (rows < start + origin.rows)]
        if len(inside):
            found += [origin._replace(rows=n, first_row=origin.first_row + first - start) for first, n in runs_of(inside)]
        start += origin.rows
    return found


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
    cursors = [_cursor(topic, found.actor(number), offset, end, until, moments) for number, offset, end in froms]
    return Fetcher(reading, durable, topic, cursors, selection)


def _cursor(topic: str, actor: PartitionActor, offset: int, end: int, until: int, moments: Moments) -> _Cursor:
    """An offset of 0 means the beginning, wherever that is by now."""
    partition = actor.partition
    if offset not in (0, end) and not partition.retained.first <= offset <= partition.committed_offset:
        raise out_of_range(topic, partition, offset)
    return _Cursor(actor, offset, end, until, moments)


def out_of_range(topic: str, partition: Partition, offset: int) -> errors.OutOfRange:
    """The error for an offset that is not there any more, or not yet."""
    first, last = partition.retained.first, partition.committed_offset - 1
    held = f"holds offsets {first}..{last}" if last >= first else "is empty"
    return errors.OutOfRange(
        f"{topic}/{partition.number} {held}, {offset} was asked for.",
        hint=f"Use start='beginning', or an offset in {first}..{partition.committed_offset}.",
        details={"first": str(first), "next": str(partition.committed_offset)},
    )
