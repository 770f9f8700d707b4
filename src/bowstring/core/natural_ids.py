"""Messages recognised by the id that their caller gave: sorted runs of (hash, offset), behind
sieves.

A lookup asks for all the hashes of a batch at once. Nearly all of them are strangers, and the sieve
tells so; what passes is searched for in the runs. A hit is only a candidate: two ids may share a
hash, so the partition asks for the stored id (that is I/O, a Lookup effect) before it calls
anything a duplicate.

Each batch adds a run; neighbouring runs are merged while they are small, so that single messages do
not make a run each. A generation is a sieve and the runs that it stands for. It does not grow: the
next one is eight times larger instead, up to two million ids.

14 bytes an id, nothing per id in Python. Nothing here takes longer than a few milliseconds, however
many ids there are; runs that were merged up to any size, and searched without a sieve, took 20 to
look for 10,000 ids among 2.5 million, and held up the loop when two large ones met.

Only rows that are not sealed are in here, and all of them: an id is known for as long as its
message is there, whatever the deduplication window. The ids of the others are in the sections of
their extents (`id_sections`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bowstring.core.sieve import Asked, Hashes, Sieve

Offsets = NDArray[np.int64]

CAPACITY_MIN = 1 << 9
CAPACITY_MAX = 1 << 21
GROWTH = 8
RUN_MAX = 1 << 17
"""Larger runs are not merged."""
DISTANCE_MAX = 1 << 32
"""Nor are those that lie further apart."""


class Hits(NamedTuple):
    """Rows of a batch whose hash is known, and the offset of each candidate. A row may come more
    than once.
    """

    rows: NDArray[np.int64]
    offsets: Offsets


NO_HITS = Hits(np.empty(0, np.int64), np.empty(0, np.int64))


class _Run(NamedTuple):
    """Sorted by hash. Its offsets are all in [first, end), and kept as distances from the first
    one.
    """

    hashes: Hashes
    distances: NDArray[np.uint32]
    first: int
    end: int

    @property
    def offsets(self) -> Offsets:
        return self.distances + np.int64(self.first)

    def find(self, hashes: Hashes, rows: NDArray[np.int64]) -> Hits | None:
        """These rows among the hashes, which are not sorted."""
        low = np.searchsorted(self.hashes, hashes[rows], side="left")
        known = self.hashes[np.minimum(low, len(self.hashes) - 1)] == hashes[rows]
        if not known.any():
            return None
        rows, low = rows[known], low[known]
        counts = np.searchsorted(self.hashes, hashes[rows], side="right") - low
        starts = np.repeat(low - np.concatenate(([0], np.cumsum(counts)[:-1])), counts)
        return Hits(np.repeat(rows, counts), self.distances[starts + np.arange(len(starts))] + np.int64(self.first))

    def without(self, first: int, end: int) -> _Run | None:
        """The rest without the rows [first, end)."""
        if end <= self.first or self.end <= first:
            return self
        offsets = self.offsets
        outside = (offsets < first) | (offsets >= end)
        return self._replace(hashes=self.hashes[outside], distances=self.distances[outside]) if outside.any() else None

    def part(self, part: int, bits: int, end: int) -> tuple[Hashes, Offsets]:
        """The entries before an offset whose hashes begin with these bits."""
        low, high = 0, len(self.hashes)
        if bits:
            low = int(np.searchsorted(self.hashes, np.uint64(part << 64 - bits)))
            high = int(np.searchsorted(self.hashes, np.uint64((part + 1 << 64 - bits) - 1), side="right"))
        hashes, offsets = self.hashes[low:high], self.distances[low:high] + np.int64(self.first)
        if end < self.end:
            inside = offsets < end
            return hashes[inside], offsets[inside]
        return hashes, offsets


class _Generation:
    """Runs behind one sieve."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.count = 0
        self.runs: list[_Run] = []
        self._sieve = Sieve(capacity)

    def add(self, run: _Run) -> None:
        self._sieve.add(run.hashes)
        self.count += len(run.hashes)
        self.runs.append(run)
        while len(self.runs) > 1:
            older, newer = self.runs[-2:]
            if len(older.hashes) > 2 * len(newer.hashes) or len(older.hashes) + len(newer.hashes) > RUN_MAX:
                break
            if newer.end - older.first > DISTANCE_MAX:
                break
            self.runs[-2:] = [_merged(older, newer)]

    def find(self, hashes: Hashes, asked: Asked) -> list[Hits]:
        rows = self._sieve.passing(asked)
        return [hits for run in self.runs if (hits := run.find(hashes, rows)) is not None] if len(rows) else []

    def free(self, first: int, end: int) -> None:
        self.runs = [left for run in self.runs if (left := run.without(first, end)) is not None]


class NaturalIds:
    """The ids of one partition, as far as they are not sealed."""

    def __init__(self) -> None:
        self._generations: list[_Generation] = []

    def add(self, hashes: Hashes, offsets: Offsets, order: NDArray[np.int64] | None = None) -> None:
        """Remembers the ids of a batch. Its offsets rise; `order` is that of its hashes."""
        last = self._generations[-1] if self._generations else None
        if last is None or last.count + len(hashes) > last.capacity:
            wanted = max(GROWTH * last.count if last is not None else 0, len(hashes))
            last = _Generation(max(min(wanted, CAPACITY_MAX), CAPACITY_MIN, len(hashes)))
            self._generations.append(last)
        order = np.argsort(hashes) if order is None else order
        first, end = int(offsets[0]), int(offsets[-1]) + 1
        last.add(_Run(hashes[order], (offsets[order] - first).astype(np.uint32), first, end))

    def find(self, hashes: Hashes) -> Hits:
        """The candidates for a batch."""
        asked = Asked.of(hashes) if self._generations else None
        found = [hits for generation in self._generations if asked is not None for hits in generation.find(hashes, asked)]
        if not found:
            return NO_HITS
        return Hits(np.concatenate([hits.rows for hits in found]), np.concatenate([hits.offsets for hits in found]))

    def free(self, first: int, end: int) -> None:
        """Forgets the ids of the rows [first, end)."""
        for generation in self._generations:
            generation.free(first, end)
        if any(not generation.runs for generation in self._generations):
            self._generations = [generation for generation in self._generations if generation.runs]

    def count_below(self, end: int) -> int:
        """How many ids there are before that offset, or some more."""
        return sum(len(run.hashes) for run in self._runs() if run.first < end)

    def part_below(self, end: int, part: int, bits: int) -> tuple[Hashes, Offsets]:
        """The ids of the rows before that offset whose hashes begin with these bits: what is sealed
        with them.
        """
        parts = [run.part(part, bits, end) for run in self._runs() if run.first < end]
        if not parts:
            return np.empty(0, np.uint64), np.empty(0, np.int64)
        return np.concatenate([hashes for hashes, _ in parts]), np.concatenate([offsets for _, offsets in parts])

    def pairs(self) -> list[tuple[int, int]]:
        """All (offset, hash), by offset: for comparing live state with loaded state."""
        hashes, offsets = self.part_below(1 << 62, 0, 0)
        return sorted(zip(offsets.tolist(), hashes.tolist(), strict=True))

    def _runs(self) -> list[_Run]:
        return [run for generation in self._generations for run in generation.runs]


def _merged(older: _Run, newer: _Run) -> _Run:
    """Offsets of the newer one are all behind those of the older one."""
    hashes = np.concatenate((older.hashes, newer.hashes))
    order = np.argsort(hashes, kind="stable")
    distances = np.concatenate((older.distances, newer.distances + np.uint32(newer.first - older.first)))
    return _Run(hashes[order], distances[order], older.first, newer.end)
