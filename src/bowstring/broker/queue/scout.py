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
from collections import deque
from collections.abc import Callable
from typing import Final

import numpy as np

from bowstring import errors
from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.log.alarm import Alarm
from bowstring.broker.queue.granted_pages import GrantedPages, PagesFound
from bowstring.broker.queue.lease_clock import LeaseClock
from bowstring.broker.queue.lease_requests import SkipRows
from bowstring.broker.queue.scouted_rows import RowLook, ScoutedRows, joined, nothing
from bowstring.broker.reading.reading import Reading
from bowstring.broker.reading.row_wait import RowWait
from bowstring.core.ledger import Ledger
from bowstring.core.row_set import NO_ROWS, RowSet

AHEAD_ROWS: Final = 65_536
"""It looks no further when it knows so many rows of a partition that can be granted."""
BYTES_AT_ONCE: Final = 1024 * 1024
"""About how many bytes it looks at in the step of a flush; a task does the rest."""
BYTES_A_READ: Final = 4 * 1024 * 1024
"""About how many a task looks at before others have their turn."""
SMALL_ROWS: Final = 1_024
"""A block of fewer rows is joined with the next one."""
SKIP_ROWS: Final = 262_144
"""So many rows that are left out, one after the other, are settled without a grant at once."""
SKIP_MICROSECONDS: Final = 5_000_000
"""Fewer are settled so much later, if no grant has come meanwhile."""


class _Ahead:
    """What is known of one partition from the cursor on."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.end = start
        """Rows of [start, end) were looked at."""
        self.blocks: deque[ScoutedRows] = deque()
        """Only those in which something passes."""
        self.count = 0
        """How many rows they have."""
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


class Scout:
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
        self._subscription = subscription
        self._look = look
        self._clock = clock
        self._alarm = alarm
        self.found = found
        self._failed = failed
        self._pages = GrantedPages(reading)
        self._sleep = reading.clock.sleep
        self._partitions: dict[PartitionActor, _Ahead] = {}

    # What the granter asks

    def waiting(self, actor: PartitionActor, ledger: Ledger, now: int = 0) -> int:
        """How many rows of a partition can be granted, as far as is known. Looks further."""
        return len(ledger.returned) + ledger.timeline.ripe_count(now) + self._ahead(actor, ledger).count

    def eligible(self, actor: PartitionActor, ledger: Ledger, most: int) -> ScoutedRows:
        """Rows from the cursor on that can be granted: so many and one more, or all that are known.
        Other rows of [first, end) are left out by the filter, or are settled.
        """
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

    def _ahead(self, actor: PartitionActor, ledger: Ledger) -> _Ahead:
        start = max(ledger.cursor, ledger.floor)
        ahead = self._partitions.get(actor)
        if ahead is None or not ahead.start <= start <= ahead.end:
            self.forget(actor)
            ahead = self._partitions[actor] = _Ahead(start)
        ahead.pass_below(start)
        ahead.leave_out(ledger)
        if ahead.task is None and ahead.count < AHEAD_ROWS:
            self._look_further(actor, ahead)
        self._skip(actor, ledger, ahead)
        return ahead

    # Looking ahead

    def _look_further(self, actor: PartitionActor, ahead: _Ahead) -> None:
        """Looks at what is in memory, about as much as one step allows; a task reads the rest."""
        committed = actor.partition.committed_offset
        if ahead.end < committed:
            found = self._pages.at_once(actor.partition, RowSet(ahead.end, committed), BYTES_AT_ONCE)
            if found is not None:
                ahead.add(self._looked_at(actor, RowSet(ahead.end, committed), found))
        if ahead.end >= committed:
            self._wait(actor, ahead)
        elif ahead.count < AHEAD_ROWS:
            ahead.task = asyncio.create_task(self._read(actor, ahead))

    def _wait(self, actor: PartitionActor, ahead: _Ahead) -> None:
        """Until more is committed."""
        if ahead.wait is None:
            ahead.wait = RowWait(lambda: self._woken(actor, ahead))
            actor.wake_when_readable(ahead.wait, ahead.end)

    def _woken(self, actor: PartitionActor, ahead: _Ahead) -> bool:
        ahead.wait = None
        if self._partitions.get(actor) is ahead and actor.gone is None:
            self.found(actor)
        return True

    async def _read(self, actor: PartitionActor, ahead: _Ahead) -> None:
        """Reads pages until it knows enough rows, or is at the end."""
        try:
            while ahead.count < AHEAD_ROWS and (committed := actor.partition.committed_offset) > ahead.end:
                asked, before = RowSet(ahead.end, committed), ahead.count
                ahead.add(self._looked_at(actor, asked, await self._pages.read(actor.partition, asked, BYTES_A_READ)))
                if ahead.count > before:
                    self.found(actor)
                await self._sleep(0)
        except Exception as error:
            ahead.task = None
            self.failed(error)
            return
        ahead.task = None
        self.found(actor)

    def _looked_at(self, actor: PartitionActor, asked: RowSet, found: PagesFound) -> ScoutedRows:
        """The rows of these pages that can be granted. Rows before them are in no page, and those of
        a damaged one cannot be read: their delivery tells.
        """
        parts, end = list[ScoutedRows](), asked.first
        for entry, page in zip(found.entries, found.pages, strict=True):
            if entry.first_offset > end:
                parts.append(self._unseen(actor, end, entry.first_offset))
                if parts[-1].end < entry.first_offset:
                    return joined(parts)
            parts.append(self._look.of_page(max(end, entry.first_offset), entry, page))
            end = entry.end
        if found.damaged:
            parts.append(self._unseen(actor, end, found.damaged.stop))
        elif not parts:
            parts.append(self._unseen(actor, end, asked.stop))
        return joined(parts)

    def _unseen(self, actor: PartitionActor, first: int, end: int) -> ScoutedRows:
        ledger = actor.partition.ledgers.get(self._subscription)
        rows = RowSet(first, end) if ledger is None else ledger.settled.unsettled(first, end, AHEAD_ROWS)
        offsets = rows.offsets()
        looked = end if len(offsets) < AHEAD_ROWS else rows.stop
        return self._look.unknown(first, looked, offsets)

    # Looking again

    def again_at_once(self, actor: PartitionActor, rows: RowSet) -> ScoutedRows | None:
        """Rows before the cursor, which were given back: those of the first pages that hold some,
        up to `end`. None if their pages are not in memory.
        """
        found = self._pages.at_once(actor.partition, rows, BYTES_AT_ONCE)
        return None if found is None else self._look.among(rows, found)

    async def again(self, actor: PartitionActor, rows: RowSet) -> ScoutedRows:
        """The same, wherever they are."""
        return self._look.among(rows, await self._pages.read(actor.partition, rows, BYTES_A_READ))

    def left_out_of(self, rows: RowSet, found: PagesFound) -> RowSet:
        """Those of granted rows in these pages that the filter leaves out: they were granted unseen,
        because their pages could not be read.
        """
        if not self._look.has_filter:
            return NO_ROWS
        looked = [
            (RowSet(entry.first_offset, entry.end), self._look.of_page(entry.first_offset, entry, page))
            for entry, page in zip(found.entries, found.pages, strict=True)
        ]
        return RowSet.union((rows & whole) - RowSet.of_offsets(seen.offsets) for whole, seen in looked)

    # Rows that are left out

    def _skip(self, actor: PartitionActor, ledger: Ledger, ahead: _Ahead) -> None:
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
