"""Which rows of one partition are due when: what its due sections tell, and its pages that are not
sealed.
"""

from __future__ import annotations

from bowstring.broker.reading.due_times import Stretch
from bowstring.broker.reading.page_dues import dues_in
from bowstring.broker.reading.reading import Reading
from bowstring.core.due_blocks import Dues
from bowstring.core.machine import NEVER
from bowstring.core.pages import PageEntry
from bowstring.core.partition import Partition
from bowstring.core.sections import DUE
from bowstring.ports.extents import Extent


class PartitionDues:
    """The due times of one partition."""

    def __init__(self, partition: Partition, reading: Reading) -> None:
        self._partition = partition
        self._reading = reading

    def now(self) -> int:
        """The time by which rows are due."""
        return self._reading.clock.now()

    async def extents(self, first: int = 0) -> list[Extent]:
        """Extents with rows from the offset on that have a due time."""
        found = await self._reading.extents.of(self._partition)
        return [extent for extent in found if extent.end_offset > first and extent.section(DUE) is not None]

    async def between(self, extent: Extent, since: int, horizon: int) -> Dues:
        """The rows of an extent that are due in [since, horizon)."""
        return await self._reading.due_times.between(self._partition, Stretch(extent), since, horizon)

    def pages(self, first: int) -> list[PageEntry]:
        """Committed pages with rows from the offset on that are not sealed and have due times."""
        start = self._partition.pages.start
        if start is None:
            return []
        entries = self._partition.pages.between(max(first, start), self._partition.committed_offset, NEVER, NEVER)
        return [entry for entry in entries if entry.due]

    async def of_pages(self, entries: list[PageEntry]) -> list[Dues]:
        """The due times of such pages."""
        return [await self._reading.due_times.between(self._partition, Stretch(None, entry), 0, NEVER) for entry in entries]

    async def of_offsets(self, offsets: list[int]) -> dict[int, int]:
        """When these rows are due, as far as they have a due time and can be read."""
        found: dict[int, int] = {}
        reader, end = self._reading.reader, 0
        for offset in sorted(offsets):
            if offset < end:
                continue
            for entry in await reader.entries(self._partition, offset, offset + 1, 1, 1):
                end = entry.end
                (page,) = await reader.pages(self._partition, [entry])
                dues = dues_in(page, entry)
                found |= dict(zip(dues.offsets.tolist(), dues.moments.tolist(), strict=True))
        return {offset: found[offset] for offset in offsets if offset in found}

    def held(self, entries: list[PageEntry]) -> list[Dues] | None:
        """The same, if the pages are in memory."""
        pages = self._reading.reader.held(self._partition, entries) if entries else []
        return None if pages is None else [dues_in(page, entry) for page, entry in zip(pages, entries, strict=True)]
