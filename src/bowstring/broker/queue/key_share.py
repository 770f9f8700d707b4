"""Keys over the consumers of a key-shared subscription: who gets which rows, when a flush is taken.

Free keys go to the owner of their slot (`slot_owners`), rows without a key to anyone. Busy keys
finish where they are, whoever owns their slot meanwhile (`core.keys`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.queue.keyed_partition import KeyedPartition
from bowstring.broker.queue.scout import Scout
from bowstring.broker.queue.slot_owners import SlotOwners
from bowstring.core.changes import Change, Delete, Floor
from bowstring.core.granting import ChosenRows, Granted
from bowstring.core.ledger import Ledger
from bowstring.core.ledger_changes import GiveBack, Grant, Reset, SetAside, Settle
from bowstring.core.settling import Behind, GrantRows, RevokedRows

if TYPE_CHECKING:
    from bowstring.broker.queue.consumer import LiveConsumer
    from bowstring.broker.queue.subscription import LiveSubscription

PARTITIONS_AT_ONCE: Final = 64
"""So many partitions take part in one flush."""
SHARE_MIN: Final = 16
"""Rows without a key are shared among the consumers that have room, so many for each at least."""
LOOKS_MAX: Final = 16
"""So often a partition is looked at further in one flush: some thousand rows each time."""

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

    def __init__(
        self, subscription: LiveSubscription, scout: Scout, now: Callable[[], int], wake_at: Callable[[KeyShare, int], None]
    ) -> None:
        self._subscription = subscription
        self._scout = scout
        self._now = now
        self._wake_at = wake_at
        self._partitions: dict[PartitionActor, KeyedPartition] = {}
        self._slots = SlotOwners()

    # Partitions

    def partition(self, actor: PartitionActor) -> KeyedPartition:
        """What is known about a partition."""
        found = self._partitions.get(actor)
        if found is None:
            subscription = self._subscription
            found = KeyedPartition(actor, self._scout, lambda: subscription.ledger(actor), self._slots.owners)
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

    def behind(self, actor: PartitionActor) -> Behind:
        """Which rows a row that is given back takes along."""
        return self.partition(actor).behind

    def revoked(self, partition: int, revoked: Iterable[RevokedRows]) -> None:
        """Consumers do not hold these rows any more, and are told so."""
        by_consumer: dict[str, list[GrantRows]] = {}
        for name, grant, rows in revoked:
            by_consumer.setdefault(name, []).append(GrantRows(grant, rows))
        for name, parts in by_consumer.items():
            consumer = self._subscription.consumers.get(name)
            if consumer is not None:
                consumer.receiver.revoked(partition, parts)

    # Consumers

    def join(self, consumer: LiveConsumer) -> None:
        """A consumer is connected."""
        self._slots.join(consumer.name)
        self._planned()

    def leave(self, consumer: LiveConsumer) -> None:
        """A consumer is not connected any more. What it holds it holds on."""
        self._slots.leave(consumer.name)
        self._planned()
        if not self._slots.numbers:
            for known in self._partitions.values():
                known.forget_waiting()

    # Granting

    def share_out(self, grant: GrantKeys) -> bool:
        """Says whether something was granted."""
        subscription, now, has_granted = self._subscription, self._now(), False
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
        now = self._now()
        known.come_back(ledger, now)
        self._look_further(ledger, known, rooms, subscription.end(actor, ledger))
        share = max(SHARE_MIN, -(-known.keys.keyless // max(1, len(rooms))))
        for consumer, most in rooms.items():
            if not most:
                subscription.hungry.pop(consumer, None)
                continue
            choice = known.choose(ledger, self._slots.numbers[consumer.name], most, share, now)
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

    def _look_further(self, ledger: Ledger, known: KeyedPartition, rooms: dict[LiveConsumer, int], end: int) -> None:
        """Until those that have room can get what they have room for, or for as long as it is cheap."""
        for _ in range(LOOKS_MAX):
            keyless = known.keys.keyless // max(1, len(rooms))
            if all(known.keys.waiting_for(self._slots.numbers[consumer.name]) + keyless >= most for consumer, most in rooms.items()):
                return
            hashes = known.look(ledger, end)
            if hashes is None:
                return
            self._slots.count(hashes)

    def _planned(self) -> None:
        """Slots have other owners: what waited for one of them may go to another."""
        for actor, known in self._partitions.items():
            known.keys.own(self._slots.owners)
            self._subscription.may_grant(actor)

    def woken(self, now: int) -> None:
        """A consumer may have taken nothing for a second (`Sleeper`)."""
        self._look_at_consumers(now)

    def _look_at_consumers(self, now: int) -> None:
        """Finds those that take nothing, and those that take something again."""
        consumers, slots = self._subscription.consumers, self._slots
        for name, number in slots.numbers.items():
            consumer = consumers.get(name)
            has_room = consumer is None or consumer.has_room
            slots.has_room(name, now, has_room=has_room, waiting=not has_room and self._waits_for(number))
        if (deadline := slots.next_look(now)) is not None:
            self._wake_at(self, deadline)
        if slots.look(now):
            self._planned()

    def _waits_for(self, number: int) -> bool:
        return any(known.keys.waiting_for(number) for known in self._partitions.values())

    # Looking

    def explain(self, key: int) -> list[KeyStanding]:
        """Where a key stands, in the partitions that know something about it."""
        names = {number: name for name, number in self._slots.numbers.items()}
        found: list[KeyStanding] = []
        for actor, known in self._partitions.items():
            facts, ledger = known.keys.facts(key), self._subscription.ledger(actor)
            if facts is None or ledger is None:
                continue
            leases = ledger.leases.of_grant(facts.grant)
            holder = ledger.consumers[leases[0].consumer].name if leases else ""
            since, until = (leases[0].granted, max(lease.until for lease in leases)) if leases else (0, 0)
            first = int(facts.waiting[0]) if len(facts.waiting) else 0
            preferred = names.get(int(self._slots.owners[facts.slot]), "")
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
