"""Rows that were published for later and are due, in the order of (due, offset).

They wait here until they are granted. What stands in the arrays and is no member any more was granted
or is gone, and is passed over when its turn comes.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from bowstring.core.offset_set import Offsets
from bowstring.core.row_set import NO_ROWS, RowPool, RowSet

PIECE_ROWS = 4096
"""Arrays of so many rows are looked through at once."""


class DueRows:
    """Rows of one ledger."""

    def __init__(self) -> None:
        self._members = RowPool()
        self._order: deque[Offsets] = deque()

    def put(self, offsets: Offsets) -> None:
        """These come behind the others, in this order. Members stay where they are."""
        known = self._members.among(RowSet.of_offsets(offsets))
        fresh = offsets[~np.isin(offsets, known.offsets())] if known else offsets
        if len(fresh):
            self._members.put(RowSet.of_offsets(fresh))
            self._order += [fresh[at : at + PIECE_ROWS] for at in range(0, len(fresh), PIECE_ROWS)]

    def take_out(self, rows: RowSet) -> None:
        """These are no members any more."""
        if not self._members.is_empty:
            self._members.take_out(rows)
            if self._members.is_empty:
                self._order.clear()

    def first(self, most: int) -> RowSet:
        """So many rows, the next ones, or all."""
        found: list[RowSet] = []
        for place in range(len(self._order)):
            if most <= 0:
                break
            offsets = self._order[place]
            left = self._members.among(RowSet.of_offsets(offsets))
            if len(left) < len(offsets):
                offsets = self._order[place] = offsets[np.isin(offsets, left.offsets())] if left else offsets[:0]
            found.append(RowSet.of_offsets(offsets[:most]))
            most -= len(found[-1])
        while self._order and not len(self._order[0]):
            self._order.popleft()
        return RowSet.union(found) if found else NO_ROWS

    @property
    def is_empty(self) -> bool:
        return self._members.is_empty

    def __len__(self) -> int:
        return len(self._members)

    def rows(self) -> RowSet:
        """All of them."""
        return self._members.rows()


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

    def come_due(self, offsets: Offsets) -> None:
        """Rows are due, in this order; also others than these."""
        mine = self.among(RowSet.of_offsets(offsets))
        if mine:
            self.due.put(offsets[np.isin(offsets, mine.offsets())])
