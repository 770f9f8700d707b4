"""Extents at rest, whatever database keeps them: the values of their rows, and their checksums.

Each row has a CRC-32C over all of its values, so a bit that flipped in the database's own pages is
found when the row is read, and the failure names topic, partition and offset. Numbers are packed as
8 bytes each, in the order of the columns. Sections are a MessagePack array with one array for each:
kind, segment, position, length, sequence.

Queries that only add up do not read rows one by one, so an extent and each of its uses have a
second, weaker guard: `total`, the sum of the numbers that are looked at, which SQL can add by
itself. One flipped bit in any of them always shows. It matters: a segment whose uses seem to be
gone is given to new pages.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import google_crc32c
import msgspec

from bowstring.ports.extents import Extent, Section
from bowstring.ports.failures import Damaged
from bowstring.ports.store import Reference

COLUMNS = tuple(
    "topic partition first_offset end_offset bytes total arrived_first arrived_last expires pages broker sections uses crc".split()
)
_NUMBERS = struct.Struct("<12q")  # all columns but the last three, and the length of `sections`
_USE = struct.Struct("<qq")
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[tuple[str, int, int, int, int]])

Values = dict[str, str | int | bytes | None]  # a row by the names of its columns


def place(topic: object, partition: object, offset: object) -> str:
    """The name of an extent in errors."""
    return f"the extent at offset {offset} of topic {topic}, partition {partition}"


def extent_values(extent: Extent) -> Values:
    """The row of an extent. Raises Damaged for an impossible one: without offsets or an index, or
    with a segment or a section twice.
    """
    kinds = {section.kind for section in extent.sections}
    twice = len({segment for segment, _ in extent.uses}) < len(extent.uses) or len(kinds) < len(extent.sections)
    if extent.end_offset <= extent.first_offset or twice or "index" not in kinds:
        raise Damaged(f"{place(*extent[:3])} is none: {extent}")
    total = extent.topic + extent.partition + extent.first_offset + extent.end_offset + extent.bytes
    numbers = (
        *(extent.topic, extent.partition, extent.first_offset, extent.end_offset, extent.bytes, total),
        *(extent.arrived_first, extent.arrived_last, extent.expires, extent.pages, extent.broker),
    )
    sections, uses = packed_sections(extent.sections), packed_uses(extent.uses)
    return dict(zip(COLUMNS, (*numbers, sections, uses, _checksum(numbers, sections, uses)), strict=True))


def use_values(extent: Extent) -> list[Values]:
    """The rows that name the extent by the segments that it uses."""
    key = {"topic": extent.topic, "partition": extent.partition, "first_offset": extent.first_offset}
    return [{**key, "segment": segment, "bytes": used, "total": segment + sum(key.values()) + used} for segment, used in extent.uses]


def verified_extent(stored: Sequence[Any]) -> Extent:
    """The extent out of the columns of its row. Raises Damaged."""
    *numbers, sections, uses, crc = stored
    if _checksum(numbers, sections, uses) != crc:
        raise Damaged(f"{place(*numbers[:3])} does not verify: its checksum is not the stored one")
    topic, partition, first_offset, end_offset, size, _, arrived_first, arrived_last, expires, pages, broker = numbers
    return Extent(
        topic=topic,
        partition=partition,
        first_offset=first_offset,
        end_offset=end_offset,
        arrived_first=arrived_first,
        arrived_last=arrived_last,
        expires=expires,
        pages=pages,
        bytes=size,
        broker=broker,
        sections=told_sections(sections),
        uses=unpacked_uses(uses),
    )


def packed_sections(sections: Sequence[Section]) -> bytes:
    return _encoder.encode([(section.kind, *section.reference[:4]) for section in sections])


def told_sections(packed: object) -> tuple[Section, ...]:
    """The sections in the bytes, verified or not; empty for unreadable bytes."""
    try:
        found = _decoder.decode(packed) if isinstance(packed, bytes) else []
    except msgspec.DecodeError:
        return ()
    return tuple([Section(kind, Reference(*reference)) for kind, *reference in found])


def packed_uses(uses: Sequence[tuple[int, int]]) -> bytes:
    return b"".join(_USE.pack(*use) for use in uses)


def unpacked_uses(packed: bytes) -> tuple[tuple[int, int], ...]:
    return tuple(_USE.iter_unpack(packed))


def _checksum(numbers: Sequence[Any], sections: bytes, uses: bytes) -> int:
    """-1, which is no checksum, for values that are not of the columns' types: then the row is
    damaged.
    """
    try:
        return google_crc32c.extend(google_crc32c.value(_NUMBERS.pack(*numbers, len(sections)) + sections), uses)
    except (struct.error, TypeError):
        return -1
