"""What becomes of rows that retention reaches before a subscription has settled them.

The subscription says it (`SubscriptionSettings.unsettled`):

- `drop`: they go. Their number is kept, by an `Overtake`, because a chunk cannot tell it at replay.
- `dead_letter`: they are condemned, and stay until their dead letters are written.
- `keep`: they stay until they are settled, or until they are too old by the subscription's own limit.

A subscription loses a row in the step in which retention comes to it, also where the row stays because
another one needs it: then the `Overtake` names it. Lanes have no part in this: a dead letter that was
redriven stays until it is settled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from bowstring.core.condemned import OVERTAKEN
from bowstring.core.ledger import Ledger
from bowstring.core.ledger_changes import Condemn, Overtake
from bowstring.core.ledgers import Ledgers
from bowstring.core.machine import NEVER
from bowstring.core.offset_set import Offsets
from bowstring.core.row_set import NO_ROWS, RowSet
from bowstring.core.settling import condemn
from bowstring.core.subscription_settings import DEAD_LETTER, KEEP


class KeepLimit(NamedTuple):
    """The rows that are young enough for a subscription that keeps them for a while."""

    offset: int = 0
    """Rows from here on have arrived late enough."""
    later: RowSet = NO_ROWS
    """Rows before it that are due late enough."""

    @staticmethod
    def found(offset: int, later: Sequence[Offsets]) -> KeepLimit:
        """What was found stretch by stretch; rows that are due late enough in any order."""
        rows = [RowSet.of_offsets(np.unique(offsets)) for offsets in later if len(offsets)]
        return KeepLimit(offset, RowSet.union(rows).below(offset))

    def of(self, rows: RowSet) -> RowSet:
        """Those of the rows that are young enough."""
        if rows.first >= self.offset:
            return rows
        return RowSet.union((rows - RowSet(0, self.offset), rows & self.later))


NO_LIMIT: Final = KeepLimit()
KeepLimits = Mapping[int, KeepLimit]
"""By the `keep_max` of subscriptions. One that is missing was not looked at yet: all rows count as young."""
NO_LIMITS: Final[KeepLimits] = {}


class Overtaken(NamedTuple):
    """What follows from retention for the subscriptions of a partition."""

    changes: tuple[Condemn | Overtake, ...]
    stays: RowSet
    """Rows that stay, because a subscription needs them; those that are held among them."""


def overtake(ledgers: Ledgers, rows: RowSet, held: RowSet, limits: KeepLimits, now: int) -> Overtaken:
    """Retention has come to these rows. Of them those that are held stay, whatever follows from this."""
    if not rows:
        return Overtaken((), held)
    behind = [(ledger, mine) for ledger in ledgers.behind(rows.stop) if (mine := rows - ledger.settled.of(rows))]
    letters = [_letters(ledger, mine, now) for ledger, mine in behind]
    needed = [RowSet.union((_kept(ledger, mine, limits), _rows_of(change))) for (ledger, mine), change in zip(behind, letters, strict=True)]
    stays, lost = RowSet.union((held, *needed)), list[Overtake]()
    for (ledger, mine), some in zip(behind, needed, strict=True):
        if gone := mine - some - ledger.leases.rows() - ledger.condemned.rows():
            lost.append(Overtake(*ledger.place, len(gone), (gone & stays).spans()))
    return Overtaken((*filter(None, letters), *lost), stays)


def _letters(ledger: Ledger, rows: RowSet, now: int) -> Condemn | None:
    return condemn(ledger, rows, OVERTAKEN, now) if ledger.settings.unsettled == DEAD_LETTER else None


def _rows_of(change: Condemn | None) -> RowSet:
    return NO_ROWS if change is None else RowSet.of_spans(change.rows)


def _kept(ledger: Ledger, rows: RowSet, limits: KeepLimits) -> RowSet:
    settings = ledger.settings
    return limits.get(settings.keep_max, NO_LIMIT).of(rows) if settings.unsettled == KEEP else NO_ROWS


def held(ledgers: Ledgers, below: int, limits: KeepLimits) -> RowSet:
    """Rows before the offset that are kept from retention: those under a lease, those that are to be
    dead letters, and those that a subscription keeps until they are settled.
    """
    return RowSet.union((ledgers.kept(below), *(_kept(ledger, rows, limits) for ledger, rows in _keeping(ledgers, below))))


def outgrown(ledgers: Ledgers, below: int, limits: KeepLimits) -> RowSet:
    """Rows before the offset that have become too old for a subscription that keeps rows for a while, and
    that it has not lost yet: another one may need them still.
    """
    found: list[RowSet] = []
    for ledger, rows in _keeping(ledgers, below):
        if gone := rows - _kept(ledger, rows, limits):
            found.append(gone - ledger.leases.rows() - ledger.condemned.rows())
    return RowSet.union(found)


def _keeping(ledgers: Ledgers, below: int) -> Iterator[tuple[Ledger, RowSet]]:
    """Subscriptions that keep rows, and the rows before the offset that they have not settled."""
    if any(named.settings.unsettled == KEEP for named in ledgers.subscriptions()):
        for ledger in ledgers.behind(below):
            if ledger.settings.unsettled == KEEP:
                yield ledger, ledger.settled.unsettled(ledger.floor, below, NEVER)


def spans_kept(ledgers: Ledgers) -> set[int]:
    """For how long subscriptions keep rows that retention has reached: the limits that are needed."""
    return {
        named.settings.keep_max
        for named in ledgers.subscriptions()
        if not named.lane and named.settings.unsettled == KEEP and named.settings.keep_max
    }
