"""Looking at the dead letters of a subscription: those that no consumer has settled since.

A dead letter is a row of the companion that is not settled in its lane. One that was redriven stays
a dead letter until a consumer has acked it; if it fails again, another letter takes its place in the
same flush. So each message that died is in the list once.

A page of the list has a bounded number of letters and bytes, and looks at a bounded number of rows: a
filter that nearly nothing passes makes pages that are small, or empty, with a place to go on at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from bowstring import errors
from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.log.message_lookup import MessagePlace
from bowstring.broker.queue import letter_lookup, letter_reading, subscriptions
from bowstring.broker.queue.peek_filter import selection_of
from bowstring.broker.queue.queues import Queues
from bowstring.broker.reading.fetched import Fetched
from bowstring.core.ledger import Ledger
from bowstring.core.row_set import NO_ROWS, RowSet

LIMIT_MAX: Final = 100_000

LetterRows = dict[int, RowSet]
"""Dead letters by partition."""


class LetterWish(NamedTuple):
    """Which dead letters are to be listed."""

    topic: str
    subscription: str
    where: str
    ids: Sequence[str]
    after: tuple[int, int]
    """The partition and the offset behind which the page begins."""
    limit: int
    places: bool
    """Only the places of those that can be redriven."""
    redriven_too: bool = False
    """Of ids: those that were redriven, and are not settled, are found too."""


class LetterPage(NamedTuple):
    """A page of the list."""

    topic: str
    """The companion's name."""
    pages: list[Fetched]
    letters: LetterRows
    redriven: LetterRows
    following: tuple[int, int] | None = None
    """Where the next page begins; None if this is the last one."""
    found: Sequence[MessagePlace | errors.Error] = ()
    """Of each id that was asked for."""


async def list_page(queues: Queues, wish: LetterWish) -> LetterPage:
    """Raises SubscriptionNotFound, and InvalidArgument for a filter that is wrong."""
    subscription = subscriptions.find(queues, wish.topic, wish.subscription)
    await queues.letters.writer.caught_up(subscription)
    if wish.ids:
        found = await letter_lookup.found(queues, subscription, wish.ids, redriven_too=wish.redriven_too)
        return LetterPage(subscription.dead_letters, [], {}, {}, found=found)
    if not 1 <= wish.limit <= LIMIT_MAX:
        raise errors.InvalidArgument(f"limit={wish.limit} is not valid.", hint=f"Use a whole number from 1 to {LIMIT_MAX}.")
    selection = selection_of(wish.where, queues.log.clock.now())
    await queues.log.durable()
    page = LetterPage(subscription.dead_letters, [], {}, {})
    actors = [] if subscription.companion is None else subscription.companion.actors
    left = letter_reading.Room(wish.limit)
    for actor in actors[wish.after[0] :]:
        number = actor.partition.number
        offset = wish.after[1] if number == wish.after[0] else 0
        ledger = subscription.ledger(actor)
        if ledger is None:
            continue
        rows = _unsettled(actor, ledger, offset + 1)
        if wish.places:
            rows = rows - ledger.redriven.among(rows)
        some, upto = await letter_reading.passing(queues.reading, actor, rows, selection if wish.where or not wish.places else None, left)
        if not wish.places:
            page.pages.extend(some.pieces)
        if some.rows:
            page.letters[number] = some.rows
            if (ledger := subscription.ledger(actor)) is not None and (again := ledger.redriven.among(some.rows)):
                page.redriven[number] = again
        if upto < rows.stop:
            return page._replace(following=(number, upto - 1))
    return page


def _unsettled(actor: PartitionActor, ledger: Ledger, first: int) -> RowSet:
    """The dead letters from an offset on."""
    first, end = max(first, ledger.floor), actor.partition.committed_offset
    rows = RowSet(first, end) if first < end else NO_ROWS
    return rows - ledger.settled.of(rows)
