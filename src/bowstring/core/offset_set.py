"""A set of offsets of one partition, as bitmaps in chunks of 2^20 offsets.

A chunk is what the catalog keeps as a row. The set remembers which chunks have changed since they
were captured, so that a seal writes only those. Rows that are deleted and rows that are kept below
the floor are such sets.

A set changes by runs: "these offsets are in" and "these are out". Replaying such changes over a set
that has some of them already gives the same set, because the last change of an offset decides. So a
chunk in the catalog may be newer than the head that its partition is loaded from.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

CHUNK_BITS = 20

Offsets = NDArray[np.int64]

MANY_RUNS = 64
"""From so many on runs are added all at once."""


SPREAD = 32
"""Offsets of which one in so many is there, or more, are looked for in a field with a place for each."""


def are_among(offsets: Offsets, members: Offsets) -> NDArray[np.bool_]:
    """Which of the ascending offsets are members. Members ascend, and there is at least one."""
    if not len(offsets):
        return np.empty(0, np.bool_)
    first, stop = int(offsets[0]), int(offsets[-1]) + 1
    if stop - first > SPREAD * len(offsets):
        return members[np.minimum(np.searchsorted(members, offsets), len(members) - 1)] == offsets
    low, high = np.searchsorted(members, (first, stop))
    field = np.zeros(stop - first, np.bool_)
    field[members[low:high] - first] = True
    return field[offsets - first]


class OffsetSet:
    """A set of offsets."""

    def __init__(self) -> None:
        self._bitmaps: dict[int, BitMap] = {}
        self.changed: set[int] = set()
        """Chunks that the catalog does not have as they are here."""

    # Changing

    def add(self, runs: Iterable[tuple[int, int]]) -> None:
        for chunk, bitmap in by_chunk(runs):
            mine = self._bitmaps.get(chunk)
            if mine is None:
                self._bitmaps[chunk] = bitmap
            else:
                mine |= bitmap
            self.changed.add(chunk)

    def remove(self, runs: Iterable[tuple[int, int]]) -> None:
        for offset, rows in runs:
            for chunk in self._numbers(offset, offset + rows):
                self._remove(chunk, *inside(chunk, offset, offset + rows))

    def _remove(self, chunk: int, low: int, high: int) -> None:
        bitmap = self._bitmaps[chunk]
        before = len(bitmap)
        bitmap.remove_range(low, high)
        if len(bitmap) != before:
            self.changed.add(chunk)
        if not bitmap:
            del self._bitmaps[chunk]

    def drop_below(self, offset: int) -> None:
        """Forgets the members below the offset."""
        for chunk in self._numbers(0, offset):
            self._remove(chunk, *inside(chunk, 0, offset))

    # Looking

    def within(self, first: int, end: int) -> Offsets:
        """The members in [first, end), ascending."""
        found: list[Offsets] = []
        for chunk in self._numbers(first, end):
            wanted = self._bitmaps[chunk] & BitMap(range(*inside(chunk, first, end)))
            if wanted:
                found.append(np.asarray(wanted.to_array(), dtype=np.int64) + (chunk << CHUNK_BITS))
        return np.concatenate(found) if found else np.empty(0, dtype=np.int64)

    def any(self, first: int, end: int) -> bool:
        """Is an offset of [first, end) in the set?"""
        numbers = self._numbers(first, end)
        return any(self._bitmaps[chunk].range_cardinality(*inside(chunk, first, end)) for chunk in numbers)

    def count(self, first: int, end: int) -> int:
        """How many offsets of [first, end) are in the set."""
        return sum(self._bitmaps[chunk].range_cardinality(*inside(chunk, first, end)) for chunk in self._numbers(first, end))

    def of(self, offsets: Offsets) -> NDArray[np.bool_]:
        """Which of the ascending offsets are in the set."""
        if not len(offsets):
            return np.empty(0, np.bool_)
        members = self.within(int(offsets[0]), int(offsets[-1]) + 1)
        if not len(members):
            return np.zeros(len(offsets), np.bool_)
        return are_among(offsets, members)

    def also_in(self, other: OffsetSet) -> Offsets:
        """The members that the other set has too, ascending."""
        both = [(chunk, bitmap & other._bitmaps[chunk]) for chunk, bitmap in sorted(self._bitmaps.items()) if chunk in other._bitmaps]
        found = [np.asarray(bitmap.to_array(), dtype=np.int64) + (chunk << CHUNK_BITS) for chunk, bitmap in both if bitmap]
        return np.concatenate(found) if found else np.empty(0, dtype=np.int64)

    @property
    def first(self) -> int | None:
        """The smallest member."""
        if not self._bitmaps:
            return None
        chunk = min(self._bitmaps)
        return (chunk << CHUNK_BITS) + self._bitmaps[chunk].min()

    def __len__(self) -> int:
        return sum(map(len, self._bitmaps.values()))

    def _numbers(self, first: int, end: int) -> list[int]:
        """The chunks that there are in [first, end), ascending."""
        low, high = first >> CHUNK_BITS, (end - 1) >> CHUNK_BITS
        if high - low < len(self._bitmaps):
            return [chunk for chunk in range(low, high + 1) if chunk in self._bitmaps]
        return sorted(chunk for chunk in self._bitmaps if low <= chunk <= high)

    # At rest

    def copy(self, chunk: int) -> BitMap:
        """A chunk as it is now, whatever becomes of the set."""
        bitmap = self._bitmaps.get(chunk)
        return BitMap() if bitmap is None else bitmap.copy()

    def load(self, chunk: int, data: bytes) -> None:
        """A chunk as it was at rest. Raises ValueError for bytes that are none."""
        bitmap = BitMap.deserialize(data) if data else BitMap()
        if bitmap:
            self._bitmaps[chunk] = bitmap
        else:
            self._bitmaps.pop(chunk, None)

    def state(self) -> dict[int, bytes]:
        """The members, and not how a bitmap holds them: runs and single offsets may make the same
        set.
        """
        return {chunk: bitmap.to_array().tobytes() for chunk, bitmap in sorted(self._bitmaps.items())}


LONG_RUN = 128
"""Runs of so many rows on average are put into a bitmap as runs: their offsets, one by one, cost more."""


def runs_of(offsets: Offsets) -> list[tuple[int, int]]:
    """Runs of consecutive offsets, as (offset, rows)."""
    if not len(offsets):
        return []
    borders = np.concatenate(([0], np.flatnonzero(offsets[1:] - offsets[:-1] != 1) + 1, [len(offsets)]))
    return list(zip(offsets[borders[:-1]].tolist(), (borders[1:] - borders[:-1]).tolist(), strict=True))


def inside(chunk: int, first: int, end: int) -> tuple[int, int]:
    """The part of [first, end) that is in the chunk, counted from its beginning."""
    start = chunk << CHUNK_BITS
    return max(first - start, 0), min(end - start, 1 << CHUNK_BITS)


def by_chunk(runs: Iterable[tuple[int, int]]) -> Iterator[tuple[int, BitMap]]:
    """The offsets of some runs, a bitmap for each chunk that they touch."""
    runs = [run for run in runs if run[1] > 0]
    if len(runs) >= MANY_RUNS and sum([rows for _, rows in runs]) < LONG_RUN * len(runs):
        yield from _many_by_chunk(runs)
        return
    found: dict[int, BitMap] = {}
    for offset, rows in runs:
        for chunk in range(offset >> CHUNK_BITS, ((offset + rows - 1) >> CHUNK_BITS) + 1):
            found.setdefault(chunk, BitMap()).add_range(*inside(chunk, offset, offset + rows))
    yield from found.items()


def _many_by_chunk(runs: list[tuple[int, int]]) -> Iterator[tuple[int, BitMap]]:
    """The same with arrays: a hundred thousand runs, one by one, hold up the loop for a tenth of a
    second.
    """
    firsts, rows = np.array(runs, np.int64).T
    ends = np.cumsum(rows)
    offsets = np.repeat(firsts - ends + rows, rows) + np.arange(int(ends[-1]), dtype=np.int64)
    offsets.sort()
    chunks = offsets >> CHUNK_BITS
    starts = [0, *(np.flatnonzero(np.diff(chunks)) + 1).tolist(), len(offsets)]
    for low, high in itertools.pairwise(starts):
        chunk = int(chunks[low])
        yield chunk, BitMap(array("I", (offsets[low:high] - (chunk << CHUNK_BITS)).astype(np.uint32).tobytes()))
