"""A reader's stream out of the broker: whole pages as they are, new ones as they are committed, nothing that was deleted.

A page goes out untouched when the reader may have all its rows. Where some are deleted or outside the range, the rest is taken into a new
message: a slice would carry its neighbours' bytes in its padding (invariant 13).
"""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bowstring import errors
from bowstring.broker.actor import PartitionActor
from bowstring.core.pages import Origin, PageEntry, decode_header
from bowstring.messages import encoding
from bowstring.ports.disk import Buffer
from bowstring.ports.failures import Damaged
from bowstring.ports.store import Page

if TYPE_CHECKING:
    from bowstring.broker.incarnation import Incarnation

ANSWER_BYTES = 4 * 1024 * 1024
"""What is read at once for one reader."""
PAGES_A_READ = 256


class Fetched(NamedTuple):
    """Rows of one page, or (without data) deleted ones that were passed over."""

    partition: int
    next_offset: int
    arrived: int
    schema: int
    columns: int
    rows: int
    runs: list[tuple[int, int]]
    origins: list[Origin]
    data: Buffer | None
    size: int


class _Cursor:
    """Where a reader is in one partition."""

    def __init__(self, actor: PartitionActor, offset: int, end: int) -> None:
        self.actor = actor
        self.offset = offset
        self.end = end
        """The first offset that is not wanted any more; 0 to follow for ever."""

    @property
    def done(self) -> bool:
        return self.end != 0 and self.offset >= self.end

    def entries(self, bytes_max: int) -> list[PageEntry]:
        """The next pages, about so many bytes; at least one if there is any."""
        pages = self.actor.partition.pages
        end = min(self.actor.partition.readable_offset, self.end or self.actor.partition.readable_offset)
        found: list[PageEntry] = []
        at = pages.at(self.offset)
        size = 0
        while at < len(pages) and len(found) < PAGES_A_READ and (not found or size < bytes_max):
            entry = pages[at]
            if entry.first_offset >= end:
                break
            found.append(entry)
            size += entry.length
            at += 1
        return found


class Fetcher:
    """One reader over partitions of one topic."""

    def __init__(self, incarnation: Incarnation, topic: str, cursors: list[_Cursor]) -> None:
        self._incarnation = incarnation
        self._topic = topic
        self._cursors = cursors
        self._turn = 0

    async def next(self, bytes_max: int) -> list[Fetched]:
        """What comes next, about so many bytes, of one partition; waits until there is something. Empty when every range is read."""
        while True:
            if all(cursor.done for cursor in self._cursors):
                return []
            for _ in self._cursors:
                cursor = self._cursors[self._turn % len(self._cursors)]
                self._turn += 1
                if cursor.actor.closed is not None:
                    raise cursor.actor.closed.with_traceback(None)
                entries = [] if cursor.done else cursor.entries(min(bytes_max, ANSWER_BYTES))
                fetched = await self._fetch(cursor, entries) if entries else []
                if fetched:
                    return fetched
            await self._wait()

    async def _wait(self) -> None:
        """Until something is committed in one of the partitions. No polling."""
        event = asyncio.Event()
        waiting = [cursor.actor for cursor in self._cursors if not cursor.done]
        for actor in waiting:
            actor.wake_when_committed(event)
        try:
            await event.wait()
        finally:
            for actor in waiting:
                actor.forget(event)

    async def _fetch(self, cursor: _Cursor, entries: list[PageEntry]) -> list[Fetched]:
        partition = cursor.actor.partition
        try:
            pages = await self._incarnation.reader.pages(partition, entries)
        except Damaged as error:
            if len(entries) > 1:
                return await self._fetch(cursor, entries[:1])
            raise errors.Corrupt(f"{self._topic}/{partition.number}: {error}", hint="bowstring inspect tells more.") from error
        if cursor.actor.closed is not None:
            raise cursor.actor.closed.with_traceback(None)
        return [piece for entry, page in zip(entries, pages, strict=True) if (piece := self._cut(cursor, entry, page)) is not None]

    def _cut(self, cursor: _Cursor, entry: PageEntry, page: Page) -> Fetched | None:
        """What the reader may have of a page: None if there is nothing yet."""
        first = max(entry.first_offset, cursor.offset)
        end = min(entry.end, cursor.end or entry.end, cursor.actor.partition.readable_offset)
        if end <= first:
            return None
        cursor.offset = end
        deletions = cursor.actor.partition.deletions
        if (first, end) == (entry.first_offset, entry.end) and not deletions.any(first, end):
            return _whole(cursor, entry, page)
        return _some(cursor, entry, page, deletions.live(first, end))

    def close(self) -> None:
        """The stream has ended."""
        self._cursors = []


