"""The places of a ledger's rows, and what can be asked about them: which rows are granted next, how many
wait, who holds some, what retention has to keep. Nothing changes here: `ledger` applies changes.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bowstring.core.addresses import Spans
from bowstring.core.condemned import Condemned
from bowstring.core.due_rows import ScheduledRows
from bowstring.core.leases import LeasedRows, Leases
from bowstring.core.ledger_consumers import LedgerConsumers
from bowstring.core.retry_counts import RetryCounts
from bowstring.core.row_set import NO_ROWS, RowPool, RowSet
from bowstring.core.settled_rows import SettledRows
from bowstring.core.subscription_settings import SubscriptionSettings
from bowstring.core.timeline import Timeline

SUSPECT_EXPIRIES = 2
"""A row is suspected of a crash when so many leases on it have expired."""


class LedgerPlaces:
    """The rows of one subscription in one partition."""

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
        self.expiries = RetryCounts()
        """How many leases on a row have expired."""
        self.condemned = Condemned()
        self.lane = False
        self.redriven = RowPool()
        """Rows of a lane that were redriven and are not settled."""
        self.overtaken = 0
        """How many rows retention has taken before they were settled."""
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
        """None until it is asked for."""
        self.settled.add(RowSet.of_spans(gone))

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
        """The same, worked out from the other places."""
        pool = RowPool()
        if self.floor < self.cursor:
            pool.put(self.redriven.rows() if self.lane else RowSet(self.floor, self.cursor))
            pool.take_out(self.settled.above.rows())
            pool.take_out(self.leases.rows())
            pool.take_out(self.condemned.rows())
            pool.take_out(self.timeline.rows())
            pool.take_out(self.later.rows())
        return pool

    def suspects(self, now: int) -> RowSet:
        """The rows that can be granted again and have expired twice. In a key-shared subscription keys
        say which of them come now (`keys`).
        """
        return self.suspected(RowSet.union((self.returned.rows(), self.timeline.ripe(now)))) if self.expiries.has_two else NO_ROWS

    def suspected(self, rows: RowSet) -> RowSet:
        """Those of the rows that have expired twice."""
        return self.expiries.reaching(rows, SUSPECT_EXPIRIES) if self.expiries.has_two else NO_ROWS

    def next_rows(self, most: int, end: int, now: int = 0) -> RowSet:
        """The rows to grant next, of those before `end`: what was given back first."""
        if self.lane:
            end = self.cursor
        again = self.given_back(most, now)
        if not again:
            return self.settled.unsettled(self.cursor, end, most)
        if len(again) == most:
            return again
        return RowSet.union((again, self.settled.unsettled(self.cursor, end, most - len(again))))

    def given_back(self, most: int, now: int) -> RowSet:
        """So many of the first rows before the cursor that can be granted, or all."""
        ripe, suspects = self.timeline.ripe(now), self.suspects(now)
        again = self.returned.rows() - suspects if suspects else self.returned.smallest(most)
        if ripe or suspects:
            again = RowSet.union((again, ripe - suspects)).smallest(most)
        if self.later.due.is_empty or len(again) == most:
            return again
        return RowSet.union((again, self.later.due.first(most - len(again))))

    def backlog(self, end: int) -> int:
        """How many rows before `end` are not settled, leased ones included."""
        return max(0, end - self.floor - self.settled.above.count(self.floor, end)) if end > self.floor else 0

    def waiting(self, end: int, now: int = 0) -> int:
        """How many rows before `end` can be granted."""
        start = max(self.cursor, self.floor)
        fresh = 0 if self.lane else end - start - self.settled.above.count(start, end) if end > start else 0
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
        """Rows before the offset that are kept from retention: by a lease, until their dead letters
        are written, or because they were redriven.
        """
        condemned = self.condemned.rows().below(below)
        if self.lane:
            condemned = RowSet.union((condemned, self.redriven.rows().below(below)))
        if self.floor >= below:
            return condemned
        return RowSet.union([condemned, *(held for _, held in self.leases.over(RowSet(0, below)))])

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
