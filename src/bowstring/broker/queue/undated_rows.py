"""Rows that a ledger has passed by although they have no due time.

The rows of a page that cannot be read count as due with the last of them, those without a due time too:
cursors pass them by. A schedule reads the page again, and tells those rows when it can. If the broker
ends before, the next one finds the page readable and sealed, and then no due section names those rows:
they would never be told. So each incarnation looks once for rows that a ledger has passed by and that
have no due time. That reads the due times of all such rows, not only of those that are due soon, so it
is a task of its own, and consumers do not wait for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from bowstring.broker.reading.guessed_dues import LONG_AGO
from bowstring.broker.reading.partition_dues import PartitionDues
from bowstring.core.due_blocks import Dues
from bowstring.core.ledger import Ledger
from bowstring.core.machine import NEVER
from bowstring.core.offset_set import Offsets
from bowstring.core.partition import Partition
from bowstring.core.row_set import NO_ROWS, RowPool, RowSet

AGAIN: Final = 1_000_000
"""What could not be read is read again so much later."""

_log = logging.getLogger("bowstring.queue")


def undated(dues: Dues) -> Offsets:
    """The rows without a due time, of a page that was guessed and can be read now."""
    return dues.offsets[dues.moments == LONG_AGO]


class UndatedRows:
    """Those of one partition."""

    def __init__(self, partition: Partition, dues: PartitionDues, found: Callable[[Offsets], None]) -> None:
        """`found` is called with rows that need not wait, when everything is read."""
        self._partition = partition
        self._dues = dues
        self._found = found
        self._known: set[int] = set()
        """Subscriptions that have passed by only what is due later, or was guessed in this incarnation."""
        self._task: asyncio.Task[None] | None = None
        self.next = NEVER
        """When to look."""

    def loaded(self, now: int) -> None:
        """The due times of the partition were read. Rows that its ledgers have passed by before are looked
        up, once.
        """
        if self._task is None and self._unlooked():
            self.next = now

    def begin(self) -> None:
        """The time has come."""
        self.next = NEVER
        if self._task is None:
            self._task = asyncio.create_task(self._look())

    def stop(self) -> None:
        """No one needs it."""
        self.next = NEVER
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def _unlooked(self) -> list[Ledger]:
        """Ledgers that have passed something by, and were not looked at."""
        return [ledger for ledger in self._partition.ledgers if ledger.subscription not in self._known and not ledger.later.is_empty]

    async def _look(self) -> None:
        ledgers, left = self._unlooked(), RowPool()
        left.put(RowSet.union([ledger.later.rows() for ledger in ledgers]))
        try:
            while not left.is_empty:
                moves = self._partition.moves
                await self._take_out_dated(left)
                if moves == self._partition.moves:
                    break
        except Exception as error:
            where = self._partition.number, self._partition.topic
            _log.warning("due times of partition %d of topic %d could not be read: %s", *where, error)
            self._task, self.next = None, self._dues.now() + AGAIN
            return self._found(NO_ROWS.offsets())
        self._task = None
        self._known |= {ledger.subscription for ledger in ledgers}
        moved, _ = self._partition.moved_rows.within(0, NEVER)
        left.take_out(RowSet.of_offsets(moved))
        self._found(left.rows().offsets())

    async def _take_out_dated(self, left: RowPool) -> None:
        """Takes out the rows that have a due time, or that may have one. Whether a row has one never changes,
        so what was taken out is not read again if something moves meanwhile.
        """
        first = left.smallest(1).first
        async for part in self._dues.of_pages(self._dues.pages(max(first, self._partition.sealed_end))):
            left.take_out(RowSet.of_offsets(part.offsets))
        for extent in await self._dues.extents(first):
            rows = RowSet(extent.first_offset, extent.end_offset)
            if not left.any(rows.first, rows.stop):
                continue
            if await self._dues.are_all_dated(extent):
                left.take_out(rows)
                continue
            async for part in self._dues.later(extent, 0):
                left.take_out(RowSet.of_offsets(part.offsets))
