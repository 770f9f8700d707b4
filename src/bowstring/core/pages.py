"""Pages: the header that a page carries, and the index of a partition's committed pages.

A page's header says whose rows it holds. Offsets and the arrival time are not in it: they are the
catalog's, and the index here has them from the journal. The index is columns of numbers, sorted by
offset because offsets only rise. It holds the pages that are not sealed yet; those of an extent are
the same columns in a section of the store (`sections`).

Small pages that lie next to each other in the log are coalesced into one when they are sealed. Such
a page has several origins, each with its own arrival.
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
from bowstring.core.machine import NEVER


class Origin(NamedTuple):
    """Whose rows these are: `rows` consecutive ones, from row `first_row` of the producer's batch
    `number` on.
    """

    rows: int
    producer: bytes
    number: int
    first_row: int
    group: str
    arrived: int = 0
    """When they arrived; 0 in a page of one batch, where the index has it."""
    rest: int = 0
    """How many rows of the batch stand in the pages behind this one: 0 unless the page was cut when it was sealed."""


class PageHeader(msgspec.Struct, array_like=True, gc=False):
    """The header of a page."""

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
    written: int
    """The flush, or the piece of upkeep, that wrote its bytes: the frame says the same, and an
    inlined page is in that journal row.
    """
    columns: int
    arrived_last: int
    """When its last row arrived: another moment only in a coalesced page."""
    expires: int = 0
    """When the last of its rows expires; 0 if one of them does not."""
    due: int = 0
    """The latest due time among its rows; 0 if none has one."""
    visible: int = 0
    """The flush with which all of its rows could be seen. It stays what it is when the page is
    copied, so it never falls from page to page; 0 if the page was sealed before this was written
    down.
    """

    @property
    def end(self) -> int:
        """The first offset after the page."""
        return self.first_offset + self.rows


def entry_of(change: Append, sequence: int) -> PageEntry:
    """The page that a committed change has appended."""
    place = change.segment, change.position, change.length
    first, arrived = change.first_offset, change.arrived  # in order, because names cost as much again as all the rest of a replay
    return PageEntry(first, change.rows, arrived, *place, sequence, change.columns, arrived, change.expires, change.due, sequence)


PAGES_AT_ONCE = 256
LOST = -1
"""The segment of a page whose bytes were damaged in the journal: its offsets are known, its rows
are not.
"""


class PageIndex:
    """Pages of one partition, by offset. Those that were added last are kept as they came until a
    question needs them: a page goes into twelve columns, and one by one that is most of what
    replaying a journal costs.
    """

    def __init__(self) -> None:
        self._settled = [array("q") for _ in PageEntry._fields]
        self._added: list[PageEntry] = []
        """Pages that are not in the columns yet."""
        self.bytes = 0

    @staticmethod
    def of(columns: NDArray[np.int64]) -> PageIndex:
        """An index from its columns, one a row of the array."""
        index = PageIndex()
        for column, values in zip(index._settled, columns, strict=True):
            column.frombytes(values.tobytes())
        index.bytes = sum(index._lengths)
        return index

    def columns(self) -> NDArray[np.int64]:
        """All columns, one a row."""
        return np.array(self._columns, np.int64)

    def add(self, entry: PageEntry) -> None:
        """The next page. Pages are added in the order of their offsets, without a gap."""
        self._added.append(entry)
        self.bytes += entry.length
        if len(self._added) >= PAGES_AT_ONCE:
            self._settle()

    def _settle(self) -> None:
        added, self._added = self._added, []
        for column, values in zip(self._settled, zip(*added, strict=True), strict=True):
            column.extend(values)

    @property
    def _columns(self) -> list[array[int]]:
        if self._added:
            self._settle()
        return self._settled

    @property
    def _first_offsets(self) -> array[int]:
        return self._columns[0]

    @property
    def _lengths(self) -> array[int]:
        return self._columns[5]

    def drop_below(self, offset: int) -> None:
        """Drops the pages that end at the offset or before."""
        count = self.at(offset)
        if not count:
            return
        self.bytes -= int(np.array(self._lengths[:count], np.int64).sum())
        for column in self._columns:
            del column[:count]

    def __len__(self) -> int:
        return len(self._settled[0]) + len(self._added)

    def __getitem__(self, at: int) -> PageEntry:
        return PageEntry(*[column[at] for column in self._columns])

    @property
    def rows(self) -> int:
        """The rows of all pages."""
        return sum(self._columns[1])

    @property
    def start(self) -> int | None:
        """The offset that it begins with, None if there is no page."""
        firsts = self._settled[0]
        return firsts[0] if firsts else self._added[0].first_offset if self._added else None

    def at(self, offset: int) -> int:
        """The place of the page that holds the offset, or that of the first one after it."""
        firsts, rows = self._columns[:2]
        place = bisect_right(firsts, offset) - 1
        if place >= 0 and offset < firsts[place] + rows[place]:
            return place
        return place + 1

    def between(self, offset: int, end: int, bytes_max: int, pages_max: int) -> list[PageEntry]:
        """The pages from the one with the offset on that begin before `end`: about so many bytes,
        but at least one if there is any.
        """
        found: list[PageEntry] = []
        at, size, firsts = self.at(offset), 0, self._first_offsets
        while at < len(firsts) and len(found) < pages_max and (not found or size < bytes_max) and firsts[at] < end:
            found.append(self[at])
            size += found[-1].length
            at += 1
        return found

    def count_upto(self, sequence: int) -> int:
        """How many pages can be seen since that flush, or an earlier one."""
        return bisect_right(self._columns[11], sequence)

    def oldest_inlined(self) -> int:
        """The oldest journal row that has the bytes of one of these pages; NEVER if all are in
        segments.
        """
        if not len(self):
            return NEVER
        places, written = np.array(self._columns[3], np.int64), np.array(self._columns[6], np.int64)
        return int(written[places == 0].min(initial=NEVER))

    def upto(self, sequence: int) -> Iterator[PageEntry]:
        """The pages that can be seen since that flush, or an earlier one. There may be very many,
        so they are made as they are asked for; some may be added or dropped meanwhile.
        """
        count = self.count_upto(sequence)
        firsts = self._first_offsets
        offset, end = (firsts[0], firsts[count - 1] + 1) if count else (0, 0)
        while found := self.between(offset, end, 1 << 62, PAGES_AT_ONCE):
            yield from found
            offset = found[-1].end

    def arrived_before(self, moment: int) -> int:
        """How many pages, from the first on, have arrived before that moment as a whole."""
        return bisect_left(self._columns[8], moment)

    def since(self, moment: int) -> Iterable[PageEntry]:
        """The pages that arrived at that moment or later."""
        for at in range(bisect_right(self._columns[2], moment - 1), len(self)):
            yield self[at]

    def segments(self) -> dict[int, int]:
        """The segments that these pages are in, with their bytes there."""
        if not len(self):
            return {}
        places, lengths = np.array(self._columns[3], np.int64), np.array(self._lengths, np.int64)
        starts = np.concatenate(([0], np.flatnonzero(np.diff(places)) + 1))
        return segments(places[starts].tolist(), np.add.reduceat(lengths, starts).tolist())

    def check(self, end: int) -> None:
        """Pages follow each other without a gap up to `end`, and arrival never falls."""
        if not len(self):
            return
        firsts, rows, arrived = (np.array(column, np.int64) for column in self._columns[:3])
        ends = firsts + rows
        assert (ends[:-1] == firsts[1:]).all(), "a gap between pages"
        assert ends[-1] == end, f"the pages end at {ends[-1]}, the log at {end}"
        assert (np.diff(arrived) >= 0).all(), "arrival never falls"
        assert (np.diff(np.array(self._columns[11], np.int64)) >= 0).all(), "pages become visible in the order of their offsets"

    def state(self) -> list[PageEntry]:
        return [self[at] for at in range(len(self))]


def segments(places: Iterable[int], lengths: Iterable[int]) -> dict[int, int]:
    """Bytes by segment; those in the journal, and lost ones, are in none."""
    found: dict[int, int] = {}
    for segment, length in zip(places, lengths, strict=True):
        if segment > 0:
            found[segment] = found.get(segment, 0) + length
    return found
