"""The due times of pages, of which some cannot be read. Their rows count as due with the last of them, as
long as nothing better is known: what is found damaged may be whole the next time.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from bowstring.broker.reading.due_times import Stretch
from bowstring.broker.reading.page_dues import all_at_last, dues_in
from bowstring.broker.reading.reading import Reading
from bowstring.core.due_blocks import Dues, joined
from bowstring.core.machine import NEVER
from bowstring.core.pages import PageEntry
from bowstring.core.partition import Partition
from bowstring.ports.failures import Damaged

LONG_AGO: Final = 1
"""A moment for rows that need not wait."""


class GuessedDues:
    """Those of one partition."""

    def __init__(self, partition: Partition, reading: Reading) -> None:
        self._partition = partition
        self._reading = reading
        self._guessed: dict[int, PageEntry] = {}
        """Pages that could not be read, by their first offsets. They stay until they are read again, also if
        their due times are known before: cursors may have passed by rows of them that have none.
        """

    @property
    def are_there(self) -> bool:
        """Whether something was guessed."""
        return bool(self._guessed)

    async def of_page(self, entry: PageEntry) -> Dues:
        """The due times of a page, or a guess."""
        try:
            return await self._reading.due_times.stored_between(self._partition, Stretch(None, entry), 0, NEVER, guess=False)
        except Damaged:
            known = self._guessed.get(entry.first_offset)
            if known is None or known.end < entry.end:  # a page that is cut leaves a shorter one
                self._guessed[entry.first_offset] = entry
            return all_at_last(entry)

    async def known_now(self) -> list[Dues]:
        """Reads pages again whose due times were guessed: all rows of those that can be read, a row without
        a due time as one that was due long ago.
        """
        found: list[Dues] = []
        for first, entry in sorted(self._guessed.items()):
            try:
                dues = await self._read_again(entry)
            except Damaged:
                continue
            if self._guessed.get(first) is entry:  # no longer one was guessed meanwhile
                del self._guessed[first]
            found.append(dues)
        return found

    async def _read_again(self, guessed: PageEntry) -> Dues:
        """The page may be elsewhere now, cut, or gone."""
        reader, offset, parts = self._reading.reader, guessed.first_offset, list[Dues]()
        while offset < guessed.end and (entries := await reader.entries(self._partition, offset, guessed.end, 1, 1)):
            (page,) = await reader.stored(self._partition, entries)
            parts.append(dues_in(page, entries[0]))
            offset = entries[0].end
        dues = joined(parts).inside([(guessed.first_offset, guessed.end)])
        others = np.setdiff1d(np.arange(guessed.first_offset, guessed.end, dtype=np.int64), dues.offsets)
        return joined([Dues(np.full(len(others), LONG_AGO, np.int64), others), dues])
