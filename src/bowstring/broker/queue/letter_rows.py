"""Which condemned rows get a dead letter, now that their pages are read.

Rows that cannot be read get none. Nor do some of those that retention has condemned without a look at
them: they have expired by a time of their own, or the subscription's filter leaves them out.
"""

from __future__ import annotations

from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.queue.granted_pages import PagesFound
from bowstring.broker.queue.leased_page import expired_rows
from bowstring.broker.queue.letter import DyingRows
from bowstring.broker.queue.subscription import LiveSubscription
from bowstring.core.condemned import OVERTAKEN
from bowstring.core.ledger import Ledger
from bowstring.core.row_set import NO_ROWS, RowSet


def letter_rows(subscription: LiveSubscription, actor: PartitionActor, rows: RowSet, found: PagesFound, now: int) -> DyingRows:
    """What becomes of the rows that these pages have, and of those that no page has any more."""
    ledger = subscription.ledger(actor)
    assert ledger is not None
    readable = RowSet.union([RowSet(entry.first_offset, entry.end) for entry in found.entries])
    damaged = rows & RowSet.union((found.gone, found.damaged))
    reached, damaged = ledger.condemned.among(rows & readable), ledger.condemned.among(damaged)
    others = _not_meant(subscription, actor, ledger, reached, found, now)
    return DyingRows(reached - others, damaged, others)


def _not_meant(subscription: LiveSubscription, actor: PartitionActor, ledger: Ledger, rows: RowSet, found: PagesFound, now: int) -> RowSet:
    unseen = RowSet.union([some for last, some in ledger.condemned.groups(rows) if last.reason == OVERTAKEN])
    if not unseen:
        return NO_ROWS
    expired = expired_rows(actor.partition, unseen, found.entries, found.pages, now)
    left_out = NO_ROWS if subscription.scout is None else subscription.scout.not_passing(unseen, found)
    return RowSet.union((expired, left_out))
