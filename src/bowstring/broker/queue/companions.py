"""The topics that dead letters go to: one for each subscription, its companion.

A companion has as many partitions as the topic of its subscription, and belongs to that subscription
alone: only the broker writes to it, and it cannot be deleted while the subscription exists. It is
created right after the flush that creates the subscription, dormant. If a crash comes between, the
next incarnation creates it; one whose subscription is gone is deleted, unless it was ever used.
"""

from __future__ import annotations

from bowstring import errors
from bowstring.broker.dormant_topics import DormantTopics
from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.queue.lease_requests import UnsubscribePartition
from bowstring.broker.queue.subscription import LiveSubscription
from bowstring.broker.topic_table import TopicTable
from bowstring.broker.topics import NAME, Topic, TopicSettings, encode_settings
from bowstring.core.subscription_settings import SubscriptionSettings
from bowstring.ports.catalog import TopicRow
from bowstring.ports.clock import Clock
from bowstring.settings import Settings


def companion_name(topic: str, subscription: str, settings: SubscriptionSettings) -> str:
    """The name of a subscription's companion."""
    return settings.dead_letters or f"{topic}.{subscription}.dead-letters"


class Companions:
    """The companions of all subscriptions of one incarnation."""

    def __init__(self, topics: TopicTable, dormant: DormantTopics, settings: Settings, clock: Clock) -> None:
        self._topics = topics
        self._dormant = dormant
        self._settings = settings
        self._clock = clock
        self._owners: dict[str, LiveSubscription] = {}

    def owner(self, topic: str) -> LiveSubscription | None:
        """The subscription whose dead letters go to the topic."""
        return self._owners.get(topic)

    def check(self, topic: Topic, name: str, settings: SubscriptionSettings) -> None:
        """Raises Conflict if a subscription of that name cannot have its companion."""
        companion = companion_name(topic.row.name, name, settings)
        if not NAME.fullmatch(companion):
            raise errors.InvalidArgument(
                f"the topic for its dead letters would be '{companion}', which is not a name for a topic.",
                hint="Use dead_letters= with a shorter name, or a shorter name for the subscription.",
            )
        if companion == topic.row.name:
            raise errors.Conflict(f"'{companion}' cannot have its own dead letters.", hint="Use another topic, or omit dead_letters=.")
        owner = self._owners.get(companion)
        if owner is not None:
            raise errors.Conflict(
                f"the dead letters of '{owner.name}' of '{owner.topic.row.name}' go to '{companion}' already.",
                hint="A topic has the dead letters of one subscription. Use another, or omit dead_letters=.",
            )
        self._check_partitions(topic, companion)

    def _check_partitions(self, topic: Topic, companion: str) -> None:
        known = self._row(companion)
        if known is not None and known.partitions != topic.row.partitions:
            raise errors.Conflict(
                f"'{companion}' has {known.partitions} partitions, and '{topic.row.name}' has {topic.row.partitions}.",
                hint="Dead letters need a topic with as many partitions as the one of their subscription.",
            )

    def _row(self, name: str) -> TopicRow | None:
        topic = self._topics.awake(name)
        return topic.row if topic is not None else self._topics.dormant_row(name)

    def check_deletion(self, topic: str) -> None:
        """Raises Conflict for a topic that a subscription needs."""
        owner = self._owners.get(topic)
        if owner is not None:
            raise errors.Conflict(
                f"'{topic}' has the dead letters of the subscription '{owner.name}' of '{owner.topic.row.name}'.",
                hint="Delete the subscription first.",
            )

    def check_publish(self, topic: str) -> None:
        """Raises Conflict for a topic that only the broker writes to."""
        owner = self._owners.get(topic)
        if owner is not None:
            raise errors.Conflict(
                f"'{topic}' has the dead letters of '{owner.name}' of '{owner.topic.row.name}': only the broker writes to it.",
                hint="Publish to another topic.",
            )

    def claim(self, subscription: LiveSubscription) -> None:
        """The subscription is there: its companion is its own."""
        self._owners[subscription.dead_letters] = subscription

    async def created(self, subscription: LiveSubscription) -> None:
        """Its companion is there, for the caller who creates the subscription."""
        await self._dormant.or_end(self.create(subscription))

    async def create(self, subscription: LiveSubscription) -> None:
        """Its companion is there, durably, when this returns."""
        name = subscription.dead_letters
        if not self._topics.has(name):
            settings = TopicSettings(self._settings.topic_retention, self._settings.topic_deduplication)
            row = TopicRow(0, name, subscription.topic.row.partitions, self._clock.now(), encode_settings(settings), None)
            try:
                await self._dormant.create(row)
            except errors.TopicExists as error:
                raise errors.Conflict(f"'{name}' is a topic of another broker.", hint="Use another one, or omit dead_letters=.") from error
            self._check_partitions(subscription.topic, name)

    async def awoken(self, subscription: LiveSubscription) -> Topic:
        """Its companion, for a dead letter."""
        await self.create(subscription)
        topic = self._topics.topic(subscription.dead_letters)
        await self._dormant.awoken(topic)
        return topic

    def leave(self, subscription: LiveSubscription) -> None:
        """The subscription is being deleted: another one may have its companion."""
        if self._owners.get(subscription.dead_letters) is subscription:
            del self._owners[subscription.dead_letters]

    async def release(self, subscription: LiveSubscription) -> None:
        """The subscription is gone. A companion that was never used goes with it, unless another one
        has it by now; those that were used stay, as topics like all others.
        """
        await self._dormant.or_end(self._delete(subscription.dead_letters))

    async def remove_lanes(self, subscription: LiveSubscription) -> None:
        """The subscription is gone: its dead letters are messages like all others."""
        actors = () if subscription.companion is None else subscription.companion.actors
        await PartitionActor.ask_together([(actor, UnsubscribePartition(subscription.lane)) for actor in actors if actor.closed is None])

    async def finish(self) -> None:
        """At load: creates companions that are missing, and deletes those without a subscription."""
        for subscription in list(self._owners.values()):
            if subscription.ended is None:
                await self.create(subscription)
        for row in self._topics.dormant():
            await self._delete(row.name)

    async def _delete(self, name: str) -> None:
        """If no one needs it."""
        if name not in self._owners:
            await self._dormant.delete(name, self._clock.now(), lambda: name in self._owners)
