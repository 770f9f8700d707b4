"""A ledger looked at as a whole: all of its durable state, to be compared, and its invariants."""

from __future__ import annotations

from bowstring.core.ledger import Ledger
from bowstring.core.row_set import RowSet


def state(ledger: Ledger) -> dict[str, object]:
    """All durable state in a form that can be compared: loaded state with live state."""
    leases = sorted((one.number, one.consumer, one.granted, one.until, one.rows.spans(), one.apart) for one in ledger.leases)
    return {
        "subscription": (ledger.name, ledger.settings, ledger.created),
        "cursor": ledger.cursor,
        "settled": ledger.settled.state(),
        "counts": ledger.counts.state(),
        "expiries": ledger.expiries.state(),
        "condemned": ledger.condemned.state(),
        "sought": ledger.sought,
        "lane": (ledger.lane, ledger.redriven.rows().spans(), ledger.overtaken),
        "timeline": ledger.timeline.state(),
        "later": ledger.later.state(),
        "leases": leases,
        "consumers": (ledger.consumers.next_number, ledger.consumers.rest()),
        "next_grant": ledger.next_grant,
        "moment": ledger.moment,
        "retained": ledger.retained,
        "ordinal": ledger.ordinal,
    }


def check(ledger: Ledger) -> None:
    """The invariants: each row is in one place."""
    ledger.leases.check()
    ledger.timeline.check()
    leased, returned, later, condemned = ledger.leases.rows(), ledger.returned.rows(), ledger.timeline.rows(), ledger.condemned.rows()
    settled = RowSet.union((RowSet(0, ledger.floor), ledger.settled.above.rows()))
    assert returned == ledger.derived().rows(), "a row before the cursor is in no place, or in two"
    assert not ledger.settled.of(leased), "a settled row is leased"
    assert not condemned & leased, "a condemned row is leased"
    assert not ledger.settled.above.among(condemned), "a settled row is condemned"
    assert not ledger.settled.of(later), "a settled row comes again"
    scheduled = ledger.later.rows()
    assert not ledger.settled.of(scheduled), "a settled row is to be due"
    assert not scheduled & RowSet.union((leased, condemned)), "a leased or condemned row is to be due"
    assert not scheduled & later, "a row is to be due, and comes again"
    assert not ledger.later.due.rows() - scheduled, "a row is due that is not later"
    assert not later & RowSet.union((leased, condemned)), "a leased or condemned row comes again"
    assert not later or (later.stop <= ledger.cursor and ledger.timeline.first() > ledger.moment), "a row that comes later is here already"
    assert not ledger.settled.above.any(ledger.floor, ledger.floor + 1), "the floor stands at a settled row"
    assert ledger.settled.above.first is None or ledger.settled.above.first > ledger.floor
    assert max(leased.stop, condemned.stop) <= ledger.cursor, "a row is leased or condemned that the cursor has not passed"
    assert not ledger.counts.rows() & settled, "a settled row has a retry count"
    assert not ledger.expiries.rows() & settled, "a settled row has expired leases"
    assert not ledger.settled.of(ledger.redriven.rows()), "a settled row is redriven"
    assert all(lease.number < ledger.next_grant for lease in ledger.leases), "a grant has a number that comes again"
    assert all(ledger.consumers[lease.consumer] for lease in ledger.leases)
