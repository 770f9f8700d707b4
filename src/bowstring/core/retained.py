"""What retention has left of a partition: everything from the floor on, and below it the rows whose
due time is still to come, or that a consumer holds.

Retention goes by arrival, which never falls, so what is gone is all that is below an offset, the
floor. But age counts from the later of arrival and due time, and a message may be due in a year:
such rows are kept below the floor, and so are those that are under a lease. They are a set of offsets in chunks, and a `Floor` says what
comes into it and what goes: a hundred thousand rows may be kept, and only one of them be released.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from bowstring.core.addresses import Runs
from bowstring.core.changes import Floor
from bowstring.core.deletions import Encode
from bowstring.core.machine import Machine
from bowstring.core.offset_set import OffsetSet, runs_of
from bowstring.core.releases import Releases


class Retained(Machine[Floor, tuple[int, Runs]]):
    """The floor of one partition, and the rows that are kept below it."""

    def __init__(self) -> None:
        self.floor = 1
        self.kept = OffsetSet()
        """Rows below the floor that are still there."""
        self.first = 1
        """The first offset that may still be there."""
        self.releases = Releases()
        """What readers have to know that are below the floor. Not durable."""

    def apply(self, change: Floor) -> None:
        self.kept.remove(change.released)
        self.kept.add(change.kept)
        self.floor = change.offset
        self._find_first()

    def _find_first(self) -> None:
        kept = self.kept.first
        self.first = self.floor if kept is None else min(self.floor, kept)

    def lacks(self, offset: int) -> bool:
        """Whether a row from the offset on is gone."""
        return offset < self.floor and self.kept.count(offset, self.floor) < self.floor - offset

    @property
    def gone(self) -> int:
        """How many rows from `first` on are gone."""
        return self.floor - self.first - self.kept.count(self.first, self.floor)

    def of(self, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of the ascending offsets that are retained."""
        if not len(offsets) or int(offsets[0]) >= self.floor:
            return offsets
        at = int(np.searchsorted(offsets, self.floor))
        below = offsets[:at]
        below = below[self.kept.of(below)]
        return np.concatenate((below, offsets[at:])) if at < len(offsets) else below

    def any(self, first: int, end: int) -> bool:
        """Is a row of [first, end) retained?"""
        return end > self.floor or self.kept.any(first, end)

    # At rest

    def capture(self) -> dict[int, Encode]:
        """The chunks of kept rows that have changed, as they are now. They count as written from
        here on.
        """
        numbers, self.kept.changed = sorted(self.kept.changed), set()
        return {number: self._captured(number) for number in numbers}

    def _captured(self, number: int) -> Encode:
        kept = self.kept.copy(number)
        return lambda: kept.serialize() if kept else b""

    def mark_changed(self, numbers: Iterable[int]) -> None:
        """These chunks were captured, and could not be written."""
        self.kept.changed.update(numbers)

    def snapshot(self) -> tuple[int, Runs]:
        return self.floor, tuple(runs_of(self.kept.within(0, self.floor)))

    def restore(self, parts: tuple[int, Runs]) -> None:
        """The floor as of a snapshot; an older one has the rows that are kept, too."""
        self.floor, kept = parts
        self.kept.add(kept)
        self._find_first()

    def load(self, number: int, data: bytes) -> None:
        """A chunk of kept rows as it was at rest."""
        self.kept.load(number, data)
        self._find_first()

    def state(self) -> object:
        """Everything, in a form that can be compared."""
        return self.floor, self.kept.state()
