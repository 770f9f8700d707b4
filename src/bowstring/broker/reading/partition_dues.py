"""Which rows of one partition were published to be due when: what its due sections tell, and its pages
that are not sealed. Their owner may have moved them since (`Partition.moved_rows`).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final

from bowstring.broker.reading.due_times import Stretch
from bowstring.broker.reading.guessed_dues import GuessedDues
from bowstring.broker.reading.page_dues import dues_in
from bowstring.broker.reading.reading import Reading
from bowstring.core.due_blocks import NO_DUES, Dues, joined
from bowstring.core.machine import NEVER
from bowstring.core.pages import PageEntry
from bowstring.core.partition import Partition
from bowstring.core.sections import DUE
from bowstring.ports.extents import Extent
from bowstring.ports.failures import Damaged
from bowstring.ports.store import Reference

TRIES_MAX: Final = 10


class PartitionDues:
    """The due times of one partition."""

    def __init__(self, partition: Partition, reading: Reading) -> None:
        self._partition = partition
        self._reading = reading
        self._tries: dict[Reference, int] = {}
        """How often extents could not be read, one time after the other."""
        self.guessed = GuessedDues(partition, reading)
        """Of pages that could not be read."""

    def now(self) -> int:
        """The time by which rows are due."""
        return self._reading.clock.now()

    async def extents(self, first: int = 0) -> list[Extent]:
        """Extents with rows from the offset on that have a due time."""
        found = await self._reading.extents.of(self._partition)
        return [extent for extent in found if extent.end_offset > first and extent.section(DUE) is not None]

    async def between(self, extent: Extent, since: int, horizon: int) -> Dues:
        """The rows of an extent that are due in [since, horizon). Raises Damaged."""
        try:
            found = [piece async for piece in self._pieces(extent, since, horizon)]
        except Damaged as error:
            self._raise_or_give_up(extent, error)
            return NO_DUES
        self._tries.pop(extent.index, None)
        return joined(found)

    async def are_all_dated(self, extent: Extent) -> bool:
        """Whether every row of an extent is known to have a due time."""
        return await self._reading.due_times.are_all_dated(extent)

    async def later(self, extent: Extent, since: int) -> AsyncGenerator[Dues]:
        """The rows of an extent that are due at that moment or later, piece by piece. Raises Damaged."""
        try:
            async for piece in self._pieces(extent, since, NEVER):
                yield piece
        except Damaged as error:
            self._raise_or_give_up(extent, error)

    async def _pieces(self, extent: Extent, since: int, horizon: int) -> AsyncGenerator[Dues]:
        """What the due section tells; where it has a guess, or cannot be read, the pages are asked. A row may
        come twice.
        """
        times = self._reading.due_times
        if not await times.guesses_in(extent):
            try:
                async for piece in times.stored_pieces(self._partition, Stretch(extent), since, horizon, guess=False):
                    yield piece
                return
            except Damaged:  # of some pages only
                pass
        for entry in await times.dated(extent):
            yield (await self.guessed.of_page(entry)).released_before(since, horizon)

    def _raise_or_give_up(self, extent: Extent, error: Damaged) -> None:
        """Neither the due times of an extent nor its index can be read. What a read finds damaged may be
        whole the next time, so that is tried some times. Then its rows count as due, so that they hold
        nothing up: they cannot be delivered, and are set aside when they are to be.
        """
        tries = self._tries[extent.index] = self._tries.get(extent.index, 0) + 1
        if tries < TRIES_MAX:
            raise error
        self._reading.note_damage(self._partition, error)

    def pages(self, first: int) -> list[PageEntry]:
        """Committed pages with rows from the offset on that are not sealed and have due times."""
        start = self._partition.pages.start
        if start is None:
            return []
        entries = self._partition.pages.between(max(first, start), self._partition.committed_offset, NEVER, NEVER)
        return [entry for entry in entries if entry.due]

    async def of_pages(self, entries: list[PageEntry]) -> AsyncGenerator[Dues]:
        """The due times of such pages, one after the other."""
        for entry in entries:
            yield await self.guessed.of_page(entry)

    def held(self, entries: list[PageEntry]) -> list[Dues] | None:
        """The same, if the pages are in memory."""
        pages = self._reading.reader.stored_held(self._partition, entries) if entries else []
        return None if pages is None else [dues_in(page, entry) for page, entry in zip(pages, entries, strict=True)]
