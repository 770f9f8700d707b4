"""A subscription is set to another place: messages before it count as settled, those from there on
come again.

All partitions go into one flush. Leases end with it, and connected consumers hear of it when it is
durable; a consumer that settles what it held is refused and told why. A dry run decides the same and
changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from bowstring import errors
from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.queue import subscriptions
from bowstring.broker.queue.lease_requests import SeekPartition, SoughtFacts
from bowstring.broker.queue.queues import Queues
from bowstring.broker.queue.subscription import LiveSubscription
from bowstring.core.settling import RowStanding
from bowstring.ports.transport import Caller


class SubscriptionSeek(NamedTuple):
    """Where a subscription is to go on."""

    topic: str
    name: str
    place: str
    """`beginning`, `latest`, or empty for offsets."""
    offsets: Mapping[int, int]
    """By partition; those that are not named stay as they are."""
    dry_run: bool


async def seek(queues: Queues, wanted: SubscriptionSeek, caller: Caller) -> list[SoughtFacts]:
    """What it comes to in each partition. Durable when it returns. Raises OutOfRange."""
    subscription = subscriptions.find(queues, wanted.topic, wanted.name)
    asked = _asked(subscription, wanted)
    if not wanted.dry_run:
        queues.log.room.check(0)
    held = {} if wanted.dry_run else _held(subscription, [actor for actor, _ in asked])
    facts = await PartitionActor.ask_together(asked)
    for name, grants in held.items():
        if (consumer := subscription.consumers.get(name)) is not None:
            consumer.receiver.lost(grants, RowStanding.SOUGHT)
    if not wanted.dry_run:
        told = {"again": sum(each.again for each in facts), "skipped": sum(each.skipped for each in facts)}
        queues.observer.note("subscription-sought", topic=wanted.topic, subscription=wanted.name, client=caller.address, **told)
    return facts


def _asked(subscription: LiveSubscription, wanted: SubscriptionSeek) -> list[tuple[PartitionActor, SeekPartition]]:
    topic = subscription.topic
    if wanted.place:
        offset = None if wanted.place == "latest" else 0
        places = [(actor, offset) for actor in topic.actors]
    elif not wanted.offsets:
        raise errors.InvalidArgument("no place was given.", hint="Give beginning, latest, or the offsets of partitions.")
    else:
        places = [(topic.actor(number), max(1, offset)) for number, offset in sorted(wanted.offsets.items())]
    name = topic.row.name
    return [(actor, SeekPartition(subscription.number, name, offset, dry_run=wanted.dry_run)) for actor, offset in places]


def _held(subscription: LiveSubscription, actors: list[PartitionActor]) -> dict[str, dict[int, list[int]]]:
    """The grants of consumers, by name and partition."""
    held: dict[str, dict[int, list[int]]] = {}
    for actor in actors:
        ledger = subscription.ledger(actor)
        if ledger is None:
            continue
        for lease in ledger.leases:
            grants = held.setdefault(ledger.consumers[lease.consumer].name, {}).setdefault(actor.partition.number, [])
            if lease.number not in grants[-1:]:
                grants.append(lease.number)
    return held
