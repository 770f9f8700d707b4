"""Says in a sentence what is wrong with a head that is not canonical.

`layout` has already refused the head because it differs; nothing here decides. But the author of a
kit wants to know *what* differs, so this reads the foreign flatbuffer as far as possible: it checks
every position against the bounds, it never recurses, and an unreadable head is itself the answer.
"""

from __future__ import annotations

import struct
from typing import Final

from bowstring import errors
from bowstring.messages import schema
from bowstring.messages.metadata import Form, form

_TYPES: Final = {1: "a schema", 2: "a dictionary", 4: "a tensor", 5: "a sparse tensor"}
_RECORD_BATCH: Final = 3
_V5: Final = 4
_CANONICAL: Final = "Write the metadata just as pyarrow does (bowstring.messages.metadata has the bytes)."


class _Table:
    """A flatbuffer table. Reading outside of the bytes raises `struct.error`."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at
        self._fields = at - self._number("<i", at)
        self._size = self._number("<H", self._fields)

    def _number(self, kind: str, at: int) -> int:
        if at < 0:
            raise struct.error("before the first byte")
        return struct.unpack_from(kind, self._data, at)[0]

    def _position(self, field: int) -> int:
        """The position of a field, 0 when it has its default."""
        slot = 4 + 2 * field
        distance = self._number("<H", self._fields + slot) if slot + 2 <= self._size else 0
        return self._at + distance if distance else 0

    def number(self, field: int, kind: str) -> int:
        """A number, 0 when it is left out."""
        at = self._position(field)
        return self._number(kind, at) if at else 0

    def table(self, field: int) -> _Table | None:
        """A table within the table."""
        at = self._position(field)
        return _Table(self._data, at + self._number("<I", at)) if at else None

    def count(self, field: int) -> int:
        """The number of elements of a vector."""
        at = self._position(field)
        return self._number("<I", at + self._number("<I", at)) if at else 0


def foreign(mask: int, rows: int, head: bytes) -> errors.InvalidArgument:
    """The error for a head (marker and length included) that does not fit a batch with these
    columns.
    """
    try:
        sentence, hint = _tables_differ(mask, rows, head[8:])
    except struct.error:
        sentence, hint = "The metadata of the batch is damaged: it points outside of itself.", _CANONICAL
    return errors.InvalidArgument(sentence, hint=hint)


def _tables_differ(mask: int, rows: int, flatbuffer: bytes) -> tuple[str, str]:
    message = _Table(flatbuffer, struct.unpack_from("<I", flatbuffer, 0)[0])
    kind = message.number(1, "<B")
    batch = message.table(2)
    if kind != _RECORD_BATCH or batch is None:
        return (
            f"The bytes are {_TYPES.get(kind, 'an unknown')} message, not a record batch.",
            "Send the record-batch message alone, without schema and dictionaries.",
        )
    if message.number(0, "<h") != _V5:
        return "The batch has another metadata version than V5.", "Write Arrow IPC metadata version V5."
    wanted = form(mask)
    nodes, buffers = batch.count(1), batch.count(2)
    if (nodes, buffers) != (wanted.nodes, wanted.buffers):
        return (
            f"The batch has {nodes} nodes and {buffers} buffers; its mask names {schema.names_of(mask)}, "
            f"which make {wanted.nodes} and {wanted.buffers}.",
            "Send just the columns of the mask, none of them dictionary-encoded, nested or of another type.",
        )
    if batch.count(4):
        return "The batch has columns of a view type.", "Send binary and utf8 with 32-bit offsets."
    if (inside := batch.number(0, "<q")) != rows:
        return f"The header says {rows} rows, the batch has {inside}.", "Both must be the same."
    if message.count(4):
        return "The batch has custom metadata.", "Send what belongs to a message as its attributes."
    compression = batch.table(3)
    if compression is not None and compression.number(0, "<b") not in (0, 1):
        return "The batch has an unknown compression.", "Use none, lz4 or zstd."
    return "The metadata of the batch is not written canonically.", _CANONICAL


def positions(wanted: Form, rows: int, head: bytes) -> errors.InvalidArgument:
    """The error for a head that has the form's size but not its bytes: usually its buffers are in
    the wrong places.
    """
    if not wanted.resembles(head):
        return foreign(wanted.mask, rows, head)
    at = wanted.size - 16 * wanted.nodes - 8 - 16 * wanted.buffers
    spots = struct.unpack_from(f"<{2 * wanted.buffers}q", head, at)
    end = 0
    for number, (position, length) in enumerate(zip(spots[::2], spots[1::2], strict=True)):
        if position != end or length < 0:
            how = "overlaps or precedes the one before" if position < end else "leaves a gap before it"
            what = "has a negative length" if length < 0 else how
            return errors.InvalidArgument(
                f"Buffer {number} of the batch, {length} bytes at {position}, {what}; it should begin at {end}.",
                hint="Buffers stand one after the other, each padded with zeros to 8 bytes.",
            )
        end += (length + 7) & -8
    body = wanted.read(head).body
    if body != end:
        return errors.InvalidArgument(
            f"The metadata says that the body has {body} bytes, its buffers make {end}.", hint="Both must be the same."
        )
    return foreign(wanted.mask, rows, head)
