"""The request that publishes a batch, up to the bytes of the batch, written by hand.

The bytes are those that protobuf writes for a `PublishRequest` (a test compares them), at half of its
cost: a small message pays for its request each time. Fields stand in the order of their numbers, and
those that are zero are left out.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from bowstring.messages import schema
from bowstring.wire.codec import BATCH_TAG

_ONE_BYTE: Final = tuple(bytes((number,)) for number in range(0x80))


def head(partition: int, number: int, previous: int, sent: int, timeout: int, columns: int, rows: int, size: int) -> bytes:
    """The request of a batch of so many bytes, up to its first byte. Batches are numbered from 1."""
    place = b"\x10%b\x18" % varint(partition) if partition else b"\x18"
    before = b"\x20%b" % varint(previous) if previous else b""
    moment = b"\x29%b" % sent.to_bytes(8, "little", signed=True) if sent else b""
    return b"".join((place, varint(number), before, moment, _rest(timeout, columns, rows, size)))


@lru_cache(1024)
def _rest(timeout: int, columns: int, rows: int, size: int) -> bytes:
    """The fields behind `sent`, which many small batches have in common."""
    fields = ((0x30, timeout), (0x38, schema.BYTES_SCHEMA), (0x40, columns), (0x48, rows))
    return b"".join(bytes((tag,)) + varint(field) for tag, field in fields if field) + bytes((BATCH_TAG,)) + varint(size)


def varint(number: int) -> bytes:
    """A number as protobuf writes it: seven bits a byte, the lowest first."""
    if number < 0x80:
        return _ONE_BYTE[number]
    if number < 0x4000:
        return b"%c%c" % (number & 0x7F | 0x80, number >> 7)
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)
