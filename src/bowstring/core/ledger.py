"""The ledger: what a subscription has done with the rows of one partition.

A row is in one of six places, and only exceptions cost memory:

- settled: below the floor, or in a set above it (`settled_rows`);
- leased: part of a grant, which is a run of rows (`leases`);
- condemned: on its way to the dead letters (`condemned`);
- returned: given back, before the cursor, and granted again before anything new;
- later: given back, and to come again at a moment (`timeline`); or published for later, and not due
  when the cursor passed it (`later`). The broker tells when such rows are due, which is not durable;
- waiting: from the cursor on, never granted yet. Ten million of them cost nothing.

Which rows are returned follows from the rest: they are before the cursor, neither settled nor
leased nor condemned nor later. So that is not durable, and a loaded ledger works it out when it is
first asked to grant. Beside the places a row has a retry count (`retry_counts`), and a count of the
leases on it that have expired: rows with two of them are suspects, which are granted apart from all
others (`granting`). A consumer has a running number of its requests (`ledger_consumers`).

A lane is the ledger of a subscription in the topic of its dead letters: only what a `Redrive` has
named is returned there.

Where rows are is in `ledger_places`. Requests are decided beside it (`granting`, `settling`), and deciding changes nothing. Durable state
changes only in `apply`, also by the deletions and floors of the partition. Only one decision is
open at a time: it is applied before the next one is made, because a grant has the next number and
begins at the cursor.

Time comes in with changes: a row of the timeline is returned when a change names its moment or a
later one. A grant names the present, so it may have the rows that come back by then.
"""

from __future__ import annotations

from typing import assert_never

from bowstring.core.addresses import Spans
from bowstring.core.changes import Delete, Floor
from bowstring.core.condemned import EXPIRED, OVERTAKEN, LastDelivery
from bowstring.core.leases import Lease
from bowstring.core.ledger_changes import (
    AlterSubscription,
    Bury,
    Condemn,
    Expire,
    Extend,
    GiveBack,
    Grant,
    Join,
    OneLedgerChange,
    Overtake,
    PassBy,
    Redrive,
    Reset,
    SetAside,
    SetAsideReason,
    Settle,
    Settlement,
    Skip,
    Subscribe,
)
from bowstring.core.ledger_places import LedgerPlaces
from bowstring.core.machine import LedgerParts, Machine
from bowstring.core.row_set import NO_ROWS, RowPool, RowSet


