"""Pages: the header that a page carries, and the index of a partition's committed pages.

A page's header says whose rows it holds. Offsets and the arrival time are not in it: they are the catalog's, and the index here has
them from the journal. The index is columns of numbers, 64 bytes a page, sorted by offset because offsets only rise.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray


class Origin(NamedTuple):
    """Whose rows these are: `rows` consecutive ones, from row `first_row` of the producer's batch `number` on."""

    rows: int
    producer: bytes
    number: int
    first_row: int
    group: str


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
    """Raises msgspec.DecodeError; it never does for bytes whose checksum was right."""
    return _decoder.decode(data)


class PageEntry(NamedTuple):
    """One committed page: where its rows are in the log, and where its bytes are in the store."""

    first_offset: int
    rows: int
    arrived: int
    segment: int
    position: int
    length: int
    sequence: int
    columns: int

    @property
    def end(self) -> int:
        """The first offset after the page."""
        return self.first_offset + self.rows


class PageIndex:
    """The committed pages of one partition, by offset."""

    def __init__(self) -> None:
        self._first_offsets = array("q")
        self._rows = array("q")
        self._arrived = array("q")
        self._segments = array("q")
        self._positions = array("q")
        self._lengths = array("q")
        self._sequences = array("q")
        self._columns = array("q")
        self.bytes = 0

    def add(self, entry: PageEntry) -> None:
        """The next page. Pages are added in the order of their offsets, without a gap."""
        self._first_offsets.append(entry.first_offset)
        self._rows.append(entry.rows)
        self._arrived.append(entry.arrived)
        self._segments.append(entry.segment)
        self._positions.append(entry.position)
        self._lengths.append(entry.length)
        self._sequences.append(entry.sequence)
        self._columns.append(entry.columns)
        self.bytes += entry.length

    def __len__(self) -> int:
        return len(self._first_offsets)

    def __getitem__(self, at: int) -> PageEntry:
        return PageEntry(
            self._first_offsets[at],
            self._rows[at],
            self._arrived[at],
            self._segments[at],
            self._positions[at],
            self._lengths[at],
            self._sequences[at],
            self._columns[at],
        )

    def at(self, offset: int) -> int:
        """The place of the page that holds the offset, or that of the first one after it."""
        place = bisect_right(self._first_offsets, offset) - 1
        if place >= 0 and offset < self._first_offsets[place] + self._rows[place]:
            return place
        return place + 1

    def arrived(self, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """When the messages of these offsets arrived."""
        places = np.searchsorted(np.frombuffer(self._first_offsets, np.int64), offsets, side="right") - 1
        return np.frombuffer(self._arrived, np.int64)[places]

    def since(self, moment: int) -> Iterable[PageEntry]:
        """The pages that arrived at that moment or later."""
        for at in range(bisect_right(self._arrived, moment - 1), len(self)):
            yield self[at]

    def segments(self) -> dict[int, int]:
        """The segments that this partition's pages are in, with their bytes there."""
        found: dict[int, int] = {}
        for segment, length in zip(self._segments, self._lengths, strict=True):
            found[segment] = found.get(segment, 0) + length
        found.pop(0, None)
        return found

    def check(self, end: int) -> None:
        """Pages follow each other without a gap from offset 1 to `end`, and arrival never falls."""
        firsts, rows = np.array(self._first_offsets, np.int64), np.array(self._rows, np.int64)
        ends = np.concatenate(([1], firsts + rows))
        assert (ends[:-1] == firsts).all(), "a gap between pages"
        assert ends[-1] == end, f"the pages end at {ends[-1]}, the log at {end}"
        assert (np.diff(np.array(self._arrived, np.int64)) >= 0).all(), "arrival never falls"

    def state(self) -> list[PageEntry]:
        return [self[at] for at in range(len(self))]
