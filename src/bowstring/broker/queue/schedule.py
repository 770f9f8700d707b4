"""When the rows of one partition are due that were published for later. All its subscriptions share it.

Two things are known of such rows. `undue` is a set of the rows that are not due, as far back as any
cursor stands: cursors pass them by. `_near` has the rows that are due next: those of pages that are
not sealed, and of sealed ones those that are due before a horizon. What is due before the horizon is
sorted by due time and offset. The horizon moves on, and then the blocks of the next span are read from
the due sections of extents. So twenty million rows that are spread over a day need some megabytes. Rows
leave `undue` in the step in which they are due, and each ledger that passed them by hears of it in the
same step: a row is either met by a cursor or told here, never both, never neither.

A page with due times is looked at when it is committed. Until then nothing from it on is granted. The
rows of a page that cannot be read wait for the latest due time of the page, and the page is read again
now and then: a read that failed once must not delay them.

Rows that their owner has moved are due by `Partition.moved_rows`, whatever their pages and the sections
say. That is looked up in the step in which something becomes known here, so a move that comes while
something is read counts.

Nothing here is durable. A loaded broker begins with the first consumer, and with the past: ledgers
know which rows they passed by (`Ledger.later`), and the broker tells those that are due by now at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.log.alarm import Alarm
from bowstring.broker.queue.due_ahead import DueAhead
from bowstring.broker.queue.lease_clock import LeaseClock
from bowstring.broker.queue.undated_rows import UndatedRows, undated
from bowstring.broker.reading.row_wait import RowWait
from bowstring.core.addresses import Runs
from bowstring.core.coming_rows import ComingRows
from bowstring.core.due_blocks import Dues, Offsets
from bowstring.core.ledger import Ledger
from bowstring.core.machine import NEVER
from bowstring.core.row_set import NO_ROWS, RowPool, RowSet

WINDOW: Final = 60_000_000
"""Sealed rows are read so long before they are due, in microseconds, or half of it."""
TOGETHER: Final = 80_000
"""Rows that are due within so many microseconds behind others are told together: each telling is a
flush, and the ack of its rows another. A row that is due when none was for so long is told at once."""
AGAIN: Final = 1_000_000
"""What could not be read is read again so much later."""
AGAIN_MAX: Final = 300_000_000
"""A page that cannot be read is read again after twice as long each time, and at last so much later."""

_log = logging.getLogger("bowstring.queue")


class Schedule:
    """The due rows of one partition, for its ledgers (`Sleeper`)."""

    def __init__(self, actor: PartitionActor, ahead: DueAhead, clock: LeaseClock, alarm: Alarm, told: Callable[[], None]) -> None:
        """`told` is called when rows are due, or more is known of them."""
        self._actor = actor
        self._partition = actor.partition
        self._ahead = ahead
        self._dues = ahead.dues
        self._clock = clock
        self._alarm = alarm
        self._told = told
        self.undue = RowPool()
        """Rows that are not due."""
        self._near = ComingRows(0)
        """Sealed rows that are due before its horizon are in it, and all that are not sealed."""
        self._told_until = 0
        """When it told of rows last."""
        self._known_from = NEVER
        """Of rows from here on it is known whether they are due."""
        self._fed: set[int] = set()
        """Subscriptions that have heard of all rows that are due by now."""
        self._unread: list[int] = []
        """Where pages begin that have due times and were not looked at."""
        self._seals = 0
        self._is_sealed = False
        """Whether there are due times in extents."""
        self._task: asyncio.Task[None] | None = None
        self._wait: RowWait | None = None
        self._looks_again = NEVER
        """When pages are read again whose due times were guessed."""
        self._pause = AGAIN
        self._undated = UndatedRows(self._partition, self._dues, self._found_undated)

    # What the granter asks

    def limit(self, ledger: Ledger) -> int:
        """Rows of a ledger before this may be granted: up to there it is known which of them are due,
        and all are.
        """
        if (self._known_from > ledger.cursor or ledger.subscription not in self._fed) and not self._begin(ledger):
            return 0
        known = self._unread[0] if self._unread else NEVER
        return known if self.undue.is_empty else min(known, self._first_undue(ledger.cursor, known))

    def undue_rows(self, ledger: Ledger, end: int) -> RowSet:
        """Rows from the cursor on, up to `end` and to where it is known, that are not due."""
        if self._known_from > ledger.cursor or ledger.subscription not in self._fed:
            return NO_ROWS
        known = min(end, self._unread[0] if self._unread else NEVER)
        if self.undue.is_empty or known <= ledger.cursor or not self.undue.any(ledger.cursor, known):
            return NO_ROWS  # a seek may have set the cursor behind pages that were not looked at
        return self.undue.among(RowSet(ledger.cursor, known))

    def asleep(self, ledger: Ledger, end: int) -> RowSet:
        """Rows of a ledger before `end` that are known to be not due: those that it has passed by, too."""
        if self._known_from > ledger.cursor or ledger.subscription not in self._fed:
            return NO_ROWS
        return RowSet.union((ledger.later.rows() - ledger.later.due.rows(), self.undue_rows(ledger, end)))

    def forget(self, subscription: int) -> None:
        """A ledger has passed rows by and does not know whether they are due: it hears again of all that
        are.
        """
        self._fed.discard(subscription)

    def _first_undue(self, cursor: int, known: int) -> int:
        end = min(known, self._partition.next_offset)
        rows = self.undue.among(RowSet(cursor, end)) if cursor < end and self.undue.any(cursor, end) else NO_ROWS
        return rows.first if rows else known

    def _begin(self, ledger: Ledger) -> bool:
        """Whether everything is known for a ledger without reading; else it is read."""
        reaches = self._known_from <= ledger.cursor
        if not reaches and ledger.cursor >= self._partition.sealed_end and not self._dues.pages(ledger.cursor):
            self._known_from, reaches = ledger.cursor, True
        if reaches and ledger.later.is_empty:
            self._fed.add(ledger.subscription)
            self._near.reach(self._near.horizon or self._dues.now() + WINDOW)
            return True
        if self._task is None:
            self._task = asyncio.create_task(self._load())
        return False

    # Reading the past

    async def _load(self) -> None:
        """Reads everything anew: what is due by now, what is due soon, and what is not due from the
        lowest cursor on. Anew again if something has moved meanwhile.
        """
        partition, dues = self._partition, self._dues
        try:
            while True:
                moves, now, committed = partition.moves, dues.now(), partition.committed_offset
                ledgers = list(partition.ledgers)
                lowest = min((ledger.cursor for ledger in ledgers), default=partition.next_offset)
                floor = min((ledger.floor for ledger in ledgers), default=partition.next_offset)
                near, undue = ComingRows(now + WINDOW), RowPool()
                async for part in dues.of_pages(dues.pages(max(floor, partition.sealed_end))):
                    near.add(part)
                    undue.put(_later(part, now))
                extents = await dues.extents(floor)
                for extent in extents:
                    near.add(await dues.between(extent, 0, now + WINDOW))
                    if extent.end_offset > lowest:
                        async for part in dues.later(extent, now):
                            undue.put(_later(part, now))
                if moves == partition.moves:
                    break
        except Exception as error:
            return self._failed(error)
        self._task, self._is_sealed = None, bool(extents)
        self._unread = [first for first in self._unread if first >= committed]
        self._seals, self._known_from = partition.seals, lowest
        self._near, self.undue = near, undue
        self._fed = {ledger.subscription for ledger in ledgers}
        moved = partition.moved_rows
        if len(moved):  # those are due when their owner has said
            offsets, _ = moved.within(0, NEVER)
            near.keep(lambda rows: ~np.isin(rows.offsets, offsets))
            undue.take_out(RowSet.of_offsets(offsets))
        soon = moved.due_between(0, now + WINDOW), moved.due_between(now + WINDOW, NEVER, partition.sealed_end)
        self._add([], [moved.due_between(now, NEVER)], now, soon)
        self._undated.loaded(now)
        self._found()

    def _found(self) -> None:
        """Something was read. What was guessed then is read again."""
        if self._dues.guessed.are_there and self._looks_again == NEVER:
            self._looks_again = self._dues.now() + self._pause
        self._committed()
        self.woken(0)

    async def _look_again(self) -> None:
        """Reads pages again that could not be read. Of those that can be read it is known now when their rows
        are due; for the others it waits longer.
        """
        try:
            found = await self._dues.guessed.known_now()
        except Exception as error:
            return self._failed(error)
        self._task, self._looks_again = None, NEVER
        self._pause = AGAIN if found else min(2 * self._pause, AGAIN_MAX)
        for dues in map(self._partition.moved_rows.unmoved, found):
            self._near.keep(lambda rows, offsets=dues.offsets: ~np.isin(rows.offsets, offsets))
            self.undue.take_out(RowSet.of_offsets(dues.offsets))
            self._add([dues], [dues], self._dues.now())
            self._need_not_wait(undated(dues))
        self._found()

    def _found_undated(self, offsets: Offsets) -> None:
        """Rows were looked up that ledgers have passed by."""
        self._need_not_wait(offsets)
        self._found()

    def _need_not_wait(self, offsets: Offsets) -> None:
        """These rows have no due time. No section names them, so every ledger hears of them here, also one
        that has not heard of all others.
        """
        if len(offsets):
            rows = RowSet.of_offsets(offsets)
            self.undue.take_out(rows)
            for ledger in self._partition.ledgers:
                ledger.later.come_due(offsets, rows)

    async def _load_window(self) -> None:
        """Reads which sealed rows are due in the next span. Rows that are sealed meanwhile are in
        memory still.
        """
        try:
            while True:
                moves, until = self._partition.moves, self._dues.now() + WINDOW
                near = [await self._dues.between(extent, self._near.horizon, until) for extent in await self._dues.extents()]
                if moves == self._partition.moves:
                    break
        except Exception as error:
            return self._failed(error)
        moved = self._partition.moved_rows.due_between(self._near.horizon, until)
        self._task = None
        self._near.reach(until)
        self._add(near, [], 0, [moved])
        self._trim()
        self._found()

    def _failed(self, error: Exception) -> None:
        """Something could not be read: it is tried again."""
        _log.warning("due times of partition %d of topic %d could not be read: %s", self._partition.number, self._partition.topic, error)
        self._task, self._known_from = None, NEVER
        self._alarm.set(self, self._clock.now() + AGAIN)

    # New pages

    def appended(self, first_offset: int) -> None:
        """A page with due times is decided."""
        if self._known_from == NEVER and self._task is None:
            self._known_from = first_offset
        self._unread.append(first_offset)
        self._wait_for_commit()

    def _wait_for_commit(self) -> None:
        if self._wait is None and self._unread:
            self._wait = RowWait(self._woken_by_commit)
            behind = self._partition.committed_offset  # a task looks at pages before it
            self._actor.wake_when_readable(self._wait, max(behind, self._unread[0]))

    def _woken_by_commit(self) -> bool:
        self._wait = None
        if self._committed():
            self.woken(0)
        self._wait_for_commit()
        return True

    def _committed(self) -> bool:
        """Looks at pages that are committed and in memory, in this step. Says whether there were
        some.
        """
        ready = [first for first in self._unread if first < self._partition.committed_offset]
        if not ready or self._actor.gone is not None or self._task is not None:
            return False
        dues = self._dues.held(self._dues.pages(ready[0])) if ready[0] >= self._partition.sealed_end else None
        if dues is None:
            self._task = asyncio.create_task(self._load())
            return False
        self._unread = self._unread[len(ready) :]
        self._add(dues, dues, self._dues.now())
        return True

    def _add(self, near: list[Dues], ahead: list[Dues], now: int, moved: Sequence[Dues] = ()) -> None:
        """Rows are known, as they were published: those that are due next, and those that cursors pass
        by if they are not due now. Of rows that were moved `moved` says when they are due next.
        """
        known = self._partition.moved_rows
        for part in (*map(known.unmoved, near), *moved):
            self._near.add(part)
        for part in map(known.present, ahead):
            self.undue.put(_later(part, now))

    def _trim(self) -> None:
        """Forgets rows that are sealed and not due before the horizon: they are read again."""
        horizon, sealed_end = self._near.horizon, self._partition.sealed_end
        if self._near.keep(lambda rows: (rows.moments < horizon) | (rows.offsets >= sealed_end)):
            self._is_sealed = True
        self._seals = self._partition.seals

    # Rows that are moved

    def rescheduled(self, runs: Runs, due: int) -> None:
        """Their owner has given rows that are not due another due time. Those that are not in memory
        before they are due are read then. Before anything is known here there is nothing to do.
        """
        if self._known_from == NEVER:
            return
        offsets = RowSet.of_runs(runs).offsets()
        self._near.keep(lambda rows: ~np.isin(rows.offsets, offsets))
        near = offsets if due < self._near.horizon else offsets[offsets >= self._partition.sealed_end]
        self._is_sealed = self._is_sealed or len(near) < len(offsets)
        self._add([], [], 0, [Dues(np.full(len(near), due, np.int64), near)])
        self.woken(0)

    # When rows are due

    def woken(self, now: int) -> None:
        """The time of rows may have come, or that of the next look into the extents."""
        del now
        now = self._dues.now()
        if self._actor.closed is not None:
            return
        if self._seals != self._partition.seals and self._task is None:
            self._trim()
        if self._near.has_far and not self._is_sealed and self._near.horizon - WINDOW // 2 <= now:
            self._near.reach(now + WINDOW)
        self.tell_due(now)
        if self._is_sealed and self._task is None and self._near.horizon - WINDOW // 2 <= now:
            self._task = asyncio.create_task(self._load_window())
        if self._task is None and self._looks_again <= now:
            self._task = asyncio.create_task(self._look_again())
        if self._undated.next <= now:
            self._undated.begin()
        self._told()
        self._ahead.look(now, self._near)
        following = min(self._undated.next, max(self._near.first(), self._told_until + TOGETHER))
        if (self._is_sealed or self._near.has_far) and self._task is None:
            following = min(following, self._near.horizon - WINDOW // 2)
        if self._task is None:
            following = min(following, self._looks_again)
        if following < NEVER:
            self._alarm.set(self, max(self._clock.at(following), self._clock.now() + 1))

    def tell_due(self, now: int = 0) -> None:
        """Tells the rows that are due by now and were not told. For those who grant by keys: of a key
        the rows that are due come in their order.
        """
        now = now or self._dues.now()
        if self._near.first() <= now:
            self._tell(self._near.take(now))
            self._told_until = now

    def _tell(self, due: Offsets) -> None:
        rows = RowSet.of_offsets(due)
        self.undue.take_out(rows)
        for number in self._fed:
            ledger = self._partition.ledgers.get(number)
            if ledger is not None and not ledger.later.is_empty:
                ledger.later.come_due(due, rows)

    def stop(self) -> None:
        """No one needs it: the topic or its last subscription is gone, or the incarnation has ended. An
        alarm or a commit may call it once more, and finds nothing.
        """
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._ahead.stop()
        self._undated.stop()
        self.undue, self._near, self._unread, self._is_sealed = RowPool(), ComingRows(), [], False
        self._looks_again = NEVER


def _later(dues: Dues, now: int) -> RowSet:
    """Those of the rows that are not due."""
    return RowSet.of_offsets(dues.offsets[dues.moments > now])
