"""Rows that were published for later and are due, until they are granted: in the order of (due, offset)
while they are few, else in waves.

Rows that are due one after the other are scattered over all pages of a partition. Granted in that order, a
few thousand rows have every page read for some rows of each, and two million have all of them read
hundreds of times. So when more than a few thousand rows wait, because consumers do not keep up, these are
a wave: its rows are granted by offset, and what comes due from its first grant on is the next wave. A row waits
for those of its own wave and of the wave before, and for no others. Until that grant a wave takes all that comes
due: a consumer that has paused finds whole pages in it.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from bowstring.core.offset_set import Offsets
from bowstring.core.row_set import RowPool, RowSet

ORDERED_ROWS_MAX = 4096
"""So many rows come in the order in which they came due."""


class Wave:
    """Rows that are granted by offset if they are many, else in the order in which they were put."""

    def __init__(self) -> None:
        self.rows = RowPool()
        self._order: Offsets | None = np.empty(0, np.int64)
        """The same rows, until there are too many."""
        self.is_begun = False
        """Whether rows have left since they are too many."""

    def put(self, offsets: Offsets, rows: RowSet) -> None:
        """These come in this order, none of which is here."""
        self.rows.put(rows)
        if self._order is not None:
            self._order = np.concatenate((self._order, offsets)) if len(self.rows) <= ORDERED_ROWS_MAX else None

    def take_out(self, rows: RowSet) -> None:
        """These are no members any more."""
        if self._order is None:
            self.is_begun = self.is_begun or bool(self.rows.among(rows))
        self.rows.take_out(rows)
        if self._order is not None and len(self.rows) < len(self._order):
            self._order = self._order[np.isin(self._order, self.rows.rows().offsets())] if not self.rows.is_empty else self._order[:0]

    def first(self, most: int) -> RowSet:
        """So many rows, the next ones, or all."""
        return self.rows.smallest(most) if self._order is None else RowSet.of_offsets(self._order[:most])


class DueRows:
    """Rows of one ledger."""

    def __init__(self) -> None:
        self._waves: deque[Wave] = deque()
        """Two at most. None is empty, and no row is in both."""

    def put(self, offsets: Offsets, rows: RowSet) -> None:
        """These come behind the others, in this order. Members stay where they are."""
        known = RowSet.union([wave.rows.among(rows) for wave in self._waves])
        if known:
            offsets, rows = offsets[~np.isin(offsets, known.offsets())], rows - known
        if rows:
            self._open_wave().put(offsets, rows)

    def _open_wave(self) -> Wave:
        """The last one, but for one that is granted by offset now: none of its rows is to wait for rows that
        come later.
        """
        if not self._waves or (len(self._waves) == 1 and self._waves[0].is_begun):
            self._waves.append(Wave())
        return self._waves[-1]

    def take_out(self, rows: RowSet) -> None:
        """These are no members any more."""
        for wave in self._waves:
            wave.take_out(rows)
        if any(wave.rows.is_empty for wave in self._waves):
            self._waves = deque(wave for wave in self._waves if not wave.rows.is_empty)

    def first(self, most: int) -> RowSet:
        """So many rows, the next ones, or all."""
        found: list[RowSet] = []
        for wave in self._waves:
            if most <= 0:
                break
            found.append(wave.first(most))
            most -= len(found[-1])
        return RowSet.union(found)

    @property
    def is_empty(self) -> bool:
        return not self._waves

    def __len__(self) -> int:
        return sum(len(wave.rows) for wave in self._waves)

    def rows(self) -> RowSet:
        """All of them."""
        return RowSet.union([wave.rows.rows() for wave in self._waves])


class ScheduledRows(RowPool):
    """Rows that a ledger has passed by because they were not due. Which of them are due now the broker
    tells; that is not durable.
    """

    def __init__(self) -> None:
        super().__init__()
        self.due = DueRows()

    def take_out(self, rows: RowSet) -> None:
        """These are granted, or gone."""
        if not self.is_empty:
            super().take_out(rows)
            self.due.take_out(rows)

    def come_due(self, offsets: Offsets, rows: RowSet) -> None:
        """Rows are due, in this order; also others than these."""
        mine = self.among(rows)
        if mine:
            self.due.put(offsets if len(mine) == len(offsets) else offsets[np.isin(offsets, mine.offsets())], mine)
