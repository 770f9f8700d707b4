"""When the rows of a partition are due, for those who do not want to read them.

The rows of an extent are asked by their due section: a directory, and of its blocks those that are
wanted. Pages that are not sealed yet, and extents of an earlier release, have none: those pages are
read once, and their due times stay in a cache that is bounded in bytes.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
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
BLOCKS_A_PIECE = 64
"""So many blocks of due times are one piece: a quarter of a million rows."""

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
        """The rows that are due in [since, horizon). Raises Damaged where that is not known."""
        stored, moved = await self.stored_between(partition, stretch, since, horizon), partition.moved_rows
        if not len(moved):
            return stored
        return joined([moved.unmoved(stored), moved.due_between(since, horizon, stretch.first_offset, stretch.end_offset)])

    async def stored_between(self, partition: Partition, stretch: Stretch, since: int, horizon: int, *, guess: bool = True) -> Dues:
        """The same by the due times with which the rows were published. Rows of a page that cannot be
        read count as due with the last of them; without a guess it raises Damaged.
        """
        section = await self._section(stretch)
        if section is not None:
            try:
                blocks = [await self._block(section, number) for number in section.directory.released_before(since, horizon)]
                return joined([block.released_before(since, horizon) for block in blocks])
            except Damaged:  # the pages tell the same
                pass
        parts = [await self._of_page(partition, entry, guess=guess) for entry in await self._entries(stretch, since)]
        return joined([part.released_before(since, horizon) for part in parts])

    async def stored_pieces(
        self, partition: Partition, stretch: Stretch, since: int, horizon: int, *, guess: bool = True
    ) -> AsyncGenerator[Dues]:
        """The same, a few blocks after the other: an extent may have more rows than there is memory for.
        A row may come twice.
        """
        section = await self._section(stretch)
        if section is not None:
            numbers = section.directory.released_before(since, horizon)
            try:
                for start in numbers[::BLOCKS_A_PIECE]:
                    some = range(start, min(start + BLOCKS_A_PIECE, numbers.stop))
                    yield joined([(await self._block(section, number)).released_before(since, horizon) for number in some])
                return
            except Damaged:  # the pages tell the same
                pass
        yield await self.stored_between(partition, stretch, since, horizon, guess=guess)

    async def earliest(self, partition: Partition, stretch: Stretch, horizon: int) -> int:
        """When the first row is due that is not due before the horizon; NEVER if there is none. Raises Damaged."""
        stored, moved = await self._stored_earliest(partition, stretch, horizon), partition.moved_rows
        first = moved.due_between(horizon, NEVER, stretch.first_offset, stretch.end_offset).earliest if len(moved) else None
        return stored if first is None else min(stored, first)

    async def _stored_earliest(self, partition: Partition, stretch: Stretch, horizon: int) -> int:
        """The same of rows that are not moved."""
        unmoved = partition.moved_rows.unmoved
        section = await self._section(stretch)
        if section is not None:
            try:
                for number in section.directory.from_horizon(horizon):
                    found = unmoved((await self._block(section, number)).from_horizon(horizon)).earliest
                    if found is not None:
                        return found
                return NEVER
            except Damaged:
                pass
        parts = [await self._of_page(partition, entry) for entry in await self._entries(stretch, horizon)]
        moments = [moment for part in parts if (moment := unmoved(part.from_horizon(horizon)).earliest) is not None]
        return min(moments, default=NEVER)

    async def all(self, partition: Partition, extents: Iterable[Extent]) -> Dues:
        """Every row of these extents, which follow each other, that has a due time, as it was published.
        Raises Damaged if something cannot be read: this is written into a new section, where a guess
        would stay.
        """
        return joined([await self.stored_between(partition, Stretch(extent), 0, NEVER, guess=False) for extent in extents])

    async def guesses_in(self, extent: Extent) -> int:
        """Of how many pages the section has a guess, because they could not be read when it was written."""
        section = await self._section(Stretch(extent))
        return 0 if section is None else section.directory.guesses

    async def are_all_dated(self, extent: Extent) -> bool:
        """Whether the section is known to name every row of the extent, none by a guess."""
        section = await self._section(Stretch(extent))
        return section is not None and not section.directory.guesses and section.directory.rows == extent.end_offset - extent.first_offset

    async def dated(self, extent: Extent) -> list[PageEntry]:
        """The pages of an extent that have due times. Raises Damaged."""
        return await self._entries(Stretch(extent), 0)

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

    async def _of_page(self, partition: Partition, entry: PageEntry, *, guess: bool = True) -> Dues:
        key = partition.topic, partition.number, entry.first_offset, entry.rows
        found = self._pages.get(key)
        if found is None:
            try:
                found = dues_in((await self._reader.stored(partition, [entry]))[0], entry)
            except Damaged:
                if not guess:
                    raise
                return all_at_last(entry)
            self._pages.keep(key, found, found.bytes + _OVERHEAD)
        return found
