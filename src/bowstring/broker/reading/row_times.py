"""When single rows are due and when they expire, as they were published."""

from __future__ import annotations

from bowstring import errors
from bowstring.broker.reading.page_dues import dues_in, expiries_in
from bowstring.broker.reading.reading import Reading
from bowstring.core.partition import Partition
from bowstring.ports.failures import Damaged


async def row_times(partition: Partition, reading: Reading, offsets: list[int]) -> dict[int, tuple[int, int]]:
    """When these rows are due and when they expire (0 for never), as far as they have a due time.
    Raises Corrupt.
    """
    try:
        return await _row_times(partition, reading, offsets)
    except Damaged as error:
        raise errors.Corrupt(f"topic {partition.topic}, partition {partition.number}: {error}") from error


async def _row_times(partition: Partition, reading: Reading, offsets: list[int]) -> dict[int, tuple[int, int]]:
    found: dict[int, tuple[int, int]] = {}
    reader, end = reading.reader, 0
    for offset in sorted(offsets):
        if offset < end:
            continue
        for entry in await reader.entries(partition, offset, offset + 1, 1, 1):
            end = entry.end
            (page,) = await reader.stored(partition, [entry])
            dues, expires = dues_in(page, entry), expiries_in(page, entry)
            ends = expires[dues.offsets - entry.first_offset].tolist()
            found |= dict(zip(dues.offsets.tolist(), zip(dues.moments.tolist(), ends, strict=True), strict=True))
    return {offset: found[offset] for offset in offsets if offset in found}
