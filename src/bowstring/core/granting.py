"""A consumer gets rows by a lease: `grant` decides which. Nothing changes here.

What was given back comes first, in its old place; then the rows that the cursor comes to. A grant is
decided when its flush is taken, so `end` may be the end of rows that are stored by the same flush.

A subscription that has to look at rows before it grants them, because it has a filter, gets those
that were chosen: `choose` takes them from the rows that were looked at, `grant_chosen` grants them.

Bystanders of a crash are spared. A message that lets its consumer crash takes all that the consumer
holds with it, and all of it expires. Rows that have expired twice are suspects: `grant` leaves them
out, and `grant_apart` gives them to a consumer that holds nothing else, in groups that shrink with
each expiry, and at last alone. So the innocent ones get away, and what expires alone is guilty. In a
key-shared subscription these are suspects that their keys allow (`keys`): a group has one row of a
key at most.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bowstring.core.leases import GRANTS_MAX
from bowstring.core.ledger import Ledger
from bowstring.core.ledger_changes import Grant, Join, OneLedgerChange, PassBy, Skip
from bowstring.core.ledger_places import SUSPECT_EXPIRIES
from bowstring.core.row_set import NO_ROWS, RowSet

GROUPS = (256, 32, 4, 1)
"""So many suspects are granted together at most, by the expiries that they have beyond one."""


class Granted(NamedTuple):
    """A grant, with the changes to apply before anything else is decided."""

    changes: tuple[OneLedgerChange, ...]
    number: int
    rows: RowSet
    until: int


class ChosenRows(NamedTuple):
    """Rows for one consumer."""

    rows: RowSet
    upto: int
    """The cursor comes to this offset, if it is before it. Rows that it passes, and that are neither
    chosen nor skipped, are returned from then on.
    """
    skipped: RowSet = NO_ROWS
    """Rows that it passes and that the filter leaves out."""


def grant(ledger: Ledger, consumer: str, most: int, end: int, lease: int, now: int) -> Granted | None:
    """At most so many rows before `end`, for a span of `lease`. None if there are none, or if the
    consumer has as many grants as it may.
    """
    rows = ledger.next_rows(most, end, now) if may_hold_more(ledger, consumer) else NO_ROWS
    return grant_chosen(ledger, consumer, ChosenRows(rows, rows.stop), lease, now) if rows else None


def may_hold_more(ledger: Ledger, consumer: str) -> bool:
    """Whether the consumer has fewer grants than it may have."""
    known = ledger.consumers.named(consumer)
    return known is None or ledger.leases.grants_of(known.number) < GRANTS_MAX


def grant_apart(ledger: Ledger, consumer: str, most: int, lease: int, now: int) -> Granted | None:
    """The next group of suspects, of at most so many rows, for a consumer that holds nothing, in no
    partition. None if there are none.
    """
    rows = first_group(ledger, ledger.suspects(now), most)
    return grant_chosen(ledger, consumer, ChosenRows(rows, rows.stop), lease, now, apart=True) if rows else None


def first_group(ledger: Ledger, suspects: RowSet, most: int) -> RowSet:
    """The first of the suspects, at most so many, and as many as each of them may be together with."""
    if not suspects:
        return suspects
    offsets = suspects.offsets()[: min(most, GROUPS[0])]
    expiries = ledger.expiries.of(RowSet.of_offsets(offsets))
    sizes = np.array(GROUPS)[np.minimum(expiries - SUSPECT_EXPIRIES, len(GROUPS) - 1)]
    fits = np.minimum.accumulate(sizes) >= np.arange(1, len(sizes) + 1)
    return RowSet.of_offsets(offsets[: int(fits.sum())])


def choose(ledger: Ledger, eligible: NDArray[np.int64], scouted: int, most: int, now: int = 0) -> ChosenRows:
    """At most so many rows: those that were given back, then eligible ones. `eligible` are the
    unsettled rows of [cursor, scouted) that the filter lets pass, ascending.
    """
    again = ledger.given_back(most, now)
    taken = eligible[: most - len(again)]
    if not len(taken):
        return ChosenRows(again, ledger.cursor)
    upto = int(eligible[len(taken)]) if len(taken) < len(eligible) else scouted
    fresh = RowSet.of_offsets(taken)
    return ChosenRows(RowSet.union((again, fresh)), upto, RowSet(ledger.cursor, upto) - fresh)


def grant_chosen(ledger: Ledger, consumer: str, chosen: ChosenRows, lease: int, now: int, *, apart: bool = False) -> Granted | None:
    """Grants rows that can be granted. None if there are none, or if the consumer has as many
    grants as it may. `apart`: the consumer holds nothing else.
    """
    rows = chosen.rows
    if not rows or not may_hold_more(ledger, consumer):
        return None
    known = ledger.consumers.named(consumer)
    number, before = ledger.next_grant, ledger.moment
    joins: tuple[Join, ...] = ()
    if known is None or known.lease != lease:
        joiner = ledger.consumers.next_number if known is None else known.number
        joins = (Join(*ledger.place, joiner, consumer, lease, now),)
        before = now
    else:
        joiner = known.number
    passed = max(0, chosen.upto - ledger.cursor)
    plain = rows.is_run and rows.first == ledger.cursor and len(rows) == passed
    spans = () if plain else rows.spans()
    change = Grant(*ledger.place, number, joiner, now - before, passed, spans, chosen.skipped.spans(), apart)
    return Granted((*joins, change), number, rows, now + lease)


def pass_by(ledger: Ledger, undue: RowSet, skipped: RowSet = NO_ROWS) -> PassBy | None:
    """The cursor passes rows from it on that are not due, and those between them. None if there are
    none. `skipped` are those of all these that a filter leaves out, due or not.
    """
    if undue.stop <= ledger.cursor:
        return None
    later = undue - RowSet(0, ledger.cursor) - skipped
    passed = RowSet(ledger.cursor, undue.stop)
    return PassBy(*ledger.place, len(passed), later.spans(), (skipped & passed).spans())


def skip(ledger: Ledger, cursor: int, upto: int) -> Skip | None:
    """The filter leaves out all rows of [cursor, upto), as was found when the cursor stood there.
    None if it does not stand there any more.
    """
    return Skip(*ledger.place, upto - cursor) if ledger.cursor == cursor < upto else None
