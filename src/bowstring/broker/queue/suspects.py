"""Who gets rows that are suspected of a crash: consumers that hold nothing else.

Rows whose leases have expired twice go apart from all others, in groups that shrink with each expiry
(`core.granting`). A consumer that is chosen for them gets nothing new until it holds nothing, in no
partition; then it gets a group, and nothing else until it is done with it. At most a quarter of the
consumers are so occupied, and at least one: the others go on with the rest.

Where there are few consumers they take turns with themselves: one that had suspects gets other rows
before it is chosen again, so that a row that expires for ever does not hold up all others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.queue.consumer import LiveConsumer
from bowstring.broker.queue.lease_clock import LeaseClock
from bowstring.broker.queue.lease_requests import GrantSuspects
from bowstring.broker.queue.subscription import LiveSubscription
from bowstring.core.granting import Granted
from bowstring.core.ledger import Ledger

SHARE: Final = 4
"""One consumer of so many may be occupied with suspects."""


class Suspects:
    """Grants suspects for all subscriptions of one incarnation."""

    def __init__(self, clock: LeaseClock) -> None:
        self._clock = clock

    def share_out(self, subscription: LiveSubscription) -> bool:
        """Says whether something was granted."""
        partitions = list(self._with_suspects(subscription))
        if not partitions:
            for consumer in tuple(subscription.apart):
                if not consumer.holdings.apart:
                    subscription.rejoin(consumer)
            return False
        self._choose(subscription)
        has_granted = False
        for consumer in tuple(subscription.apart):
            while partitions and not consumer.holdings.rows and consumer.ended is None:
                actor, ledger = partitions[-1]
                if self._grant(subscription, consumer, actor):
                    has_granted = consumer.had_suspects = True
                if not ledger.suspects(self._clock.now()) or not consumer.holdings.rows:
                    partitions.pop()
        return has_granted

    def _with_suspects(self, subscription: LiveSubscription) -> Iterator[tuple[PartitionActor, Ledger]]:
        for actor in subscription.waiting:
            ledger = subscription.ledger(actor)
            if ledger is not None and actor.closed is None and ledger.suspects(self._clock.now()):
                yield actor, ledger

    def _choose(self, subscription: LiveSubscription) -> None:
        """Chooses consumers, up to a quarter of them: those that hold least, and had no suspects
        last.
        """
        most = max(1, len(subscription.consumers) // SHARE)
        free = [consumer for consumer in subscription.consumers.values() if consumer.may_be_apart and consumer not in subscription.apart]
        free.sort(key=lambda consumer: (consumer.had_suspects, consumer.holdings.rows))
        has_others = any(self._has_others(subscription, actor) for actor in subscription.waiting)
        for consumer in free[: max(0, most - len(subscription.apart))]:
            if not consumer.had_suspects or not has_others:
                subscription.set_apart(consumer)

    def _has_others(self, subscription: LiveSubscription, actor: PartitionActor) -> bool:
        """Whether rows wait in a partition that are no suspects."""
        ledger, now = subscription.ledger(actor), self._clock.now()
        return ledger is not None and ledger.waiting(actor.partition.next_offset, now) > len(ledger.suspects(now))

    def _grant(self, subscription: LiveSubscription, consumer: LiveConsumer, actor: PartitionActor) -> bool:
        def told(granted: Granted | Exception | None) -> None:
            if isinstance(granted, Granted) and consumer.delivery is not None:
                consumer.delivery.add(actor, granted.number)

        most = max(1, consumer.holdings.credit.messages)
        request = GrantSuspects(subscription.number_in(actor), self._clock.now, told, consumer.name, most, consumer.lease)
        actor.receive(request)
        return request.granted is not None
