"""The head of a batch, whose metadata may be written in only one way.

A batch travels as Arrow's encapsulated record-batch message: a marker, the length of the metadata,
the metadata (a flatbuffer), and the body, which is the columns' buffers one after the other, each
padded with zeros to 8 bytes.

A flatbuffer can say the same thing in many ways. We allow one, byte by byte what pyarrow writes,
because then *checking is writing*: take the buffer lengths and null counts out of a foreign head,
write the head that belongs to them, and compare. Equal means that the buffers stand in order, do
not overlap, leave no gap but the padding, and that nothing else is hidden in there (custom
metadata, dictionaries, columns we do not have). No reader of foreign flatbuffers is needed for
anything that is accepted.

For given columns and compression only 64-bit integers differ from batch to batch, always at the
same places:

    0    marker, length of the metadata            constant
    8    the flatbuffer's tables                   constant, with the body's length (40) and the number of rows (72 or 80) in it
    88   buffers: position and length of each      (104 with LZ4, 112 with ZSTD)
         8 bytes                                   constant, the number of nodes in it
         nodes: length and null count of each

So one `struct` reads or writes a head. The constants below were read off pyarrow 26; a test
compares all columns and compressions with the pyarrow that is installed. They are ours now: another
pyarrow may write otherwise, this stays, since pages rest for years and the kits of other languages
write the same bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from bowstring.messages import schema

Bytes: TypeAlias = bytes | memoryview
"""Always of single bytes: `len` is their number."""

MARKER: Final = b"\xff\xff\xff\xff"
CODECS: Final[tuple[str | None, ...]] = (None, "lz4", "zstd")

# Padding, by its length.
ZEROS: Final = tuple(bytes(count) for count in range(8))

# A map column is four nodes deep (map, entry, name, value), all others are one node.
_MAP_NODES: Final = 4
_MAP_BUFFERS: Final = 9


class _Tables(NamedTuple):
    """The flatbuffer from byte 8 up to the number of buffers, with zeros where it differs from form
    to form or batch to batch.
    """

    rows_at: int
    nodes_at: int  # where the distance to the nodes stands
    head: bytes


# Message: root at 28, version V5, type RecordBatch, body length at 40; the batch's table follows
# with its number of rows.
_MESSAGE: Final = "14000000 00000000 0c00%s0006000500 08000c000c000000 00030400%s000000 0000000000000000"
_TABLES: Final[dict[str | None, _Tables]] = {
    None: _Tables(72, 64, bytes.fromhex(_MESSAGE % ("16", "18") + "00000a0018000c00 040008000a000000 0000000010000000" + "00" * 12)),
    "lz4": _Tables(
        80,
        68,
        bytes.fromhex(
            _MESSAGE % ("18", "1c")
            + "000000000c001c00 1000040008000c00 0c00000000000000 1c00000014000000 0000000000000000"
            + "0000000004000400 04000000"
        ),
    ),
    "zstd": _Tables(
        80,
        68,
        bytes.fromhex(
            _MESSAGE % ("18", "1c")
            + "000000000c001e00 1000040008000c00 0c00000000000000 2400000018000000 0000000000000000"
            + "0000000000000600 0800070006000000 00000001"
        ),
    ),
}


_PLAIN_AT: Final = 18


def is_compressed(data: Bytes | bytearray) -> bool:
    """Whether a checked batch is compressed: the first byte in which the heads differ tells."""
    return data[_PLAIN_AT] != 0x16


class Unjoined:
    """A buffer as the list of its rows' values, all of them bytes, which are copied only when the
    message is joined.

    Joining them into a buffer first costs another copy and, worse, fresh memory each time. For tiny
    values that is still cheaper.
    """

    __slots__ = ("offsets", "size", "values")

    WORTH_WHILE: Final = 64
    """The value size from which on the list is cheaper."""

    def __init__(self, values: Sequence[bytes], lengths: npt.NDArray[np.int64]) -> None:
        self.values = values
        self.offsets = np.zeros(len(values) + 1, np.int64)
        np.cumsum(lengths, out=self.offsets[1:])
        self.size = int(self.offsets[-1])

    def __len__(self) -> int:
        return self.size


class Place(NamedTuple):
    """The places of a column's first buffer and first node in the lists of a form."""

    column: schema.Column
    buffer: int
    node: int


