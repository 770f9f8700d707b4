"""Which rows are gone: bitmaps in chunks of 2^20 offsets, so that a seal writes only the chunks that changed.

Two kinds are told apart. Every deleted row is in `_gone` and is delivered to nobody; a freed one is in `_freed` too, and its id may be
published again.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import msgspec
import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

CHUNK_BITS = 20
_CHUNK = 1 << CHUNK_BITS

Runs = Iterable[tuple[int, int]]


class _Chunks:
    """A set of offsets."""

    def __init__(self) -> None:
        self._bitmaps: dict[int, BitMap] = {}

    def add(self, first: int, end: int) -> None:
        while first < end:
            chunk, low = first >> CHUNK_BITS, first & (_CHUNK - 1)
            high = min(end - (chunk << CHUNK_BITS), _CHUNK)
            self._bitmaps.setdefault(chunk, BitMap()).add_range(low, high)
            first = (chunk << CHUNK_BITS) + high

    def within(self, first: int, end: int) -> NDArray[np.int64]:
        """The members in [first, end), ascending."""
        found: list[NDArray[np.int64]] = []
        for chunk in range(first >> CHUNK_BITS, ((end - 1) >> CHUNK_BITS) + 1):
            bitmap = self._bitmaps.get(chunk)
            if bitmap is None:
                continue
            start = chunk << CHUNK_BITS
            wanted = bitmap & BitMap(range(max(first - start, 0), min(end - start, _CHUNK)))
            if wanted:
                found.append(np.asarray(wanted.to_array(), dtype=np.int64) + start)
        return np.concatenate(found) if found else np.empty(0, dtype=np.int64)

    def any(self, first: int, end: int) -> bool:
        for chunk in range(first >> CHUNK_BITS, ((end - 1) >> CHUNK_BITS) + 1):
            bitmap = self._bitmaps.get(chunk)
            start = chunk << CHUNK_BITS
            if bitmap is not None and bitmap.range_cardinality(max(first - start, 0), min(end - start, _CHUNK)):
                return True
        return False

    def drop_below(self, offset: int) -> list[int]:
        """Forgets the members below the offset. Gives the chunks that changed."""
        changed: list[int] = []
        last, low = offset >> CHUNK_BITS, offset & (_CHUNK - 1)
        for chunk in [chunk for chunk in self._bitmaps if chunk <= last]:
            bitmap = self._bitmaps[chunk]
            before = len(bitmap)
            bitmap.remove_range(0, low if chunk == last else _CHUNK)
            if len(bitmap) != before:
                changed.append(chunk)
            if not bitmap:
                del self._bitmaps[chunk]
        return changed

    def chunk(self, number: int) -> bytes:
        bitmap = self._bitmaps.get(number)
        return b"" if bitmap is None else bitmap.serialize()

    def load(self, number: int, data: bytes) -> None:
        if data:
            self._bitmaps[number] = BitMap.deserialize(data)

    def __len__(self) -> int:
        return sum(len(bitmap) for bitmap in self._bitmaps.values())

    def state(self) -> dict[int, bytes]:
        """The members, and not how a bitmap holds them: the same set may have been made from runs or one by one."""
        return {chunk: bitmap.to_array().tobytes() for chunk, bitmap in sorted(self._bitmaps.items())}


class Deletions:
    """The deleted rows of one partition."""

    def __init__(self) -> None:
        self._gone = _Chunks()
        self._freed = _Chunks()
        self.changed: set[int] = set()
        """Chunks that are not in the catalog as they are here."""

    def add(self, runs: Runs, *, freed: bool) -> None:
        """Marks runs of (offset, rows) as deleted."""
        for offset, rows in runs:
            self._gone.add(offset, offset + rows)
            if freed:
                self._freed.add(offset, offset + rows)
            self.changed.update(range(offset >> CHUNK_BITS, (offset + rows - 1 >> CHUNK_BITS) + 1))

    def drop_below(self, offset: int) -> None:
        """Rows below the offset are gone for another reason: nobody asks for them any more."""
        self.changed.update(self._gone.drop_below(offset), self._freed.drop_below(offset))

    def chunk(self, number: int) -> bytes:
        """A chunk at rest, empty if nothing in it is deleted."""
        gone, freed = self._gone.chunk(number), self._freed.chunk(number)
        return msgspec.msgpack.encode((gone, freed)) if gone or freed else b""

    def load(self, number: int, data: bytes) -> None:
        """A chunk as it was at rest."""
        gone, freed = msgspec.msgpack.decode(data, type=tuple[bytes, bytes])
        self._gone.load(number, gone)
        self._freed.load(number, freed)

    def any(self, first: int, end: int) -> bool:
        """Is a row of [first, end) deleted?"""
        return self._gone.any(first, end)

    def live(self, first: int, end: int) -> NDArray[np.int64]:
        """The offsets of [first, end) that are not deleted, ascending."""
        return np.setdiff1d(np.arange(first, end, dtype=np.int64), self._gone.within(first, end), assume_unique=True)

    def between(self, first: int, end: int) -> NDArray[np.int64]:
        """The deleted offsets of [first, end), ascending."""
        return self._gone.within(first, end)

    def freed(self, first: int, end: int) -> NDArray[np.int64]:
        """The offsets of [first, end) whose ids are free again."""
        return self._freed.within(first, end)

    def is_gone(self, offset: int) -> bool:
        return self._gone.any(offset, offset + 1)

    def is_freed(self, offset: int) -> bool:
        return self._freed.any(offset, offset + 1)

    def __len__(self) -> int:
        return len(self._gone)

    def state(self) -> object:
        """Everything, in a form that can be compared."""
        return self._gone.state(), self._freed.state()


def runs_of(offsets: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Runs of consecutive offsets, as (offset, rows)."""
    if not len(offsets):
        return []
    starts = np.concatenate(([0], np.flatnonzero(np.diff(offsets) != 1) + 1, [len(offsets)]))
    return [(int(offsets[a]), int(b - a)) for a, b in itertools.pairwise(starts)]
