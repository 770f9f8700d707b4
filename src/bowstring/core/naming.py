"""A consumer asks for rows by name: which of them can be granted to it, and where the others are.
Nothing changes here.

A named row is granted by the same rules as any other: it is neither settled nor leased, it is due,
the subscription's filter lets it pass, and of rows from the cursor on it is known that they are so.
The cursor comes to the last of the rows that are granted. What it passes on its way and is not
granted is returned, or left out by the filter, as in any other grant (`granting`).
"""

from __future__ import annotations

from typing import NamedTuple

from bowstring.core.granting import ChosenRows
from bowstring.core.ledger import Ledger
from bowstring.core.row_set import NO_ROWS, RowSet


class KnownRows(NamedTuple):
    """What is known of the rows from the cursor on."""

    end: int
    """Rows before it are due, and were looked at if there is a filter."""
    passing: RowSet | None = None
    """Those of them that the filter lets pass; None if there is no filter."""
    free: RowSet | None = None
    """Only these may be granted, because their keys are free; None if keys do not count."""


class NamedChoice(NamedTuple):
    """Where the named rows are. Each is in one of these sets."""

    chosen: ChosenRows
    """They can be granted."""
    leased: RowSet = NO_ROWS
    settled: RowSet = NO_ROWS
    condemned: RowSet = NO_ROWS
    """They are going to be dead letters."""
    later: RowSet = NO_ROWS
    """They come at a time of their own."""
    left_out: RowSet = NO_ROWS
    """The filter leaves them out."""
    unknown: RowSet = NO_ROWS
    """They are ahead of what is known."""


def choose_named(ledger: Ledger, named: RowSet, known: KnownRows, now: int) -> NamedChoice:
    """Which of the named rows can be granted."""
    settled = ledger.settled.of(named)
    left = named - settled
    leased = left & ledger.leases.rows()
    condemned = ledger.condemned.among(left)
    left = left - leased - condemned
    before = left.below(ledger.cursor)
    ahead = left - before
    near = ahead.below(known.end)
    back, fresh = _given_back(ledger, before, now), near if known.passing is None else near & known.passing
    later, left_out, unknown = before - back, near - fresh, ahead - near
    if known.free is not None:
        unknown = RowSet.union((unknown, back - known.free, fresh - known.free))
        back, fresh = back & known.free, fresh & known.free
    upto = max(ledger.cursor, fresh.stop) if fresh else ledger.cursor
    skipped = NO_ROWS if known.passing is None else RowSet(ledger.cursor, upto) - known.passing
    chosen = ChosenRows(RowSet.union((back, fresh)), upto, skipped)
    return NamedChoice(chosen, leased, settled, condemned, later, left_out, unknown)


def _given_back(ledger: Ledger, rows: RowSet, now: int) -> RowSet:
    """Those of the rows before the cursor that can be granted."""
    if not rows:
        return NO_ROWS
    found = [ledger.returned.among(rows), rows & ledger.timeline.ripe(now)]
    if not ledger.later.due.is_empty:
        found.append(rows & ledger.later.due.rows())
    return RowSet.union(found)
