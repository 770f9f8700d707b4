"""When the rows of a partition are due, for those who do not want to read them.

The rows of an extent are asked by their due section: a directory, and of its blocks those that are
wanted. Pages that are not sealed yet, and extents of an earlier release, have none: those pages are
read once, and their due times stay in a cache that is bounded in bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from bowstring.broker.reading.caches import ByteCache
from bowstring.broker.reading.extents import Extents
from bowstring.broker.reading.page_dues import all_at_last, dues_in
from bowstring.broker.reading.page_reader import PageReader
from bowstring.core.due_blocks import DueDirectory, Dues, joined
from bowstring.core.machine import NEVER
from bowstring.core.pages import PageEntry
from bowstring.core.partition import Partition
from bowstring.core.sections import DUE as DUE_SECTION
from bowstring.ports.extents import Extent
from bowstring.ports.failures import Damaged
from bowstring.ports.store import Reference

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


class _Section(NamedTuple):
    """Where the due times of an extent are."""

    extent: Extent
    reference: Reference
    directory: DueDirectory


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
        section = await self._section(stretch)
        if section is not None:
            try:
                blocks = [await self._block(section, number) for number in section.directory.released_before(since, horizon)]
                return joined([block.released_before(since, horizon) for block in blocks])
            except Damaged:  # the pages tell the same
                pass
        parts = [await self._of_page(partition, entry) for entry in await self._entries(stretch, since)]
        return joined([part.released_before(since, horizon) for part in parts])

    async def earliest(self, partition: Partition, stretch: Stretch, horizon: int) -> int:
        """When the first row is due that is not due before the horizon; NEVER if there is none. Raises Damaged."""
        section = await self._section(stretch)
        if section is not None:
            try:
                for number in section.directory.from_horizon(horizon):
                    found = (await self._block(section, number)).from_horizon(horizon).earliest
                    if found is not None:
                        return found
                return NEVER
            except Damaged:
                pass
        parts = [await self._of_page(partition, entry) for entry in await self._entries(stretch, horizon)]
        moments = [moment for part in parts if (moment := part.from_horizon(horizon).earliest) is not None]
        return min(moments, default=NEVER)

    async def all(self, partition: Partition, extents: Iterable[Extent]) -> Dues:
        """Every row of these extents, which follow each other, that has a due time. Raises Damaged."""
        return joined([await self.between(partition, Stretch(extent), 0, NEVER) for extent in extents])

    # Sections

    async def _section(self, stretch: Stretch) -> _Section | None:
        """The directory of an extent's due times, None if it has none or it cannot be read."""
        extent = stretch.extent
        reference = extent.section(DUE_SECTION) if extent is not None else None
        if extent is None or reference is None:
            return None
        found = self._directories.get(reference)
        if found is None:
            try:
                found = await self._extents.due_directory(extent, reference)
            except Damaged:
                return None
            self._directories.keep(reference, found, 32 * len(found.firsts) + _OVERHEAD)
        return _Section(extent, reference, found)

    async def _block(self, section: _Section, number: int) -> Dues:
        place = section.reference._replace(**section.directory.places[number]._asdict())
        found = self._blocks.get(place)
        if found is None:
            found = await self._extents.due_block(section.extent, place)
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
