"""The queue room of one incarnation: the subscriptions of all topics, the clock and the alarm of
leases, and the granter.
"""

from __future__ import annotations

from bowstring.broker.log.alarm import Alarm
from bowstring.broker.log.log import Log
from bowstring.broker.queue.dead_letters import DeadLetters
from bowstring.broker.queue.granter import Granter
from bowstring.broker.queue.lease_clock import LeaseClock
from bowstring.broker.queue.rates import Rates
from bowstring.broker.queue.subscription import LiveSubscription
from bowstring.broker.queue.topic_queue import TopicQueue
from bowstring.broker.reading.reading import Reading
from bowstring.broker.surroundings import Surroundings
from bowstring.broker.topics import AddTopic, Topic
from bowstring.core.subscription_settings import SubscriptionSettings


class Queues:
    """All subscriptions."""

    def __init__(self, surroundings: Surroundings, log: Log, reading: Reading, add_topic: AddTopic) -> None:
        self.observer = surroundings.observer
        self.letters = DeadLetters(surroundings, log, reading, add_topic, self.begin_lane)
        self.log = log
        self.reading = reading
        newest = max((actor.partition.ledgers.moment for actor in log.topics.actors()), default=0)
        self.clock = LeaseClock(log.clock, surroundings.clock.wall(), newest)
        self._alarm = Alarm(self.clock, log.flusher.fail)
        self._granter = Granter(log.flusher, self.clock, self._alarm)
        self._topics: dict[int, TopicQueue] = {}

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
        look_at, bury = self._granter.look_at, self.letters.writer.look_at
        subscription = LiveSubscription(topic, number, name, settings, created, rates=rates, look_at=look_at, bury=bury)
        self.of(topic).add(subscription, self.reading)
        self.letters.companions.claim(subscription)
        return subscription

    def begin_lane(self, subscription: LiveSubscription, companion: Topic) -> int:
        """The number of the lanes of a subscription; it has its first dead letter, perhaps."""
        if not subscription.lane:
            self.add_lane(subscription, companion, max(actor.partition.ledgers.next_number for actor in companion.actors))
        return subscription.lane

    def add_lane(self, subscription: LiveSubscription, companion: Topic, number: int) -> None:
        """The dead letters of a subscription are in lanes of this number."""
        subscription.add_lane(companion, number)
        self.of(companion).add_lane(subscription)

    def joined(self, subscription: LiveSubscription) -> None:
        """A consumer has come."""
        self.of(subscription.topic).joined(subscription)
        if subscription.companion is not None:
            self.of(subscription.companion).joined(subscription)

    # The end

    async def forget(self, topic: Topic) -> None:
        """The topic is deleted, and all its subscriptions."""
        queue = self._topics.pop(topic.row.id, None)
        if queue is None:
            return
        queue.end()
        for subscription in queue:
            self.letters.companions.leave(subscription)
            await self.remove_lanes(subscription)
            await self.letters.companions.release(subscription)

    async def remove_lanes(self, subscription: LiveSubscription) -> None:
        """A subscription is gone: its dead letters are messages like all others."""
        if subscription.companion is not None:
            self.of(subscription.companion).remove_lane(subscription)
            await self.letters.companions.remove_lanes(subscription)

    def end(self) -> None:
        """The incarnation is over. Consumers hear of it from their partitions."""
        self._alarm.stop()
        self.letters.stop()
        for queue in self._topics.values():
            queue.end()
