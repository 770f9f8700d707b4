"""What a scout knows of one partition from the cursor on."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

import numpy as np

from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.queue.scouted_rows import ScoutedRows, joined
from bowstring.broker.reading.row_wait import RowWait
from bowstring.core.ledger import Ledger

SMALL_ROWS: Final = 1_024
"""A block of fewer rows is joined with the next one."""


class LookAhead:
    """What is known of one partition from the cursor on."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.end = start
        """Rows of [start, end) were looked at."""
        self.blocks: deque[ScoutedRows] = deque()
        """Only those in which something passes."""
        self.count = 0
        """How many rows they have."""
        self._sizes: deque[tuple[int, int]] = deque()
        """Where pages end in which something passes, and the bytes that their delivery needs."""
        self._bytes = 0
        self.wants_all = False
        """Whether the last caller wanted to know all rows."""
        self.settled = 0
        """How many rows ahead were settled when they were left out of the blocks."""
        self.task: asyncio.Task[None] | None = None
        self.wait: RowWait | None = None
        """Wakes it when more is committed."""

    def add(self, found: ScoutedRows) -> None:
        self.end = found.end
        if not len(found.offsets):
            return
        self.count += len(found.offsets)
        if self.blocks and len(self.blocks[-1].offsets) + len(found.offsets) < SMALL_ROWS:
            found = joined([self.blocks.pop(), found])
        self.blocks.append(found)

    def pass_below(self, offset: int) -> None:
        """The cursor has come here."""
        self.start = max(self.start, offset)
        while self.blocks and self.blocks[0].offsets[0] < offset:
            block = self.blocks.popleft()
            low = int(np.searchsorted(block.offsets, offset))
            self.count -= low
            if low < len(block.offsets):
                self.blocks.appendleft(block.rows(low, len(block.offsets)))
        self._forget_pages()

    def add_page(self, end: int, size: int) -> None:
        """Something passes in a page that ends there."""
        self._sizes.append((end, size))
        self._bytes += size

    def _forget_pages(self) -> None:
        while self._sizes and self._sizes[0][0] <= self.start:
            self._bytes -= self._sizes.popleft()[1]

    def is_far(self, rows_max: int, bytes_max: int | None) -> bool:
        """Whether enough is known."""
        return self.count >= rows_max or (self.count > 0 and bytes_max is not None and self._bytes >= bytes_max)

    def leave_out(self, ledger: Ledger) -> None:
        """Rows may have been settled since they were looked at: deleted, or taken by retention."""
        above = ledger.settled.above
        settled = 0 if above.is_empty else above.count(self.start, self.end)
        if settled and settled != self.settled:
            kept = [block.only(~above.of(block.offsets)) for block in self.blocks]
            self.blocks = deque(block for block in kept if len(block.offsets))
            self.count = sum(len(block.offsets) for block in self.blocks)
        self.settled = settled

    @property
    def first(self) -> int:
        """The first row that passes; `end` if none does."""
        return int(self.blocks[0].offsets[0]) if self.blocks else self.end

    def stop(self, actor: PartitionActor) -> None:
        if self.task is not None:
            self.task.cancel()
            self.task = None
        if self.wait is not None:
            actor.forget(self.wait)
            self.wait = None
