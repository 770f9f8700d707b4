"""A consumer gets rows by a lease: `grant` decides which. Nothing changes here.

What was given back comes first, in its old place; then the rows that the cursor comes to. A grant is
decided when its flush is taken, so `end` may be the end of rows that are stored by the same flush.

Bystanders of a crash are spared. A message that lets its consumer crash takes all that the consumer
holds with it, and all of it expires. Rows that have expired twice are suspects: `grant` leaves them
out, and `grant_apart` gives them to a consumer that holds nothing else, in groups that shrink with
each expiry, and at last alone. So the innocent ones get away, and what expires alone is guilty.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bowstring.core.leases import GRANTS_MAX
from bowstring.core.ledger import Ledger
from bowstring.core.ledger_changes import Grant, Join, OneLedgerChange
from bowstring.core.row_set import RowSet

GROUPS = (256, 32, 4, 1)
"""So many suspects are granted together at most, by the expiries that they have beyond one."""


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
    return _granted(ledger, consumer, rows, lease, now) if rows else None


def grant_apart(ledger: Ledger, consumer: str, most: int, lease: int, now: int) -> Granted | None:
    """The next group of suspects, of at most so many rows, for a consumer that holds nothing, in no
    partition. None if there are none.
    """
    rows = _group(ledger, most, now)
    return _granted(ledger, consumer, rows, lease, now, apart=True) if rows else None


def _group(ledger: Ledger, most: int, now: int) -> RowSet:
    """The first suspects, as many as each of them may be together with."""
    suspects = ledger.suspects(now)
    if not suspects:
        return suspects
    offsets = suspects.offsets()[: min(most, GROUPS[0])]
    expiries = ledger.expiries.of(RowSet.of_offsets(offsets))
    sizes = np.array(GROUPS)[np.minimum(expiries - 2, len(GROUPS) - 1)]
    fits = np.minimum.accumulate(sizes) >= np.arange(1, len(sizes) + 1)
    return RowSet.of_offsets(offsets[: int(fits.sum())])


def _granted(ledger: Ledger, consumer: str, rows: RowSet, lease: int, now: int, *, apart: bool = False) -> Granted:
    known = ledger.consumers.named(consumer)
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
    change = Grant(*ledger.place, number, joiner, now - before, passed, spans, apart)
    return Granted((*joins, change), number, rows, now + lease)
