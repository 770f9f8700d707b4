"""The queue room of one incarnation: the subscriptions of all topics, the clock and the alarm of
leases, and the granter.
"""

from __future__ import annotations

from bowstring.broker.log.alarm import Alarm
from bowstring.broker.log.log import Log
from bowstring.broker.queue.granter import Granter
from bowstring.broker.queue.lease_clock import LeaseClock
from bowstring.broker.queue.lease_requests import SubscribePartition
from bowstring.broker.queue.rates import Rates
from bowstring.broker.queue.subscription import LiveSubscription
from bowstring.broker.queue.topic_queue import TopicQueue
from bowstring.broker.reading.reading import Reading
from bowstring.broker.topics import Topic
from bowstring.core.subscription_settings import SubscriptionSettings
from bowstring.ports.events import Observer


class Queues:
    """All subscriptions."""

    def __init__(self, observer: Observer, log: Log, reading: Reading) -> None:
        self.observer = observer
        self.log = log
        self.reading = reading
        newest = max((actor.partition.ledgers.moment for actor in log.topics.actors()), default=0)
        self.clock = LeaseClock(log.clock, newest)
        self._alarm = Alarm(self.clock, log.flusher.fail)
        self._granter = Granter(log.flusher, self.clock, self._alarm)
        self._topics: dict[int, TopicQueue] = {}

    def start(self) -> None:
        """The incarnation serves from here on: leases end, and what was cut off is finished."""
        for topic in self.log.topics.all():
            self._load(self.of(topic))

    def of(self, topic: Topic) -> TopicQueue:
        """The subscriptions of a topic."""
        queue = self._topics.get(topic.row.id)
        if queue is None:
            queue = self._topics[topic.row.id] = TopicQueue(topic, self.clock, self._alarm)
        return queue

    def all(self) -> list[TopicQueue]:
        """Of the topics that have a subscription, or had one."""
        return list(self._topics.values())

    def add(self, topic: Topic, number: int, name: str, settings: SubscriptionSettings, created: int) -> LiveSubscription:
        """A subscription is there."""
        rates = Rates(self.clock.monotonic, self.reading.counters.queue)
        subscription = LiveSubscription(topic, number, name, settings, created, rates=rates, look_at=self._granter.look_at)
        self.of(topic).add(subscription, self.reading)
        return subscription

    def _load(self, queue: TopicQueue) -> None:
        """Finds the subscriptions of a topic in its partitions. One that is in some of them only was
        cut off when it was created: it is made whole.
        """
        actors = queue.topic.actors
        found = {each.number: each for actor in actors for each in actor.partition.ledgers.subscriptions()}
        for number, each in sorted(found.items()):
            self.add(queue.topic, number, each.name, each.settings, each.created)
            for actor in actors:
                if number not in actor.partition.ledgers:
                    actor.receive(SubscribePartition(number, each.name, each.settings, each.created, 0))

    # The end

    def forget(self, topic: Topic) -> None:
        """The topic is deleted."""
        queue = self._topics.pop(topic.row.id, None)
        if queue is not None:
            queue.end()

    def end(self) -> None:
        """The incarnation is over. Consumers hear of it from their partitions."""
        self._alarm.stop()
        for queue in self._topics.values():
            queue.end()
