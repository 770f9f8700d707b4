"""How often rows were delivered in vain: binary numbers over all rows, bit by bit.

Plane n holds the rows whose count has the bit 2^n. To raise the count of some rows by one is to add
with carry, a few set operations for any number of rows. A row without a retry is in no plane and
costs nothing; a million deliveries are twenty planes.

Raising is not the same when it is done twice. So a chunk at rest has the ordinal of the last change
that it counts, and where it is newer than the head of its ledger, changes up to that one pass it by.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from bowstring.core import offset_set
from bowstring.core.row_set import NO_ROWS, RowPool, RowSet


class RetryCounts:
    """The retry counts of one ledger."""

    def __init__(self) -> None:
        self._planes: list[RowPool] = []
        self._ahead: dict[int, int] = {}
        """Chunks that are newer than the head, and the last change that each counts; only while the
        journal is replayed.
        """

    # Changing

    def count(self, rows: RowSet, ordinal: int) -> None:
        """One more for each of the rows, by the change of that ordinal."""
        carry = self._behind(rows, ordinal)
        place = 0
        while carry:
            if place == len(self._planes):
                self._planes.append(RowPool())
            plane = self._planes[place]
            both = plane.among(carry)
            plane.put(carry - both)
            plane.take_out(both)
            carry, place = both, place + 1

    def clear(self, rows: RowSet, ordinal: int) -> None:
        """No count for these any more, by the change of that ordinal."""
        if self._planes:
            rows = self._behind(rows, ordinal)
            for plane in self._planes:
                if rows:
                    plane.take_out(rows)
            self._trim()

    def _behind(self, rows: RowSet, ordinal: int) -> RowSet:
        """The rows whose chunk does not count that change yet."""
        if self._ahead:
            self._ahead = {chunk: last for chunk, last in self._ahead.items() if last >= ordinal}
            for chunk in self._ahead:
                rows = rows - RowSet(chunk << offset_set.CHUNK_BITS, (chunk + 1) << offset_set.CHUNK_BITS)
        return rows

    def _trim(self) -> None:
        while self._planes and self._planes[-1].first is None and not self._planes[-1].changed:
            self._planes.pop()

    # Looking

    def of(self, rows: RowSet) -> NDArray[np.int32]:
        """The count of each of the rows, in their order."""
        counts = np.zeros(len(rows), np.int32)
        if any(plane.first is not None for plane in self._planes):
            offsets = rows.offsets()
            for place, plane in enumerate(self._planes):
                counts[plane.of(offsets)] += 1 << place
        return counts

    @property
    def has_two(self) -> bool:
        """Whether a row may have a count of two or more."""
        return len(self._planes) > 1

    def reaching(self, rows: RowSet, count: int) -> RowSet:
        """Those of the rows that have this count, or a higher one."""
        if count <= 0:
            return rows
        if 1 << len(self._planes) <= count or not rows:
            return NO_ROWS
        if count & (count - 1) == 0:  # the usual question, whether it is two, needs no array
            return RowSet.union([plane.among(rows) for plane in self._planes[count.bit_length() - 1 :]])
        return RowSet.of_offsets(rows.offsets()[self.of(rows) >= count])

    def rows(self) -> RowSet:
        """The rows that have a count."""
        return RowSet.union(plane.rows() for plane in self._planes) if self._planes else NO_ROWS

    def chunk_numbers(self) -> set[int]:
        """The chunks that have a count."""
        return {chunk for plane in self._planes for chunk in plane.chunk_numbers()}

    # At rest

    @property
    def changed(self) -> set[int]:
        """Chunks that have changed since this was emptied."""
        return set[int]().union(*(plane.changed for plane in self._planes))

    def captured(self) -> None:
        """All chunks count as written from here on."""
        for plane in self._planes:
            plane.changed = set()
        self._trim()

    def copy(self, chunk: int) -> list[BitMap]:
        """The planes of a chunk as they are, without empty ones at the end."""
        planes = [plane.copy(chunk) for plane in self._planes]
        while planes and not planes[-1]:
            planes.pop()
        return planes

    def load(self, chunk: int, planes: list[bytes], ordinal: int) -> None:
        """A chunk as it was at rest, and the last change that it counts. Raises ValueError."""
        while len(self._planes) < len(planes):
            self._planes.append(RowPool())
        for plane, data in zip(self._planes, planes, strict=False):
            plane.load(chunk, data)
        self._ahead[chunk] = ordinal

    def state(self) -> object:
        """Everything, in a form that can be compared."""
        states = [plane.state() for plane in self._planes]
        while states and not states[-1]:
            states.pop()
        return states
