"""Rows with their keys, in the order of their offsets, and queues of them.

Everything is arrays: a few operations for thousands of rows.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bowstring.core.offset_set import Offsets

Hashes = NDArray[np.uint64]
Numbers = NDArray[np.intp]


class KeyRows(NamedTuple):
    """Rows in the order of their offsets, and the numbers of their keys."""

    offsets: Offsets
    numbers: Numbers

    def at(self, where: NDArray[np.bool_] | NDArray[np.intp] | slice) -> KeyRows:
        """Some of them."""
        return KeyRows(self.offsets[where], self.numbers[where])

    @staticmethod
    def joined(parts: list[KeyRows]) -> KeyRows:
        """All rows of several, in order."""
        if len(parts) == 1:
            return parts[0]
        offsets = np.concatenate([part.offsets for part in parts])
        order = np.argsort(offsets, kind="stable")
        return KeyRows(offsets[order], np.concatenate([part.numbers for part in parts])[order])


NO_KEY_ROWS: Final = KeyRows(np.empty(0, np.int64), np.empty(0, np.intp))


class KeyFront:
    """Rows that wait, in order. What comes next is apart from what comes behind, so that rows which
    are given back cost little however many wait.
    """

    __slots__ = ("_head", "_tail", "rows")

    def __init__(self) -> None:
        self._head = NO_KEY_ROWS
        self._tail: deque[KeyRows] = deque()
        """Parts of ascending rows, behind the head."""
        self.rows = 0

    def put(self, rows: KeyRows) -> None:
        """Ascending rows, anywhere."""
        if not len(rows.offsets):
            return
        self.rows += len(rows.offsets)
        self._fill()
        last = self._tail[-1] if self._tail else self._head
        if not len(last.offsets) or rows.offsets[0] > last.offsets[-1]:
            self._tail.append(rows)
        elif not self._tail or rows.offsets[-1] < self._tail[0].offsets[0]:
            self._head = KeyRows.joined([self._head, rows])
        else:
            self._head = KeyRows.joined([self._head, *self._tail, rows])
            self._tail.clear()

    def _fill(self) -> None:
        if not len(self._head.offsets) and self._tail:
            self._head = self._tail.popleft()

    def pop(self, most: int) -> KeyRows:
        """The first rows, at least one if there is one, and at most so many."""
        self._fill()
        found, self._head = self._head.at(slice(most)), self._head.at(slice(most, None))
        self.rows -= len(found.offsets)
        return found

    def all(self) -> KeyRows:
        return KeyRows.joined([self._head, *self._tail])


def once(numbers: Numbers) -> Numbers:
    """Each number once. They are sorted: `np.unique` hashes them, which takes twice as long."""
    numbers = np.sort(numbers)
    return numbers[np.concatenate(([True], numbers[1:] != numbers[:-1]))] if len(numbers) else numbers


class KeyFacts(NamedTuple):
    """What is known about one key."""

    grant: int
    """The grant that holds rows of it; 0 if none does."""
    leased: int
    waiting: Offsets
    """Rows that wait, ascending."""
    later: int
    """The first row that comes back later and holds the others back; 0 if there is none."""
    slot: int
    suspect: int = 0
    """The first suspect of a crash, which holds the others back; 0 if there is none."""