class Head(NamedTuple):
    """The numbers in which two batches of one form differ. `nodes` is length, null count, length,
    null count, …
    """

    rows: int
    body: int
    lengths: tuple[int, ...]
    nodes: tuple[int, ...]


class Form:
    """The head of all batches with these columns and this compression."""

    __slots__ = ("_between", "_buffer_count", "_constants", "_fields", "buffers", "codec", "mask", "nodes", "places", "size")

    def __init__(self, mask: int, codec: str | None) -> None:
        self.mask = mask
        self.codec = codec
        places: list[Place] = []
        buffers = nodes = 0
        for column in schema.columns_of(mask):
            places.append(Place(column, buffers, nodes))
            is_map = column.bit == schema.ATTRIBUTES
            buffers += _MAP_BUFFERS if is_map else 2 if column.bit & schema.TIMES else 3
            nodes += _MAP_NODES if is_map else 1
        self.places = tuple(places)
        self.buffers = buffers
        self.nodes = nodes

        tables = _TABLES[codec]
        first_buffer = 8 + len(tables.head) + 4
        nodes_count_at = first_buffer + 16 * buffers + 4
        self.size = nodes_count_at + 4 + 16 * nodes
        head = bytearray(MARKER + struct.pack("<i", self.size - 8) + tables.head + struct.pack("<i", buffers))
        struct.pack_into("<i", head, tables.nodes_at, nodes_count_at - tables.nodes_at)
        rows_end = tables.rows_at + 8
        self._constants = (bytes(head[:40]), bytes(head[48 : tables.rows_at]), bytes(head[rows_end:]))
        self._between = struct.pack("<ii", 0, nodes)
        self._buffer_count = 2 * buffers
        self._fields = struct.Struct(f"<40sq{tables.rows_at - 48}sq{first_buffer - rows_end}s{2 * buffers}q8s{2 * nodes}q")

    def write(self, rows: int, lengths: Sequence[int], nodes: Sequence[int]) -> bytes:
        """The head of a batch whose buffers have these lengths."""
        first, second, third = self._constants
        spots: list[int] = []
        position = 0
        for length in lengths:
            spots += (position, length)
            position += (length + 7) & -8
        return self._fields.pack(first, position, second, rows, third, *spots, self._between, *nodes)

    def message(self, rows: int, buffers: Sequence[Bytes], nodes: Sequence[int]) -> bytes:
        """The whole message."""
        return b"".join(self.pieces(rows, buffers, nodes)[0])

    def pieces(self, rows: int, buffers: Sequence[Bytes | Unjoined], nodes: Sequence[int]) -> tuple[list[Bytes], int]:
        """The pieces of a message (head, buffers, zeros between them) and its size. The buffers are
        of single bytes.
        """
        first, second, third = self._constants
        pieces: list[Bytes] = [b""]
        spots: list[int] = []
        position = 0
        for buffer in buffers:
            length = len(buffer)
            spots += (position, length)
            if isinstance(buffer, Unjoined):
                pieces += buffer.values
            else:
                pieces.append(buffer)
            position += length
            if length & 7:
                pieces.append(ZEROS[-length & 7])
                position += -length & 7
        pieces[0] = self._fields.pack(first, position, second, rows, third, *spots, self._between, *nodes)
        return pieces, self.size + position

    def read(self, data: bytes | memoryview) -> Head:
        """Reads the numbers at the places of lengths, nodes and rows; only comparing with `write`
        tells whether the rest fits.
        """
        fields = self._fields.unpack_from(data)
        buffers_end = 5 + self._buffer_count
        return Head(fields[3], fields[1], fields[6:buffers_end:2], fields[buffers_end + 1 :])

    def resembles(self, data: bytes | memoryview) -> bool:
        """Whether the tables are those of this form, so that `read` really returns lengths and
        nodes.
        """
        fields = self._fields.unpack_from(data)
        return (fields[0], fields[2], fields[4]) == self._constants


@cache
def form(mask: int, codec: str | None = None) -> Form:
    """The form of these columns; at most 127 × 3 of them are ever made."""
    return Form(mask, codec)


@cache
def forms_by_size(mask: int) -> dict[int, Form]:
    """The forms of these columns by the length of their heads, which differs with the compression."""
    return {each.size: each for each in (form(mask, codec) for codec in CODECS)}
