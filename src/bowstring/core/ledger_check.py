"""The invariants of a ledger: every row is in one place."""

from __future__ import annotations

from bowstring.core.ledger import Ledger
from bowstring.core.row_set import RowSet


def check(ledger: Ledger) -> None:
    """For tests, and at the end of a load."""
    ledger.leases.check()
    ledger.timeline.check()
    leased, returned, later = ledger.leases.rows(), ledger.returned.rows(), ledger.timeline.rows()
    settled = RowSet.union((RowSet(0, ledger.floor), ledger.settled.above.rows()))
    assert returned == ledger.derived().rows(), "a row before the cursor is in no place, or in two"
    assert not ledger.settled.of(leased), "a settled row is leased"
    assert not ledger.settled.of(later), "a settled row comes again"
    assert not leased & later, "a leased row comes again"
    scheduled = ledger.later.rows()
    assert not ledger.settled.of(scheduled), "a settled row is to be due"
    assert not scheduled & leased, "a leased row is to be due"
    assert not scheduled & later, "a row is to be due, and comes again"
    assert not ledger.later.due.rows() - scheduled, "a row is due that is not later"
    assert not later or (later.stop <= ledger.cursor and ledger.timeline.first() > ledger.moment), "a row that comes later is here already"
    assert not ledger.settled.above.any(ledger.floor, ledger.floor + 1), "the floor stands at a settled row"
    assert ledger.settled.above.first is None or ledger.settled.above.first > ledger.floor
    assert leased.stop <= ledger.cursor, "a row is leased that the cursor has not passed"
    assert not ledger.counts.rows() & settled, "a settled row has a retry count"
    assert all(lease.number < ledger.next_grant for lease in ledger.leases), "a grant has a number that comes again"
    assert all(ledger.consumers[lease.consumer] for lease in ledger.leases)
