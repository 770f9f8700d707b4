"""Splits a message into header and batch, and joins them, without protobuf touching the batch.

Where a message carries a batch, the batch is its last field and has number 15 (proto/bowstring/v1).
protobuf would copy it twice: out of the message, and again at every access to the field. So `split`
walks the few fields before it by hand and gives a view into the message that arrived. `join` copies
header and batch once, one behind the other. In both directions the bytes are plain protobuf, which
any other implementation reads with its own library.

`split` does not trust its input: numbers have at most ten bytes, lengths are compared with the
bytes that are there, the batch must end the message, and a caller may bound the header, because
walking it costs time per field. protobuf then parses the header.
"""

from __future__ import annotations

from typing import Final

from bowstring.errors import InvalidArgument
from bowstring.ports.disk import Buffer
from bowstring.ports.transport import Pieces

BATCH_FIELD: Final = 15
BATCH_TAG: Final = BATCH_FIELD << 3 | 2
HEADER_BYTES_MAX: Final = 64 * 1024
"""The longest header of a request that a broker takes: room for every field many times over."""

_VARINT_BYTES_MAX: Final = 10
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def split(message: Buffer, header_bytes_max: int | None = None) -> tuple[bytes, memoryview | None]:
    """Gives the header of a message and a view of its batch, None if it has none.
    Raises InvalidArgument if this is not a message."""
    size = len(message)
    position = 0
    while position < size:
        start = position
        if header_bytes_max is not None and start > header_bytes_max:
            raise _long_header(header_bytes_max)
        tag, position = _varint(message, position)
        if tag == BATCH_TAG:
            length, position = _varint(message, position)
            if position + length != size:
                raise _malformed(f"its batch has {length} bytes, {size - position} follow")
            return bytes(message[:start]), memoryview(message)[position:]
        position = _after(message, tag, position)
    if header_bytes_max is not None and size > header_bytes_max:
        raise _long_header(header_bytes_max)
    return bytes(message), None


def join(header: bytes, batch: Buffer) -> bytes:
    """Makes the message of a serialised header and a batch, with one copy."""
    size = len(batch) if isinstance(batch, bytes) else memoryview(batch).nbytes
    return b"".join((header, _batch_prefix(size), batch))


def pieces(header: bytes, batch: Buffer) -> Pieces:
    """The same message without a copy of the batch."""
    size = len(batch) if isinstance(batch, bytes) else memoryview(batch).nbytes
    return header + _batch_prefix(size), batch


def _after(message: Buffer, tag: int, position: int) -> int:
    """Gives the position where the value of this field ends."""
    kind = tag & 7
    if tag >> 3 == 0 or tag >> 3 == BATCH_FIELD:
        raise _malformed(f"a field has the tag {tag}")
    if kind == _VARINT:
        return _varint(message, position)[1]
    if kind == _BYTES:
        length, position = _varint(message, position)
        end = position + length
    elif kind == _FIXED64:
        end = position + 8
    elif kind == _FIXED32:
        end = position + 4
    else:
        raise _malformed(f"a field has the wire type {kind}")
    if end > len(message):
        raise _malformed("a field ends behind it")
    return end


def _varint(message: Buffer, position: int) -> tuple[int, int]:
    """Gives the number at this position, and where it ends."""
    try:
        byte = message[position]
        if byte < 0x80:
            return byte, position + 1
        value, shift = byte & 0x7F, 7
        for index in range(position + 1, position + _VARINT_BYTES_MAX):
            byte = message[index]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, index + 1
            shift += 7
    except IndexError:
        raise _malformed("it ends within a number") from None
    raise _malformed(f"a number has more than {_VARINT_BYTES_MAX} bytes")


def _batch_prefix(size: int) -> bytes:
    """The tag of the batch and its size, as protobuf writes them.
    Most batches of a busy broker are small."""
    if 0x80 <= size < 0x4000:
        return b"%c%c%c" % (BATCH_TAG, size & 0x7F | 0x80, size >> 7)
    result = bytearray((BATCH_TAG,))
    while size > 0x7F:
        result.append(size & 0x7F | 0x80)
        size >>= 7
    result.append(size)
    return bytes(result)


def _long_header(bytes_max: int) -> InvalidArgument:
    return InvalidArgument(f"the header of a message has more than {bytes_max} bytes.", hint="Only the batch may be large.")


def _malformed(why: str) -> InvalidArgument:
    return InvalidArgument(f"this is not a message of the protocol: {why}.", hint="The schema is in proto/bowstring/v1.")
