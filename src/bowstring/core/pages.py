"""Pages: the header that a page carries, and the index of a partition's committed pages.

A page's header says whose rows it holds. Offsets and the arrival time are not in it: they are the catalog's, and the index here has
them from the journal. The index is columns of numbers, sorted by offset because offsets only rise. It holds the pages that are not
sealed yet; those of an extent are the same columns in a section of the store (`sections`).

Small pages that lie next to each other in the log are coalesced into one when they are sealed. Such a page has several origins, each with
its own arrival.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from bowstring.core.changes import Append


class Origin(NamedTuple):
    """Whose rows these are: `rows` consecutive ones, from row `first_row` of the producer's batch `number` on."""

    rows: int
    producer: bytes
    number: int
    first_row: int
    group: str
    arrived: int = 0
    """When they arrived; 0 in a page of one batch, where the index has it."""


class PageHeader(msgspec.Struct, array_like=True, gc=False):
    """What a page says of itself."""

    topic: int
    partition: int
    schema: int
    columns: int
    rows: int
    origins: tuple[Origin, ...]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(PageHeader)


def encode_header(header: PageHeader) -> bytes:
    return _encoder.encode(header)


def decode_header(data: bytes | memoryview) -> PageHeader:
    """Raises msgspec.DecodeError; it never does for a page's bytes whose checksum was right."""
    return _decoder.decode(data)


class PageEntry(NamedTuple):
    """One committed page: where its rows are in the log, and where its bytes are in the store."""

    first_offset: int
    rows: int
    arrived: int
    """When its first row arrived."""
    segment: int
    position: int
    length: int
    sequence: int
    columns: int
    arrived_last: int
    """When its last row arrived: another moment only in a coalesced page."""
    expires: int = 0
    """When the last of its rows expires; 0 if one of them does not."""
    due: int = 0
    """The latest due time among its rows; 0 if none has one."""

    @property
    def end(self) -> int:
        """The first offset after the page."""
        return self.first_offset + self.rows


def entry_of(change: Append, sequence: int) -> PageEntry:
    """The page that a committed change has appended."""
    return PageEntry(
        first_offset=change.first_offset,
        rows=change.rows,
        arrived=change.arrived,
        segment=change.segment,
        position=change.position,
        length=change.length,
        sequence=sequence,
        columns=change.columns,
        arrived_last=change.arrived,
        expires=change.expires,
        due=change.due,
    )


PAGES_AT_ONCE = 256
LOST = -1
"""The segment of a page whose bytes were damaged in the journal: its offsets are known, its rows are not."""


class PageIndex:
    """Pages of one partition, by offset."""

    def __init__(self) -> None:
        self._columns = [array("q") for _ in PageEntry._fields]
        self._first_offsets, self._rows, self._arrived, self._segments, _, self._lengths, self._sequences = self._columns[:7]
        self.bytes = 0

    @staticmethod
    def of(columns: NDArray[np.int64]) -> PageIndex:
        """An index from its columns, one a row of the array."""
        index = PageIndex()
        for column, values in zip(index._columns, columns, strict=True):
            column.frombytes(values.tobytes())
        index.bytes = sum(index._lengths)
        return index

    def columns(self) -> NDArray[np.int64]:
        """All columns, one a row."""
        return np.array(self._columns, np.int64)

    def add(self, entry: PageEntry) -> None:
        """The next page. Pages are added in the order of their offsets, without a gap."""
        for column, value in zip(self._columns, entry, strict=True):
            column.append(value)
        self.bytes += entry.length

    def drop_below(self, offset: int) -> None:
        """Drops the pages that end at the offset or before."""
        count = self.at(offset)
        self.bytes -= int(np.array(self._lengths[:count], np.int64).sum())
        for column in self._columns:
            del column[:count]

    def __len__(self) -> int:
        return len(self._first_offsets)

    def __getitem__(self, at: int) -> PageEntry:
        return PageEntry(*[column[at] for column in self._columns])

    @property
    def start(self) -> int | None:
        """The offset that it begins with, None if there is no page."""
        return self._first_offsets[0] if self._first_offsets else None

    def at(self, offset: int) -> int:
        """The place of the page that holds the offset, or that of the first one after it."""
        place = bisect_right(self._first_offsets, offset) - 1
        if place >= 0 and offset < self._first_offsets[place] + self._rows[place]:
            return place
        return place + 1

    def between(self, offset: int, end: int, bytes_max: int, pages_max: int) -> list[PageEntry]:
        """The pages from the one with the offset on that begin before `end`: about so many bytes, but at least one if there is any."""
        found: list[PageEntry] = []
        at, size = self.at(offset), 0
        while at < len(self) and len(found) < pages_max and (not found or size < bytes_max) and self._first_offsets[at] < end:
            found.append(self[at])
            size += found[-1].length
            at += 1
        return found

    def count_upto(self, sequence: int) -> int:
        """How many pages are of flushes up to that one."""
        return bisect_right(self._sequences, sequence)

    def upto(self, sequence: int) -> Iterator[PageEntry]:
        """The pages of flushes up to that one. There may be very many, so they are made as they are asked for; some may be added or dropped
        meanwhile."""
        count = self.count_upto(sequence)
        offset, end = (self._first_offsets[0], self._first_offsets[count - 1] + 1) if count else (0, 0)
        while found := self.between(offset, end, 1 << 62, PAGES_AT_ONCE):
            yield from found
            offset = found[-1].end

    def arrived_before(self, moment: int) -> int:
        """How many pages, from the first on, have arrived before that moment as a whole."""
        return bisect_left(self._columns[8], moment)

    def since(self, moment: int) -> Iterable[PageEntry]:
        """The pages that arrived at that moment or later."""
        for at in range(bisect_right(self._arrived, moment - 1), len(self)):
            yield self[at]

    def segments(self) -> dict[int, int]:
        """The segments that these pages are in, with their bytes there."""
        places, lengths = np.array(self._segments, np.int64), np.array(self._lengths, np.int64)
        if not len(places):
            return {}
        starts = np.concatenate(([0], np.flatnonzero(np.diff(places)) + 1))
        return segments(places[starts].tolist(), np.add.reduceat(lengths, starts).tolist())

    def check(self, end: int) -> None:
        """Pages follow each other without a gap up to `end`, and arrival never falls."""
        if not len(self):
            return
        firsts, rows = np.array(self._first_offsets, np.int64), np.array(self._rows, np.int64)
        ends = firsts + rows
        assert (ends[:-1] == firsts[1:]).all(), "a gap between pages"
        assert ends[-1] == end, f"the pages end at {ends[-1]}, the log at {end}"
        assert (np.diff(np.array(self._arrived, np.int64)) >= 0).all(), "arrival never falls"

    def state(self) -> list[PageEntry]:
        return [self[at] for at in range(len(self))]


def segments(places: Iterable[int], lengths: Iterable[int]) -> dict[int, int]:
    """Bytes by segment; those in the journal, and lost ones, are in none."""
    found: dict[int, int] = {}
    for segment, length in zip(places, lengths, strict=True):
        if segment > 0:
            found[segment] = found.get(segment, 0) + length
    return found
