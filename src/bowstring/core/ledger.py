"""The ledger: what a subscription has done with the rows of one partition.

A row is in one of five places, and only exceptions cost memory:

- settled: below the floor, or in a set above it (`settled_rows`);
- leased: part of a grant, which is a run of rows (`leases`);
- returned: given back, before the cursor, and granted again before anything new;
- later: given back, and to come again at a moment (`timeline`); or published for later, and not due
  when the cursor passed it (`later`). The broker tells when such rows are due, which is not durable;
- waiting: from the cursor on, never granted yet. Ten million of them cost nothing.

Which rows are returned follows from the rest: they are before the cursor, neither settled nor
leased nor later. So that is not durable, and a loaded ledger works it out when it is first asked to grant.
Beside the places a row has a retry count (`retry_counts`). A consumer has a running number of its
requests (`ledger_consumers`).

Requests are decided beside it (`granting`, `settling`), and deciding changes nothing. Durable state
changes only in `apply`, also by the deletions and floors of the partition. Only one decision is
open at a time: it is applied before the next one is made, because a grant has the next number and
begins at the cursor.

Time comes in with changes: a row of the timeline is returned when a change names its moment or a
later one. A grant names the present, so it may have the rows that come back by then.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, assert_never

import numpy as np
from numpy.typing import NDArray

from bowstring.core.addresses import Spans
from bowstring.core.changes import Delete, Floor
from bowstring.core.due_rows import ScheduledRows
from bowstring.core.leases import Lease, LeasedRows, Leases
from bowstring.core.ledger_changes import (
    AlterSubscription,
    Expire,
    Extend,
    GiveBack,
    Grant,
    Join,
    OneLedgerChange,
    PassBy,
    Reset,
    SetAside,
    Settle,
    Settlement,
    Skip,
    Subscribe,
)
from bowstring.core.ledger_consumers import LedgerConsumers
from bowstring.core.machine import Machine
from bowstring.core.retry_counts import RetryCounts
from bowstring.core.row_set import NO_ROWS, RowPool, RowSet
from bowstring.core.settled_rows import SettledRows
from bowstring.core.subscription_settings import SubscriptionSettings
from bowstring.core.timeline import Timeline


class LedgerParts(NamedTuple):
    """A ledger's state at rest: its head, chunks by their number, and the flush of the head."""

    head: bytes
    chunks: dict[int, bytes]
    sequence: int


