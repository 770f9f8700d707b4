"""Looks at rows before they are granted, for a subscription that has to: because it has a filter, or
because it goes by keys.

From the cursor on it reads pages ahead, in the same step if they are in memory, else by a task. It
keeps the offsets of the rows that the filter lets pass, and the hashes of their keys where those are
wanted. That is bounded; rows that the filter leaves out cost nothing. Only rows that it has looked at
are granted, so what is committed by a flush is granted by the next one.

Rows that are left out are settled by the grant that passes them (`granting.choose`). Where nothing
passes the filter for long, a change of its own moves the cursor over them, so that the floor rises:
at once after very many rows, else a few seconds later.

A row that it could not look at, because its page is damaged or gone, counts as one that passes. Its
delivery sets it aside and counts it. Nothing here is durable: a loaded broker looks again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import numpy as np

from bowstring import errors
from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.log.alarm import Alarm
from bowstring.broker.queue.lease_clock import LeaseClock
from bowstring.broker.queue.lease_requests import SkipRows
from bowstring.broker.queue.look_ahead import LookAhead
from bowstring.broker.queue.page_looks import AHEAD_ROWS, PageLooks, PagesRead
from bowstring.broker.queue.scouted_rows import RowLook, ScoutedRows, joined, nothing
from bowstring.broker.reading.reading import Reading
from bowstring.broker.reading.row_wait import RowWait
from bowstring.core.ledger import Ledger
from bowstring.core.row_set import NO_ROWS, RowSet

AHEAD_BYTES: Final = 8 * 1024 * 1024
"""About how many bytes of pages with rows that pass a filter it looks ahead: what it has read is still
in memory when it is delivered. It looks further for a caller that wants to know all rows, and where rows
wait for their keys.
"""
ALL_ROWS: Final = 1 << 62
"""So many rows are asked for by a caller that wants to know all."""
SKIP_ROWS: Final = 262_144
"""So many rows that are left out, one after the other, are settled without a grant at once."""
SKIP_MICROSECONDS: Final = 5_000_000
"""Fewer are settled so much later, if no grant has come meanwhile."""


class Scout(PageLooks):
    """Looks ahead for one subscription, while it has consumers."""

    def __init__(
        self,
        subscription: int,
        reading: Reading,
        clock: LeaseClock,
        alarm: Alarm,
        look: RowLook,
        *,
        found: Callable[[PartitionActor], None],
        failed: Callable[[errors.Error], None],
    ) -> None:
        """`found` is called when a partition may have more rows to grant, `failed` when it cannot
        be read.
        """
        super().__init__(subscription, reading, look)
        self._clock = clock
        self._alarm = alarm
        self.found = found
        self._failed = failed
        self._sleep = reading.clock.sleep
        self._partitions: dict[PartitionActor, LookAhead] = {}
        self.granted = 0
        """When rows were granted last."""

    # What the granter asks

    def is_reading(self, actor: PartitionActor) -> bool:
        """Whether pages of a partition are being read, so that more may be known in a moment."""
        ahead = self._partitions.get(actor)
        return ahead is not None and ahead.task is not None

    def waiting(self, actor: PartitionActor, ledger: Ledger, now: int = 0) -> int:
        """How many rows of a partition can be granted, as far as is known. Looks further."""
        return len(ledger.returned) + ledger.timeline.ripe_count(now) + self._ahead(actor, ledger).count

    def eligible(self, actor: PartitionActor, ledger: Ledger, most: int) -> ScoutedRows:
        """Rows from the cursor on that can be granted: so many and one more, or all that are known.
        Other rows of [first, end) are left out by the filter, or are settled.
        """
        if actor in self._partitions:
            self._partitions[actor].wants_all = most >= ALL_ROWS
        ahead, blocks, rows = self._ahead(actor, ledger), list[ScoutedRows](), 0
        for block in ahead.blocks:
            blocks.append(block)
            rows += len(block.offsets)
            if rows > most:
                return joined(blocks)._replace(first=ahead.start)
        if not blocks:
            return nothing(ahead.start, ahead.end)
        return joined(blocks)._replace(first=ahead.start, end=ahead.end)

    def beyond(self, actor: PartitionActor, ledger: Ledger, offset: int, most: int) -> ScoutedRows:
        """Rows from an offset on, which is not before the cursor: those of the next blocks, up to
        so many and the rest of a block. `end` is the offset if there are none yet.
        """
        ahead, blocks, rows = self._ahead(actor, ledger), list[ScoutedRows](), 0
        for block in ahead.blocks:
            if block.offsets[-1] >= offset:
                low = int(np.searchsorted(block.offsets, offset))
                blocks.append(block.rows(low, len(block.offsets)))
                rows += len(block.offsets) - low
                if rows >= most:
                    return joined(blocks)._replace(first=offset, end=int(block.offsets[-1]) + 1)
        if not blocks:
            return nothing(offset, max(offset, ahead.end))
        return joined(blocks)._replace(first=offset, end=ahead.end)

    def left_out(self, actor: PartitionActor, ledger: Ledger, upto: int) -> RowSet:
        """The rows from the cursor up to an offset that the filter leaves out."""
        if not self._look.has_filter or upto <= ledger.cursor:
            return NO_ROWS
        rows = RowSet(ledger.cursor, upto)
        passing = [block.offsets[block.offsets < upto] for block in self._ahead(actor, ledger).blocks if block.offsets[0] < upto]
        return rows - RowSet.of_offsets(np.concatenate(passing)) if passing else rows

    def failed(self, error: Exception) -> None:
        """Messages could not be read."""
        self._failed(error if isinstance(error, errors.Error) else errors.Unavailable(f"messages could not be read: {error}"))

    def _ahead(self, actor: PartitionActor, ledger: Ledger) -> LookAhead:
        start = max(ledger.cursor, ledger.floor)
        ahead = self._partitions.get(actor)
        if ahead is None or not ahead.start <= start <= ahead.end:
            self.forget(actor)
            ahead = self._partitions[actor] = LookAhead(start)
            self.begin(actor, start)
        ahead.pass_below(start)
        ahead.leave_out(ledger)
        if ahead.task is None and not self._is_far(ahead):
            self._look_further(actor, ahead)
        self._skip(actor, ledger, ahead)
        return ahead

    # Looking ahead

    def _look_further(self, actor: PartitionActor, ahead: LookAhead) -> None:
        """Looks at what is in memory, about as much as one step allows; a task reads the rest."""
        committed = actor.partition.committed_offset
        if ahead.end < committed:
            self.look_at_once(actor, ahead, RowSet(ahead.end, committed))
        if ahead.end >= committed:
            self._wait(actor, ahead)
        elif not self._is_far(ahead):
            ahead.task = asyncio.create_task(self._read(actor, ahead))

    def _wait(self, actor: PartitionActor, ahead: LookAhead) -> None:
        """Until more is committed."""
        if ahead.wait is None:
            ahead.wait = RowWait(lambda: self._woken(actor, ahead))
            actor.wake_when_readable(ahead.wait, ahead.end)

    def _woken(self, actor: PartitionActor, ahead: LookAhead) -> bool:
        ahead.wait = None
        if self._partitions.get(actor) is ahead and actor.gone is None:
            self.found(actor)
        return True

    async def _read(self, actor: PartitionActor, ahead: LookAhead) -> None:
        """Reads pages until it knows enough rows, or is at the end."""
        try:
            await self._read_on(actor, ahead)
        except Exception as error:
            ahead.task = None
            self.failed(error)
            return
        ahead.task = None
        self.found(actor)

    def _is_far(self, ahead: LookAhead) -> bool:
        """Whether it looks no further now. Rows that wait for their keys do not count in bytes."""
        bytes_max = None if self._look.with_keys or ahead.wants_all else AHEAD_BYTES
        return ahead.is_far(AHEAD_ROWS, bytes_max)

    async def _read_on(self, actor: PartitionActor, ahead: LookAhead) -> None:
        """The next pages are read while these are looked at. Those that are read last, and not looked
        at, go into the cache of pages.
        """
        following: PagesRead | None = None
        try:
            while not self._is_far(ahead) and (committed := actor.partition.committed_offset) > ahead.end:
                if following is None or following.asked.first != ahead.end:
                    following = self.read(actor, RowSet(ahead.end, committed))
                read, found = following, await following.task
                following = self.read_behind(actor, found, committed)
                await self._look_by_turns(actor, ahead, read)
        except asyncio.CancelledError:
            if following is not None:
                following.task.cancel()
            raise

    async def _look_by_turns(self, actor: PartitionActor, ahead: LookAhead, read: PagesRead) -> None:
        """Looks at pages that were read, until it knows enough rows."""
        for part in self.by_turns(read.task.result()):
            await self._sleep(0)
            before = ahead.count
            self.look_at(actor, ahead, RowSet(ahead.end, read.asked.stop), part)
            if ahead.count > before:
                self.found(actor)
            if self._is_far(ahead):
                return

    # Rows that are left out

    def _skip(self, actor: PartitionActor, ledger: Ledger, ahead: LookAhead) -> None:
        """Has the cursor pass rows that are left out, if there are very many; else later."""
        left_out = ahead.first - ledger.cursor
        if left_out >= SKIP_ROWS:
            actor.receive(SkipRows(self._subscription, self._clock.now, ledger.cursor, ahead.first))
            ahead.pass_below(ahead.first)
        elif left_out > 0:
            self._alarm.set(self, self._clock.now() + SKIP_MICROSECONDS)

    def woken(self, now: int) -> None:
        """Rows were left out a while ago, and perhaps no grant has passed them."""
        del now
        for actor, ahead in tuple(self._partitions.items()):
            ledger = actor.partition.ledgers.get(self._subscription)
            if ledger is not None and actor.closed is None and ledger.cursor < ahead.first:
                actor.receive(SkipRows(self._subscription, self._clock.now, ledger.cursor, ahead.first))
                self.found(actor)

    # The end

    def forget(self, actor: PartitionActor) -> None:
        """What is known of a partition does not count any more."""
        ahead = self._partitions.pop(actor, None)
        if ahead is not None:
            ahead.stop(actor)

    def stop(self) -> None:
        """There are no consumers any more."""
        for actor in tuple(self._partitions):
            self.forget(actor)
