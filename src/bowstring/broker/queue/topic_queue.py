"""The subscriptions of one topic. It hears of every change that is applied to the topic's partitions,
and tells the subscriptions what concerns them; it ends leases when their time has come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from functools import partial
from typing import Any

from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.log.alarm import Alarm
from bowstring.broker.queue.lease_clock import LeaseClock
from bowstring.broker.queue.lease_requests import ExpireEnded
from bowstring.broker.queue.schedules import Schedules
from bowstring.broker.queue.scout import Scout
from bowstring.broker.queue.scouted_rows import look_of
from bowstring.broker.queue.subscription import LiveSubscription
from bowstring.broker.reading.reading import Reading
from bowstring.broker.topics import Topic
from bowstring.core.changes import Append, Change, Delete, Floor, Reschedule
from bowstring.core.ledger_changes import Condemn, Expire, GiveBack, Grant, Overtake, Redrive, Reset, SetAside, Settle

QueueChange = Grant | Settle | Expire | GiveBack | SetAside | Reset | Condemn | Redrive | Overtake
"""The changes of a ledger after which something may be granted, or is to be ended or written."""


class LeaseEnds:
    """Ends the leases of one partition (`Sleeper`)."""

    def __init__(self, queue: TopicQueue, actor: PartitionActor) -> None:
        self._queue = queue
        self._actor = actor

    def woken(self, now: int) -> None:
        """The time of a lease may have come. A lease that was extended since has a later end: then
        nothing happens.
        """
        self._queue.expire(self._actor, now)


class LaterRows:
    """Has rows of one partition granted that come again at a moment (`Sleeper`)."""

    def __init__(self, queue: TopicQueue, actor: PartitionActor) -> None:
        self._queue = queue
        self._actor = actor

    def woken(self, now: int) -> None:
        """The moment of a row may have come."""
        self._queue.come_back(self._actor, now)


class TopicQueue:
    """The queues of a topic."""

    def __init__(self, topic: Topic, clock: LeaseClock, alarm: Alarm) -> None:
        self.topic = topic
        self._clock = clock
        self._alarm = alarm
        self._by_name: dict[str, LiveSubscription] = {}
        self._by_number: dict[int, LiveSubscription] = {}
        self._preparing: set[asyncio.Task[None]] = set()
        self._ends = {actor: LeaseEnds(self, actor) for actor in topic.actors}
        self._later = {actor: LaterRows(self, actor) for actor in topic.actors}
        self._schedules: Schedules | None = None
        """None while there is no subscription. The next one begins with the past, as after a restart."""
        self._dated: dict[PartitionActor, list[int]] = {}
        """Where pages begin that have due times and were not committed when the last such page was
        decided. They are not in the past yet."""
        for actor in topic.actors:
            actor.taken = self.taken
            self._set_alarm(actor)

    # Subscriptions

    def get(self, name: str) -> LiveSubscription | None:
        return self._by_name.get(name)

    def __iter__(self) -> Iterator[LiveSubscription]:
        """By name."""
        return iter([self._by_name[name] for name in sorted(self._by_name)])

    def add(self, subscription: LiveSubscription, reading: Reading) -> None:
        """A subscription is there. Some have to look at rows before they are granted."""
        if self._schedules is None:
            self._schedules = Schedules(reading, self._clock, self._alarm, self._may_grant)
            for actor in self._dated:
                for first_offset in self._uncommitted(actor):
                    self._schedules[actor].appended(first_offset)
        subscription.schedules = self._schedules
        look = look_of(subscription.settings)
        if look is not None:
            found, failed = subscription.may_grant, subscription.end_consumers
            subscription.scout = Scout(subscription.number, reading, self._clock, self._alarm, look, found=found, failed=failed)
            if look.with_keys:
                subscription.share_keys(self._clock.now, self._alarm.set)
        self._by_name[subscription.name] = self._by_number[subscription.number] = subscription

    def add_lane(self, subscription: LiveSubscription) -> None:
        """The dead letters of a subscription of another topic are here."""
        self._by_number[subscription.lane] = subscription

    def remove(self, subscription: LiveSubscription) -> None:
        """The subscription is being deleted: its name is free."""
        del self._by_name[subscription.name], self._by_number[subscription.number]
        if not self._by_name:
            self._stop_schedules()

    def remove_lane(self, subscription: LiveSubscription) -> None:
        """The same of a subscription of another topic."""
        self._by_number.pop(subscription.lane, None)

    # Changes

    def taken(self, actor: PartitionActor, changes: Sequence[Change]) -> None:
        """Changes of a partition were applied."""
        for change in changes:
            if isinstance(change, Append):
                if change.rows:
                    if change.due:
                        self._dated_page(actor, change.first_offset)
                    for subscription in self._by_number.values():
                        subscription.may_grant(actor)
            elif isinstance(change, Reschedule):
                if self._schedules is not None:
                    self._schedules[actor].rescheduled(change.runs, change.due)
            elif isinstance(change, Delete | Floor):
                for subscription in self._by_number.values():
                    self._leases_changed(subscription, actor, change)
            elif isinstance(change, Grant | Settle | Expire | GiveBack | SetAside | Reset | Condemn | Redrive | Overtake):
                self._told(actor, change)

    def _told(self, actor: PartitionActor, change: QueueChange) -> None:
        subscription = self._by_number.get(change.subscription)
        ledger = None if subscription is None else subscription.ledger(actor)
        if subscription is None or ledger is None:
            return
        if subscription.keys is not None:
            subscription.keys.follow(actor, ledger, change)
        if isinstance(change, Grant):
            subscription.granted(actor, ledger, change)
            self._alarm.set(self._ends[actor], ledger.next_deadline())
        elif isinstance(change, Settle):
            subscription.settled(actor, ledger, change)
        else:
            if isinstance(change, Reset | Condemn) and subscription.scout is not None:
                subscription.scout.forget(actor)
                subscription.scout.passed_unseen(actor, ledger.later.rows(), ledger.floor)
            if isinstance(change, Condemn) and self._schedules is not None:
                self._schedules[actor].forget(subscription.number)
            subscription.leases_changed(actor, ledger)
        self._set_later(subscription, actor)
        if ledger.condemned:
            subscription.condemned(actor)

    def _leases_changed(self, subscription: LiveSubscription, actor: PartitionActor, change: Delete | Floor) -> None:
        ledger = subscription.ledger(actor) if subscription.consumers or subscription.keys is not None else None
        if ledger is not None:
            if subscription.keys is not None:
                subscription.keys.follow(actor, ledger, change)
            subscription.leases_changed(actor, ledger)

    # Rows that are due later

    def _dated_page(self, actor: PartitionActor, first_offset: int) -> None:
        self._dated[actor] = [*self._uncommitted(actor), first_offset]
        if self._schedules is not None:
            self._schedules[actor].appended(first_offset)

    def _uncommitted(self, actor: PartitionActor) -> list[int]:
        """Where pages begin that have due times and are not committed."""
        committed = actor.partition.committed_offset
        return [first_offset for first_offset in self._dated.get(actor, ()) if first_offset >= committed]

    def _may_grant(self, actor: PartitionActor) -> None:
        for subscription in self._by_number.values():
            subscription.may_grant(actor)

    def end(self) -> None:
        """The topic is deleted, or the incarnation is over."""
        self._stop_schedules()

    def _stop_schedules(self) -> None:
        if self._schedules is not None:
            self._schedules.stop()
            self._schedules = None

    # Rows that come again later

    def joined(self, subscription: LiveSubscription) -> None:
        """A subscription has its first consumer: before that nothing waits for its rows."""
        for actor in self.topic.actors:
            self._set_later(subscription, actor)

    def _set_later(self, subscription: LiveSubscription, actor: PartitionActor) -> None:
        ledger = subscription.ledger(actor) if subscription.consumers else None
        if ledger is not None and not ledger.timeline.is_empty:
            self._alarm.set(self._later[actor], ledger.timeline.first())

    def come_back(self, actor: PartitionActor, now: int) -> None:
        """Has the granter look at subscriptions some of whose rows come again by now."""
        if actor.closed is not None:
            return
        for subscription in tuple(self._by_number.values()):
            ledger = subscription.ledger(actor) if subscription.consumers else None
            if ledger is None or ledger.timeline.is_empty:
                continue
            if ledger.timeline.first() <= now:
                subscription.may_grant(actor)
            self._alarm.set(self._later[actor], ledger.timeline.after(now))

    # Ends of leases

    def _set_alarm(self, actor: PartitionActor) -> None:
        self._alarm.set(self._ends[actor], actor.partition.ledgers.next_deadline())

    def expire(self, actor: PartitionActor, now: int) -> None:
        """Ends the leases of a partition that have come to their end: one change for each ledger."""
        if actor.closed is not None:
            return
        for subscription in tuple(self._by_number.values()):
            ledger = subscription.ledger(actor)
            if ledger is None or ledger.next_deadline() > now:
                continue
            if subscription.keys is not None and not subscription.keys.partition(actor).is_prepared:
                self._expire_later(subscription.keys.prepare([actor]), actor)
                return
            keys = subscription.keys
            request = ExpireEnded(subscription.number_in(actor), self._clock.now, None if keys is None else keys.behind(actor))
            if keys is not None:
                request.revoked_told = partial(keys.revoked, subscription.place(actor))
            actor.receive(request)
            subscription.rates.count(expired=max(0, request.held_before - ledger.leases.rows_held))
        self._set_alarm(actor)

    def _expire_later(self, preparing: Coroutine[Any, Any, None], actor: PartitionActor) -> None:
        """Which rows count follows from their keys, which are read first."""

        def prepared(task: asyncio.Task[None]) -> None:
            self._preparing.discard(task)
            if not task.cancelled() and task.exception() is None:
                self.expire(actor, self._clock.now())

        task = asyncio.create_task(preparing)
        self._preparing.add(task)
        task.add_done_callback(prepared)
