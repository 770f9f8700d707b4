"""Has rows at hand before they are due: takes those of the next minutes out of their pages, each page once.

A turn gathers what is due within a span that begins now, and the next turn comes before the span is over. How long
a span is follows from the bytes that may be gathered, and four minutes are the longest. Where rows are due so
closely that a span would be a second or two, nothing is gathered: then a page is read for many of them anyway.
So it is with pages of which many rows are due within the span.

Nothing depends on this but the effort: rows that are not gathered are read when they are delivered. It begins
with the first rows that are delivered, and there is no turn unless some were since the last.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bowstring.broker.reading.due_times import Stretch
from bowstring.broker.reading.gathered_rows import ROW_BYTES, RowsAtHand
from bowstring.broker.reading.page_reader import arrivals
from bowstring.broker.reading.partition_dues import PartitionDues
from bowstring.broker.reading.reading import Reading
from bowstring.core.coming_rows import ComingRows, merged
from bowstring.core.due_blocks import Dues
from bowstring.core.pages import PageEntry, decode_header
from bowstring.core.partition import Partition
from bowstring.messages import encoding
from bowstring.ports.failures import Damaged

SPAN_MOST: Final = 240_000_000
SPAN_LEAST: Final = 4_000_000
"""Microseconds."""
PAST: Final = 1_000_000
"""Rows that are due for so long may be on their way still when a turn ends, or a turn takes longer."""
EARLY: Final = 10_000_000
"""The next turn begins so long before the end of a span, or in its last quarter."""
GATHERED_SHARE: Final = 4
"""A page is read when its rows are delivered if more than one in so many is due within the span."""
PAGES_A_LOOK: Final = 256
PAUSE_SECONDS: Final = 0.002
"""Between two pages, for all else."""

_log = logging.getLogger("bowstring.queue")


class DueAhead:
    """Gathers rows of one partition."""

    def __init__(self, partition: Partition, reading: Reading) -> None:
        self._partition = partition
        self._reading = reading
        self._gathered = reading.caches.gathered
        self.dues = PartitionDues(partition, reading)
        """For the schedule, too."""
        self._span = SPAN_MOST
        self._next = 0
        """When the next turn is due."""
        self._task: asyncio.Task[None] | None = None

    def look(self, now: int, near: ComingRows) -> None:
        """Begins a turn if it is time. `near` has all rows that are not sealed."""
        if self._next > now or self._task is not None or not self._gathered.take_wanted(self._partition):
            return
        self._next = now + SPAN_LEAST
        if near.count(now, now + SPAN_LEAST) > self._rows_max():
            return self._gathered.put(self._partition, [])
        span = min(SPAN_MOST, 2 * self._span)
        self._task = asyncio.create_task(self._turn(now, span, near.between(now - PAST, now + span)))

    async def _turn(self, now: int, span: int, unsealed: Dues) -> None:
        try:
            offsets = await self._offsets(now, span, unsealed)
            self._gathered.put(self._partition, await self._gather(offsets))
        except Exception as error:  # nothing is lost: the rows are read one by one
            _log.warning(
                "rows of partition %d of topic %d could not be read ahead: %s", self._partition.number, self._partition.topic, error
            )
        self._task = None

    async def _offsets(self, now: int, span: int, unsealed: Dues) -> NDArray[np.int64]:
        """The rows of the next span, as many as may be gathered; none if the span would be too short."""
        partition, rows_max = self._partition, self._rows_max()
        while span >= SPAN_LEAST:
            parts, count = [unsealed.released_before(0, now + span)], 0
            for extent in await self.dues.extents():
                try:
                    parts.append(await self._reading.due_times.stored_between(partition, Stretch(extent), now - PAST, now + span))
                except Damaged:  # their delivery reports it
                    continue
                count = sum(len(part.moments) for part in parts)
                if count > 4 * rows_max:
                    break
            if count <= 4 * rows_max:
                found = merged([*map(partition.moved_rows.unmoved, parts), partition.moved_rows.due_between(now - PAST, now + span)])
                if len(found.moments) > rows_max:
                    span = int(found.moments[rows_max]) - now
                if span < SPAN_LEAST:
                    break
                self._span, self._next = span, now + span - min(EARLY, span // 4)
                return np.sort(found.offsets[:rows_max])
            span //= 2
        self._span = SPAN_LEAST
        return np.empty(0, np.int64)

    def _rows_max(self) -> int:
        """About how many rows may be gathered."""
        partition = self._partition
        rows = partition.committed_offset - partition.retained.first
        mean = max(1.0, partition.bytes / rows if rows > 0 else 0.0)
        return int(self._gathered.share(partition) / (mean + ROW_BYTES))

    # Pages

    async def _gather(self, offsets: NDArray[np.int64]) -> list[RowsAtHand]:
        """These rows, out of their pages: by the kinds of rows, and fewer if they have more bytes than
        was estimated.
        """
        kinds: dict[tuple[int, int], list[RowsAtHand]] = {}
        left = self._gathered.share(self._partition)
        at = 0
        while at < len(offsets) and left > 0:
            first, last = int(offsets[at]), int(offsets[-1])
            entries = await self._reading.reader.entries(self._partition, first, last + 1, 1 << 62, PAGES_A_LOOK)
            if not entries:
                break
            for entry in entries:
                low, high = np.searchsorted(offsets, (entry.first_offset, entry.end)).tolist()
                if 0 < high - low <= max(1, entry.rows // GATHERED_SHARE) and left > 0:
                    rows = await self._of_page(entry, offsets[low:high])
                    if rows is not None:
                        kinds.setdefault(rows.kind, []).append(rows)
                        left -= rows.size
            at = max(at + 1, int(np.searchsorted(offsets, entries[-1].end)))
        return [RowsAtHand.joined(parts) for parts in kinds.values()]

    async def _of_page(self, entry: PageEntry, offsets: NDArray[np.int64]) -> RowsAtHand | None:
        """Rows of a page; None if it cannot be read, which their delivery reports."""
        try:
            (page,) = await self._reading.reader.stored(self._partition, [entry], keep=False)
        except Damaged:
            return None
        header = decode_header(page.header)
        found = RowsAtHand.of_page(entry, header, encoding.decode(header.columns, page.body), arrivals(header, entry), offsets)
        await self._reading.clock.sleep(PAUSE_SECONDS)
        return found

    def stop(self) -> None:
        """No one needs the rows."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._gathered.forget(self._partition)
