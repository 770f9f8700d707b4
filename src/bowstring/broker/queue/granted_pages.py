"""The pages of granted rows: in memory, or read from the store. Of a read in which one page is damaged
the page is named, so that the others can be sent.
"""

from __future__ import annotations

from typing import NamedTuple

from bowstring.broker.reading.reading import Reading
from bowstring.core.pages import PageEntry
from bowstring.core.partition import Partition
from bowstring.core.row_set import RowSet
from bowstring.ports.failures import Damaged
from bowstring.ports.store import Page

PAGES_A_READ = 256


class PagesFound(NamedTuple):
    """Pages that hold some of the rows, in order. There is none when retention has taken them all."""

    entries: list[PageEntry]
    pages: list[Page]
    damaged: PageEntry | None = None
    """The page before which the others end, because its bytes do not verify."""


class GrantedPages:
    """Finds pages for one incarnation."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def at_once(self, partition: Partition, rows: RowSet, bytes_max: int) -> PagesFound | None:
        """The next pages that hold these rows, about so many bytes; None if they are not in memory."""
        if rows.first < partition.sealed_end:
            return None
        entries = partition.pages.between(rows.first, rows.stop, bytes_max, PAGES_A_READ)
        pages = self._reading.reader.held(partition, entries)
        return None if pages is None else PagesFound(entries, pages)

    async def read(self, partition: Partition, rows: RowSet, bytes_max: int) -> PagesFound:
        """The same, wherever they are."""
        reader = self._reading.reader
        while True:
            moves, entries, pages = partition.moves, list[PageEntry](), list[Page]()
            try:
                found = await reader.entries(partition, rows.first, rows.stop, bytes_max, PAGES_A_READ)
                entries = [entry for entry in found if rows & RowSet(entry.first_offset, entry.end)]
                pages = await reader.pages(partition, entries)
            except Damaged as error:
                if moves == partition.moves:
                    return await self._until_damaged(partition, entries, error)
            if entries or moves == partition.moves:
                return PagesFound(entries, pages)

    async def _until_damaged(self, partition: Partition, entries: list[PageEntry], error: Damaged) -> PagesFound:
        """Reads one page after the other, up to the damaged one."""
        pages: list[Page] = []
        for entry in entries:
            try:
                pages += await self._reading.reader.pages(partition, [entry])
            except Damaged:
                self._reading.counters.damaged += 1
                self._reading.note_damage(partition, error)
                return PagesFound(entries[: len(pages)], pages, entry)
        if not entries:
            raise error
        return PagesFound(entries, pages)
