"""Since when the oldest message of a subscription is due: the best alarm of a queue.

A message is due when it arrives, or at its due time if that is later. What is not due yet does not
count, however long ago it was published: a reminder for next month is no backlog. A message that was
nacked for later counts, because it has failed.

Messages arrive in the order of their offsets, so the first unsettled one is the oldest, unless its page
has due times. Then pages are looked at from there on, until none behind them can have been due for
longer. Rows that are known to be not due (`Schedule.asleep`) are passed by. Where a subscription has had
no consumer, and does not know them, it is not looked further than some pages.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.queue.queues import Queues
from bowstring.broker.queue.subscription import LiveSubscription
from bowstring.broker.reading.due_times import Stretch
from bowstring.broker.reading.page_reader import arrivals
from bowstring.core.ledger import Ledger
from bowstring.core.machine import NEVER
from bowstring.core.offset_set import Offsets
from bowstring.core.pages import PageEntry, decode_header
from bowstring.core.partition import Partition
from bowstring.core.row_set import NO_ROWS, RowSet
from bowstring.ports.failures import Damaged

PAGES_MAX: Final = 64


async def oldest_due(queues: Queues, subscription: LiveSubscription) -> int:
    """Since when a message is due that is not settled; 0 if none is due."""
    found = [await _oldest_in(queues, subscription, actor) for actor in subscription.topic.actors]
    return min((moment for moment in found if moment), default=0)


async def _oldest_in(queues: Queues, subscription: LiveSubscription, actor: PartitionActor) -> int:
    partition = actor.partition
    if subscription.number not in partition.ledgers:
        return 0
    floor = partition.ledgers.figures(subscription.number, partition.committed_offset).floor
    entry = await _entry(queues, partition, floor)
    if entry is None:
        return 0
    if not entry.due:  # a ledger that rests need not be woken
        return int((await _arrivals(queues, partition, entry))[max(0, floor - entry.first_offset)])
    return await _oldest_of_pages(queues, subscription, actor, floor)


async def _oldest_of_pages(queues: Queues, subscription: LiveSubscription, actor: PartitionActor, offset: int) -> int:
    """The same from the offset on, page by page."""
    partition, oldest = actor.partition, NEVER
    for _ in range(PAGES_MAX):
        ledger = subscription.ledger(actor)
        rows = NO_ROWS if ledger is None or actor.closed is not None else _awake(subscription, actor, ledger, offset)
        entry = await _entry(queues, partition, rows.first) if rows else None
        if entry is None:
            break
        among = (rows & RowSet(entry.first_offset, entry.end)).offsets()
        oldest = min(oldest, await _oldest_of(queues, partition, entry, among))
        if oldest <= entry.arrived_last:
            break
        offset = entry.end
    return oldest if oldest < NEVER else 0


def _awake(subscription: LiveSubscription, actor: PartitionActor, ledger: Ledger, offset: int) -> RowSet:
    """Unsettled rows from the offset on, but for those that are known to be not due."""
    end = actor.partition.committed_offset
    rows = ledger.settled.unsettled(offset, end, NEVER - end)
    return rows if subscription.schedules is None else rows - subscription.schedules[actor].asleep(ledger, end)


async def _oldest_of(queues: Queues, partition: Partition, entry: PageEntry, offsets: Offsets) -> int:
    """Since when the oldest of these rows of a page is due; NEVER if none is."""
    released = (await _arrivals(queues, partition, entry)).copy()
    try:
        dues = await queues.reading.due_times.between(partition, Stretch(None, entry), 0, NEVER)
    except Damaged:
        return NEVER
    places = dues.offsets - entry.first_offset
    released[places] = np.maximum(released[places], dues.moments)
    found = released[offsets - entry.first_offset]
    return int(found[found <= queues.reading.clock.now()].min(initial=NEVER))


async def _arrivals(queues: Queues, partition: Partition, entry: PageEntry) -> Offsets:
    """When the rows of a page arrived; of one that cannot be read, when the first of them did."""
    if entry.arrived != entry.arrived_last:
        try:
            (page,) = await queues.reading.reader.stored(partition, [entry])
            return arrivals(decode_header(page.header), entry)
        except Damaged:
            pass
    return np.full(entry.rows, entry.arrived, np.int64)


async def _entry(queues: Queues, partition: Partition, offset: int) -> PageEntry | None:
    """The page that the offset is in, or the next one; None if there is none, or its index is damaged."""
    while offset < partition.committed_offset:
        moves = partition.moves
        try:
            return next(iter(await queues.reading.reader.entries(partition, offset, partition.committed_offset, 1, 1)), None)
        except Damaged:
            if moves == partition.moves:
                return None
    return None
