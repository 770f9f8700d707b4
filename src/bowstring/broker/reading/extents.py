"""Where sealed pages are: extents from the catalog, their sections from the store. How sealed messages
are recognised is in `sealed_ids`.

Nothing of it is loaded at the start. The extents of a partition come with the first question about
it, sections when they are needed, and both stay in caches that are bounded in bytes. Code that
seals, cleans or removes calls `forget`, and the next question reads anew.

What is found here may have moved by the time it is read: the cleaner copies pages and gives the old
segment back. A reader then meets bytes of another life, which do not verify. It looks whether the
partition's `moves` have gone on, and if so, asks here again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable

from bowstring.broker.reading.caches import ByteCache
from bowstring.broker.reading.section_reader import SectionReader, understood
from bowstring.core import sections
from bowstring.core.due_blocks import DueDirectory, Dues, decode_due_block, decode_due_directory
from bowstring.core.pages import PageEntry, PageIndex
from bowstring.core.partition import Partition
from bowstring.ports.extents import Extent
from bowstring.ports.failures import Damaged
from bowstring.ports.journal import Journal
from bowstring.ports.store import Reference, Store
from bowstring.settings import Settings

EXTENTS_A_READ = 1000
_EXTENT_BYTES = 600
"""About what an extent takes in memory."""

Key = tuple[int, int]
"""Topic id and partition number."""


class Extents:
    """The sealed part of all partitions."""

    def __init__(self, *, journal: Journal, store: Store, settings: Settings) -> None:
        self._journal = journal
        self.sections = SectionReader(store)
        self._extents: ByteCache[Key, list[Extent]] = ByteCache(settings.memory_index_bytes // 2, touch=True)
        self._indexes: ByteCache[Reference, PageIndex] = ByteCache(settings.memory_index_bytes // 2, touch=True)

        self.told: list[Callable[[Partition, list[Extent]], None]] = []
        """Called with the extents of a partition when they have been read anew."""

    @property
    def bytes(self) -> int:
        """Bytes of what tells where pages are."""
        return self._extents.bytes + self._indexes.bytes

    # Extents

    async def of(self, partition: Partition) -> list[Extent]:
        """All extents of a partition, in order."""
        key = partition.topic, partition.number
        found = self._extents.get(key)
        if found is None:
            moves, found = partition.moves, await self._read(*key)
            if moves == partition.moves:
                self._extents.keep(key, found, _EXTENT_BYTES * (1 + len(found)))
                for tell in self.told:
                    tell(partition, found)
        return found

    def in_memory(self, partition: Partition) -> list[Extent] | None:
        """All extents of a partition, if nothing has to be read for it."""
        return self._extents.get((partition.topic, partition.number))

    async def _read(self, topic: int, partition: int) -> list[Extent]:
        found: list[Extent] = []
        while True:
            after = found[-1].end_offset if found else 0
            rows = await self._journal.extents(topic, partition, after, EXTENTS_A_READ)
            found += rows
            if len(rows) < EXTENTS_A_READ:
                return found

    def forget(self, topic: int, partition: int) -> None:
        """The extents of the partition have changed."""
        self._extents.drop((topic, partition))

    # Pages

    async def entries(self, partition: Partition, offset: int, end: int, bytes_max: int, pages_max: int) -> list[PageEntry]:
        """The next sealed pages from the offset on, of one extent: about so many bytes, but at
        least one if there is any before `end`.
        """
        extents = await self.of(partition)
        at = bisect_right(extents, offset, key=lambda extent: extent.end_offset)
        while at < len(extents) and extents[at].first_offset < end:
            found = (await self.index(extents[at])).between(offset, end, bytes_max, pages_max)
            if found:
                return found
            at += 1
        return []

    async def unreadable(self, partition: Partition, offset: int, end: int) -> Extent | None:
        """The first extent from the offset on whose index cannot be read; None if there is none
        before `end`.
        """
        for extent in await self.of(partition):
            if extent.end_offset > offset and extent.first_offset < end:
                try:
                    await self.index(extent)
                except Damaged:
                    return extent
        return None

    async def entry_since(self, partition: Partition, moment: int) -> PageEntry | None:
        """The first sealed page with a row that arrived at that moment or later."""
        extents = await self.of(partition)
        at = bisect_left(extents, moment, key=lambda extent: extent.arrived_last)
        if at == len(extents):
            return None
        index = await self.index(extents[at])
        return index[index.arrived_before(moment)]

    async def index(self, extent: Extent) -> PageIndex:
        """The pages of an extent. Raises Damaged, naming its offsets."""
        index = self._indexes.get(extent.index)
        if index is None:
            header, body = await self.sections.read(extent, extent.index, sections.INDEX)
            index = understood(extent, lambda: sections.decode_index(header, body))
            self._indexes.keep(extent.index, index, len(body))
        return index

    # Due times

    async def due_directory(self, extent: Extent, section: Reference) -> DueDirectory:
        """Raises Damaged, naming its offsets."""
        header, body = await self.sections.read(extent, section, sections.DUE)
        return understood(extent, lambda: decode_due_directory(header, body))

    async def due_block(self, extent: Extent, block: Reference) -> Dues:
        header, body = await self.sections.read(extent, block, sections.DUE_BLOCK)
        return understood(extent, lambda: decode_due_block(header, body))

    # Those with ids

    async def older(self, partition: Partition, horizon: int) -> list[Extent]:
        """The extents with ids in which nothing has arrived since then, the newest first; those of
        which nothing is retained are left out.
        """
        first = partition.retained.first
        extents = reversed(await self.of(partition))
        return [extent for extent in extents if extent.ids is not None and extent.arrived_last < horizon and extent.end_offset > first]
