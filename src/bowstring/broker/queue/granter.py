"""Who gets what, when a flush is taken.

Consumers with room and partitions with rows take turns: the one that was served last waits longest.
A share is what waits, divided by the consumers that have room; where that would be a few rows only,
fewer of them are served, so that a thousand consumers do not get one row each. A consumer gets at most one grant of a partition in a
flush. What a flush leaves over the next one takes.

A consumer that has plenty gets what little more it may have with the next flush that there is anyway,
or a few milliseconds later: a flush costs as much as the leases of ten thousand rows.

Deciding this late has two reasons. Rows that the same flush stores are granted by it, so a durable
hand-over costs one commit. And whatever came while the flush before was on its way, publishes,
settlements and credit, is shared out together: grants grow with the load by themselves.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Final

import numpy as np

from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.log.alarm import Alarm
from bowstring.broker.log.flusher import Flusher
from bowstring.broker.queue.consumer import LiveConsumer
from bowstring.broker.queue.crumbs import CRUMBS_MICROSECONDS, PLENTY
from bowstring.broker.queue.lease_clock import LeaseClock
from bowstring.broker.queue.lease_requests import GrantToConsumer, PassRows
from bowstring.broker.queue.subscription import LiveSubscription
from bowstring.broker.queue.suspects import Suspects
from bowstring.core.granting import ChosenRows, Granted, choose
from bowstring.core.ledger import Ledger
from bowstring.core.row_set import NO_ROWS, RowSet

SHARE_MIN: Final = 16
"""As many consumers are served at once as get so many rows, if there are so many."""
GATHERED_ROWS: Final = 1_024
"""So many rows that pass a filter are worth a grant of their own."""
PARTITIONS_AT_ONCE: Final = 64
"""So many partitions of a subscription take part in one flush."""

Open = deque[tuple[PartitionActor, Ledger]]
"""Partitions that have rows to grant, the next one first."""


class Granter:
    """Grants for all subscriptions of one incarnation."""

    def __init__(self, flusher: Flusher, clock: LeaseClock, alarm: Alarm) -> None:
        self._flusher = flusher
        self._clock = clock
        self._alarm = alarm
        self._suspects = Suspects(clock)
        self._candidates: dict[LiveSubscription, None] = {}
        """Subscriptions in which something has changed since the last look."""
        flusher.before_take.append(self.grant)

    def look_at(self, subscription: LiveSubscription) -> None:
        """There may be something to grant."""
        self._candidates[subscription] = None
        self._flusher.request()

    def grant(self) -> None:
        """Decides grants; they go into the flush that is being taken."""
        candidates, self._candidates = self._candidates, {}
        for subscription in candidates:
            if not self._share_out(subscription) or not (subscription.hungry and subscription.waiting):
                continue
            if _has_plenty(subscription):
                self._candidates[subscription] = None
                self._alarm.set(self, self._clock.now() + CRUMBS_MICROSECONDS)
            else:
                self.look_at(subscription)

    def woken(self, now: int) -> None:
        """Nothing was flushed since for another reason, perhaps."""
        del now
        if self._candidates:
            self._flusher.request()

    def _share_out(self, subscription: LiveSubscription) -> bool:
        """Says whether something was granted."""
        if subscription.keys is not None:
            return self._share_keys_out(subscription)
        hungry, served = subscription.hungry, set[tuple[LiveConsumer, PartitionActor]]()
        has_granted = self._suspects.share_out(subscription)
        if not hungry:
            return has_granted
        now = self._clock.now()
        partitions = _with_rows(subscription, now, self._clock)
        waiting = sum(subscription.grantable(actor, ledger, now) for actor, ledger in partitions)
        if self._is_gathering(subscription, partitions, waiting, now):
            return has_granted
        share = -(-waiting // max(1, min(len(hungry), -(-waiting // SHARE_MIN))))
        while partitions and hungry:
            consumer, (actor, ledger) = next(iter(hungry)), partitions[0]
            if (consumer, actor) in served:
                break
            served.add((consumer, actor))
            most = min(share, consumer.holdings.room(subscription.mean(actor)))
            if not most:
                del hungry[consumer]
                continue
            has_granted |= self._grant(subscription, consumer, actor, ledger, most)
            if consumer in hungry:
                hungry.move_to_end(consumer)
            partitions.popleft()
            if subscription.grantable(actor, ledger, now):
                partitions.append((actor, ledger))
                subscription.waiting.move_to_end(actor)
            else:
                del subscription.waiting[actor]
        return has_granted

    def _is_gathering(self, subscription: LiveSubscription, partitions: Open, waiting: int, now: int) -> bool:
        """Whether few rows wait for more that are about to be found, because some were granted a moment
        ago: a grant costs as much as a look at many pages. They wait only if a consumer would take them
        all, and where pages are read; what has just been published is granted at once.
        """
        scout, hungry = subscription.scout, subscription.hungry
        if scout is None or not partitions:
            return False
        worth = min(GATHERED_ROWS, next(iter(hungry)).holdings.room(subscription.mean(partitions[0][0])))
        more = waiting < worth and all(scout.is_reading(actor) for actor, _ in partitions)
        if not more or now >= scout.granted + CRUMBS_MICROSECONDS:
            scout.granted = now
            return False
        self._candidates[subscription] = None
        self._alarm.set(self, scout.granted + CRUMBS_MICROSECONDS)
        return True

    def _share_keys_out(self, subscription: LiveSubscription) -> bool:
        """Suspects come last: keys are looked at first, and a consumer that had suspects before is to
        get other rows if there are any.
        """
        has_granted = False
        if subscription.hungry and subscription.keys is not None:
            for actor in list(subscription.waiting):
                ledger = subscription.ledger(actor)
                if ledger is not None and actor.closed is None:
                    pass_by(subscription, actor, ledger, self._clock)
            has_granted = subscription.keys.share_out(partial(self._grant_chosen, subscription))
        return self._suspects.share_out(subscription) or has_granted

    def _grant(self, subscription: LiveSubscription, consumer: LiveConsumer, actor: PartitionActor, ledger: Ledger, most: int) -> bool:
        """False if the consumer has as many grants in the partition as it may."""
        chosen: ChosenRows | None = None
        end = subscription.end(actor, ledger)
        if subscription.scout is None or ledger.lane:
            most = _to_a_page_end(actor, ledger, most, self._clock.now())
        else:
            scouted = subscription.scout.eligible(actor, ledger, most)
            offsets = scouted.offsets[: np.searchsorted(scouted.offsets, end)]
            chosen = choose(ledger, offsets, min(scouted.end, max(end, ledger.cursor)), most, self._clock.now())
        return self._ask(subscription, consumer, actor, most, chosen, end) is not None

    def _grant_chosen(
        self, subscription: LiveSubscription, consumer: LiveConsumer, actor: PartitionActor, chosen: ChosenRows
    ) -> Granted | None:
        """Grants rows that were chosen by their keys."""
        return self._ask(subscription, consumer, actor, len(chosen.rows), chosen, chosen.upto)

    def _ask(
        self, subscription: LiveSubscription, consumer: LiveConsumer, actor: PartitionActor, most: int, chosen: ChosenRows | None, end: int
    ) -> Granted | None:
        def told(granted: Granted | Exception | None) -> None:
            if isinstance(granted, Granted) and consumer.delivery is not None:
                consumer.delivery.add(actor, granted.number)

        number = subscription.number_in(actor)
        request = GrantToConsumer(number, self._clock.now, told, consumer.name, most, consumer.lease, chosen, end)
        actor.receive(request)
        return request.granted


def _has_plenty(subscription: LiveSubscription) -> bool:
    """Whether the consumer whose turn it is next was sent much more than it could get. The size of
    rows that are on their way is an estimate, so they do not count.
    """
    holdings = next(iter(subscription.hungry)).holdings
    room = holdings.room(subscription.mean(next(iter(subscription.waiting))))
    return holdings.rows - holdings.unsent > PLENTY * room


def _with_rows(subscription: LiveSubscription, now: int, clock: LeaseClock) -> Open:
    """The partitions that take part. Those that have nothing to grant are forgotten until they do."""
    found: Open = deque()
    for actor in list(subscription.waiting):
        ledger = subscription.ledger(actor)
        if ledger is not None and actor.closed is None:
            pass_by(subscription, actor, ledger, clock)
        if ledger is None or actor.closed is not None or not subscription.grantable(actor, ledger, now):
            del subscription.waiting[actor]
            continue
        found.append((actor, ledger))
        if len(found) == PARTITIONS_AT_ONCE:
            break
    return found


def pass_by(subscription: LiveSubscription, actor: PartitionActor, ledger: Ledger, clock: LeaseClock) -> None:
    """Has the cursor pass rows that are not due. What a filter leaves out between them is settled."""
    if subscription.schedules is None:
        return
    schedule, skipped = subscription.schedules[actor], NO_ROWS
    if subscription.keys is not None:
        schedule.tell_due()
    schedule.limit(ledger)
    undue = schedule.undue_rows(ledger, actor.partition.next_offset)
    if undue and subscription.scout is not None:
        scouted = subscription.scout.eligible(actor, ledger, 1 << 62)
        undue = undue.below(scouted.end)
        skipped = RowSet(ledger.cursor, scouted.end) - RowSet.of_offsets(scouted.offsets)
    if undue:
        actor.receive(PassRows(subscription.number, clock.now, undue, skipped))


def _to_a_page_end(actor: PartitionActor, ledger: Ledger, most: int, now: int) -> int:
    """So many rows, or a few less if they end with a page then: a page that is granted whole goes
    out untouched. Rows that come again come before those behind the cursor.
    """
    partition, start, again = actor.partition, max(ledger.cursor, ledger.floor), ledger.waiting(0, now)
    stop = start + most - again
    if stop >= partition.next_offset or stop <= start:
        return most
    if stop >= partition.committed_offset:
        return again + partition.committed_offset - start if partition.committed_offset > start else most
    if not len(partition.pages) or stop <= partition.sealed_end:
        return most
    begin = partition.pages[partition.pages.at(stop)].first_offset
    return again + begin - start if begin > start else most
