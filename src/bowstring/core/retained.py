"""What retention has left of a partition: everything from the floor on, and below it the rows whose due time is still to come.

Retention goes by arrival, which never falls, so what is gone is all that is below an offset, the floor. But age counts from the later
of arrival and due time, and a message may be due in a year: such rows are kept below the floor, as runs.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from bowstring.core.changes import Floor, Runs
from bowstring.core.machine import Machine


class Retained(Machine[Floor, tuple[int, Runs]]):
    """The floor of one partition, and what is kept below it."""

    def __init__(self) -> None:
        self.floor = 1
        self.kept: Runs = ()
        """Runs of (offset, rows), ascending, all below the floor."""

    def apply(self, change: Floor) -> None:
        self.floor = change.offset
        self.kept = joined((*without(self.kept, change.released), *change.kept))

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

    def snapshot(self) -> tuple[int, Runs]:
        return self.floor, self.kept

    def restore(self, parts: tuple[int, Runs]) -> None:
        self.floor, self.kept = parts

    def state(self) -> object:
        return self.floor, self.kept


def without(runs: Runs, others: Runs) -> Runs:
    """What of the runs is in none of the others; all are ascending."""
    found: list[tuple[int, int]] = []
    at = 0
    for first, rows in runs:
        start, end = first, first + rows
        while at < len(others) and sum(others[at]) <= start:
            at += 1
        for offset, count in others[at:]:
            if offset >= end:
                break
            if start < offset:
                found.append((start, offset - start))
            start = max(start, offset + count)
        if start < end:
            found.append((start, end - start))
    return tuple(found)


def joined(runs: Iterable[tuple[int, int]]) -> Runs:
    """The same rows, ascending; runs that touch are one."""
    found: list[tuple[int, int]] = []
    for offset, rows in sorted(runs):
        if found and sum(found[-1]) >= offset:
            found[-1] = found[-1][0], max(sum(found[-1]), offset + rows) - found[-1][0]
        else:
            found.append((offset, rows))
    return tuple(found)
