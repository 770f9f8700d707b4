"""The pages of granted rows: in memory, or read from the store. Where the bytes of a page do not verify,
or those of the index of an extent, its offsets are named, so that the others can be sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bowstring.broker.reading.reading import Reading
from bowstring.core.pages import PageEntry
from bowstring.core.partition import Partition
from bowstring.core.row_set import NO_ROWS, RowSet
from bowstring.ports.failures import Damaged
from bowstring.ports.store import Page

PAGES_A_READ = 256


class PagesFound(NamedTuple):
    """Pages that hold some of the rows, in order."""

    entries: list[PageEntry]
    pages: list[Page]
    """Whole pages; where they are looked for to be delivered, perhaps sifted ones."""
    gone: RowSet = NO_ROWS
    """Those of the rows that are in no page any more, because retention has taken them."""
    damaged: RowSet = NO_ROWS
    """The offsets before which the pages end, because they cannot be read."""

    def parts(self, bytes_max: int) -> list[PagesFound]:
        """The same pages by about so many bytes, those of a part at least one."""
        borders, size = [0], 0
        for at, entry in enumerate(self.entries):
            if size >= bytes_max:
                borders.append(at)
                size = 0
            size += entry.length
        ends = [*borders[1:], len(self.entries)]
        parts = [PagesFound(self.entries[begin:end], self.pages[begin:end]) for begin, end in zip(borders, ends, strict=True)]
        return [*parts[:-1], parts[-1]._replace(gone=self.gone, damaged=self.damaged)]


class GrantedPages:
    """Finds pages for one incarnation."""

    def __init__(self, reading: Reading, *, whole: bool = False, gathered: bool = False) -> None:
        """`whole` pages are for a caller that looks at other rows than those it asks for, and `gathered`
        rows for one that looks at none.
        """
        self._reading = reading
        self._whole = whole
        self._gathered = gathered

    def at_once(self, partition: Partition, rows: RowSet, bytes_max: int) -> PagesFound | None:
        """The next pages that hold these rows, of which they have about so many bytes; None if they are not in memory."""
        if not self._whole and (sifted := self._reading.caches.sifted.find(partition, rows, bytes_max)):
            return PagesFound([page.entry for page in sifted], [*sifted])
        if self._gathered and (gathered := self._reading.caches.gathered.find(partition, rows, bytes_max)):
            return PagesFound([gathered.entry], [gathered])
        if rows.first < partition.sealed_end:
            return None
        entries = partition.pages.between(rows.first, rows.stop, _of_pages(rows, bytes_max), PAGES_A_READ)
        pages = self._reading.reader.held(partition, entries)
        return None if pages is None else PagesFound(entries, pages, _in_none(rows, entries))

    async def read(self, partition: Partition, rows: RowSet, bytes_max: int) -> PagesFound:
        """The same, wherever they are. One look finds about so many bytes of pages, and perhaps none
        that has one of the rows: these may be far apart. Then the next look begins behind it.
        """
        reader, left, gone = self._reading.reader, rows, list[RowSet]()
        while left:
            moves, entries = partition.moves, list[PageEntry]()
            try:
                found = await reader.entries(partition, left.first, left.stop, _of_pages(left, bytes_max), PAGES_A_READ)
                found = reader.first_of(partition, found, bytes_max)
                entries = [entry for entry in found if left & RowSet(entry.first_offset, entry.end)]
                pages = await reader.pages(partition, entries)
            except Damaged as error:
                damage = await self._until_damaged(partition, left, entries, error) if moves == partition.moves else None
                if damage is not None:
                    return damage._replace(gone=RowSet.union((*gone, damage.gone)))
                continue
            if moves == partition.moves:  # else a page may have moved past the look
                gone.append(_in_none(left, found) if found else left)
            elif not entries:
                continue
            if entries:
                return PagesFound(entries, pages, RowSet.union(gone))
            left = left - RowSet(0, found[-1].end) if found else NO_ROWS
        return PagesFound([], [], RowSet.union(gone))

    async def _until_damaged(self, partition: Partition, rows: RowSet, entries: list[PageEntry], error: Damaged) -> PagesFound | None:
        """Reads one page after the other, up to the damaged one. Without entries it is an index that
        is damaged. None if everything can be read now.
        """
        reader, pages = self._reading.reader, list[Page]()
        for entry in entries:
            try:
                pages += await reader.pages(partition, [entry])
            except Damaged:
                self._note(partition, error)
                return PagesFound(entries[: len(pages)], pages, damaged=RowSet(entry.first_offset, entry.end))
        if entries:
            return PagesFound(entries, pages)
        extent = await reader.unreadable(partition, rows.first, rows.stop)
        if extent is None:
            return None
        self._note(partition, error)
        return PagesFound([], [], rows.below(extent.first_offset), RowSet(extent.first_offset, extent.end_offset))

    def _note(self, partition: Partition, error: Damaged) -> None:
        self._reading.counters.damaged += 1
        self._reading.note_damage(partition, error)


def _of_pages(rows: RowSet, bytes_max: int) -> int:
    """How many bytes of pages have about so many of these rows, which may be few of each page."""
    return bytes_max * (rows.stop - rows.first) // max(1, len(rows))


def _in_none(rows: RowSet, entries: Sequence[PageEntry]) -> RowSet:
    """The rows up to the last of these pages that are in none of them."""
    gaps, end = list[RowSet](), rows.first
    for entry in entries:
        if entry.first_offset > end:
            gaps.append(rows & RowSet(end, entry.first_offset))
        end = entry.end
    return RowSet.union(gaps)
