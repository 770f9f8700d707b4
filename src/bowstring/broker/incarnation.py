"""One life of a broker under one epoch: the log, the reading room, the queues and the upkeep, put together.

An incarnation is made by loading and ends at the first flush that fails. Nothing of it is repaired:
callers that wait get `Unavailable`, the broker drops the object, and loads a new one from durable
state (invariant 2).
"""

from __future__ import annotations

from bowstring import errors
from bowstring.broker.log.loader import Loaded, load, restore_ids
from bowstring.broker.log.log import Log
from bowstring.broker.queue import subscription_load
from bowstring.broker.queue.queues import Queues
from bowstring.broker.reading.reading import Reading
from bowstring.broker.surroundings import Surroundings
from bowstring.broker.topic_table import TopicTable
from bowstring.broker.topics import Topic, TopicSettings, encode_settings, fresh_partitions
from bowstring.broker.upkeep.upkeep import Upkeep
from bowstring.broker.upkeep.usage import Usage
from bowstring.ports.catalog import TopicRow


class Incarnation:
    """Assembles the rooms, and changes topics in the catalog and in memory together."""

    def __init__(self, surroundings: Surroundings, loaded: Loaded) -> None:
        surroundings.counters.incarnations += 1
        self.surroundings = surroundings
        self.fence = loaded.fence
        self.topics = TopicTable(loaded.fence.epoch, creates=surroundings.settings.topic_create == "on-publish")
        self.usage = Usage()
        self.usage.reset_sealed(loaded.usage)
        journal = surroundings.catalog.journal(loaded.fence)
        self.reading = Reading(surroundings, journal, self.topics)
        self.log = Log(surroundings, journal, loaded, self.reading, self.usage)
        for row in loaded.topics:
            keys = [(row.id, number) for number in range(row.partitions)]
            self.log.actors.add_topic(row, [loaded.partitions[key] for key in keys if key in loaded.partitions])
        for row in loaded.dormant:
            self.topics.add_dormant(row)
        self.queues = Queues(surroundings, self.log, self.reading, self.log.actors.add_topic)
        self.upkeep = Upkeep(surroundings, self.log, self.reading, self.usage, trimmed=loaded.trimmed, deleted=loaded.deleted)

    @staticmethod
    async def begin(surroundings: Surroundings) -> Incarnation:
        """Registers a new epoch and loads everything."""
        loaded = await load(surroundings.catalog, surroundings.number)
        surroundings.clock.not_before(max((partition.arrived for partition in loaded.partitions.values()), default=0))
        await surroundings.store.open(loaded.fence.epoch, loaded.segments(), loaded.sequence)
        incarnation = Incarnation(surroundings, loaded)
        await restore_ids(loaded.partitions.values(), incarnation.reading.reader)
        subscription_load.load(incarnation.queues)
        incarnation.upkeep.start()
        return incarnation

    async def create_topic(self, row: TopicRow) -> Topic:
        """Durable when it returns. Raises TopicExists."""
        made = await self.surroundings.catalog.create_topic(self.fence, row)
        return self.log.actors.add_topic(made, fresh_partitions(made))

    async def alter_topic(self, topic: Topic, settings: TopicSettings) -> None:
        """Durable when it returns."""
        await self.surroundings.catalog.alter_topic(self.fence, topic.row.id, encode_settings(settings))
        topic.alter(settings)

    async def delete_topic(self, topic: Topic, now: int) -> None:
        """Publishing stops first, then the transaction, then reading, then the answer. Upkeep
        clears away what it leaves.
        """
        topic.stop_publishing()
        self.topics.withdraw(topic)
        await self.surroundings.catalog.delete_topic(self.fence, topic.row.id, now)
        self.topics.remove(topic)
        topic.end_reading()
        await self.queues.forget(topic)
        for actor in topic.actors:
            self.usage.remove_recent(actor.partition.pages.segments())
        self.upkeep.deleted(topic.row.id)
        self.surroundings.counters.forget_topic(topic.row.id)

    def end(self, error: errors.Error) -> None:
        """The incarnation is over."""
        self.upkeep.stop()
        self.queues.end()
        self.log.end(error)
