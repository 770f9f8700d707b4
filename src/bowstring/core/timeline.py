"""Rows that come back at a moment of their own: those that were nacked to a time, and those that wait
for their backoff.

The rows stand in two arrays, sorted by their moments, so a million of them take 16 MB. New ones are
gathered, and sorted in together at the next question, or when there are many. A set of all members
answers whether a row is among them without a search.

A row leaves the timeline when its moment has come by a change (`take_until`), and when it is deleted
or granted (`take_out`). Nothing here asks a clock.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bowstring.core.machine import NEVER
from bowstring.core.offset_set import Offsets
from bowstring.core.row_set import NO_ROWS, RowPool, RowSet

Moments = NDArray[np.int64]

GATHERED_MAX = 1024
"""So many new entries are gathered before they are sorted in, and one for each 16 rows."""

_NONE = np.empty(0, np.int64)


class Timeline:
    """Rows and their moments; a row has one."""

    def __init__(self) -> None:
        self._members = RowPool()
        self._moments: Moments = _NONE
        """Ascending."""
        self._offsets: Offsets = _NONE
        """Of each moment the row; rows of one moment ascend."""
        self._gathered: list[tuple[int, RowSet]] = []
        """Entries that are not sorted in."""
        self._soonest = NEVER
        """The first moment of these."""

    # Changing

    def put(self, rows: RowSet, moment: int) -> None:
        """These rows, none of them a member, come back then."""
        if not rows:
            return
        self._members.put(rows)
        self._gathered.append((moment, rows))
        self._soonest = min(self._soonest, moment)
        if len(self._gathered) > max(GATHERED_MAX, len(self._offsets) // 16):
            self._sort_in()

    def take_until(self, moment: int) -> RowSet:
        """Takes the rows whose moment has come by then."""
        rows = self.ripe(moment)
        if rows:
            count = int(np.searchsorted(self._moments, moment, side="right"))
            self._moments, self._offsets = self._moments[count:], self._offsets[count:]
            self._members.take_out(rows)
        return rows

    def take_out(self, rows: RowSet) -> None:
        """Takes those of the rows that are members."""
        if self._members.is_empty or not (out := self._members.among(rows)):
            return
        self._sort_in()
        self._members.take_out(out)
        left = ~np.isin(self._offsets, out.offsets())
        self._moments, self._offsets = self._moments[left], self._offsets[left]

    def clear(self) -> None:
        """Takes all."""
        self.__init__()

    def _sort_in(self) -> None:
        if not self._gathered:
            return
        parts = [(np.full(len(rows), moment, np.int64), rows.offsets()) for moment, rows in self._gathered]
        moments = np.concatenate([self._moments, *(moments for moments, _ in parts)])
        offsets = np.concatenate([self._offsets, *(offsets for _, offsets in parts)])
        order = np.lexsort((offsets, moments))
        self._moments, self._offsets = moments[order], offsets[order]
        self._gathered, self._soonest = [], NEVER

    # Looking

    @property
    def is_empty(self) -> bool:
        return self._members.is_empty

    def __len__(self) -> int:
        return len(self._members)

    def first(self) -> int:
        """The first moment at which a row comes back; `NEVER` if there is none."""
        return min(self._soonest, int(self._moments[0])) if len(self._moments) else self._soonest

    def after(self, moment: int) -> int:
        """The first moment behind this one at which a row comes back; `NEVER` if there is none."""
        if self.first() > moment:
            return self.first()
        self._sort_in()
        place = int(np.searchsorted(self._moments, moment, side="right"))
        return int(self._moments[place]) if place < len(self._moments) else NEVER

    def ripe(self, moment: int) -> RowSet:
        """The rows whose moment has come by then."""
        if self.first() > moment:
            return NO_ROWS
        self._sort_in()
        return RowSet.of_offsets(self._offsets[: np.searchsorted(self._moments, moment, side="right")])

    def ripe_count(self, moment: int) -> int:
        """How many these are."""
        if self.first() > moment:
            return 0
        self._sort_in()
        return int(np.searchsorted(self._moments, moment, side="right"))

    def among(self, rows: RowSet) -> RowSet:
        """Those of the rows that are members."""
        return self._members.among(rows)

    def rows(self) -> RowSet:
        """All members."""
        return self._members.rows()

    # At rest

    def moment_of(self, row: int) -> int:
        """When a row comes back; 0 if it is not here."""
        moments, offsets = self.arrays()
        return int(moments[offsets == row].max(initial=0))

    def arrays(self) -> tuple[Moments, Offsets]:
        """Moments and rows, in the order of both. Nothing changes these arrays."""
        self._sort_in()
        return self._moments, self._offsets

    def load(self, moments: bytes, offsets: bytes) -> None:
        """What `arrays` gave, as little-endian numbers. Raises ValueError."""
        self._moments, self._offsets = np.frombuffer(moments, "<i8"), np.frombuffer(offsets, "<i8")
        if len(self._moments) != len(self._offsets):
            raise ValueError(f"a timeline has {len(self._moments)} moments and {len(self._offsets)} rows")
        self._members.put(RowSet.of_offsets(self._offsets))

    def state(self) -> object:
        """Everything, in a form that can be compared."""
        moments, offsets = self.arrays()
        return moments.tolist(), offsets.tolist()

    def check(self) -> None:
        """The invariants."""
        moments, offsets = self.arrays()
        assert bool((np.diff(moments) >= 0).all()), "moments do not ascend"
        assert RowSet.of_offsets(offsets) == self._members.rows(), "the members are others than the rows"
        assert len(offsets) == len(self._members), "a row has two moments"
