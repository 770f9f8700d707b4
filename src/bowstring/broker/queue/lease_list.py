"""Who holds what, until when; and taking it away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.queue import subscriptions
from bowstring.broker.queue.lease_requests import ReleaseGrants
from bowstring.broker.queue.queues import Queues
from bowstring.broker.queue.subscription import LiveSubscription
from bowstring.core.addresses import Runs
from bowstring.core.leases import Lease
from bowstring.core.ledger import Ledger
from bowstring.core.settling import GrantRows

RUNS_MAX: Final = 10_000
"""A page of leases ends after so many runs; of a lease that has more these are the first."""


class LeaseFacts(NamedTuple):
    """A lease as it is described to users."""

    partition: int
    grant: int
    consumer: str
    granted: int
    until: int
    runs: Runs


class LeaseFilter(NamedTuple):
    """Which leases are meant."""

    topic: str
    subscription: str
    consumer: str
    """Empty for all."""
    older_than: int
    """Only those that were granted so many microseconds ago; 0 for all."""

    def takes(self, ledger: Ledger, lease: Lease, now: int) -> bool:
        if lease.until <= now or lease.granted > now - self.older_than:
            return False
        return not self.consumer or ledger.consumers[lease.consumer].name == self.consumer


class LeasePage(NamedTuple):
    """Some leases by partition and grant, and the time by which they run."""

    leases: list[LeaseFacts]
    more: bool
    now: int


async def list_page(queues: Queues, wanted: LeaseFilter, after: tuple[int, int], limit: int) -> LeasePage:
    """Leases behind the partition and grant that the page before ended with."""
    subscription, now = subscriptions.find(queues, wanted.topic, wanted.subscription), queues.clock.now()
    page: list[LeaseFacts] = []
    more, runs = False, 0
    for facts in _behind(subscription, wanted, now, after):
        is_same = bool(page) and (facts.partition, facts.grant) == (page[-1].partition, page[-1].grant)
        if (len(page) >= limit or runs >= RUNS_MAX) and not is_same:
            more = True
            break
        page.append(facts)
        runs += len(facts.runs)
    await queues.log.durable()
    return LeasePage(page, more, now)


def _behind(subscription: LiveSubscription, wanted: LeaseFilter, now: int, after: tuple[int, int]) -> Iterator[LeaseFacts]:
    for actor, ledger in subscription.ledgers():
        number = subscription.place(actor)
        if number < after[0]:
            continue
        for lease in sorted(ledger.leases, key=lambda lease: (lease.number, lease.until)):
            if (number, lease.number) > after and wanted.takes(ledger, lease, now):
                name, runs = ledger.consumers[lease.consumer].name, lease.rows.runs()[:RUNS_MAX]
                yield LeaseFacts(number, lease.number, name, lease.granted, lease.until, runs)


async def release(queues: Queues, wanted: LeaseFilter) -> int:
    """Gives messages back, uncounted, and says how many. Consumers that hold them hear of it when
    that is durable.
    """
    subscription, now = subscriptions.find(queues, wanted.topic, wanted.subscription), queues.clock.now()
    asked: list[tuple[PartitionActor, ReleaseGrants]] = []
    lost: dict[str, dict[int, list[int]]] = {}
    messages = 0
    for actor, ledger in subscription.ledgers():
        leases = [lease for lease in ledger.leases if wanted.takes(ledger, lease, now)]
        if leases:
            parts = [GrantRows(grant) for grant in sorted({lease.number for lease in leases})]
            asked.append((actor, ReleaseGrants(subscription.number_in(actor), queues.clock.now, parts)))
            messages += sum(len(lease.rows) for lease in leases)
        for lease in leases:
            grants = lost.setdefault(ledger.consumers[lease.consumer].name, {}).setdefault(subscription.place(actor), [])
            if lease.number not in grants[-1:]:
                grants.append(lease.number)
    if asked:
        await PartitionActor.ask_together(asked)
    await queues.log.durable()
    for name, grants in lost.items():
        if (consumer := subscription.consumers.get(name)) is not None:
            consumer.receiver.lost(grants)
    return messages
