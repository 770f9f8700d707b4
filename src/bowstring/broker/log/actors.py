"""The actors of one incarnation: made with the topics whose partitions they own, ended together. They share an alarm and the lookups."""

from __future__ import annotations

from collections.abc import Sequence

from bowstring import errors
from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.log.alarm import Alarm
from bowstring.broker.log.flusher import Flusher
from bowstring.broker.log.lookups import Lookups
from bowstring.broker.reading.reading import Reading
from bowstring.broker.topics import Topic
from bowstring.broker.upkeep.usage import Usage
from bowstring.core.partition import Partition
from bowstring.ports.catalog import TopicRow
from bowstring.ports.clock import Clock


class Actors:
    """Makes the actors, and ends them."""

    def __init__(self, reading: Reading, flusher: Flusher, clock: Clock, usage: Usage) -> None:
        self._usage = usage
        self._topics = reading.topics
        self._flusher = flusher
        self._clock = clock
        self._lookups = Lookups(reading.reader, reading.extents, reading.sealed_ids, reading.note_damage, reading.witness)
        self._alarm = Alarm(clock, flusher.fail)

    def add_topic(self, row: TopicRow, partitions: Sequence[Partition]) -> Topic:
        """The topic with an actor for each partition, in the table of topics."""
        for partition in partitions:
            self._usage.add_recent(partition.pages.segments())
        actors = [
            PartitionActor(partition, flusher=self._flusher, clock=self._clock, lookups=self._lookups, alarm=self._alarm)
            for partition in partitions
        ]
        topic = Topic(row, actors)
        self._topics.add(topic)
        return topic

    def end(self, error: errors.Error) -> None:
        """The incarnation is over: what waits in the partitions gets this error."""
        self._alarm.stop()
        for actor in self._topics.actors():
            actor.end(error)
