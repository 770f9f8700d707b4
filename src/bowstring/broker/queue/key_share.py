"""Keys over the consumers of a key-shared subscription: who gets which rows, when a flush is taken.

Free keys go to the owner of their slot (`slot_owners`), rows without a key to anyone. Busy keys
finish where they are, whoever owns their slot meanwhile (`core.keys`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.queue.crumbs import Crumbs
from bowstring.broker.queue.keyed_partition import KeyedPartition
from bowstring.broker.queue.scout import Scout
from bowstring.broker.queue.slot_owners import SlotOwners
from bowstring.core.changes import Change, Delete, Floor
from bowstring.core.granting import ChosenRows, Granted
from bowstring.core.ledger import Ledger
from bowstring.core.ledger_changes import Condemn, Expire, GiveBack, Grant, Overtake, Redrive, Reset, SetAside, Settle, Settlement
from bowstring.core.settling import Behind, GrantRows, RevokedRows

if TYPE_CHECKING:
    from bowstring.broker.queue.consumer import LiveConsumer
    from bowstring.broker.queue.subscription import LiveSubscription

PARTITIONS_AT_ONCE: Final = 64
"""Rows of so many partitions are granted in one flush."""
SHARE_MIN: Final = 16
"""Rows without a key are shared among the consumers that have room, so many for each at least."""
LOOKS_MAX: Final = 16
"""So often a partition is looked at further in one flush: some thousand rows each time."""

GrantKeys = Callable[["LiveConsumer", PartitionActor, ChosenRows], Granted | None]


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
        self._crumbs: Crumbs[tuple[LiveConsumer, PartitionActor]] = Crumbs()
        self.goes_on = False
        """Whether the next look may find more, though nothing has changed by then."""

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
        elif isinstance(change, Delete | Floor | Condemn | Overtake):
            known.rows_left(ledger)
        elif isinstance(change, Redrive):
            known.come_again(ledger, change)
        elif isinstance(change, Settle) and all(part.outcome is Settlement.ACK for part in change.parts):
            known.acked(ledger, [part.grant for part in change.parts])
        elif isinstance(change, Settle | GiveBack | SetAside):
            known.follow(ledger, [part.grant for part in change.parts])
        else:
            known.follow(ledger, None, expired=isinstance(change, Expire))

    def behind(self, actor: PartitionActor) -> Behind:
        """Which rows a row that is given back takes along."""
        return self.partition(actor).behind

    def revoked(self, partition: int, revoked: Iterable[RevokedRows]) -> None:
        """Consumers do not hold these rows any more: their sessions hear of it."""
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
        self._crumbs.forget(lambda place: place[0] is consumer)
        self._planned()
        if not self._slots.numbers:
            for known in self._partitions.values():
                known.forget_waiting()

    # Granting

    def share_out(self, grant: GrantKeys) -> bool:
        """Says whether something was granted. Nothing is before it is known which rows are due: those
        that were scheduled come before later ones of their key.
        """
        subscription, now, granting = self._subscription, self._now(), 0
        self._look_at_consumers(now)
        self._crumbs.looked()
        self.goes_on = False
        for actor in list(subscription.waiting):
            if not subscription.hungry or granting == PARTITIONS_AT_ONCE:
                self.goes_on = bool(subscription.hungry)
                break  # the other partitions come first in the next flush, or when a consumer has room again
            ledger, known = subscription.ledger(actor), self.partition(actor)
            known.is_prepared |= ledger is not None and not ledger.leases.rows_held
            if ledger is None or actor.closed is not None or not known.is_prepared or not subscription.end(actor, ledger):
                del subscription.waiting[actor]
                continue
            known.come_back(ledger, now)
            rooms = self._rooms(actor, now)
            has_seen_all = self._look_further(ledger, known, rooms, subscription.end(actor, ledger))
            parked = known.keys.parked
            has_granted = self._share_out(actor, ledger, known, rooms, grant)
            granting += has_granted
            if not has_seen_all and not has_granted and known.keys.parked > parked:
                subscription.may_grant(actor)  # what stood in the fronts is held back: look behind it
                self.goes_on = True
            if known.holds_back and not known.is_reading:
                subscription.may_grant(actor)  # rows that are due come first: look at them
                self.goes_on = True
            self.goes_on |= known.is_reading
            if has_seen_all and not known.keys.waiting and not known.is_reading:
                del subscription.waiting[actor]
            else:
                subscription.waiting.move_to_end(actor)
        self._look_at_crumbs(now)
        return granting > 0

    def _rooms(self, actor: PartitionActor, now: int) -> dict[LiveConsumer, int]:
        """How many rows of a partition each consumer may get. Those that have room for a few only wait."""
        mean = self._subscription.mean(actor)
        rooms = {consumer: consumer.holdings.room(mean) for consumer in self._subscription.hungry}
        return {one: most for one, most in rooms.items() if not most or not self._are_crumbs(one, actor, most, now)}

    def _share_out(
        self, actor: PartitionActor, ledger: Ledger, known: KeyedPartition, rooms: dict[LiveConsumer, int], grant: GrantKeys
    ) -> bool:
        subscription, now, has_granted = self._subscription, self._now(), False
        share = max(SHARE_MIN, -(-known.keys.keyless // max(1, len(rooms))))
        for consumer, most in rooms.items():
            if not most:
                subscription.hungry.pop(consumer, None)
                continue
            choice = known.choose(ledger, self._slots.numbers[consumer.name], most, share, now)
            if choice is None:
                continue
            are_crumbs = self._are_crumbs(consumer, actor, len(choice.keyed.offsets), now)
            granted = None if are_crumbs else grant(consumer, actor, choice.chosen)
            if granted is None:
                known.keys.put_back(choice.keyed)
                continue
            self._crumbs.granted((consumer, actor))
            known.keys.grant(granted.number, choice.keyed)
            self._slots.took(consumer.name)
            has_granted = True
            if consumer in subscription.hungry:
                subscription.hungry.move_to_end(consumer)
        return has_granted

    def _are_crumbs(self, consumer: LiveConsumer, actor: PartitionActor, rows: int, now: int) -> bool:
        return self._crumbs.are_left((consumer, actor), rows, consumer.holdings.rows, now)

    def has_suspects(self, actor: PartitionActor, ledger: Ledger) -> bool:
        """Whether suspects of a partition may be granted."""
        known = self._partitions.get(actor)
        return known is not None and known.has_suspects(ledger, self._now())

    def grant_apart(self, consumer: LiveConsumer, actor: PartitionActor, ledger: Ledger, most: int, grant: GrantKeys) -> bool:
        """A consumer that holds nothing gets suspects of a partition. Says whether it did."""
        known = self.partition(actor)
        choice = known.choose_apart(ledger, most)
        granted = None if choice is None else grant(consumer, actor, choice.chosen)
        if choice is not None and granted is None:
            known.keys.put_back(choice.keyed)
        elif choice is not None and granted is not None:
            known.keys.grant(granted.number, choice.keyed)
        return granted is not None

    def _look_further(self, ledger: Ledger, known: KeyedPartition, rooms: dict[LiveConsumer, int], end: int) -> bool:
        """Until those that have room can get what they have room for, or for as long as it is cheap.
        Says whether there is nothing more to look at now: only then the partition may be forgotten
        until something in it changes.
        """
        known.look_behind(ledger)
        for _ in range(LOOKS_MAX):
            keyless = known.keys.keyless // max(1, len(rooms))
            if not known.holds_back and all(
                known.keys.waiting_for(self._slots.numbers[consumer.name]) + keyless >= most for consumer, most in rooms.items()
            ):
                return False
            hashes = known.look(ledger, end)
            if hashes is None:
                return True
            self._slots.count(hashes)
        self._subscription.may_grant(known.actor)  # the next flush goes on, also if this one grants nothing
        self.goes_on = True
        return False

    def _planned(self) -> None:
        """Slots have other owners: what waited for one of them may go to another."""
        for actor, known in self._partitions.items():
            known.keys.own(self._slots.owners)
            self._subscription.may_grant(actor)

    def woken(self, now: int) -> None:
        """A consumer may have taken nothing for a second, or something small has waited (`Sleeper`)."""
        self._look_at_consumers(now)
        self._look_at_crumbs(now)

    def _look_at_crumbs(self, now: int) -> None:
        """The next flush decides about small grants that have waited long enough."""
        next_look = self._crumbs.next_look
        if next_look is None:
            return
        if next_look > now:
            self._wake_at(self, next_look)
        elif (actor := next(iter(self._subscription.waiting), None)) is not None:
            self._subscription.may_grant(actor)

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

    def preferred(self, key: int) -> str:
        """The consumer that gets a key when it is free; empty if there is none."""
        return self._slots.owner_of(key)

    def stop(self) -> None:
        """The subscription has ended."""
        for known in self._partitions.values():
            known.stop()
