"""Due times at rest: the rows of an extent that have one, sorted by it.

A section of kind "due" belongs to an extent that has such rows. Its entries are (due time, offset),
in that order, in blocks of their own; the section itself is their directory: the first due time of
each block, and the last of all. To find the rows that are due in some span of time, one reads the
blocks of that span and nothing else. Users are retention, which keeps a row below the floor until
its time has come and no longer, and later a cursor that walks rows in the order of their due times.

    due        first due times of the blocks | the latest due time | where the blocks are
    due-block  due times | distances from the extent's first offset

A row whose page cannot be read at seal stands here with the latest due time of its page: it is kept
for as long as any row of the page may have to be. The section says how many pages these are, because
what is found damaged may be whole the next time: whoever tells when rows are due asks the pages then.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bowstring.core.id_sections import BlockPlace
from bowstring.core.sections import SectionHeader, UnreadableSection

DUE_BLOCK_ENTRIES = 4096
"""48 KiB on the disk."""

Moments = NDArray[np.int64]
Offsets = NDArray[np.int64]


class Dues(NamedTuple):
    """Rows with a due time, sorted by it and then by offset."""

    moments: Moments
    offsets: Offsets

    def from_horizon(self, horizon: int) -> Dues:
        """The rows that are due at that moment or later."""
        return self._part(int(np.searchsorted(self.moments, horizon)), len(self.moments))

    def released_before(self, since: int, horizon: int) -> Dues:
        """The rows that are due in [since, horizon): kept at the one horizon, and at the other no
        longer.
        """
        low, high = np.searchsorted(self.moments, (since, max(since, horizon))).tolist()
        return self._part(low, high)

    def _part(self, low: int, high: int) -> Dues:
        return Dues(self.moments[low:high], self.offsets[low:high])

    def inside(self, spans: Sequence[tuple[int, int]]) -> Dues:
        """The rows with an offset in one of the spans, which are ascending: those whose pages are still there."""
        if not len(self.moments) or not spans:
            return NO_DUES
        firsts, ends = np.array(spans, np.int64).T
        places = np.searchsorted(firsts, self.offsets, side="right") - 1
        there = (places >= 0) & (self.offsets < ends[places])
        return Dues(self.moments[there], self.offsets[there])

    @property
    def earliest(self) -> int | None:
        return int(self.moments[0]) if len(self.moments) else None

    @property
    def bytes(self) -> int:
        return self.moments.nbytes + self.offsets.nbytes


NO_DUES = Dues(np.empty(0, np.int64), np.empty(0, np.int64))


def dues_of(moments: Moments, offsets: Offsets) -> Dues:
    """Rows in the order of their offsets; a due time of 0 means none."""
    has_due = moments != 0
    return _sorted(moments[has_due], offsets[has_due])


def joined(parts: Sequence[Dues]) -> Dues:
    """All rows of several, which are given in the order of their offsets."""
    if len(parts) <= 1:
        return parts[0] if parts else NO_DUES
    return _sorted(np.concatenate([part.moments for part in parts]), np.concatenate([part.offsets for part in parts]))


def _sorted(moments: Moments, offsets: Offsets) -> Dues:
    """A stable sort keeps offsets in their order, and merges what is sorted already."""
    order = np.argsort(moments, kind="stable")
    return Dues(moments[order], offsets[order])


def blocks_of(dues: Dues) -> list[Dues]:
    """The rows cut into blocks, in their order."""
    starts = range(0, len(dues.moments), DUE_BLOCK_ENTRIES)
    return [Dues(dues.moments[at : at + DUE_BLOCK_ENTRIES], dues.offsets[at : at + DUE_BLOCK_ENTRIES]) for at in starts]


class DueDirectory(NamedTuple):
    """Which block has which due times."""

    firsts: list[int]
    """The first due time of each block."""
    latest: int
    places: list[BlockPlace]
    guesses: int = 0
    """So many pages of the extent could not be read: their rows stand here with a guess."""
    rows: int = 0
    """How many rows stand here."""

    @property
    def earliest(self) -> int:
        return self.firsts[0]

    def from_horizon(self, horizon: int) -> range:
        """The blocks with rows that are due at that moment or later, or that may have some."""
        return range(max(bisect_left(self.firsts, horizon) - 1, 0), len(self.firsts)) if horizon <= self.latest else range(0)

    def released_before(self, since: int, horizon: int) -> range:
        """The blocks that may have rows that are due in [since, horizon)."""
        if since > self.latest or since >= horizon:
            return range(0)
        return range(max(bisect_left(self.firsts, since) - 1, 0), bisect_left(self.firsts, horizon))


def encode_due_block(block: Dues, first_offset: int) -> bytes:
    return block.moments.astype("<i8").tobytes() + (block.offsets - first_offset).astype("<u4").tobytes()


def decode_due_block(header: SectionHeader, body: memoryview) -> Dues:
    """The rows of a block. Raises UnreadableSection."""
    if len(body) != 12 * header.count:
        raise UnreadableSection(f"a block of {header.count} due times has {len(body)} bytes")
    at = 8 * header.count
    distances = np.frombuffer(body[at:], np.dtype("<u4"))
    return Dues(np.frombuffer(body[:at], np.dtype("<i8")).astype(np.int64), distances.astype(np.int64) + header.first_offset)


def encode_due_directory(blocks: Sequence[Dues], places: Sequence[BlockPlace]) -> bytes:
    """The directory of blocks that have been placed."""
    moments = [int(block.moments[0]) for block in blocks] + [int(blocks[-1].moments[-1])]
    return np.array(moments, np.dtype("<i8")).tobytes() + np.array(places, np.dtype("<i8")).tobytes()


def decode_due_directory(header: SectionHeader, body: memoryview) -> DueDirectory:
    """Raises UnreadableSection."""
    count = -(-header.count // DUE_BLOCK_ENTRIES)
    if not count or len(body) != 8 * (4 * count + 1):
        raise UnreadableSection(f"a directory of {header.count} due times has {len(body)} bytes")
    numbers = np.frombuffer(body, np.dtype("<i8"))
    places = [BlockPlace(*place) for place in numbers[count + 1 :].reshape(-1, 3).tolist()]
    return DueDirectory(numbers[:count].tolist(), int(numbers[count]), places, header.detail, header.count)
