"""Planted bugs of grants and leases: when rows are pushed, by which clock a lease ends, and what ends
it before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any
from unittest.mock import patch

from bowstring.broker import incarnation
from bowstring.broker.log.alarm import Alarm
from bowstring.broker.queue import leased_page, opening
from bowstring.broker.queue.consumer import LiveConsumer
from bowstring.broker.queue.granter import Granter
from bowstring.broker.queue.holdings import Holdings
from bowstring.broker.queue.lease_clock import LeaseClock
from bowstring.broker.queue.lease_requests import ExtendForConsumer, GiveBackGrants, SubscribePartition
from bowstring.broker.queue.subscription import LiveSubscription
from bowstring.core import settling
from bowstring.core.changes import Floor
from bowstring.core.decisions import Decided
from bowstring.core.leases import Leases
from bowstring.core.ledger import Ledger
from bowstring.core.ledger_changes import Expire, Subscribe
from bowstring.core.ledgers import Ledgers
from bowstring.core.row_set import NO_ROWS, RowSet
from bowstring.core.settling import GrantRows
from tests.simulation.clock import START
from tests.simulation.planting import CALM, CRASHES, CUTS, POWER, QUEUE, SEALED_QUEUE, SLOW, bug

SUDDEN = POWER.only(power_cut_every=1.0, sync_seconds=0.02, down_seconds=0.1)

# ---- when rows are pushed ----------------------------------------------------------------------------------------------


@bug(SUDDEN, QUEUE.only(seconds=10.0))
def rows_are_pushed_when_their_grant_is_decided() -> Generator[None]:
    """Nobody waits until the grant is durable."""
    original = Granter._grant
    add = _delivery().add
    pushed: set[tuple[int, int, int]] = set()

    def grant(self: Granter, subscription: Any, consumer: Any, actor: Any, *rest: Any) -> bool:
        before = {lease.number for lease in _ledger(subscription, actor).leases}
        done = original(self, subscription, consumer, actor, *rest)
        for lease in tuple(_ledger(subscription, actor).leases):
            if lease.number not in before and lease.rows.stop <= actor.partition.committed_offset:
                pushed.add((id(consumer), id(actor), lease.number))
                add(consumer.delivery, actor, lease.number)
        return done

    def once(self: Any, actor: Any, number: int, *, again: bool = False) -> None:
        if again or (id(self._consumer), id(actor), number) not in pushed:
            add(self, actor, number, again=again)

    with patch.object(Granter, "_grant", grant), patch.object(_delivery(), "add", once):
        yield


def _delivery() -> Any:
    from bowstring.broker.queue.delivery import Delivery

    return Delivery


def _ledger(subscription: LiveSubscription, actor: Any) -> Ledger:
    ledger = subscription.ledger(actor)
    assert ledger is not None
    return ledger


@bug(SLOW.only(slow_rate=0.1), QUEUE.only(tight=0.8, tight_seconds=0.3, consumers=2))
def the_grant_of_a_late_publish_stays() -> Generator[None]:
    """What a late publish stored is deleted, and its consumer holds it all the same."""
    with (
        patch.object(Leases, "drop", lambda self, rows: None),
        patch.object(Ledger, "check", lambda self: None),
    ):
        yield


@bug(CALM, QUEUE.only(batches=1.0, credit_max=5))
def a_page_goes_out_whole() -> Generator[None]:
    """Rows of others are in the message, and the offsets say that they are not."""

    def rows_of(partition: Any, entry: Any, page: Any, rows: RowSet, moments: Any) -> Any:
        piece = leased_page.whole_page(partition, entry.end, entry, page)
        some = original(partition, entry, page, rows, moments)
        return some if some.rows == piece.rows else some._replace(data=bytes(some.data) + bytes(piece.data[-64:]))

    original = leased_page._rows_of
    with patch.object(leased_page, "_rows_of", rows_of):
        yield


@bug(CALM, QUEUE.only(credit_max=5, work_seconds=0.1, partitions_max=3))
def credit_counts_in_each_partition() -> Generator[None]:
    """A consumer that holds all that it may of one partition gets as much of the next."""
    room, has_room = Holdings.room, Holdings.has_room
    assert isinstance(has_room, property)

    def of_one(self: Holdings) -> int:
        return max((sum(each.rows for each in grants.values()) for grants in self._grants.values()), default=0)

    def with_less(self: Holdings, ask: Any) -> Any:
        rows, self.rows = self.rows, of_one(self)
        try:
            return ask()
        finally:
            self.rows = rows

    with (
        patch.object(Holdings, "room", lambda self, mean: with_less(self, lambda: room(self, mean))),
        patch.object(Holdings, "has_room", property(lambda self: with_less(self, lambda: has_room.fget(self)))),
    ):
        yield


@bug(CALM, QUEUE.only(pauses=0.3, plain_consumers=1.0))
def a_pause_is_not_heard() -> Generator[None]:
    """A credit of nothing counts as no credit given."""
    limit = LiveConsumer.limit

    def deaf(self: LiveConsumer, credit: Any) -> None:
        if credit.messages:
            limit(self, credit)

    with patch.object(LiveConsumer, "limit", deaf):
        yield


@bug(CUTS.only(cut_every=0.3), QUEUE)
def leases_are_pushed_again_before_the_acks_are_sent_again() -> Generator[None]:
    """A consumer that comes back gets its leases when it opens its stream, and not when it is ready."""
    original = opening.open_consumer

    async def eager(queues: Any, wanted: Any, receiver: Any, caller: Any) -> Any:
        opened = await original(queues, wanted, receiver, caller)
        if wanted.subscription_id:
            receiver._consumer = opened.consumer
            opening._resume(opened.consumer, *opened.consumer.leases(wanted.held))
        return opened

    from bowstring.gateway import consume_session

    with patch.object(consume_session, "open_consumer", eager):
        yield


# ---- clocks ------------------------------------------------------------------------------------------------------------


@bug(CALM.only(jump_every=1.0, jump_seconds=5.0), QUEUE.only(holds=0.3, seconds=10.0))
def leases_run_by_the_wall_clock() -> Generator[None]:
    """Where somebody sets the clock, leases end early."""
    begin = LeaseClock.__init__

    def made(self: LeaseClock, clock: Any, wall: int, newest: int = 0) -> None:
        begin(self, clock, wall, newest)
        self.wall = clock  # type: ignore[attr-defined]

    with patch.object(LeaseClock, "__init__", made), patch.object(LeaseClock, "now", lambda self: self.wall.now()):
        yield


@bug(CRASHES.only(crash_every=1.0, down_seconds=0.8), QUEUE.only(lease_seconds=2.0, holds=0.3, seconds=10.0))
def replay_expires_by_the_clock() -> Generator[None]:
    """At load everything ends that would have ended by now, and nobody writes it down."""
    load = incarnation.load

    async def loaded(catalog: Any, broker: int) -> Any:
        found = await load(catalog, broker)
        for partition in found.partitions.values():
            for ledger in partition.ledgers:
                ledger.apply(Expire(*ledger.place, START + round(asyncio.get_running_loop().time() * 1e6)))
        return found

    with patch.object(incarnation, "load", loaded):
        yield


@bug(CALM, QUEUE.only(extends=0.8, holds=0.2, plain_consumers=1.0))
def a_stale_timer_ends_an_extended_lease() -> Generator[None]:
    """The end that a lease had before it was made longer comes all the same."""
    expire = Leases.expire

    def wrong(self: Leases, moment: int) -> RowSet:
        stale = {grant for until, grant in self._ends if until <= moment}
        for lease in self:
            if lease.number in stale:
                lease.until = min(lease.until, moment)
        return expire(self, moment)

    next_end = Leases.next_end

    def next_of_any(self: Leases) -> int:
        return self._ends[0][0] if self._ends and self._grants else next_end(self)

    with patch.object(Leases, "expire", wrong), patch.object(Leases, "next_end", next_of_any):
        yield


@bug(CALM, QUEUE.only(extends=0.5, holds=0.4, late_extends=0.8, plain_consumers=1.0))
def an_ended_lease_can_be_made_longer_until_it_is_expired() -> Generator[None]:
    """The broker is busy, and the expiry comes late; what asks before it gets more time."""
    run = Alarm._ring

    def late(self: Alarm, now: int) -> None:
        run(self, now - 300_000 if isinstance(self._clock, LeaseClock) else now)

    decide = ExtendForConsumer.decide_lease

    def generous(self: Any, partition: Any, ledger: Ledger, now: int) -> Any:
        begin = settling._Held.__init__
        with patch.object(settling._Held, "__init__", lambda held, ledger, consumer, _: begin(held, ledger, consumer, 0)):
            return decide(self, partition, ledger, now)

    async def patient(self: Alarm) -> None:
        while self._heap:
            extra = 0.3 if isinstance(self._clock, LeaseClock) else 0.0
            await self._clock.sleep(max(0, self._heap[0][0] - self._clock.now()) / 1e6 + extra)
            self._ring(self._clock.now())

    with (
        patch.object(Alarm, "_ring", late),
        patch.object(Alarm, "_run", patient),
        patch.object(ExtendForConsumer, "decide_lease", generous),
    ):
        yield


# ---- what ends a lease -------------------------------------------------------------------------------------------------


@bug(CUTS.only(cut_every=0.3), QUEUE.only(lease_seconds=5.0, holds=0.3, abandons=0.8))
def a_lost_connection_gives_everything_back() -> Generator[None]:
    """A consumer that is not connected holds nothing, although it may be back in a moment."""
    leave = LiveSubscription.leave

    def given_back(self: LiveSubscription, consumer: LiveConsumer) -> None:
        leave(self, consumer)
        for actor, ledger in self.ledgers():
            known = ledger.consumers.named(consumer.name)
            grants = {lease.number for lease in ledger.leases.of_consumer(known.number)} if known is not None else ()
            parts = [GrantRows(grant) for grant in sorted(grants)]
            if parts and actor.closed is None:
                actor.receive(GiveBackGrants(self.number, consumer.now, lambda _: None, parts))

    with patch.object(LiveSubscription, "leave", given_back):
        yield


@bug(CALM, SEALED_QUEUE.only(topics=0, brief_topics=1, retention_seconds=1.0, lease_seconds=3.0, holds=0.6, kept_seconds=0.5))
def a_second_floor_loses_a_kept_lease() -> Generator[None]:
    """What an earlier floor has kept for its lease goes with the next one."""
    apply = Ledger._apply_floor

    def wrong(self: Ledger, change: Floor) -> None:
        self.retained = 1
        apply(self, change)

    with patch.object(Ledger, "_apply_floor", wrong):
        yield


@bug(CALM, SEALED_QUEUE.only(topics=0, brief_topics=1, retention_seconds=1.0, lease_seconds=3.0, holds=0.6, kept_seconds=0.5))
def retention_does_not_look_at_leases() -> Generator[None]:
    """What is too old goes, whoever holds it."""
    with patch.object(Ledgers, "kept", lambda self, below: NO_ROWS):
        yield


@bug(CALM, QUEUE.only(subscriptions=2, delete_held=0.5, consumers=4, lease_seconds=2.0, topics=1))
def a_delete_looks_at_one_subscription_only() -> Generator[None]:
    """Of several subscriptions the first one's leases count."""
    leased = Ledgers.leased

    def wrong(self: Ledgers, rows: RowSet, now: int) -> Any:
        first = min(self.numbers(), default=0)
        return (one for one in leased(self, rows, now) if one.subscription == first)

    with patch.object(Ledgers, "leased", wrong):
        yield


