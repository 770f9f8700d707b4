"""Sets of rows, as the ledger handles them.

`RowSet` is a value: a run of consecutive offsets, or bitmaps of them in chunks of 2^20. Most are
runs, and a run costs two numbers whatever its length. Nothing changes a set once it is made, so a
capture may keep it.

`RowPool` is a set that changes in place, by such values. It touches only the chunks that a value
touches, so a small value costs little however large the pool is.

In a change a set is `Spans`: how many offsets to skip, how many rows, how many to skip, and so on.
Neighbouring rows then cost two or three bytes a run.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from pyroaring import BitMap

from bowstring.core import offset_set
from bowstring.core.addresses import Runs, Spans
from bowstring.core.offset_set import LONG_RUN, Offsets, OffsetSet, runs_of

Chunks = Mapping[int, BitMap]

FEW_SPANS = 64
"""Fewer than these are read one by one: arrays cost more than they save."""


class SetSpans(tuple[int, ...]):
    """The spans of a set that is at hand: a change is applied where it was decided, and need not make
    the set again.
    """

    rows: RowSet


class RowSet:
    """Some rows, by their offsets."""

    __slots__ = ("_chunks", "first", "stop")

    def __init__(self, first: int, stop: int, chunks: Chunks | None = None) -> None:
        """All of [first, stop), or the members of the bitmaps, none of them empty."""
        self.first = first
        """The first row."""
        self.stop = stop
        """The offset behind the last row."""
        self._chunks = chunks

    @staticmethod
    def of_chunks(chunks: Chunks) -> RowSet:
        """The members of bitmaps that do not change from here on; those that are empty are left
        out.
        """
        chunks = {number: bitmap for number, bitmap in chunks.items() if bitmap}
        if not chunks:
            return NO_ROWS
        low, high = min(chunks), max(chunks)
        first = (low << offset_set.CHUNK_BITS) + chunks[low].min()
        stop = (high << offset_set.CHUNK_BITS) + chunks[high].max() + 1
        whole = sum(map(len, chunks.values())) == stop - first
        return RowSet(first, stop, None if whole else chunks)

    @staticmethod
    def of_runs(runs: Iterable[tuple[int, int]]) -> RowSet:
        """Runs of (offset, rows), in any order."""
        runs = [run for run in runs if run[1] > 0]
        if len(runs) == 1:
            return RowSet(runs[0][0], runs[0][0] + runs[0][1])
        return RowSet.of_chunks(dict(offset_set.by_chunk(runs)))

    @staticmethod
    def of_offsets(offsets: Offsets) -> RowSet:
        """Offsets in any order. They are sorted: `np.unique` hashes them, at a microsecond each."""
        offsets = np.sort(offsets)
        return RowSet._of_ascending(offsets[np.concatenate(([True], offsets[1:] != offsets[:-1]))] if len(offsets) else offsets)

    @staticmethod
    def of_lengths(firsts: Offsets, lengths: Offsets) -> RowSet:
        """Runs as arrays, in any order: the first offset of each, and how many rows it has, which is
        at least one.
        """
        offsets = (firsts - lengths.cumsum() + lengths).repeat(lengths)
        offsets += np.arange(len(offsets), dtype=np.int64)
        is_ascending = bool((firsts[1:] >= firsts[:-1] + lengths[:-1]).all())
        return RowSet._of_ascending(offsets) if is_ascending else RowSet.of_offsets(offsets)

    @staticmethod
    def of_spans(spans: Spans) -> RowSet:
        """What `spans` gave."""
        if len(spans) == 2:
            return RowSet(spans[0], spans[0] + spans[1])
        if isinstance(spans, SetSpans):
            return spans.rows
        if len(spans) < FEW_SPANS or sum(spans[1::2]) >= LONG_RUN * (len(spans) // 2):
            borders = list(itertools.accumulate(spans))
            return RowSet.of_runs(zip(borders[::2], spans[1::2], strict=True))
        differences = np.array(spans, np.int64)
        offsets = differences[::2].cumsum().repeat(differences[1::2])
        offsets += np.arange(len(offsets), dtype=np.int64)
        return RowSet._of_ascending(offsets)

    @staticmethod
    def _of_ascending(offsets: Offsets) -> RowSet:
        if not len(offsets):
            return NO_ROWS
        first, stop = int(offsets[0]), int(offsets[-1]) + 1
        if stop - first == len(offsets):
            return RowSet(first, stop)
        low, high = first >> offset_set.CHUNK_BITS, (stop - 1) >> offset_set.CHUNK_BITS
        places = array("I", (offsets & ((1 << offset_set.CHUNK_BITS) - 1)).astype(np.uint32).tobytes())
        if low == high:
            return RowSet(first, stop, {low: BitMap(places)})
        chunks = offsets >> offset_set.CHUNK_BITS
        begins = np.concatenate(([0], np.flatnonzero(chunks[1:] != chunks[:-1]) + 1))
        borders = itertools.pairwise([*begins.tolist(), len(offsets)])
        parts = zip(chunks[begins].tolist(), borders, strict=True)
        return RowSet(first, stop, {chunk: BitMap(places[begin:end]) for chunk, (begin, end) in parts})

    @staticmethod
    def union(sets: Iterable[RowSet]) -> RowSet:
        """All rows of several sets."""
        sets = [rows for rows in sets if rows.stop > rows.first]
        if len(sets) <= 1:
            return sets[0] if sets else NO_ROWS
        pool = RowPool()
        for first, stop in _merged([(rows.first, rows.stop) for rows in sets if rows._chunks is None]):
            pool.put(RowSet(first, stop))
        for rows in sets:
            if rows._chunks is not None:
                pool.put(rows)
        return RowSet.of_chunks(pool.release())

    @property
    def is_run(self) -> bool:
        """Whether the rows are consecutive."""
        return self._chunks is None

    @property
    def chunks(self) -> Chunks:
        """Bitmaps by their chunk. They belong to this set: change none of them."""
        if self._chunks is not None:
            return self._chunks
        return dict(offset_set.by_chunk([(self.first, self.stop - self.first)]))

    def __len__(self) -> int:
        return self.stop - self.first if self._chunks is None else sum(map(len, self._chunks.values()))

    def __bool__(self) -> bool:
        return self.stop > self.first

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowSet) and self.spans() == other.spans()

    def __hash__(self) -> int:
        return hash((self.first, self.stop))

    def __repr__(self) -> str:
        return f"RowSet{self.runs()}"

    def __and__(self, other: RowSet) -> RowSet:
        if self.stop <= other.first or other.stop <= self.first:
            return NO_ROWS
        if self._chunks is None and other._chunks is None:
            return RowSet(max(self.first, other.first), min(self.stop, other.stop))
        if other._covers(self):
            return self
        if self._covers(other):
            return other
        mine, others = self._clipped(other).chunks, other._clipped(self).chunks
        return RowSet.of_chunks({number: bitmap & others[number] for number, bitmap in mine.items() if number in others})

    def __sub__(self, other: RowSet) -> RowSet:
        if not self or self.stop <= other.first or other.stop <= self.first:
            return self
        if other._covers(self):
            return NO_ROWS
        if self._chunks is None and other._chunks is None and not self.first < other.first < other.stop < self.stop:
            return _one_side(self, other)
        others = other._clipped(self).chunks
        return RowSet.of_chunks({number: bitmap - others[number] if number in others else bitmap for number, bitmap in self.chunks.items()})

    def _covers(self, other: RowSet) -> bool:
        """Whether it is a run that the other set lies within."""
        return self._chunks is None and self.first <= other.first and other.stop <= self.stop

    def _clipped(self, other: RowSet) -> RowSet:
        """A run between the ends of the other set, which it overlaps: one to the end of time has too
        many chunks.
        """
        return self if self._chunks is not None else RowSet(max(self.first, other.first), min(self.stop, other.stop))

    def below(self, offset: int) -> RowSet:
        """The rows before the offset."""
        return self if self.stop <= offset else self & RowSet(self.first, offset) if self.first < offset else NO_ROWS

    def smallest(self, most: int) -> RowSet:
        """So many of the rows, the first ones, or all."""
        if len(self) <= most:
            return self
        return RowSet(self.first, self.first + most) if self._chunks is None else RowSet._of_ascending(self.offsets()[:most])

    def offsets(self) -> Offsets:
        """Ascending."""
        if self._chunks is None:
            return np.arange(self.first, self.stop, dtype=np.int64)
        if len(self._chunks) == 1:
            ((number, bitmap),) = self._chunks.items()
            return np.asarray(bitmap.to_array(), np.int64) + (number << offset_set.CHUNK_BITS)
        found, at = np.empty(len(self), np.int64), 0
        for number, bitmap in sorted(self._chunks.items()):  # one after the other: no more rows are in memory twice
            part = found[at : at + len(bitmap)]
            np.add(np.asarray(bitmap.to_array()), number << offset_set.CHUNK_BITS, out=part, dtype=np.int64)
            at += len(part)
        return found

    def runs(self) -> Runs:
        """As (offset, rows), ascending."""
        if self._chunks is None:
            return ((self.first, self.stop - self.first),) if self else ()
        return tuple(runs_of(self.offsets()))

    def spans(self) -> Spans:
        """As a change has them."""
        if self._chunks is None:
            return (self.first, self.stop - self.first) if self else ()
        parts = [_borders(bitmap, number) for number, bitmap in sorted(self._chunks.items())]
        borders = parts[0] if len(parts) == 1 else _joined(parts)
        spans = SetSpans((int(borders[0]), *(borders[1:] - borders[:-1]).tolist()))
        spans.rows = self
        return spans


NO_ROWS = RowSet(0, 0)


def _borders(bitmap: BitMap, chunk: int) -> Offsets:
    """Where the runs of a bitmap begin and where they end, in turn. The rows are not listed: millions of
    them may be a few runs.
    """
    behind = bitmap.shift(1)
    firsts = np.asarray((bitmap - behind).to_array(), np.int64)
    found = np.empty(2 * len(firsts), np.int64)
    found[::2], found[1::2] = firsts, np.asarray((behind - bitmap).to_array(), np.int64)
    return found + (chunk << offset_set.CHUNK_BITS)


def _joined(parts: list[Offsets]) -> Offsets:
    """The borders of chunks that follow each other: a run may go on from one into the next."""
    borders = np.concatenate(parts)
    goes_on = borders[1:-1:2] == borders[2::2]
    inner = np.repeat(~goes_on, 2)
    return np.concatenate((borders[:1], borders[1:-1][inner], borders[-1:]))


def _merged(runs: list[tuple[int, int]]) -> Iterable[tuple[int, int]]:
    """Runs as (first, stop), with neighbours made one: ten thousand leases of consecutive rows are
    one run.
    """
    if len(runs) < 2:
        return runs
    firsts, stops = np.array(sorted(runs), np.int64).T
    reached = np.maximum.accumulate(stops)
    breaks = np.flatnonzero(firsts[1:] > reached[:-1])
    begins, ends = firsts[np.concatenate(([0], breaks + 1))], reached[np.concatenate((breaks, [len(reached) - 1]))]
    return zip(begins.tolist(), ends.tolist(), strict=True)


def _one_side(rows: RowSet, other: RowSet) -> RowSet:
    """A run less another that does not lie within it."""
    if other.first <= rows.first:
        return RowSet(other.stop, rows.stop) if other.stop < rows.stop else NO_ROWS
    return RowSet(rows.first, other.first)


class RowPool(OffsetSet):
    """A set that changes by row sets."""

    def put(self, rows: RowSet) -> None:
        """These are members from here on."""
        if rows.is_run:
            self._put_run(rows.first, rows.stop)
            return
        for chunk, bitmap in rows.chunks.items():
            mine = self._bitmaps.get(chunk)
            if mine is None:
                self._bitmaps[chunk] = bitmap.copy()
            else:
                mine |= bitmap
            self.changed.add(chunk)

    def _put_run(self, first: int, stop: int) -> None:
        for chunk in range(first >> offset_set.CHUNK_BITS, ((stop - 1) >> offset_set.CHUNK_BITS) + 1):
            mine = self._bitmaps.get(chunk)
            if mine is None:
                mine = self._bitmaps[chunk] = BitMap()
            mine.add_range(*offset_set.inside(chunk, first, stop))
            self.changed.add(chunk)

    def take_out(self, rows: RowSet) -> None:
        """These are no members from here on."""
        if rows.is_run:
            self.remove(((rows.first, rows.stop - rows.first),))
            return
        for chunk in rows.chunks.keys() & self._bitmaps.keys():
            mine = self._bitmaps[chunk]
            mine -= rows.chunks[chunk]
            self.changed.add(chunk)
            if not mine:
                del self._bitmaps[chunk]

    def among(self, rows: RowSet) -> RowSet:
        """Those of the rows that are members."""
        if not self._bitmaps or not rows:
            return NO_ROWS
        chunks = rows.chunks
        return RowSet.of_chunks({chunk: bitmap & self._bitmaps[chunk] for chunk, bitmap in chunks.items() if chunk in self._bitmaps})

    def release(self) -> Chunks:
        """Its bitmaps, which belong to the caller from here on."""
        bitmaps, self._bitmaps = self._bitmaps, {}
        return bitmaps

    def rows(self) -> RowSet:
        """All members, as they are now."""
        return RowSet.of_chunks({chunk: bitmap.copy() for chunk, bitmap in self._bitmaps.items()})

    def smallest(self, most: int) -> RowSet:
        """So many of the smallest members, or all."""
        found: dict[int, BitMap] = {}
        for chunk in sorted(self._bitmaps):
            bitmap = self._bitmaps[chunk]
            if len(bitmap) > most:
                if most:
                    found[chunk] = bitmap[:most]
                break
            found[chunk] = bitmap.copy()
            most -= len(bitmap)
        return RowSet.of_chunks(found)

    def first_missing(self, offset: int) -> int:
        """The first offset from there on that is no member."""
        size = 1 << offset_set.CHUNK_BITS
        while (bitmap := self._bitmaps.get(offset >> offset_set.CHUNK_BITS)) is not None:
            start, low = offset & -size, offset & (size - 1)
            end = _end_of_run(bitmap, low, size)
            if end < size:
                return start + end
            offset = start + size
        return offset

    @property
    def is_empty(self) -> bool:
        return not self._bitmaps

    def chunk_numbers(self) -> Iterator[int]:
        """The chunks that have members."""
        return iter(self._bitmaps)


def _end_of_run(bitmap: BitMap, low: int, size: int) -> int:
    """Where the run of members ends that begins at `low`; `low` itself if it is none. Leaps of
    doubling length find it, then halving ones.
    """
    step = 1
    while low < size and bitmap.contains_range(low, min(low + step, size)):
        low, step = min(low + step, size), step * 2
    while step > 1 and low < size:
        step //= 2
        if bitmap.contains_range(low, min(low + step, size)):
            low = min(low + step, size)
    return low
