"""Extents, snapshots and chunks at rest, whatever database keeps them: the values of their rows, and their checksums.

Each row has a CRC-32C over all of its values, so a bit that flipped in the database's own pages is found when the row is read, and the
failure names topic, partition and offset. Values are packed as 8 bytes each, in the order of the columns; a NULL counts as -1, which
no column ever holds.

Queries that only add up do not read rows one by one, so an extent and each of its uses have a second, weaker guard: `total`, the sum of
the numbers that are looked at, which SQL can add by itself. One flipped bit in any of them always shows. It matters: a segment whose
uses seem to be gone is given to new pages.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

import google_crc32c

from bowstring.ports.catalog import Chunk, Extent, Snapshot
from bowstring.ports.failures import Damaged
from bowstring.ports.store import Reference

COLUMNS = tuple(
    "topic partition first_offset end_offset bytes total arrived_first arrived_last expires pages "
    "index_segment index_position index_length index_sequence ids_segment ids_position ids_length ids_sequence uses crc".split()
)
_NUMBERS = struct.Struct("<18q")  # all columns but `uses` and `crc`
_USE = struct.Struct("<qq")
_KEY = struct.Struct("<qqq")

Values = dict[str, int | bytes | None]  # a row by the names of its columns


def place(topic: object, partition: object, offset: object) -> str:
    """How failures name an extent."""
    return f"the extent at offset {offset} of topic {topic}, partition {partition}"


def extent_values(extent: Extent) -> Values:
    """The row of an extent. Raises Damaged for one that cannot be: without offsets, or with a segment twice."""
    if extent.end_offset <= extent.first_offset or len({segment for segment, _ in extent.uses}) < len(extent.uses):
        raise Damaged(f"{place(*extent[:3])} is none: {extent}")
    total = extent.topic + extent.partition + extent.first_offset + extent.end_offset + extent.bytes
    numbers = (
        *(extent.topic, extent.partition, extent.first_offset, extent.end_offset, extent.bytes, total),
        *(extent.arrived_first, extent.arrived_last, extent.expires, extent.pages),
        *extent.index,
        *(extent.ids or (None, None, None, None)),
    )
    uses = b"".join(_USE.pack(*use) for use in extent.uses)
    return dict(zip(COLUMNS, (*numbers, uses, _extent_checksum(numbers, uses)), strict=True))


def use_values(extent: Extent) -> list[Values]:
    """The rows that name the extent by the segments that it uses."""
    key = {"topic": extent.topic, "partition": extent.partition, "first_offset": extent.first_offset}
    return [{**key, "segment": segment, "bytes": used, "total": segment + sum(key.values()) + used} for segment, used in extent.uses]


def verified_extent(stored: Sequence[Any]) -> Extent:
    """The extent out of the columns of its row. Raises Damaged."""
    *numbers, uses, crc = stored
    if _extent_checksum(numbers, uses) != crc:
        raise Damaged(f"{place(*numbers[:3])} does not verify: its checksum is not the stored one")
    topic, partition, first_offset, end_offset, size, _, arrived_first, arrived_last, expires, pages = numbers[:10]
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
        index=Reference(*numbers[10:14]),
        ids=None if numbers[14] is None else Reference(*numbers[14:18]),
        uses=tuple(_USE.iter_unpack(uses)),
    )


def snapshot_values(snapshot: Snapshot) -> Values:
    return {**snapshot._asdict(), "crc": _checksum(*snapshot)}


def verified_snapshots(stored: Iterable[Sequence[Any]]) -> list[Snapshot]:
    """Snapshots by topic and partition, out of (topic, partition, sequence, crc, state). Raises Damaged."""
    found: list[Snapshot] = []
    for topic, partition, sequence, crc, state in stored:
        if _checksum(topic, partition, sequence, state) != crc:
            raise Damaged(f"the snapshot of topic {topic}, partition {partition} (as of sequence {sequence}) does not verify")
        found.append(Snapshot(topic, partition, sequence, state))
    return sorted(found)


def chunk_values(chunk: Chunk) -> Values:
    return {**chunk._asdict(), "crc": _checksum(*chunk)}


def verified_chunks(stored: Iterable[Sequence[Any]]) -> list[Chunk]:
    """Chunks by topic, partition and number, out of (topic, partition, number, crc, bitmaps). Raises Damaged."""
    found: list[Chunk] = []
    for topic, partition, number, crc, bitmaps in stored:
        if _checksum(topic, partition, number, bitmaps) != crc:
            offset = number << 20 if isinstance(number, int) else "?"
            raise Damaged(f"the deletions of topic {topic}, partition {partition} from offset {offset} on (chunk {number}) do not verify")
        found.append(Chunk(topic, partition, number, bitmaps))
    return sorted(found)


def _extent_checksum(numbers: Sequence[Any], uses: bytes) -> int:
    """-1, which is no checksum, for values that are not of the columns' types: then the row is damaged."""
    try:
        return google_crc32c.extend(google_crc32c.value(_NUMBERS.pack(*(-1 if number is None else number for number in numbers))), uses)
    except (struct.error, TypeError):
        return -1


def _checksum(topic: int, partition: int, number: int, content: bytes) -> int:
    try:
        return google_crc32c.extend(google_crc32c.value(_KEY.pack(topic, partition, number)), content)
    except (struct.error, TypeError):
        return -1
