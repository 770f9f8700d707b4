"""A subscription over the partitions of its topic: who consumes it, who has room for more, and which
partitions may have something to grant.

The durable part is in the ledgers of the partitions. Everything here is made anew by an incarnation,
and follows the changes of the ledgers when they are applied.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable

from bowstring import errors
from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.queue.consumer import LiveConsumer
from bowstring.broker.queue.key_share import KeyShare
from bowstring.broker.queue.rates import Rates
from bowstring.broker.queue.schedules import Schedules
from bowstring.broker.queue.scout import Scout
from bowstring.broker.topics import Topic
from bowstring.core.addresses import Runs
from bowstring.core.ledger import Ledger
from bowstring.core.ledger_changes import Grant, SetAsideReason, Settle
from bowstring.core.subscription_settings import DEAD_LETTER, KEEP, SubscriptionSettings

FIRST_MEAN = 1024.0
"""The size of a message, in bytes, where nothing is known about the partition yet."""
NEWER = 0.25
"""How much the latest push of many messages counts in the mean size of messages."""
MANY = 64
"""A push of fewer counts less: what a batch has beside its rows is a large part of it."""


class LiveSubscription:
    """One subscription of one incarnation. It follows its partitions (`Follower`), so that it ends
    with them.
    """

    def __init__(
        self,
        topic: Topic,
        number: int,
        name: str,
        settings: SubscriptionSettings,
        created: int,
        *,
        rates: Rates,
        look_at: Callable[[LiveSubscription], None],
        bury: Callable[[LiveSubscription, PartitionActor], None],
    ) -> None:
        self.topic = topic
        self.number = number
        self.name = name
        self.settings = settings
        self.created = created
        self.rates = rates
        self._look_at = look_at
        """Has the granter look at it when the next flush is taken."""
        self._bury = bury
        """Has dead letters written."""
        self.consumers: dict[str, LiveConsumer] = {}
        """Those that are connected, by name."""
        self.hungry: OrderedDict[LiveConsumer, None] = OrderedDict()
        """Those of them that have room, the next one to be served first."""
        self.apart: dict[LiveConsumer, None] = {}
        """Those that get suspects of a crash, and nothing else (`suspects`)."""
        self.waiting: OrderedDict[PartitionActor, None] = OrderedDict()
        """Partitions that may have rows to grant, in turn; kept only while there are consumers."""
        self.series = 0
        """The newest series of requests that a consumer has begun."""
        self._means: dict[PartitionActor, float] = {}
        self.companion: Topic | None = None
        """The topic with its dead letters, once there is one."""
        self.lane = 0
        """The number of its ledgers there."""
        self.schedules: Schedules | None = None
        """When the rows of its partitions are due."""
        self.scout: Scout | None = None
        """Looks at rows before they are granted, if that is needed."""
        self.keys: KeyShare | None = None
        """Shares the keys of a key-shared subscription out."""
        self.awaiting: set[asyncio.Event] = set()
        """Set when more may be known of rows (`lease_by_id`)."""
        self.leaving: asyncio.Task[None] | None = None
        """It is being deleted: its name and its companion are free, and this is the rest of it."""
        self.ended: errors.Error | None = None
        topic.actors[0].followers[self] = None  # all of them end together

    @property
    def dead_letters(self) -> str:
        """The name of the topic for its dead letters."""
        return self.settings.dead_letters or f"{self.topic.row.name}.{self.name}.dead-letters"

    # Its ledgers: those of its topic, and lanes in the topic of its dead letters

    def is_lane(self, actor: PartitionActor) -> bool:
        """Whether the partition is one of its companion's."""
        return actor.partition.topic != self.topic.row.id

    def number_in(self, actor: PartitionActor) -> int:
        """The number of its ledger in a partition."""
        return self.lane if self.is_lane(actor) else self.number

    def ledger(self, actor: PartitionActor) -> Ledger | None:
        """What it has done in a partition; None when it is deleted."""
        return actor.partition.ledgers.get(self.number_in(actor))

    def actors(self) -> list[PartitionActor]:
        """The partitions of its topic, and behind them those of its companion."""
        return self.topic.actors if self.companion is None else [*self.topic.actors, *self.companion.actors]

    def ledgers(self) -> list[tuple[PartitionActor, Ledger]]:
        """The same in all partitions."""
        return [(actor, ledger) for actor in self.actors() if (ledger := self.ledger(actor)) is not None]

    def place(self, actor: PartitionActor) -> int:
        """The number by which consumers know a partition: lanes count on behind those of the topic."""
        return actor.partition.number + (len(self.topic.actors) if self.is_lane(actor) else 0)

    def actor(self, place: int) -> PartitionActor:
        """Raises InvalidArgument for one that is not there."""
        behind = place - len(self.topic.actors)
        return self.topic.actor(place) if self.companion is None or behind < 0 else self.companion.actor(behind)

    def share_keys(self, now: Callable[[], int], wake_at: Callable[[KeyShare, int], None]) -> None:
        """Shares keys out among consumers from here on."""
        if self.scout is not None:
            self.keys = KeyShare(self, self.scout, now, wake_at)

    # Consumers

    def join(self, consumer: LiveConsumer) -> None:
        """A consumer is connected. It gets nothing before it is ready."""
        if not self.consumers:
            self.waiting = OrderedDict.fromkeys(self.actors())
        self.consumers[consumer.name] = consumer
        if self.keys is not None:
            self.keys.join(consumer)
        for actor, ledger in self.ledgers():
            known = ledger.consumers.named(consumer.name)
            for lease in ledger.leases.of_consumer(known.number) if known is not None else ():
                self._update(actor, ledger, consumer, lease.number)

    def leave(self, consumer: LiveConsumer) -> None:
        """A consumer is not connected any more. Its leases run to their end."""
        self.hungry.pop(consumer, None)
        self.apart.pop(consumer, None)
        if self.consumers.get(consumer.name) is consumer:
            del self.consumers[consumer.name]
            if self.keys is not None:
                self.keys.leave(consumer)
            if not self.consumers:
                self.waiting.clear()
                if self.scout is not None:
                    self.scout.stop()

    def room_changed(self, consumer: LiveConsumer) -> None:
        """It may have room now, or not any more."""
        if not consumer.has_room:
            self.hungry.pop(consumer, None)
        elif consumer not in self.hungry:
            self.hungry[consumer] = None
            if self.waiting:
                self._look_at(self)

    def set_apart(self, consumer: LiveConsumer) -> None:
        """It gets suspects from here on, when it holds nothing."""
        self.apart[consumer] = None
        self.hungry.pop(consumer, None)

    def rejoin(self, consumer: LiveConsumer) -> None:
        """It gets what all others get."""
        self.apart.pop(consumer, None)
        self.room_changed(consumer)

    # Partitions

    def add_lane(self, companion: Topic, number: int) -> None:
        """Its companion has dead letters: that is its ledgers' number there."""
        self.companion, self.lane = companion, number

    def condemned(self, actor: PartitionActor) -> None:
        """Rows of a partition are to be dead letters."""
        self._bury(self, actor)

    def may_grant(self, actor: PartitionActor) -> None:
        """A partition may have rows to grant."""
        for event in self.awaiting:
            event.set()
        if self.consumers:
            self.waiting[actor] = None
            if self.hungry or self.apart:
                self._look_at(self)

    def grantable(self, actor: PartitionActor, ledger: Ledger, now: int) -> int:
        """How many rows of a partition can be granted, as far as is known."""
        if self.scout is not None and not ledger.lane:
            return self.scout.waiting(actor, ledger, now) if self.end(actor, ledger) > ledger.cursor else ledger.waiting(0, now)
        return ledger.waiting(self.end(actor, ledger), now)

    def end(self, actor: PartitionActor, ledger: Ledger) -> int:
        """Rows from the cursor up to there are due. Those of a lane wait until they are redriven."""
        if ledger.lane:
            return ledger.cursor
        end = actor.partition.next_offset
        return end if self.schedules is None else min(end, self.schedules[actor].limit(ledger))

    def kept_longer(self, actor: PartitionActor) -> int | None:
        """For how long after the retention of their topic it still gets rows of a partition; None for
        ever.
        """
        if self.is_lane(actor):
            return None  # what was redriven is never too old
        return 0 if self.settings.unsettled != KEEP else self.settings.keep_max or None

    @property
    def fate_of_old_rows(self) -> SetAsideReason:
        """What becomes of granted rows that are too old. Retention may not have come to them yet."""
        return SetAsideReason.OVERTAKEN if self.settings.unsettled == DEAD_LETTER else SetAsideReason.EXPIRED

    def mean(self, actor: PartitionActor) -> float:
        """About how many bytes a message of the partition has."""
        known = self._means.get(actor)
        if known is not None:
            return known
        partition = actor.partition
        rows = partition.committed_offset - partition.retained.first
        return max(1.0, partition.bytes / rows) if rows > 0 and partition.bytes else FIRST_MEAN

    def learn(self, actor: PartitionActor, rows: int, size: int) -> None:
        """So many rows were sent and had this size."""
        known, latest = self.mean(actor), max(1.0, size / rows)
        self._means[actor] = known + NEWER * min(1.0, rows / MANY) * (latest - known)

    # What the ledgers say

    def granted(self, actor: PartitionActor, ledger: Ledger, change: Grant) -> None:
        """A consumer holds more."""
        rows = sum(len(lease.rows) for lease in ledger.leases.of_grant(change.number))
        self.rates.count(delivered=rows)
        consumer = self.consumers.get(ledger.consumers[change.consumer].name)
        if consumer is not None:
            consumer.holdings.update(actor, change.number, rows, self.mean(actor), apart=change.apart)
            consumer.had_suspects = change.apart
            if not consumer.has_room:
                self.hungry.pop(consumer, None)

    def settled(self, actor: PartitionActor, ledger: Ledger, change: Settle) -> None:
        """A consumer holds less."""
        consumer = self.consumers.get(ledger.consumers[change.consumer].name)
        if consumer is not None:
            for part in change.parts:
                self._update(actor, ledger, consumer, part.grant)
            self.room_changed(consumer)
        self.may_grant(actor)

    def leases_changed(self, actor: PartitionActor, ledger: Ledger) -> None:
        """Leases have ended, whosever they were."""
        for consumer in self.consumers.values():
            grants = consumer.holdings.grants_in(actor)
            for grant in grants:
                self._update(actor, ledger, consumer, grant)
            if grants:
                self.room_changed(consumer)
        self.may_grant(actor)

    def _update(self, actor: PartitionActor, ledger: Ledger, consumer: LiveConsumer, grant: int) -> None:
        leases = ledger.leases.of_grant(grant)
        rows, apart = sum(len(lease.rows) for lease in leases), any(lease.apart for lease in leases)
        consumer.holdings.update(actor, grant, rows, self.mean(actor), apart=apart)
        if apart and consumer not in self.apart:  # it comes back
            self.set_apart(consumer)
            consumer.had_suspects = True
        elif consumer in self.apart and not consumer.holdings.rows and consumer.had_suspects:
            self.rejoin(consumer)

    # The end

    def deleted(self, actor: PartitionActor, runs: Runs) -> None:
        """Rows were deleted: `leases_changed` knows already."""

    def altered(self) -> None:
        """The topic has other settings; those of the subscription are its own."""

    def closed(self, error: errors.Error) -> None:
        """Nothing is delivered any more: the topic or the subscription is deleted, or the
        incarnation has ended.
        """
        self.ended = error
        self.end_consumers(error)

        if self.keys is not None:
            self.keys.stop()

    def end_consumers(self, error: errors.Error) -> None:
        """Those that are connected get this error. They may come again."""
        for consumer in tuple(self.consumers.values()):
            consumer.end(error)

    def detach(self) -> None:
        """It follows its partitions no more."""
        self.topic.actors[0].followers.pop(self, None)