class Ledger(LedgerPlaces, Machine[OneLedgerChange | Delete | Floor, LedgerParts]):
    """One subscription in one partition."""

    @staticmethod
    def of(change: Subscribe) -> Ledger:
        """The ledger with which a subscription begins."""
        ledger = Ledger(change.topic, change.partition, change.subscription, change.offset, change.floor, change.gone)
        ledger.name, ledger.settings, ledger.created, ledger.lane = change.name, change.settings, change.created, change.lane
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
                self._apply_set_aside(change)
            case PassBy():
                self._apply_pass_by(change)
            case Skip():
                self.cursor += change.passed
                self._settle(RowSet(self.cursor - change.passed, self.cursor))
            case Condemn():
                self._apply_condemn(change)
            case Bury():
                self._settle(RowSet.of_spans(change.rows))
            case Redrive():
                self._apply_redrive(RowSet.of_spans(change.rows))
            case Overtake():
                self._apply_overtake(change)
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
        apart = len(rows) if change.apart else 0
        self.leases.add(Lease(change.number, change.consumer, self.moment, self.moment + consumer.lease, rows, apart))

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
        reasons = iter(change.reasons)
        for grant, outcome, spans, moment in change.parts:
            granted = self.leases.of_grant(grant)[0].granted if outcome is Settlement.CONDEMN else 0
            rows = self._taken(grant, spans)
            if outcome is Settlement.ACK:
                self._settle(rows)
            elif outcome is Settlement.CONDEMN:
                consumer = self.consumers[change.consumer].name
                self._condemn(rows, LastDelivery(next(reasons, ""), granted, consumer, change.moment))
            else:
                self._give_back(rows, counted=outcome.is_counted, moment=moment)

    def _apply_set_aside(self, change: SetAside) -> None:
        for part in change.parts:
            rows = self._taken(part.grant, part.rows)
            if change.reason is SetAsideReason.OVERTAKEN:
                self.condemned.add(rows, LastDelivery(OVERTAKEN, ended=change.moment))
            else:
                self._settle(rows)
                self.overtaken += len(rows) if change.reason is SetAsideReason.EXPIRED else 0

    def _apply_expire(self, change: Expire) -> None:
        self._reach(change.moment)
        for part in change.revoked:
            self._give_back(self._taken(part.grant, part.rows))
        condemned = RowSet.of_spans(change.condemned) if change.condemned else NO_ROWS
        for lease in self.leases.apart() if condemned else ():
            if rows := lease.rows & condemned:
                last = LastDelivery(EXPIRED, lease.granted, self.consumers[lease.consumer].name, lease.until)
                self._condemn(rows, last)
        ended = left = self.leases.expire(change.moment) - condemned
        for part in change.later:
            rows = RowSet.of_spans(part.rows)
            self._give_back(rows, counted=True, moment=part.moment)
            left = left - rows
        self._give_back(left, counted=True)
        if ended:
            self.expiries.count(ended, self.ordinal)

    def _reach(self, moment: int) -> None:
        """A change names this moment: rows that come back by then are returned."""
        self.moment = moment
        if self.timeline.first() <= moment:
            rows = self.timeline.take_until(moment)
            if self._returned is not None:
                self._returned.put(rows)

    def _condemn(self, rows: RowSet, last: LastDelivery) -> None:
        """Rows whose last delivery has ended."""
        self.counts.count(rows, self.ordinal)
        self.condemned.add(rows, last)

    def _apply_condemn(self, change: Condemn) -> None:
        """The cursor passes these rows: no row behind it is condemned. Other rows that it passes may not
        be due, so they wait among those.
        """
        rows = RowSet.of_spans(change.rows)
        if self._returned is not None:
            self._returned.take_out(rows)
        self.timeline.take_out(rows)
        self.later.take_out(rows)
        if rows.stop > self.cursor:
            passed = RowSet(self.cursor, rows.stop) - rows
            self.later.put(passed - self.settled.of(passed))
            self.cursor = rows.stop
        self.condemned.add(rows, LastDelivery(change.reason, ended=change.moment))

    def _apply_overtake(self, change: Overtake) -> None:
        self.overtaken += change.count
        if change.rows:
            self._leave(RowSet.of_spans(change.rows))

    def _apply_redrive(self, rows: RowSet) -> None:
        self.redriven.put(rows)
        self.cursor = max(self.cursor, rows.stop)
        if self._returned is not None:
            self._returned.put(rows)

    def _settle(self, rows: RowSet) -> None:
        self.settled.add(rows)
        self.counts.clear(rows, self.ordinal)
        self.expiries.clear(rows, self.ordinal)
        self.condemned.take_out(rows)
        if self.lane:
            self.redriven.take_out(rows)

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
        self.condemned.keep_below(change.offset)
        self.timeline.clear()
        self.later.take_out(self.later.rows())
        self.settled.reset(change.offset)
        self.settled.add(gone)
        self.counts.clear(RowSet(0, change.offset), self.ordinal)
        self.counts.clear(gone, self.ordinal)
        self.expiries.clear(self.expiries.rows(), self.ordinal)
        self.cursor = change.offset
        self.sought = self.next_grant
        self._returned = RowPool()

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
        from bowstring.core import ledger_inspection

        return ledger_inspection.state(self)

    def check(self) -> None:
        from bowstring.core import ledger_inspection

        ledger_inspection.check(self)
