"""Rows that stand apart from the queues, and hold back the rows of their key behind them.

Those that come back later are such rows, and suspects of a crash (`keys`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bowstring.core.key_rows import NO_KEY_ROWS, KeyRows
from bowstring.core.key_table import KEYLESS
from bowstring.core.machine import NEVER
from bowstring.core.offset_set import Offsets

AreSuspects = Callable[[Offsets], NDArray[np.bool_]]
"""Which of ascending rows are suspects: a row that waits does not become one, and stays one."""


def none_are(offsets: Offsets) -> NDArray[np.bool_]:
    """`AreSuspects` where no lease has ended in vain."""
    return np.zeros(len(offsets), np.bool_)


class KeyBarrier:
    """Such rows, and by the number of a key the first of them. Rows without a key hold nothing back."""

    def __init__(self, size: int) -> None:
        """Numbers of keys are below `size`."""
        self.rows = NO_KEY_ROWS
        self.first = np.full(size, NEVER, np.int64)

    def grow(self, more: int) -> None:
        """There are so many more numbers."""
        self.first = np.concatenate((self.first, np.full(more, NEVER, np.int64)))

    def put(self, rows: KeyRows) -> None:
        """Ascending rows, anywhere."""
        self.rows = KeyRows.joined([self.rows, rows])
        self._stop(rows)

    def take(self, where: NDArray[np.bool_]) -> KeyRows:
        """Some of the rows leave."""
        taken, self.rows = self.rows.at(where), self.rows.at(~where)
        self.first[taken.numbers] = NEVER
        self._stop(self.rows)
        return taken

    def _stop(self, rows: KeyRows) -> None:
        keyed = rows.at(rows.numbers != KEYLESS)
        np.minimum.at(self.first, keyed.numbers, keyed.offsets)

    def __len__(self) -> int:
        return len(self.rows.offsets)

    def check(self) -> None:
        """The invariants."""
        assert (np.diff(self.rows.offsets) > 0).all(), "rows are out of order"
        first, self.first = self.first, np.full_like(self.first, NEVER)
        self._stop(self.rows)
        assert (first == self.first).all(), "the first row that holds a key back is wrong"
