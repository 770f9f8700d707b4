"""Rows of the second format of catalogs, when all data was broker 1's. The upgrade reads them, and
so does `inspect` of an old file.

Extents had columns for two sections, an index and ids; a partition's state was a row of `snapshot`,
and its deletions rows of `chunk`. Every row had a CRC-32C over its values; numbers counted as 8
bytes each, a NULL as -1.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import google_crc32c

from bowstring.catalog.extent_rows import place, unpacked_uses
from bowstring.ports.extents import Extent, Section, StateRow
from bowstring.ports.failures import Damaged
from bowstring.ports.store import Reference

BROKER = 1
PARTITION, DELETIONS = "partition", "deletions"
"""The machines whose states there were. Chunk n of the deletions is part n + 1."""

_EXTENT = struct.Struct("<18q")
_KEY = struct.Struct("<qqq")


def extent(stored: Sequence[Any]) -> Extent:
    """Out of all columns of the row, in their order. Raises Damaged."""
    *numbers, uses, crc = stored
    if _extent_checksum(numbers, uses) != crc:
        raise Damaged(f"{place(*numbers[:3])} does not verify: its checksum is not the stored one")
    topic, partition, first_offset, end_offset, size, _, arrived_first, arrived_last, expires, pages = numbers[:10]
    spans = topic, partition, first_offset, end_offset, arrived_first, arrived_last, expires, pages, size
    return Extent(*spans, BROKER, told_sections(stored), unpacked_uses(uses))


def told_sections(stored: Sequence[Any]) -> tuple[Section, ...]:
    """The sections in the columns of an extent's row, verified or not."""
    found = (("index", stored[10:14]), ("ids", stored[14:18]))
    return tuple([Section(kind, Reference(*values)) for kind, values in found if all(isinstance(value, int) for value in values)])


def snapshot(stored: Sequence[Any]) -> StateRow:
    """The head of a partition, out of (topic, partition, sequence, crc, state). Raises Damaged."""
    topic, partition, sequence, crc, state = stored
    if _checksum(topic, partition, sequence, state) != crc:
        raise Damaged(f"the snapshot of topic {topic}, partition {partition} (as of sequence {sequence}) does not verify")
    return StateRow(topic, partition, PARTITION, 0, BROKER, sequence, state)


def chunk(stored: Sequence[Any], sequence: int) -> StateRow:
    """A chunk of deletions, out of (topic, partition, number, crc, bitmaps). It is as of the
    partition's snapshot. Raises Damaged.
    """
    topic, partition, number, crc, bitmaps = stored
    if _checksum(topic, partition, number, bitmaps) != crc:
        raise Damaged(f"chunk {number} of the deletions of topic {topic}, partition {partition} does not verify")
    return StateRow(topic, partition, DELETIONS, number + 1, BROKER, sequence, bitmaps)


def _extent_checksum(numbers: Sequence[Any], uses: bytes) -> int:
    """-1, which is no checksum, for values that are not of the columns' types: then the row is
    damaged.
    """
    try:
        return google_crc32c.extend(google_crc32c.value(_EXTENT.pack(*(-1 if number is None else number for number in numbers))), uses)
    except (struct.error, TypeError):
        return -1


def _checksum(topic: int, partition: int, number: int, content: bytes) -> int:
    try:
        return google_crc32c.extend(google_crc32c.value(_KEY.pack(topic, partition, number)), content)
    except (struct.error, TypeError):
        return -1
