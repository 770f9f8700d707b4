"""Messages recognised by the id that their caller gave: sorted arrays of (hash, offset), by time.

A lookup is a binary search of all the hashes of a batch at once in each run. A hit is only a candidate: two ids may share a hash, so the
partition asks for the stored id (that is I/O, a Lookup effect) before it calls anything a duplicate.

Each batch adds a run; neighbouring runs of similar size are merged, so there are about log2(n) of them, but a merged run never spans
more than an eighth of the window: old runs must fall out whole, as time passes, without being rewritten. "Time passes" means that later
messages arrive: the horizon is the last arrival less the window, which replay knows too. 16 bytes an id, nothing per id in Python.

Only rows that are not sealed are in here. The ids of the others are in the sections of their extents (`id_sections`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
Offsets = NDArray[np.int64]


class _Run(NamedTuple):
    hashes: Hashes
    offsets: Offsets
    oldest: int
    newest: int


class Hits(NamedTuple):
    """Rows of a batch whose hash is known, and the offset of each candidate. A row may come more than once."""

    rows: NDArray[np.int64]
    offsets: Offsets


NO_HITS = Hits(np.empty(0, np.int64), np.empty(0, np.int64))


class NaturalIds:
    """The ids of one partition within the deduplication window, as far as they are not sealed."""

    def __init__(self, window: int) -> None:
        self.window = window
        self._runs: list[_Run] = []

    def add(self, hashes: Hashes, offsets: Offsets, arrived: int) -> None:
        """Remembers the ids of a batch that arrived now."""
        order = np.argsort(hashes, kind="stable")
        self._runs.append(_Run(hashes[order], offsets[order], arrived, arrived))
        span = self.window // 8
        while len(self._runs) > 1:
            older, newer = self._runs[-2:]
            if len(older.hashes) > 2 * len(newer.hashes) or newer.newest - older.oldest > span:
                break
            self._runs[-2:] = [_merged(older, newer)]

    def find(self, hashes: Hashes) -> Hits:
        """The candidates for a batch."""
        rows: list[NDArray[np.int64]] = []
        offsets: list[Offsets] = []
        for run in self._runs:
            low = np.searchsorted(run.hashes, hashes, side="left")
            high = np.searchsorted(run.hashes, hashes, side="right")
            hit = np.flatnonzero(high > low)
            if len(hit):
                counts = high[hit] - low[hit]
                starts = np.repeat(low[hit] - np.concatenate(([0], np.cumsum(counts)[:-1])), counts)
                rows.append(np.repeat(hit, counts))
                offsets.append(run.offsets[starts + np.arange(len(starts))])
        if not rows:
            return Hits(np.empty(0, np.int64), np.empty(0, np.int64))
        return Hits(np.concatenate(rows), np.concatenate(offsets))

    def forget_before(self, horizon: int) -> None:
        """Drops the runs that are older than the window as a whole."""
        if self._runs and self._runs[0].newest < horizon:
            self._runs = [run for run in self._runs if run.newest >= horizon]

    def free(self, first: int, end: int) -> None:
        """Forgets the ids of the rows [first, end)."""
        kept: list[_Run] = []
        for run in self._runs:
            outside = (run.offsets < first) | (run.offsets >= end)
            if outside.all():
                kept.append(run)
            elif outside.any():
                kept.append(run._replace(hashes=run.hashes[outside], offsets=run.offsets[outside]))
        self._runs = kept

    def below(self, end: int) -> tuple[Hashes, Offsets]:
        """The ids of the rows before that offset: what is sealed with them."""
        parts = [(run.hashes[inside], run.offsets[inside]) for run in self._runs if (inside := run.offsets < end).any()]
        if not parts:
            return np.empty(0, np.uint64), np.empty(0, np.int64)
        return np.concatenate([hashes for hashes, _ in parts]), np.concatenate([offsets for _, offsets in parts])

    def __len__(self) -> int:
        return sum(len(run.hashes) for run in self._runs)

    def pairs(self) -> list[tuple[int, int]]:
        """All (offset, hash), by offset: for comparing live state with loaded state."""
        return sorted((int(o), int(h)) for run in self._runs for o, h in zip(run.offsets, run.hashes, strict=True))


def _merged(older: _Run, newer: _Run) -> _Run:
    hashes = np.concatenate((older.hashes, newer.hashes))
    order = np.argsort(hashes, kind="stable")
    return _Run(hashes[order], np.concatenate((older.offsets, newer.offsets))[order], older.oldest, newer.newest)
