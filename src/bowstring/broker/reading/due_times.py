"""When the rows of a partition are due, for those who do not want to read them.

The rows of an extent are asked by their due section: a directory, and of its blocks those that are
wanted. Pages that are not sealed yet, and extents of an earlier release, have none: those pages are
read once, and their due times stay in a cache that is bounded in bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from bowstring.broker.reading.caches import ByteCache
from bowstring.broker.reading.extents import Extents
from bowstring.broker.reading.page_reader import PageReader
from bowstring.broker.reading.visibility import moments_of
from bowstring.core.due_blocks import NO_DUES, DueDirectory, Dues, dues_of, joined
from bowstring.core.machine import NEVER
from bowstring.core.pages import PageEntry, decode_header
from bowstring.core.partition import Partition
from bowstring.messages import encoding
from bowstring.messages.schema import DUE
from bowstring.ports.extents import Extent
from bowstring.ports.failures import Damaged
from bowstring.ports.store import Page, Reference

_OVERHEAD = 200

StretchKey = tuple[int, int, Reference | None]
"""What a stretch is known by. An extent that is rewritten is another one."""


class Stretch(NamedTuple):
    """Rows that follow each other and that are asked together: those of an extent, or of a page that is not sealed."""

    extent: Extent | None
    entry: PageEntry | None = None

    @property
    def first_offset(self) -> int:
        of = self.extent or self.entry
        return 0 if of is None else of.first_offset

    @property
    def end_offset(self) -> int:
        return self.extent.end_offset if self.extent is not None else self.entry.end if self.entry is not None else 0

    @property
    def key(self) -> StretchKey:
        return self.first_offset, self.end_offset, self.extent.index if self.extent is not None else None


class DueTimes:
    """The due times of all partitions."""

    def __init__(self, *, extents: Extents, reader: PageReader, bytes_max: int) -> None:
        self._extents = extents
        self._reader = reader
        self._directories: ByteCache[Reference, DueDirectory] = ByteCache(bytes_max // 4, touch=True)
        self._blocks: ByteCache[Reference, Dues] = ByteCache(bytes_max // 4, touch=True)
        self._pages: ByteCache[tuple[int, int, int, int], Dues] = ByteCache(bytes_max // 2, touch=True)

    async def between(self, partition: Partition, stretch: Stretch, since: int, horizon: int) -> Dues:
        """The rows that are due in [since, horizon). Raises Damaged where nobody can tell."""
        directory = await self._directory(stretch)
        if directory is None:
            entries = await self._entries(stretch, since)
            parts = [(await self._of_page(partition, entry)).released_before(since, horizon) for entry in entries]
            return joined(parts)
        blocks = [await self._block(stretch, directory, number) for number in directory.released_before(since, horizon)]
        return joined([block.released_before(since, horizon) for block in blocks])

    async def earliest(self, partition: Partition, stretch: Stretch, horizon: int) -> int:
        """When the first row is due that is not due before the horizon; NEVER if there is none. Raises Damaged."""
        directory = await self._directory(stretch)
        found: int | None = None
        if directory is None:
            dues = [await self._of_page(partition, entry) for entry in await self._entries(stretch, horizon)]
            moments = [moment for part in dues if (moment := part.from_horizon(horizon).earliest) is not None]
            found = min(moments, default=None)
        else:
            for number in directory.from_horizon(horizon):
                found = (await self._block(stretch, directory, number)).from_horizon(horizon).earliest
                if found is not None:
                    break
        return NEVER if found is None else found

    async def all(self, partition: Partition, extents: Iterable[Extent]) -> Dues:
        """Every row of these extents, which follow each other, that has a due time. Raises Damaged."""
        return joined([await self.between(partition, Stretch(extent), 0, NEVER) for extent in extents])

    # Sections

    async def _directory(self, stretch: Stretch) -> DueDirectory | None:
        section = stretch.extent.section("due") if stretch.extent is not None else None
        if section is None or stretch.extent is None:
            return None
        found = self._directories.get(section)
        if found is None:
            found = await self._extents.due_directory(stretch.extent, section)
            self._directories.keep(section, found, 32 * len(found.firsts) + _OVERHEAD)
        return found

    async def _block(self, stretch: Stretch, directory: DueDirectory, number: int) -> Dues:
        assert stretch.extent is not None
        section = stretch.extent.section("due")
        assert section is not None
        place = section._replace(**directory.places[number]._asdict())
        found = self._blocks.get(place)
        if found is None:
            found = await self._extents.due_block(stretch.extent, place)
            self._blocks.keep(place, found, found.bytes + _OVERHEAD)
        return found

    # Pages

    async def _entries(self, stretch: Stretch, since: int) -> list[PageEntry]:
        """Its pages with rows that may be due at that moment or later."""
        if stretch.entry is not None:
            entries = [stretch.entry]
        else:
            assert stretch.extent is not None
            entries = (await self._extents.index(stretch.extent)).state()
        return [entry for entry in entries if entry.due and entry.due >= since]

    async def _of_page(self, partition: Partition, entry: PageEntry) -> Dues:
        key = partition.topic, partition.number, entry.first_offset, entry.rows
        found = self._pages.get(key)
        if found is None:
            try:
                found = dues_in((await self._reader.pages(partition, [entry]))[0], entry)
            except Damaged:
                return all_at_last(entry)
            self._pages.keep(key, found, found.bytes + _OVERHEAD)
        return found


def dues_in(page: Page, entry: PageEntry) -> Dues:
    """The due times of a page's rows."""
    header = decode_header(page.header)
    if not header.columns & DUE:  # the rows that had one were repeats, and are not stored here
        return NO_DUES
    moments = moments_of(encoding.decode(header.columns, page.body).column("due"))
    return dues_of(moments, np.arange(entry.first_offset, entry.end, dtype=np.int64))


def all_at_last(entry: PageEntry) -> Dues:
    """Of a page that cannot be read any row may be the last that is due."""
    return dues_of(np.full(entry.rows, entry.due, np.int64), np.arange(entry.first_offset, entry.end, dtype=np.int64))
