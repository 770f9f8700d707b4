"""Looking at the messages that a subscription would deliver next. It takes nothing, and changes nothing.

In each partition these are the rows that were given back, then rows from the cursor on that pass the
subscription's filter and are due. How many rows it looks at is bounded, so a filter that nearly
nothing passes may find fewer than there are. Partitions share what was asked for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from bowstring import errors
from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.queue import leased_page, subscriptions
from bowstring.broker.queue.granted_pages import GrantedPages
from bowstring.broker.queue.peek_filter import PeekFilter, places_of, selection_of
from bowstring.broker.queue.queues import Queues
from bowstring.broker.reading.fetched import Fetched
from bowstring.broker.reading.page_cutting import some_rows
from bowstring.broker.reading.visibility import visible
from bowstring.core.pages import decode_header
from bowstring.core.row_set import RowSet
from bowstring.messages import encoding

LIMIT_MAX: Final = 10_000
LOOK_BYTES_MAX: Final = 64 * 1024 * 1024
"""About how many bytes of a partition it looks at."""
READ_BYTES_MAX: Final = 4 * 1024 * 1024
ANSWER_BYTES_MAX: Final = 8 * 1024 * 1024
"""About how many bytes it answers with at most."""


class PeekWish(NamedTuple):
    """What is to be looked at."""

    topic: str
    subscription: str
    limit: int
    where: str = ""
    """Only messages that pass this filter, too."""
    ids: Sequence[str] = ()
    """Only these messages; empty for all."""


async def peek(queues: Queues, wish: PeekWish) -> list[Fetched]:
    """What would come next, each partition in its order. Raises SubscriptionNotFound, and
    InvalidArgument for a filter that is wrong.
    """
    subscription = subscriptions.find(queues, wish.topic, wish.subscription)
    if not 1 <= wish.limit <= LIMIT_MAX:
        raise errors.InvalidArgument(f"limit={wish.limit} is not valid.", hint=f"Use a whole number from 1 to {LIMIT_MAX}.")
    now = queues.log.clock.now()
    asked, own = selection_of(wish.where, now), selection_of(subscription.settings.where, None)
    named = await places_of(queues.log, wish.topic, wish.ids)
    await queues.log.durable()
    found: list[list[Fetched]] = []
    for actor in subscription.topic.actors:
        offsets = None if named is None else np.array(named.get(actor.partition.number, []), np.int64)
        if offsets is None or len(offsets):
            look = PeekFilter(own, asked, offsets, now, subscription.kept_longer(actor))
            found.append(await _of_partition(queues, subscription.number, actor, look, wish.limit))
    return _shared(found, wish.limit)


async def _of_partition(queues: Queues, number: int, actor: PartitionActor, look: PeekFilter, limit: int) -> list[Fetched]:
    ledger = actor.partition.ledgers.get(number)
    if ledger is None:
        return []
    now = queues.clock.now()
    again, start = RowSet.union((ledger.given_back(1 << 40, now), ledger.suspects(now))), max(ledger.cursor, ledger.floor)
    end = actor.partition.committed_offset
    pieces: list[Fetched] = []
    for rows, fresh in ((again, False), (RowSet(start, end) if start < end else again - again, True)):
        if look.offsets is not None:
            rows = rows & RowSet.of_offsets(look.offsets)
        async for piece in _pieces(queues, actor, number, look, rows, fresh=fresh):
            pieces.append(leased_page.first_rows(piece, limit))
            limit -= pieces[-1].rows
            if limit <= 0:
                return pieces
    return pieces


async def _pieces(
    queues: Queues, actor: PartitionActor, number: int, look: PeekFilter, rows: RowSet, *, fresh: bool
) -> AsyncIterator[Fetched]:
    """Rows that may be seen, page by page. Those of damaged pages are passed over."""
    partition, pages, size = actor.partition, GrantedPages(queues.reading, whole=True), 0
    while rows and size < LOOK_BYTES_MAX:
        found = await pages.read(partition, rows, READ_BYTES_MAX)
        moments = queues.reading.moments(partition.topic, look.kept_longer)
        for entry, page in zip(found.entries, found.pages, strict=True):
            size += entry.length
            header = decode_header(page.header)
            batch = encoding.decode(header.columns, page.body)
            ledger = partition.ledgers.get(number)
            wanted = rows & RowSet(entry.first_offset, entry.end)
            if ledger is None or not wanted:
                continue
            wanted = wanted - ledger.settled.of(wanted)
            seen = visible(partition, entry, header, batch, moments, wanted.first, wanted.stop).offsets if wanted else np.empty(0, np.int64)
            offsets = np.intersect1d(seen, wanted.offsets(), assume_unique=True)
            offsets = look.passing(entry, header, batch, offsets, fresh)
            if len(offsets):
                yield some_rows(partition, entry.end, entry, header, batch, offsets)
        upto = found.damaged.stop if found.damaged else found.entries[-1].end if found.entries else rows.stop
        rows = rows - RowSet(0, upto)
        await queues.reading.clock.sleep(0)


def _shared(found: list[list[Fetched]], limit: int) -> list[Fetched]:
    """So many rows of all partitions, each as many as the others as far as it has them."""
    have = [sum(piece.rows for piece in pieces) for pieces in found]
    shares = [0] * len(found)
    while limit > 0 and (open_ones := [at for at, rows in enumerate(have) if rows > shares[at]]):
        for at in open_ones:
            more = min(have[at] - shares[at], max(1, limit // len(open_ones)), limit)
            shares[at] += more
            limit -= more
    answer, size = list[Fetched](), 0
    for pieces, share in zip(found, shares, strict=True):
        for piece in pieces:
            if share <= 0 or size > ANSWER_BYTES_MAX:
                break
            answer.append(leased_page.first_rows(piece, share))
            share -= answer[-1].rows
            size += answer[-1].size
    return answer
