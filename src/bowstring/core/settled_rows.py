"""The rows that a subscription is done with: all below a floor, and a set above it.

In order, the floor moves and the set stays empty. A row that is acked before its predecessors waits
in the set, as a bit, until the floor comes. Rows that were deleted, or that retention has taken,
count as settled too: the floor passes them.
"""

from __future__ import annotations

from bowstring.core.row_set import NO_ROWS, RowPool, RowSet


class SettledRows:
    """The settled rows of one ledger."""

    def __init__(self, floor: int) -> None:
        self.floor = floor
        """Every row below is settled, this one is not."""
        self.above = RowPool()
        """Settled rows above the floor."""
        self.resets = 0
        """How often the floor was set, and may have fallen."""

    def add(self, rows: RowSet) -> None:
        """These are settled from here on."""
        if not rows or rows.stop <= self.floor:
            return
        if rows.first > self.floor:
            self.above.put(rows)
        elif rows.is_run:
            self.floor = rows.stop
            self.rise()
        else:
            self.above.put(rows)
            self.rise()

    def rise(self) -> None:
        """The floor passes what is settled, and that needs no bits any more."""
        if self.above.is_empty:
            return
        first = self.above.first
        if first is not None and first <= self.floor:
            self.floor = self.above.first_missing(self.floor)
            self.above.drop_below(self.floor)

    def reset(self, offset: int) -> None:
        """The rows below the offset are settled, and no others."""
        self.floor = offset
        self.resets += 1
        self.above.take_out(self.above.rows())

    def of(self, rows: RowSet) -> RowSet:
        """Those of the rows that are settled."""
        if rows.stop <= self.floor:
            return rows
        below = rows.below(self.floor)
        above = self.above.among(rows)
        return RowSet.union((below, above)) if below and above else below or above

    def unsettled(self, first: int, end: int, most: int) -> RowSet:
        """So many of the first rows of [first, end) that are not settled, or all."""
        first = max(first, self.floor)
        if not self.above.is_empty:
            first = self.above.first_missing(first)
        stop = min(first + most, end)
        if first >= stop or self.above.is_empty or not self.above.any(first, stop):
            return RowSet(first, stop) if first < stop else NO_ROWS
        return self._with_holes(first, end, most)

    def _with_holes(self, first: int, end: int, most: int) -> RowSet:
        found: list[RowSet] = []
        while most and first < end:
            stop = min(first + most, end)
            rows = RowSet(first, stop)
            rows = rows - self.above.among(rows)
            found.append(rows)
            most -= len(rows)
            first = self.above.first_missing(stop)
        return RowSet.union(found)

    def state(self) -> object:
        """Everything, in a form that can be compared."""
        return self.floor, self.above.state()
