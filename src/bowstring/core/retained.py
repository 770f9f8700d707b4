"""What retention has left of a partition: everything from the floor on, and below it the rows whose due time is still to come.

Retention goes by arrival, which never falls, so what is gone is all that is below an offset, the floor. But age counts from the later
of arrival and due time, and a message may be due in a year: such rows are kept below the floor, as runs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bowstring.core.changes import Floor

Runs = tuple[tuple[int, int], ...]


class Retained:
    """The floor of one partition, and what is kept below it."""

    def __init__(self) -> None:
        self.floor = 1
        self.kept: Runs = ()
        """Runs of (offset, rows), ascending, all below the floor."""

    def apply(self, change: Floor) -> None:
        self.floor, self.kept = change.offset, change.kept

    @property
    def first(self) -> int:
        """The first offset that may still be there."""
        return self.kept[0][0] if self.kept else self.floor

    def lacks(self, offset: int) -> bool:
        """Whether a row from the offset on is gone."""
        kept = sum(max(0, start + rows - max(start, offset)) for start, rows in self.kept)
        return offset < self.floor and kept < self.floor - offset

    @property
    def gone(self) -> int:
        """How many rows from `first` on are gone."""
        return self.floor - self.first - sum(rows for _, rows in self.kept)

    def of(self, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of the offsets that are retained."""
        if not len(offsets) or int(offsets[0]) >= self.floor:
            return offsets
        stays = offsets >= self.floor
        for offset, rows in self.kept:
            stays |= (offsets >= offset) & (offsets < offset + rows)
        return offsets[stays]

    def rest(self) -> tuple[int, Runs]:
        return self.floor, self.kept

    def restore(self, state: tuple[int, Runs]) -> None:
        self.floor, self.kept = state
