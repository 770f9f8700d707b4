"""Rows whose owner has given them another due time than the one that they were published with.

A page never changes, and neither do the due times that a seal has written. So what was moved stands
here, as offsets with their due times, and whatever asks for a due time looks here first. A row stays
until it is gone: deleted, or taken by retention. At most `limits.MOVED_MAX` rows of a partition are
moved at a time, which are 16 bytes each in memory and at rest; a move beyond that is refused.

At rest these are chunks of 2^16 offsets. The last change of an offset decides, so a chunk may be newer
than the head that its partition is loaded from (`offset_set`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator

import msgspec
import numpy as np
from numpy.typing import NDArray

from bowstring.core.addresses import Runs
from bowstring.core.changes import Reschedule
from bowstring.core.deletions import Encode
from bowstring.core.due_blocks import NO_DUES, Dues, Moments, Offsets
from bowstring.core.machine import NEVER, Machine

MOVED_CHUNK_BITS = 16

_NOTHING = np.empty(0, np.int64)


class MovedRows(Machine[Reschedule, dict[int, bytes]]):
    """The moved rows of one partition."""

    def __init__(self) -> None:
        self._chunks: dict[int, tuple[Offsets, Moments]] = {}
        """Ascending offsets, with their due times."""
        self._count = 0
        self.changed: set[int] = set()
        """Chunks that the catalog does not have as they are here."""
        self.version = 0
        """How often something has changed since it was loaded."""

    # Changing

    def apply(self, change: Reschedule) -> None:
        moved = np.concatenate([np.arange(offset, offset + rows, dtype=np.int64) for offset, rows in change.runs])
        for chunk, offsets in _by_chunk(moved):
            known, moments = self._chunks.get(chunk, (_NOTHING, _NOTHING))
            others = ~np.isin(known, offsets)
            together = np.concatenate((known[others], offsets))
            dues = np.concatenate((moments[others], np.full(len(offsets), change.due, np.int64)))
            order = np.argsort(together)
            self._put(chunk, together[order], dues[order])

    def remove(self, runs: Runs) -> None:
        """These rows are deleted."""
        for offset, rows in runs if self._chunks else ():
            self._leave(offset, offset + rows, lambda offsets, low=offset, end=offset + rows: (offsets < low) | (offsets >= end))

    def retain(self, floor: int, retained: Callable[[Offsets], Offsets]) -> None:
        """Retention has come to the floor: below it only these are left."""
        if self._chunks:
            self._leave(0, floor, lambda offsets: np.isin(offsets, retained(offsets)))

    def _leave(self, first: int, end: int, stays: Callable[[Offsets], NDArray[np.bool_]]) -> None:
        for chunk in self._numbers(first, end):
            offsets, moments = self._chunks[chunk]
            left = stays(offsets)
            if not left.all():
                self._put(chunk, offsets[left], moments[left])

    def _put(self, chunk: int, offsets: Offsets, moments: Moments) -> None:
        self._count += len(offsets) - len(self._chunks.get(chunk, (_NOTHING, _NOTHING))[0])
        if len(offsets):
            self._chunks[chunk] = offsets, moments
        else:
            self._chunks.pop(chunk, None)
        self.changed.add(chunk)
        self.version += 1

    # Looking

    def __len__(self) -> int:
        return self._count

    def within(self, first: int, end: int) -> tuple[Offsets, Moments]:
        """The moved rows in [first, end), ascending, and when they are due."""
        parts = [self._chunks[chunk] for chunk in self._numbers(first, end)]
        if not parts:
            return _NOTHING, _NOTHING
        offsets, moments = np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
        low, high = np.searchsorted(offsets, (first, end)).tolist()
        return offsets[low:high], moments[low:high]

    def any(self, first: int, end: int) -> bool:
        """Is a row of [first, end) moved?"""
        return self._count > 0 and len(self.within(first, end)[0]) > 0

    def due_of(self, offset: int, otherwise: int = 0) -> int:
        """When a row is due; `otherwise` if it is not moved."""
        moments = self.within(offset, offset + 1)[1] if self._count else _NOTHING
        return int(moments[0]) if len(moments) else otherwise

    def due_between(self, since: int, horizon: int, first: int = 0, end: int = NEVER) -> Dues:
        """The moved rows of [first, end) that are due in [since, horizon)."""
        offsets, moments = self.within(first, end)
        wanted = (moments >= since) & (moments < horizon)
        if not wanted.any():
            return NO_DUES
        offsets, moments = offsets[wanted], moments[wanted]
        order = np.argsort(moments, kind="stable")
        return Dues(moments[order], offsets[order])

    def unmoved(self, stored: Dues) -> Dues:
        """Those of the rows, as they are stored, that are not moved."""
        if not self._count or not len(stored.offsets):
            return stored
        first, end = int(stored.offsets.min()), int(stored.offsets.max()) + 1
        there = ~np.isin(stored.offsets, self.within(first, end)[0])
        return Dues(stored.moments[there], stored.offsets[there])

    def present(self, stored: Dues) -> Dues:
        """The same rows, each with the due time that it has now; they are sorted no more."""
        if not self._count or not len(stored.offsets):
            return stored
        offsets, moments = self.within(int(stored.offsets.min()), int(stored.offsets.max()) + 1)
        if not len(offsets):
            return stored
        places = np.minimum(np.searchsorted(offsets, stored.offsets), len(offsets) - 1)
        return Dues(np.where(offsets[places] == stored.offsets, moments[places], stored.moments), stored.offsets)

    def _numbers(self, first: int, end: int) -> list[int]:
        low, high = first >> MOVED_CHUNK_BITS, (end - 1) >> MOVED_CHUNK_BITS
        return sorted(chunk for chunk in self._chunks if low <= chunk <= high)

    # At rest

    def capture(self) -> dict[int, Encode]:
        """The chunks that have changed, as they are now. They count as written from here on."""
        numbers, self.changed = sorted(self.changed), set()
        return {number: self._captured(number) for number in numbers}

    def _captured(self, number: int) -> Encode:
        rows = self._chunks.get(number)
        return lambda: b"" if rows is None else msgspec.msgpack.encode([part.astype("<i8").tobytes() for part in rows])

    def mark_changed(self, numbers: Iterable[int]) -> None:
        """These chunks were captured, and could not be written."""
        self.changed.update(numbers)

    def snapshot(self) -> dict[int, bytes]:
        """All chunks by their numbers; a seal writes only those that `capture` gives."""
        return {number: self._captured(number)() for number in self._chunks}

    def restore(self, parts: dict[int, bytes]) -> None:
        for number, data in parts.items():
            self.load(number, data)

    def load(self, number: int, data: bytes) -> None:
        """A chunk as it was at rest. Raises DecodeError or ValueError."""
        if data:
            parts = msgspec.msgpack.decode(data, type=tuple[bytes, bytes])
            offsets, moments = (np.frombuffer(part, "<i8").astype(np.int64) for part in parts)
            if len(offsets) != len(moments) or (np.diff(offsets) <= 0).any():
                raise ValueError("moved rows do not ascend")
            self._put(number, offsets, moments)
            self.changed.discard(number)

    def state(self) -> object:
        """Everything, in a form that can be compared."""
        return {number: (offsets.tolist(), moments.tolist()) for number, (offsets, moments) in sorted(self._chunks.items())}

    def check(self) -> None:
        assert self._count == sum(len(offsets) for offsets, _ in self._chunks.values())
        for number, (offsets, _) in self._chunks.items():
            assert (offsets >> MOVED_CHUNK_BITS == number).all()
            assert (np.diff(offsets) > 0).all()


def _by_chunk(offsets: Offsets) -> Iterator[tuple[int, Offsets]]:
    """Ascending offsets, divided by chunks."""
    chunks = offsets >> MOVED_CHUNK_BITS
    starts = np.concatenate(([0], np.flatnonzero(np.diff(chunks)) + 1, [len(offsets)])).tolist()
    for low, high in itertools.pairwise(starts):
        yield int(chunks[low]), offsets[low:high]
