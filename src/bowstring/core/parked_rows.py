"""Rows that have turned out to be held back: they stand in no queue until their key is free (`keys`)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bowstring.core.key_rows import NO_KEY_ROWS, KeyRows, Numbers
from bowstring.core.key_table import ONE
from bowstring.core.machine import NEVER
from bowstring.core.offset_set import Offsets


class ParkedRows:
    """Such rows, and by the number of a key how many there are and which is the first."""

    def __init__(self, size: int) -> None:
        """Numbers of keys are below `size`."""
        self.counts = np.zeros(size, np.int32)
        self.first = np.full(size, NEVER, np.int64)
        self.parts: list[KeyRows] = []
        """The first part is in order, the others came since."""
        self._rows = 0

    def grow(self, more: int) -> None:
        """There are so many more numbers."""
        self.counts = np.concatenate((self.counts, np.zeros(more, np.int32)))
        self.first = np.concatenate((self.first, np.full(more, NEVER, np.int64)))

    def put(self, rows: KeyRows) -> None:
        if len(rows.offsets):
            self.parts.append(rows)
            self._rows += len(rows.offsets)
            np.add.at(self.counts, rows.numbers, ONE)
            np.minimum.at(self.first, rows.numbers, rows.offsets)

    def take_all(self) -> KeyRows:
        parts, self.parts, self._rows = self.parts, [], 0
        rows = KeyRows.joined(parts or [NO_KEY_ROWS])
        self.counts[rows.numbers] = 0
        self.first[rows.numbers] = NEVER
        return rows

    def take(self, freed: Numbers, held_back_from: Callable[[Numbers], Offsets], most: int) -> KeyRows:
        """The first rows of these keys, at most so many, before those that are held back still."""
        parked = KeyRows.joined(self.parts)
        wanted = np.zeros(len(self.counts), np.bool_)
        wanted[freed] = True
        of_freed = np.flatnonzero(wanted[parked.numbers])
        rows = parked.at(of_freed)
        away = np.flatnonzero(rows.offsets < held_back_from(rows.numbers))[:most]
        keep = np.ones(len(parked.offsets), np.bool_)
        keep[of_freed[away]] = False
        self.parts, self._rows = [parked.at(keep)], self._rows - len(away)
        np.subtract.at(self.counts, rows.numbers[away], ONE)
        self.first[freed] = NEVER
        left = np.ones(len(rows.offsets), np.bool_)
        left[away] = False
        np.minimum.at(self.first, rows.numbers[left], rows.offsets[left])
        return rows.at(away)

    def __len__(self) -> int:
        return self._rows

    def check(self) -> None:
        """The invariants."""
        rows = KeyRows.joined(self.parts or [NO_KEY_ROWS])
        assert len(rows.offsets) == self._rows
        assert (np.bincount(rows.numbers, minlength=len(self.counts)) == self.counts).all(), "parked rows are counted wrong"
        first = np.full(len(self.first), NEVER, np.int64)
        np.minimum.at(first, rows.numbers, rows.offsets)
        assert (first == self.first).all(), "the first parked row of a key is wrong"