class Ledger(Machine[OneLedgerChange | Delete | Floor, LedgerParts]):
    """One subscription in one partition."""

    def __init__(self, topic: int, partition: int, subscription: int, offset: int = 1, floor: int = 1, gone: Spans = ()) -> None:
        """It delivers from the offset on, but for rows that are gone; `floor` is the one of
        retention.
        """
        self.topic = topic
        self.partition = partition
        self.subscription = subscription
        self.place = topic, partition, subscription
        """What its changes begin with."""
        self.name = ""
        """The subscription's; its number stays when another one gets the name."""
        self.settings = SubscriptionSettings()
        self.created = 0
        self.cursor = offset
        """Rows from here on were never granted."""
        self.settled = SettledRows(offset)
        self.leases = Leases()
        self.counts = RetryCounts()
        self.timeline = Timeline()
        """Rows that come again after `moment`."""
        self.later = ScheduledRows()
        """Rows that were not due when the cursor passed them, and were not granted since."""
        self.consumers = LedgerConsumers()
        self.next_grant = 1
        """The number of the next grant."""
        self.moment = 0
        """The last moment that a change named."""
        self.sought = 1
        """Grants below this number ended at the latest when the subscription was set to a place."""
        self.retained = floor
        """How far retention has come."""
        self.ordinal = 0
        """How many changes were applied."""
        self.snapshot_sequence = 0
        """The flush that the head at rest stands for."""
        self._returned: RowPool | None = RowPool()
        """None until somebody asks for it."""
        self.settled.add(RowSet.of_spans(gone))

    @staticmethod
    def of(change: Subscribe) -> Ledger:
        """The ledger with which a subscription begins."""
        ledger = Ledger(change.topic, change.partition, change.subscription, change.offset, change.floor, change.gone)
        ledger.name, ledger.settings, ledger.created = change.name, change.settings, change.created
        return ledger

    # Applying: live and at load

    def apply(self, change: OneLedgerChange | Delete | Floor) -> None:
        self.ordinal += 1
        match change:
            case Grant():
                self._apply_grant(change)
            case Settle():
                self._apply_settle(change)
            case GiveBack():
                for part in change.parts:
                    self._give_back(self._taken(part.grant, part.rows))
            case Extend():
                for part in change.parts:
                    self.leases.extend(part.grant, RowSet.of_spans(part.rows) if part.rows else None, change.until)
            case Expire():
                self._apply_expire(change)
            case Reset():
                self._apply_reset(change)
            case Join():
                self._reach(change.moment)
                self.consumers.join(change, lambda consumer: self.leases.grants_of(consumer) > 0)
            case AlterSubscription():
                self.settings = change.settings
            case SetAside():
                for part in change.parts:
                    self._settle(self._taken(part.grant, part.rows))
            case PassBy():
                self._apply_pass_by(change)
            case Skip():
                self.cursor += change.passed
                self._settle(RowSet(self.cursor - change.passed, self.cursor))
            case Delete():
                self._leave(RowSet.of_runs(change.runs))
            case Floor():
                self._apply_floor(change)
            case _:
                assert_never(change)

    def _apply_grant(self, change: Grant) -> None:
        assert change.number == self.next_grant, f"grant {change.number} after {self.next_grant - 1}"
        consumer = self.consumers[change.consumer]
        self.next_grant += 1
        self._reach(self.moment + change.after)
        if change.rows:
            rows = RowSet.of_spans(change.rows)
            if self._returned is not None:
                self._returned.take_out(rows)
            self.later.take_out(rows)
            if change.passed:
                self._pass_over(change, rows)
        else:
            rows = RowSet(self.cursor, self.cursor + change.passed)
        self.cursor += change.passed
        consumer.active = self.moment
        self.leases.add(Lease(change.number, change.consumer, self.moment, self.moment + consumer.lease, rows))

    def _pass_over(self, change: Grant, rows: RowSet) -> None:
        """The cursor passes rows that the grant does not have."""
        passed, skipped = RowSet(self.cursor, self.cursor + change.passed), RowSet.of_spans(change.skipped)
        self._settle(skipped)
        left = passed - rows - skipped
        if left and self._returned is not None:
            self._returned.put(left - self.settled.of(left))

    def _apply_pass_by(self, change: PassBy) -> None:
        passed = RowSet(self.cursor, self.cursor + change.passed)
        self.cursor += change.passed
        self._settle(RowSet.of_spans(change.skipped))
        left = passed - self.settled.of(passed)
        later = RowSet.of_spans(change.later) & left
        self.later.put(later)
        if self._returned is not None:
            self._returned.put(left - later)

    def _apply_settle(self, change: Settle) -> None:
        self.consumers.settle(change, self.moment)
        for grant, outcome, spans, moment in change.parts:
            rows = self._taken(grant, spans)
            if outcome is Settlement.ACK:
                self._settle(rows)
            else:
                self._give_back(rows, counted=outcome.is_counted, moment=moment)

    def _apply_expire(self, change: Expire) -> None:
        self._reach(change.moment)
        for part in change.revoked:
            self._give_back(self._taken(part.grant, part.rows))
        ended = self.leases.expire(change.moment)
        for part in change.later:
            rows = RowSet.of_spans(part.rows)
            self._give_back(rows, counted=True, moment=part.moment)
            ended = ended - rows
        self._give_back(ended, counted=True)

    def _reach(self, moment: int) -> None:
        """A change names this moment: rows that come back by then are returned."""
        self.moment = moment
        if self.timeline.first() <= moment:
            rows = self.timeline.take_until(moment)
            if self._returned is not None:
                self._returned.put(rows)

    def _settle(self, rows: RowSet) -> None:
        self.settled.add(rows)
        self.counts.clear(rows, self.ordinal)

    def _taken(self, grant: int, spans: Spans) -> RowSet:
        return self.leases.take(grant, RowSet.of_spans(spans) if spans else None)

    def _give_back(self, rows: RowSet, *, counted: bool = False, moment: int = 0) -> None:
        """To their old place, before newer ones: at once, or when the moment comes."""
        if moment > self.moment:
            self.timeline.put(rows, moment)
        elif rows and self._returned is not None:
            self._returned.put(rows)
        if counted and rows:
            self.counts.count(rows, self.ordinal)

    def _leave(self, rows: RowSet) -> None:
        """The log does not have these any more."""
        if rows.below(self.cursor):
            self.leases.drop(rows)
            self.timeline.take_out(rows)
            self.later.take_out(rows)
            if self._returned is not None:
                self._returned.take_out(rows)
        self._settle(rows)

    def _apply_floor(self, change: Floor) -> None:
        """Rows below an earlier floor that are kept still are not named again: only what is between
        the two floors leaves, and what is released.
        """
        passed = RowSet(self.retained, max(change.offset, self.retained))
        self.retained = passed.stop
        kept = RowSet.of_runs(change.kept)
        self._leave(RowSet.of_runs(change.released) - kept)
        self._leave(passed - kept)

    def _apply_reset(self, change: Reset) -> None:
        gone = RowSet.of_spans(change.gone)
        self.leases.clear()
        self.timeline.clear()
        self.later.take_out(self.later.rows())
        self.settled.reset(change.offset)
        self.settled.add(gone)
        self.counts.clear(RowSet(0, change.offset), self.ordinal)
        self.counts.clear(gone, self.ordinal)
        self.cursor = change.offset
        self.sought = self.next_grant
        self._returned = RowPool()

    # Looking

    @property
    def floor(self) -> int:
        """Every row below is settled."""
        return self.settled.floor

    @property
    def returned(self) -> RowPool:
        """Rows that were granted before and can be granted again."""
        if self._returned is None:
            self._returned = self.derived()
        return self._returned

    def derived(self) -> RowPool:
        """The returned rows, worked out anew."""
        pool = RowPool()
        if self.floor < self.cursor:
            pool.put(RowSet(self.floor, self.cursor))
            pool.take_out(self.settled.above.rows())
            pool.take_out(self.leases.rows())
            pool.take_out(self.timeline.rows())
            pool.take_out(self.later.rows())
        return pool

    def next_rows(self, most: int, end: int, now: int = 0) -> RowSet:
        """The rows to grant next, of those before `end`: what was given back first."""
        again = self.given_back(most, now)
        if not again:
            return self.settled.unsettled(self.cursor, end, most)
        if len(again) == most:
            return again
        return RowSet.union((again, self.settled.unsettled(self.cursor, end, most - len(again))))

    def given_back(self, most: int, now: int) -> RowSet:
        """So many of the first rows before the cursor that can be granted, or all."""
        again, ripe = self.returned.smallest(most), self.timeline.ripe(now)
        if ripe:
            again = RowSet.union((again, ripe)).smallest(most)
        if self.later.due.is_empty or len(again) == most:
            return again
        return RowSet.union((again, self.later.due.first(most - len(again))))

    def backlog(self, end: int) -> int:
        """How many rows before `end` are not settled, leased ones included."""
        return max(0, end - self.floor - self.settled.above.count(self.floor, end)) if end > self.floor else 0

    def waiting(self, end: int, now: int = 0) -> int:
        """How many rows before `end` can be granted."""
        start = max(self.cursor, self.floor)
        fresh = end - start - self.settled.above.count(start, end) if end > start else 0
        return fresh + len(self.returned) + self.timeline.ripe_count(now) + len(self.later.due)

    @property
    def not_yet(self) -> int:
        """How many rows come at a time of their own that has not come."""
        return len(self.timeline) + len(self.later) - len(self.later.due)

    def leased(self, rows: RowSet, now: int) -> Iterator[LeasedRows]:
        """Those of the rows that are under an active lease."""
        for lease, held in self.leases.over(rows.below(self.cursor)):
            if lease.until > now:
                yield LeasedRows(held, self.consumers[lease.consumer].name, lease.until)

    def kept(self, below: int) -> RowSet:
        """Rows before the offset that leases keep from retention."""
        if self.floor >= below:
            return NO_ROWS
        return RowSet.union(held for _, held in self.leases.over(RowSet(0, below)))

    def retry_counts(self, rows: RowSet) -> NDArray[np.int32]:
        """For each of the rows, how often it was delivered before."""
        return self.counts.of(rows)

    def resettled(self, offset: int, gone: RowSet, end: int) -> int:
        """How many rows from the offset on are settled, but for those that are gone."""
        settled = max(0, min(self.floor, end) - offset) + self.settled.above.count(max(offset, self.floor), end)
        return settled - len(gone)

    def next_deadline(self) -> int:
        """When the next lease ends."""
        return self.leases.next_end()

    # At rest

    def replay(self, change: OneLedgerChange | Delete | Floor, sequence: int) -> None:
        """A change out of the journal, if the head does not have it already."""
        if sequence > self.snapshot_sequence:
            self.apply(change)

    def snapshot(self) -> LedgerParts:
        """Everything; a seal writes only what `LedgerState.capture` gives."""
        from bowstring.core import ledger_state

        return ledger_state.snapshot(self)

    def restore(self, parts: LedgerParts) -> None:
        """At load, before anything else. Raises `UnreadableState`."""
        from bowstring.core import ledger_state

        ledger_state.restore(self, parts)

    def forget_returned(self) -> None:
        """At load: which rows are returned is worked out when all is replayed."""
        self._returned = None

    def state(self) -> dict[str, object]:
        leases = sorted((lease.number, lease.consumer, lease.granted, lease.until, lease.rows.spans()) for lease in self.leases)
        return {
            "subscription": (self.name, self.settings, self.created),
            "cursor": self.cursor,
            "settled": self.settled.state(),
            "counts": self.counts.state(),
            "timeline": self.timeline.state(),
            "later": self.later.state(),
            "leases": leases,
            "consumers": (self.consumers.next_number, self.consumers.rest()),
            "next_grant": self.next_grant,
            "moment": self.moment,
            "retained": self.retained,
            "sought": self.sought,
            "ordinal": self.ordinal,
        }

    def check(self) -> None:
        from bowstring.core import ledger_check

        ledger_check.check(self)
