"""A subscription as it is described to users: what waits, who holds what, how fast it goes.

Facts are of one moment, and are told when everything that they rest on is committed. Only since when
the oldest message is due (`oldest_message`) may have to be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from bowstring import errors
from bowstring.broker.queue import subscriptions
from bowstring.broker.queue.oldest_message import oldest_due
from bowstring.broker.queue.queues import Queues
from bowstring.broker.queue.rates import RatesFacts
from bowstring.broker.queue.subscription import LiveSubscription
from bowstring.core.ledgers import LedgerFigures
from bowstring.core.subscription_settings import SubscriptionSettings


class QueuePartitionFacts(NamedTuple):
    """A subscription in one partition."""

    partition: int
    floor: int
    cursor: int
    backlog: int
    leased: int
    later: int = 0
    overtaken: int = 0


class QueueConsumerFacts(NamedTuple):
    """A consumer that is connected, or holds leases."""

    name: str
    connected: bool
    address: str
    leased: int
    credit: int


class LetterFacts(NamedTuple):
    """The dead letters of a subscription."""

    dead: int
    """Dead letters that are not settled."""
    redriven: int
    """Those of them that were redriven."""


class SubscriptionFacts(NamedTuple):
    """A subscription as it is described to users."""

    topic: str
    name: str
    id: int
    topic_id: int
    settings: SubscriptionSettings
    dead_letters: str
    """The topic for its dead letters."""
    created: int
    backlog: int
    """Messages that are not settled."""
    leased: int
    oldest: int
    """Since when the oldest message is due that is not settled; 0 if none is due."""
    rates: RatesFacts
    partitions: list[QueuePartitionFacts]
    consumers: list[QueueConsumerFacts]
    letters: LetterFacts


async def describe(queues: Queues, topic: str, name: str) -> SubscriptionFacts:
    """Raises TopicNotFound, SubscriptionNotFound."""
    try:
        subscription = subscriptions.find(queues, topic, name)
    except errors.NotFound:
        await queues.log.durable()
        raise
    await queues.letters.writer.caught_up(subscription)  # a message that was rejected is among the dead letters
    await queues.log.durable()
    return await facts_of(queues, subscription)


async def list_page(queues: Queues, topic: str, after: tuple[str, str], limit: int) -> tuple[list[SubscriptionFacts], bool]:
    """Subscriptions by topic and name behind `after`, and whether there are more."""
    topics = [queues.log.topics.topic(topic)] if topic else list(queues.log.topics.all())
    behind = [each for found in topics for each in queues.of(found) if (found.row.name, each.name) > after]
    page = [await facts_of(queues, subscription) for subscription in behind[:limit]]
    await queues.log.durable()
    return page, len(behind) > limit


async def facts_of(queues: Queues, subscription: LiveSubscription) -> SubscriptionFacts:
    """The facts of this moment, when they are durable."""
    partitions = [QueuePartitionFacts(number, *figures) for number, figures in figures_of(subscription)]
    facts = SubscriptionFacts(
        topic=subscription.topic.row.name,
        name=subscription.name,
        id=subscription.number,
        topic_id=subscription.topic.row.id,
        settings=subscription.settings,
        dead_letters=subscription.dead_letters,
        created=subscription.created,
        backlog=sum(each.backlog for each in partitions),
        leased=sum(each.leased for each in partitions),
        oldest=0,
        rates=subscription.rates.facts(),
        partitions=partitions,
        consumers=_consumers(subscription),
        letters=_letters(subscription),
    )
    await queues.log.durable()
    return facts._replace(oldest=await oldest_due(queues, subscription))


def figures_of(subscription: LiveSubscription) -> Iterator[tuple[int, LedgerFigures]]:
    """How far it is in each partition, by number."""
    for actor in subscription.topic.actors:
        partition = actor.partition
        if subscription.number in partition.ledgers:
            yield partition.number, partition.ledgers.figures(subscription.number, partition.committed_offset)


def _letters(subscription: LiveSubscription) -> LetterFacts:
    companion, dead, redriven = subscription.companion, 0, 0
    for actor in () if companion is None else companion.actors:
        if (ledger := subscription.ledger(actor)) is not None:
            dead += ledger.backlog(actor.partition.committed_offset)
            redriven += len(ledger.redriven)
    return LetterFacts(dead, redriven)


def _consumers(subscription: LiveSubscription) -> list[QueueConsumerFacts]:
    held: dict[str, int] = {}
    for _, ledger in subscription.ledgers():
        for known in ledger.consumers:
            if rows := ledger.leases.held_by(known.number):
                held[known.name] = held.get(known.name, 0) + rows
    found: list[QueueConsumerFacts] = []
    for name in sorted(held.keys() | subscription.consumers.keys()):
        live = subscription.consumers.get(name)
        address, credit = ("", 0) if live is None else (live.address, live.holdings.credit.messages)
        found.append(QueueConsumerFacts(name, live is not None, address, held.get(name, 0), credit))
    return found