def _whole(cursor: _Cursor, entry: PageEntry, page: Page) -> Fetched:
    header = decode_header(page.header)
    runs = [(entry.first_offset, entry.rows)]
    origins, body = list(header.origins), page.body
    number = cursor.actor.partition.number
    return Fetched(number, cursor.offset, entry.arrived, header.schema, header.columns, entry.rows, runs, origins, body, len(body))


def _some(cursor: _Cursor, entry: PageEntry, page: Page, offsets: NDArray[np.int64]) -> Fetched:
    header = decode_header(page.header)
    number = cursor.actor.partition.number
    if not len(offsets):
        return Fetched(number, cursor.offset, entry.arrived, header.schema, header.columns, 0, [], [], None, 0)
    rows = offsets - entry.first_offset
    taken = encoding.take(encoding.decode(header.columns, page.body), rows)
    runs, origins = _runs(offsets), _origins(header.origins, rows)
    data = taken.data
    return Fetched(number, cursor.offset, entry.arrived, header.schema, taken.mask, taken.rows, runs, origins, data, len(data))


def _runs(offsets: NDArray[np.int64]) -> list[tuple[int, int]]:
    starts = np.concatenate(([0], np.flatnonzero(np.diff(offsets) != 1) + 1, [len(offsets)]))
    return [(int(offsets[a]), int(b - a)) for a, b in itertools.pairwise(starts)]


def _origins(origins: tuple[Origin, ...], rows: NDArray[np.int64]) -> list[Origin]:
    """The origins of the rows that are left: one for each run within one origin, since the kit makes ids from consecutive rows."""
    found: list[Origin] = []
    start = 0
    for origin in origins:
        inside = rows[(rows >= start) & (rows < start + origin.rows)]
        if len(inside):
            found += [origin._replace(rows=n, first_row=origin.first_row + first - start) for first, n in _runs(inside)]
        start += origin.rows
    return found


def make_fetcher(incarnation: Incarnation, topic: str, froms: list[tuple[int, int, int]]) -> Fetcher:
    """Raises TopicNotFound, InvalidArgument for a wrong partition, OutOfRange for an offset beyond the end."""
    found = incarnation.topic(topic)
    if not froms:
        raise errors.InvalidArgument("no partition was asked for.", hint=f"'{topic}' has {len(found.actors)}, numbered from 0.")
    return Fetcher(incarnation, topic, [_cursor(topic, found.actor(number), offset, end) for number, offset, end in froms])


def _cursor(topic: str, actor: PartitionActor, offset: int, end: int) -> _Cursor:
    partition = actor.partition
    if not 1 <= offset <= partition.committed_offset:
        last = partition.committed_offset - 1
        held = f"holds offsets 1..{last}" if last else "is empty"
        raise errors.OutOfRange(
            f"{topic}/{partition.number} {held}, {offset} was asked for.",
            hint=f"Use start='beginning', or an offset in 1..{partition.committed_offset}.",
            details={"first": "1", "next": str(partition.committed_offset)},
        )
    return _Cursor(actor, offset, end)
