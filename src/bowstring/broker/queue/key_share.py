"""Keys over the consumers of a key-shared subscription: who gets which rows, when a flush is taken.

Each of 4,096 slots has an owner, and free keys of a slot go to it. Slots are planned by their load,
which is the rows that were looked at (`core.key_slots`): when a consumer joins or leaves, and when
the plan is off. A consumer that has no room for a second while rows wait for it loses its slots to
the others, and gets some again when it has room. Busy keys finish where they are, whoever owns their
slot meanwhile (`core.keys`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.log.alarm import Alarm
from bowstring.broker.queue.keyed_partition import KeyedPartition
from bowstring.broker.queue.lease_clock import LeaseClock
from bowstring.broker.queue.scout import Scout
from bowstring.core import key_slots
from bowstring.core.changes import Change, Delete, Floor
from bowstring.core.granting import ChosenRows, Granted
from bowstring.core.keys import ANY_OWNER, NO_OWNER, SLOTS, slots_of
from bowstring.core.ledger import Ledger
from bowstring.core.ledger_changes import GiveBack, Grant, Reset, SetAside, Settle

if TYPE_CHECKING:
    from bowstring.broker.queue.consumer import LiveConsumer
    from bowstring.broker.queue.subscription import LiveSubscription

PARTITIONS_AT_ONCE: Final = 64
"""So many partitions take part in one flush."""
SHARE_MIN: Final = 16
"""Rows without a key are shared among the consumers that have room, so many for each at least."""
LOOKS_MAX: Final = 16
"""So often a partition is looked at further in one flush: some thousand rows each time."""
IDLE_MICROSECONDS: Final = 1_000_000
"""A consumer that takes nothing for so long loses its idle keys."""
PLAN_MICROSECONDS: Final = 1_000_000
"""So often a plan is compared with the load."""
HALF_MICROSECONDS: Final = 5_000_000
"""After so long a load counts half."""

GrantKeys = Callable[["LiveConsumer", PartitionActor, ChosenRows], Granted | None]


class KeyStanding(NamedTuple):
    """Where a key stands in one partition."""

    partition: int
    consumer: str
    """Who holds it; empty if nobody does."""
    since: int
    """Since when, by the clock of leases."""
    until: int
    held: int
    """How many messages of it are held."""
    waiting: int
    first: int
    """The first of its messages that waits; 0 if none does."""
    later: int
    """The message that comes back later and holds the others back; 0 if there is none."""
    preferred: str
    """The consumer that gets it when it is free."""
    looked: int
    """Messages from this offset on were not looked at yet."""
    stopped: bool
    """Whether the search has stopped there because too many messages wait."""


class KeyShare:
    """The keys of one subscription."""

    def __init__(self, subscription: LiveSubscription, scout: Scout, clock: LeaseClock, alarm: Alarm) -> None:
        self._subscription = subscription
        self._scout = scout
        self._clock = clock
        self._alarm = alarm
        self._partitions: dict[PartitionActor, KeyedPartition] = {}
        self._numbers: dict[str, int] = {}
        """Consumers have numbers, by name."""
        self._owners = np.full(SLOTS, NO_OWNER, np.int16)
        self._loads = np.zeros(SLOTS)
        self._full: dict[str, int] = {}
        """Since when consumers have no room while rows wait for them."""
        self._idle: set[str] = set()
        """Those that have lost their slots for that."""
        self._planned = 0

    # Partitions

    def partition(self, actor: PartitionActor) -> KeyedPartition:
        """What is known about a partition."""
        found = self._partitions.get(actor)
        if found is None:
            subscription = self._subscription
            found = KeyedPartition(actor, self._scout, lambda: subscription.ledger(actor), self._owners)
            self._partitions[actor] = found
        return found

    async def prepare(self, actors: Iterable[PartitionActor]) -> None:
        """Gets to know the keys that are busy."""
        for actor in actors:
            await self.partition(actor).prepare()

    def follow(self, actor: PartitionActor, ledger: Ledger, change: Change) -> None:
        """A change was applied to the ledger, or to its partition."""
        known = self._partitions.get(actor)
        if known is None or isinstance(change, Grant):
            return
        if isinstance(change, Reset):
            known.stop()
            del self._partitions[actor]
            if self._subscription.consumers:
                self.partition(actor).is_prepared = True  # no row is leased
        elif isinstance(change, Delete | Floor):
            known.rows_left(ledger)
        elif isinstance(change, Settle | GiveBack | SetAside):
            known.follow(ledger, [part.grant for part in change.parts])
        else:
            known.follow(ledger, None)

    # Consumers

    def join(self, consumer: LiveConsumer) -> None:
        """A consumer is connected."""
        if consumer.name not in self._numbers:
            used = set(self._numbers.values())
            self._numbers[consumer.name] = next(number for number in range(len(used) + 1) if number not in used)
        self._plan()

    def leave(self, consumer: LiveConsumer) -> None:
        """A consumer is not connected any more. What it holds it holds on."""
        self._numbers.pop(consumer.name, None)
        self._full.pop(consumer.name, None)
        self._idle.discard(consumer.name)
        self._plan()
        if not self._numbers:
            for known in self._partitions.values():
                known.forget_waiting()

    # Granting

    def share_out(self, grant: GrantKeys) -> bool:
        """Says whether something was granted."""
        subscription, now, has_granted = self._subscription, self._clock.now(), False
        self._look_at_consumers(now)
        for actor in list(subscription.waiting)[:PARTITIONS_AT_ONCE]:
            ledger, known = subscription.ledger(actor), self.partition(actor)
            if ledger is None or actor.closed is not None or not known.is_prepared:
                del subscription.waiting[actor]
                continue
            has_granted |= self._share_out(actor, ledger, known, grant)
            if known.keys.waiting or known.is_reading:
                subscription.waiting.move_to_end(actor)
            else:
                del subscription.waiting[actor]
        return has_granted

    def _share_out(self, actor: PartitionActor, ledger: Ledger, known: KeyedPartition, grant: GrantKeys) -> bool:
        subscription, has_granted = self._subscription, False
        rooms = {consumer: consumer.holdings.room(subscription.mean(actor)) for consumer in subscription.hungry}
        self._look_further(ledger, known, rooms)
        share = max(SHARE_MIN, -(-known.keys.waiting_for(ANY_OWNER) // max(1, len(rooms))))
        for consumer, most in rooms.items():
            if not most:
                subscription.hungry.pop(consumer, None)
                continue
            choice = known.choose(ledger, self._numbers[consumer.name], most, share)
            if choice is None:
                continue
            granted = grant(consumer, actor, choice.chosen)
            if granted is None:
                known.keys.put_back(choice.keyed)
                continue
            known.keys.grant(granted.number, choice.keyed)
            has_granted = True
            if consumer in subscription.hungry:
                subscription.hungry.move_to_end(consumer)
        return has_granted

    def _look_further(self, ledger: Ledger, known: KeyedPartition, rooms: dict[LiveConsumer, int]) -> None:
        """Until those that have room can get what they have room for, or for as long as it is cheap."""
        for _ in range(LOOKS_MAX):
            keyless = known.keys.waiting_for(ANY_OWNER) // max(1, len(rooms))
            if all(known.keys.waiting_for(self._numbers[consumer.name]) + keyless >= most for consumer, most in rooms.items()):
                return
            hashes = known.look(ledger)
            if hashes is None:
                return
            np.add.at(self._loads, slots_of(hashes[hashes > 0]), 1.0)

    # Planning

    def _look_at_consumers(self, now: int) -> None:
        """Finds those that take nothing, and those that take something again."""
        consumers, changed = self._subscription.consumers, False
        for name, number in self._numbers.items():
            consumer = consumers.get(name)
            if consumer is None or consumer.has_room:
                self._full.pop(name, None)
                changed |= name in self._idle
                self._idle.discard(name)
            elif any(known.keys.waiting_for(number) for known in self._partitions.values()):
                self._full.setdefault(name, now)
        late = {name for name, since in self._full.items() if now - since >= IDLE_MICROSECONDS} - self._idle
        if late and len(self._idle) + len(late) < len(self._numbers):
            self._idle |= late
            changed = True
        waits = [since for name, since in self._full.items() if name not in self._idle]
        if waits:
            self._alarm.set(self, max(min(waits), now - IDLE_MICROSECONDS // 2) + IDLE_MICROSECONDS)
        if changed or (now - self._planned >= PLAN_MICROSECONDS and self._is_off(now)):
            self._plan()

    def _is_off(self, now: int) -> bool:
        self._loads *= 0.5 ** ((now - self._planned) / HALF_MICROSECONDS)
        self._planned = now
        return key_slots.is_off(self._loads, self._owners, self._working())

    def _working(self) -> list[int]:
        return sorted(number for name, number in self._numbers.items() if name not in self._idle)

    def _plan(self) -> None:
        self._owners = key_slots.plan(self._loads, self._owners, self._working())
        for known in self._partitions.values():
            known.keys.own(self._owners)

    def woken(self, now: int) -> None:
        """A consumer may have taken nothing for a second (`Sleeper`)."""
        before = self._owners
        self._look_at_consumers(now)
        if self._owners is not before:
            for actor in self._partitions:
                self._subscription.may_grant(actor)

    # Looking

    def explain(self, key: int) -> list[KeyStanding]:
        """Where a key stands, in the partitions that know something about it."""
        names = {number: name for name, number in self._numbers.items()}
        found: list[KeyStanding] = []
        for actor, known in self._partitions.items():
            facts, ledger = known.keys.facts(key), self._subscription.ledger(actor)
            if facts is None or ledger is None:
                continue
            leases = ledger.leases.of_grant(facts.grant)
            holder = ledger.consumers[leases[0].consumer].name if leases else ""
            since, until = (leases[0].granted, max(lease.until for lease in leases)) if leases else (0, 0)
            first = int(facts.waiting[0]) if len(facts.waiting) else 0
            preferred = names.get(int(self._owners[facts.slot]), "")
            counts = facts.leased, len(facts.waiting), first, facts.later
            found.append(KeyStanding(actor.partition.number, holder, since, until, *counts, preferred, known.looked, known.keys.is_full))
        return found

    @property
    def has_stopped(self) -> bool:
        """Whether too many rows of a partition wait to look further."""
        return any(known.keys.is_full for known in self._partitions.values())

    def stop(self) -> None:
        """The subscription has ended."""
        for known in self._partitions.values():
            known.stop()