# ---- where a subscription begins ---------------------------------------------------------------------------------------


@bug(CALM.only(sync_seconds=0.1), QUEUE.only(topics=4, subscriptions=2, partitions_max=3, producers=4, pause_seconds=0.01))
def the_latest_is_the_committed_end_in_one_partition() -> Generator[None]:
    """One partition begins with what is stored, the others with what is decided."""
    decide = SubscribePartition.decide

    def wrong(self: SubscribePartition, partition: Any, now: int, found: Any) -> Any:
        decided = decide(self, partition, now, found)
        if self._offset is None and partition.number == 0:
            (change,) = decided.changes
            assert isinstance(change, Subscribe)
            change.offset = min(change.offset, partition.committed_offset)
            return Decided((change,), change.offset)
        return decided

    with patch.object(SubscribePartition, "decide", wrong):
        yield


@bug(CALM, SEALED_QUEUE.only(fleeting_seconds=0.7))
def the_number_of_a_deleted_subscription_is_used_again() -> Generator[None]:
    """The next subscription has the first number that is free."""

    unsubscribe = Ledgers._unsubscribe

    def wrong(self: Ledgers, number: int) -> None:
        unsubscribe(self, number)
        self.next_number = max(self.numbers(), default=0) + 1

    with patch.object(Ledgers, "_unsubscribe", wrong), patch.object(Ledgers, "check", lambda self: None):
        yield
