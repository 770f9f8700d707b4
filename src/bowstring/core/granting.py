"""A consumer gets rows by a lease: `grant` decides which. Nothing changes here.

What was given back comes first, in its old place; then the rows that the cursor comes to. A grant is
decided when its flush is taken, so `end` may be the end of rows that are stored by the same flush.
"""

from __future__ import annotations

from typing import NamedTuple

from bowstring.core.leases import GRANTS_MAX
from bowstring.core.ledger import Ledger
from bowstring.core.ledger_changes import Grant, Join, OneLedgerChange
from bowstring.core.row_set import RowSet


class Granted(NamedTuple):
    """A grant, with the changes to apply before anything else is decided."""

    changes: tuple[OneLedgerChange, ...]
    number: int
    rows: RowSet
    until: int


def grant(ledger: Ledger, consumer: str, most: int, end: int, lease: int, now: int) -> Granted | None:
    """At most so many rows before `end`, for a span of `lease`. None if there are none, or if the
    consumer has as many grants as it may.
    """
    known = ledger.consumers.named(consumer)
    if known is not None and ledger.leases.grants_of(known.number) >= GRANTS_MAX:
        return None
    rows = ledger.next_rows(most, end, now)
    if not rows:
        return None
    number, before = ledger.next_grant, ledger.moment
    joins: tuple[Join, ...] = ()
    if known is None or known.lease != lease:
        joiner = ledger.consumers.next_number if known is None else known.number
        joins = (Join(*ledger.place, joiner, consumer, lease, now),)
        before = now
    else:
        joiner = known.number
    passed = max(0, rows.stop - ledger.cursor)
    plain = rows.is_run and rows.first == ledger.cursor
    spans = () if plain else rows.spans()
    change = Grant(*ledger.place, number, joiner, now - before, passed, spans)
    return Granted((*joins, change), number, rows, now + lease)
