"""Who gets rows that are suspected of a crash: consumers that hold nothing else.

Rows whose leases have expired twice go apart from all others, in groups that shrink with each expiry
(`core.granting`). A consumer that is chosen for them gets nothing new until it holds nothing, in no
partition; then it gets a group, and nothing else until it is done with it. At most a quarter of the
consumers are so occupied, and at least one: the others go on with the rest.

Where there are few consumers they take turns with themselves: one that had suspects gets other rows
before it is chosen again, so that a row that expires for ever does not hold up all others.

In a key-shared subscription suspects come to any consumer, whoever owns their slots, and one row of a
key at a time (`key_share`, `core.keys`): the rows behind it wait until it is settled or condemned.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.queue.consumer import LiveConsumer
from bowstring.broker.queue.lease_clock import LeaseClock
from bowstring.broker.queue.lease_requests import GrantSuspects
from bowstring.broker.queue.subscription import LiveSubscription
from bowstring.core.granting import ChosenRows, Granted
from bowstring.core.ledger import Ledger

SHARE: Final = 4
"""One consumer of so many may be occupied with suspects."""


class Suspects:
    """Grants suspects for all subscriptions of one incarnation."""

    def __init__(self, clock: LeaseClock) -> None:
        self._clock = clock

    def share_out(self, subscription: LiveSubscription) -> bool:
        """Says whether something was granted."""
        for consumer in tuple(subscription.apart):
            if not consumer.holdings.rows and not consumer.may_be_apart:  # it pauses, or is not ready yet
                subscription.rejoin(consumer)
        most = max(1, len(subscription.consumers) // SHARE)
        if len(subscription.apart) >= most and all(consumer.holdings.apart for consumer in subscription.apart):
            return False  # all that may be are occupied
        partitions = list(self._with_suspects(subscription))
        if not partitions:
            for consumer in tuple(subscription.apart):
                if not consumer.holdings.apart:
                    subscription.rejoin(consumer)
            return False
        self._choose(subscription, most)
        has_granted = False
        for consumer in tuple(subscription.apart):
            while partitions and not consumer.holdings.rows:
                actor, ledger = partitions[-1]
                if self._grant(subscription, consumer, actor, ledger):
                    has_granted = consumer.had_suspects = True
                if not self._are_there(subscription, actor, ledger) or not consumer.holdings.rows:
                    partitions.pop()
        return has_granted

    def _with_suspects(self, subscription: LiveSubscription) -> Iterator[tuple[PartitionActor, Ledger]]:
        for actor in subscription.waiting:
            ledger = subscription.ledger(actor)
            if ledger is not None and actor.closed is None and self._are_there(subscription, actor, ledger):
                yield actor, ledger

    def _are_there(self, subscription: LiveSubscription, actor: PartitionActor, ledger: Ledger) -> bool:
        """Whether a partition has suspects that may be granted."""
        if subscription.keys is not None:
            return subscription.keys.has_suspects(actor, ledger)
        return bool(ledger.suspects(self._clock.now()))

    def _choose(self, subscription: LiveSubscription, most: int) -> None:
        """Chooses consumers, until there are so many: those that hold least, and had no suspects last."""
        free = [consumer for consumer in subscription.consumers.values() if consumer.may_be_apart and consumer not in subscription.apart]
        free.sort(key=lambda consumer: (consumer.had_suspects, consumer.holdings.rows))
        has_others = self._has_others(subscription)
        for consumer in free[: max(0, most - len(subscription.apart))]:
            if not consumer.had_suspects or not has_others:
                subscription.set_apart(consumer)

    def _has_others(self, subscription: LiveSubscription) -> bool:
        """Whether rows wait that are no suspects, and that a consumer without any may get."""
        if subscription.keys is not None:  # what it may get now was granted just before
            return bool(subscription.hungry) and subscription.keys.goes_on
        now, ledgers = self._clock.now(), [(actor, subscription.ledger(actor)) for actor in subscription.waiting]
        return any(
            ledger is not None and ledger.waiting(actor.partition.next_offset, now) > len(ledger.suspects(now)) for actor, ledger in ledgers
        )

    def _grant(self, subscription: LiveSubscription, consumer: LiveConsumer, actor: PartitionActor, ledger: Ledger) -> bool:
        most = consumer.holdings.credit.messages
        if subscription.keys is not None:
            return subscription.keys.grant_apart(consumer, actor, ledger, most, self._ask_chosen)
        return self._ask(consumer, actor, most) is not None

    def _ask_chosen(self, consumer: LiveConsumer, actor: PartitionActor, chosen: ChosenRows) -> Granted | None:
        return self._ask(consumer, actor, len(chosen.rows), chosen)

    def _ask(self, consumer: LiveConsumer, actor: PartitionActor, most: int, chosen: ChosenRows | None = None) -> Granted | None:
        def told(granted: Granted | Exception | None) -> None:
            if isinstance(granted, Granted) and consumer.delivery is not None:
                consumer.delivery.add(actor, granted.number)

        number = consumer.subscription.number_in(actor)
        request = GrantSuspects(number, self._clock.now, told, consumer.name, most, consumer.lease, chosen)
        actor.receive(request)
        return request.granted
