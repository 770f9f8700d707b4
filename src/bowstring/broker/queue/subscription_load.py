"""How subscriptions come back when an incarnation begins: from the ledgers of their partitions."""

from __future__ import annotations

from bowstring.broker.queue.lease_requests import SubscribePartition, UnsubscribePartition
from bowstring.broker.queue.queues import Queues
from bowstring.broker.topics import Topic


def load(queues: Queues) -> None:
    """The incarnation serves from here on: leases end, and what was cut off is finished."""
    topics = list(queues.log.topics.all())
    for topic in topics:
        _load(queues, topic)
    for topic in topics:
        _load_lanes(queues, topic)
    queues.letters.start()


def _load(queues: Queues, topic: Topic) -> None:
    """Finds the subscriptions of a topic in its partitions. One that is in some of them only was cut
    off when it was created: it is made whole.
    """
    queues.of(topic)
    found = {each.number: each for actor in topic.actors for each in actor.partition.ledgers.subscriptions() if not each.lane}
    for number, each in sorted(found.items()):
        subscription = queues.add(topic, number, each.name, each.settings, each.created)
        for actor in topic.actors:
            if number not in actor.partition.ledgers:
                actor.receive(SubscribePartition(number, each.name, each.settings, each.created, 0))
            elif actor.partition.ledgers.has_condemned(number):
                subscription.condemned(actor)


def _load_lanes(queues: Queues, topic: Topic) -> None:
    """Finds the dead letters of subscriptions. Lanes of one that is gone are removed."""
    owner = queues.letters.companions.owner(topic.row.name)
    for actor in topic.actors:
        for number in [each.number for each in actor.partition.ledgers.subscriptions() if each.lane]:
            if owner is None or owner.lane not in (0, number):
                actor.receive(UnsubscribePartition(number))
                continue
            queues.add_lane(owner, topic, number)
            if actor.partition.ledgers.has_condemned(number):
                owner.condemned(actor)
