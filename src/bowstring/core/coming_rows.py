"""Rows with a due time, of which those are taken that are due: in the order of (due, offset).

Those that are due before a horizon stand in a few sorted parts, each more than twice as large as the
next one. What is added is a part of its own, and is merged with its neighbour while that is not. So a
row is merged as often as the number of rows doubles, and a batch that is added to millions does not
have them sorted again. Those behind the horizon stay as they were added until the horizon reaches them,
at 12 bytes a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bowstring.core.due_blocks import NO_DUES, Dues
from bowstring.core.machine import NEVER
from bowstring.core.offset_set import Offsets


class FarRows(NamedTuple):
    """Rows behind the horizon, sorted, in less memory."""

    moments: NDArray[np.int64]
    first: int
    """The smallest offset."""
    distances: NDArray[np.uint32] | NDArray[np.int64]
    """Of the offsets from there."""

    @staticmethod
    def of(dues: Dues) -> FarRows:
        """There are some."""
        first = int(dues.offsets.min())
        distances = dues.offsets - first
        return FarRows(dues.moments, first, distances.astype(np.uint32) if int(distances.max()) < 1 << 32 else distances)

    def dues(self, count: int | None = None) -> Dues:
        """So many of the rows, the first ones, or all."""
        return Dues(self.moments[:count], self.distances[:count].astype(np.int64) + self.first)

    def between(self, since: int, horizon: int) -> Dues:
        """The rows that are due in [since, horizon)."""
        low, high = np.searchsorted(self.moments, (since, horizon)).tolist()
        return Dues(self.moments[low:high], self.distances[low:high].astype(np.int64) + self.first)

    def behind(self, count: int) -> FarRows:
        """The others."""
        return FarRows(self.moments[count:].copy(), self.first, self.distances[count:].copy()) if count else self


class ComingRows:
    """Rows of one partition. A row that is added twice with one due time is there once."""

    def __init__(self, horizon: int = NEVER) -> None:
        self.horizon = horizon
        """None that is due at that moment or later is taken."""
        self._parts: list[Dues] = []
        """None is empty."""
        self._far: list[FarRows] = []
        """All behind the horizon."""

    def add(self, dues: Dues) -> None:
        """These come, too."""
        self._add_sorted(merged([dues]))

    def reach(self, horizon: int) -> None:
        """The horizon is later."""
        far, self._far, self.horizon = self._far, [], horizon
        while far:
            part = far.pop()
            near = int(np.searchsorted(part.moments, horizon))
            if near < len(part.moments):
                self._far.append(part.behind(near))
            self._merge(part.dues(near))

    def _add_sorted(self, dues: Dues) -> None:
        near = int(np.searchsorted(dues.moments, self.horizon))
        if near < len(dues.moments):
            self._far.append(FarRows.of(Dues(dues.moments[near:].copy() if near else dues.moments, dues.offsets[near:])))
        self._merge(Dues(dues.moments[:near].copy(), dues.offsets[:near].copy()))

    def _merge(self, dues: Dues) -> None:
        """These are due before the horizon."""
        if not len(dues.moments):
            return
        parts = self._parts
        parts.append(dues)
        while len(parts) > 1 and len(parts[-2].moments) < 2 * len(parts[-1].moments):
            last = parts.pop()
            parts[-1] = merged([parts[-1], last])

    def take(self, now: int) -> Offsets:
        """Takes the rows that are due by then."""
        due: list[Dues] = []
        for place, (moments, offsets) in enumerate(self._parts):
            count = int(np.searchsorted(moments, now, side="right"))
            if count:
                due.append(Dues(moments[:count], offsets[:count]))
                self._parts[place] = Dues(moments[count:], offsets[count:])
        if due:
            self._parts = [part for part in self._parts if len(part.moments)]
        return merged(due).offsets

    def between(self, since: int, horizon: int) -> Dues:
        """The rows that are due in [since, horizon), which stay."""
        far = (part.between(since, horizon) for part in self._far)
        return merged([*(part.released_before(since, horizon) for part in self._parts), *far])

    def count(self, since: int, horizon: int) -> int:
        """How many rows are due in [since, horizon), those that are there twice counted twice."""
        parts = [part.moments for part in (*self._parts, *self._far)]
        return sum(int(np.diff(np.searchsorted(moments, (since, horizon)))[0]) for moments in parts)

    def keep(self, chosen: Callable[[Dues], NDArray[np.bool_]]) -> bool:
        """Forgets all but those that are chosen. Says whether some were forgotten."""
        forgets = False
        for place, part in enumerate(self._parts):  # one after the other: no more rows are in memory twice
            if (left := _chosen(part, chosen)) is not None:
                self._parts[place], forgets = left, True
        self._parts = [part for part in self._parts if len(part.moments)]
        parts, self._far = self._far, []
        while parts:
            part = parts.pop()
            if (left := _chosen(part.dues(), chosen)) is None:
                self._far.append(part)
                continue
            forgets = True
            if len(left.moments):
                self._far.append(FarRows.of(left))
        return forgets

    @property
    def has_far(self) -> bool:
        """Whether there are some behind the horizon."""
        return bool(self._far)

    def first(self) -> int:
        """When the first row before the horizon is due; `NEVER` if there is none."""
        return min((int(part.moments[0]) for part in self._parts), default=NEVER)


def _chosen(dues: Dues, chosen: Callable[[Dues], NDArray[np.bool_]]) -> Dues | None:
    """Those that are chosen, None for all."""
    mask = chosen(dues)
    return None if mask.all() else Dues(dues.moments[mask], dues.offsets[mask])


def merged(parts: Iterable[Dues]) -> Dues:
    """The rows of several parts, in their order, each once."""
    found = [part for part in parts if len(part.moments)]
    if not found:
        return NO_DUES
    moments, offsets = (np.concatenate(columns) if len(found) > 1 else columns[0] for columns in zip(*found, strict=True))
    ascends = np.diff(moments)
    if (ascends < 0).any():
        order = np.argsort(moments, kind="stable")  # parts that are sorted are merged
        moments, offsets = moments[order], offsets[order]
        ascends = np.diff(moments)
    together = ascends == 0
    if together.any():
        if (np.diff(offsets)[together] <= 0).any():
            order = np.lexsort((offsets, moments))
            moments, offsets = moments[order], offsets[order]
        first = np.concatenate(([True], (np.diff(moments) != 0) | (np.diff(offsets) != 0)))
        moments, offsets = moments[first], offsets[first]
    return Dues(moments, offsets)
