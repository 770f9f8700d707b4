"""The live topics of one incarnation, by name and by id, with the actors of their partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from bowstring import errors
from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.topics import Topic, not_found
from bowstring.ports.catalog import TopicRow


class TopicTable:
    """Names at the edge, ids everywhere else. The table has an edition: a number that changes
    whenever a topic is created or deleted, and after a restart.
    """

    def __init__(self, epoch: int, *, creates: bool) -> None:
        self._names: dict[str, Topic] = {}
        self._ids: dict[int, Topic] = {}
        self._actors: dict[tuple[int, int], PartitionActor] = {}
        self._creates = creates
        """Whether a publish creates its topic. Then the error for a missing one does not say how to
        create it.
        """
        self._dormant: dict[str, TopicRow] = {}
        """Topics whose partitions were never used, by name. They cost a row each, however many
        partitions they have.
        """
        self.awaken: Callable[[TopicRow], Topic] | None = None
        """Gives a dormant topic its partitions."""
        self.edition = (epoch << 32) + 1
        self._waiting: list[asyncio.Event] = []

    # Questions

    def topic(self, name: str) -> Topic:
        """Raises TopicNotFound, and suggests a similar name."""
        topic = self._names.get(name)
        if topic is None and name in self._dormant and self.awaken is not None:
            topic = self.awaken(self._dormant[name])
        if topic is None:
            raise not_found(name, self._names, creates=self._creates)
        return topic

    def awake(self, name: str) -> Topic | None:
        """The topic if its partitions were used; None for a dormant one, or none at all."""
        return self._names.get(name)

    def by_id(self, topic_id: int) -> Topic:
        """Raises TopicNotFound."""
        topic = self._ids.get(topic_id)
        if topic is None:
            raise errors.TopicNotFound("the topic was deleted.")
        return topic

    def has(self, name: str) -> bool:
        return name in self._names or name in self._dormant

    def all(self) -> Iterable[Topic]:
        """Those that are not dormant, by name."""
        return (self._names[name] for name in sorted(self._names))

    def dormant_row(self, name: str) -> TopicRow | None:
        """The topic, if it is dormant."""
        return self._dormant.get(name)

    def dormant(self) -> list[TopicRow]:
        """Those that are."""
        return list(self._dormant.values())

    def name_of(self, topic_id: int) -> str:
        """The name for people; a deleted topic has one too."""
        topic = self._ids.get(topic_id)
        return topic.row.name if topic is not None else f"#{topic_id}"

    def actors(self) -> list[PartitionActor]:
        """All of them, in no order."""
        return list(self._actors.values())

    def actor(self, topic: int, partition: int) -> PartitionActor | None:
        return self._actors.get((topic, partition))

    # Changes

    def add_dormant(self, row: TopicRow) -> None:
        """A topic whose partitions are not used yet."""
        self._dormant[row.name] = row
        self.changed()

    def remove_dormant(self, row: TopicRow) -> None:
        """It is deleted."""
        del self._dormant[row.name]
        self.changed()

    def add(self, topic: Topic) -> None:
        self._dormant.pop(topic.row.name, None)
        self._names[topic.row.name] = self._ids[topic.row.id] = topic
        for actor in topic.actors:
            self._actors[topic.row.id, actor.partition.number] = actor
        self.changed()

    def withdraw(self, topic: Topic) -> None:
        """The topic is being deleted: its name is free, but readers that know its id still read it."""
        del self._names[topic.row.name]
        self.changed()

    def remove(self, topic: Topic) -> None:
        """The deletion is durable."""
        del self._ids[topic.row.id]
        for actor in topic.actors:
            del self._actors[topic.row.id, actor.partition.number]

    def changed(self) -> None:
        """Wakes those who wait: a topic was made or deleted, or the incarnation has ended."""
        self.edition += 1
        waiting, self._waiting = self._waiting, []
        for event in waiting:
            event.set()

    def wake_when_changed(self, event: asyncio.Event) -> None:
        """Sets the event once."""
        self._waiting.append(event)

    def forget(self, event: asyncio.Event) -> None:
        """The caller does not wait any more."""
        if event in self._waiting:
            self._waiting.remove(event)
