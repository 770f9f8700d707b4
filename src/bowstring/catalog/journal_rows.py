"""The key and the checksum of a journal row, for every database.

A journal position is (broker, sequence). As the key of a row it is one number, `position`: each
broker has 2^48 of them, one behind the other, and the first broker's begin at 0. So the rows of one
broker are neighbours, the next one is behind the last one, and a table needs no index beside its
key.

A bit that flips in a database's own page is served silently, so each row has a CRC-32C of its own
over position, epoch, changes and the length of the inlined pages. The bytes of the pages are not in
it: every page is a frame with a checksum of its own, and so a journal of many megabytes is checked
at load without reading its pages.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

import google_crc32c

from bowstring.ports.failures import Damaged
from bowstring.ports.journal import Row

SEQUENCE_BITS = 48
"""9,000 flushes a second for a thousand years."""
BROKER_MAX = 1 << 63 - SEQUENCE_BITS

_HEAD = struct.Struct("<qqq")


def position(broker: int, sequence: int) -> int:
    """A journal position as one number. That of sequence 0, which no row has, is before all rows of
    the broker.
    """
    return (broker - 1 << SEQUENCE_BITS) + sequence


def span(broker: int) -> dict[str, int]:
    """The positions of a broker, for queries: `first`, where no row is, and `last`."""
    return {"first": position(broker, 0), "last": position(broker + 1, 0) - 1}


def split(position: int) -> tuple[int, int]:
    """Broker and sequence."""
    return (position >> SEQUENCE_BITS) + 1, position & (1 << SEQUENCE_BITS) - 1


def checksum(position: int, epoch: int, changes: bytes, pages_length: int) -> int:
    """The CRC-32C of a journal row. A row without inlined pages counts as one with 0 bytes of them."""
    return google_crc32c.extend(google_crc32c.value(_HEAD.pack(position, epoch, pages_length)), changes)


def verified(broker: int, after: int, stored: Iterable[Sequence[object]]) -> list[Row]:
    """The broker's rows behind `after` out of (position, epoch, crc, changes, length of pages), or
    Damaged naming the first that is not right.
    """
    rows: list[Row] = []
    expected = after + 1
    for found, epoch, crc, changes, pages_length in stored:
        if found != position(broker, expected):
            raise Damaged(f"journal row {expected} is missing: behind {expected - 1} comes {_sequence(found)}")
        if not isinstance(epoch, int) or not isinstance(changes, bytes) or not isinstance(pages_length, int | None):
            raise Damaged(f"journal row {expected} holds values of the wrong type")
        if checksum(position(broker, expected), epoch, changes, pages_length or 0) != crc:
            raise Damaged(f"journal row {expected} does not verify: its checksum is not the stored one")
        rows.append(Row(expected, epoch, changes))
        expected += 1
    return rows


def _sequence(found: object) -> object:
    return split(found)[1] if isinstance(found, int) else found
