"""Topics: names at the edge, ids everywhere else. A topic deleted and made again is another topic."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from bowstring import errors
from bowstring.broker import topic_questions
from bowstring.broker.log.actor import PartitionActor
from bowstring.core.partition import Partition
from bowstring.ports.catalog import TopicRow

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,248}")
PARTITIONS_MAX = 10_000


class TopicSettings(msgspec.Struct, gc=False):
    """What can be changed later. Spans are seconds."""

    retention: float
    deduplication: float
    """The window that was asked for. A retention that is shorter shortens it for as long as that
    holds: see `window`.
    """
    retention_bytes: int | None = None

    @property
    def window(self) -> float:
        """For how long an id is recognised: never longer than messages are kept."""
        return min(self.deduplication, self.retention)

    @property
    def window_microseconds(self) -> int:
        return int(self.window * 1_000_000)


class TopicFacts(NamedTuple):
    """A topic as it is described to users."""

    name: str
    id: int
    partitions: int
    created: int
    retention: float
    retention_bytes: int | None
    deduplication: float
    messages: int
    bytes: int
    ranges: list[tuple[int, int]]


class Topic:
    """A live topic and its partitions."""

    def __init__(self, row: TopicRow, actors: list[PartitionActor]) -> None:
        self.row = row
        self.settings = decode_settings(row.settings)
        self.actors = actors

    def alter(self, settings: TopicSettings) -> None:
        """From here on these hold."""
        self.settings = settings
        for actor in self.actors:
            actor.alter(window=settings.window_microseconds)

    def stop_publishing(self) -> None:
        """The topic is being deleted. Readers learn of it when that is durable: a crash could undo
        it.
        """
        for actor in self.actors:
            actor.close(self._gone())

    def end_reading(self) -> None:
        """The topic is deleted."""
        for actor in self.actors:
            actor.end_reading(self._gone())

    def _gone(self) -> errors.TopicNotFound:
        return errors.TopicNotFound(f"the topic '{self.row.name}' was deleted.", details={"topic": self.row.name})

    def actor(self, partition: int) -> PartitionActor:
        """Raises InvalidArgument for a partition that the topic does not have."""
        if 0 <= partition < len(self.actors):
            return self.actors[partition]
        raise errors.InvalidArgument(
            f"topic '{self.row.name}' has no partition {partition}.", hint=f"It has {len(self.actors)}, numbered from 0."
        )

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The first offset of each partition that can be read, and the first that cannot."""
        return topic_questions.ranges(self.actors)

    def facts(self) -> TopicFacts:
        """The topic as users see it."""
        counts = topic_questions.counts(self.actors)
        return TopicFacts(
            name=self.row.name,
            id=self.row.id,
            partitions=self.row.partitions,
            created=self.row.created,
            retention=self.settings.retention,
            retention_bytes=self.settings.retention_bytes,
            deduplication=self.settings.window,
            messages=counts.messages,
            bytes=counts.bytes,
            ranges=counts.ranges,
        )


AddTopic = Callable[[TopicRow, list[Partition]], Topic]
"""Makes a topic of a row and its partitions, and puts it into the table of topics."""


def fresh_partitions(row: TopicRow) -> list[Partition]:
    """The partitions of a topic to which nothing was written yet."""
    window = decode_settings(row.settings).window_microseconds
    return [Partition(row.id, number, window) for number in range(row.partitions)]


def dormant_facts(row: TopicRow) -> TopicFacts:
    """A topic whose partitions were never used."""
    settings = decode_settings(row.settings)
    return TopicFacts(
        name=row.name,
        id=row.id,
        partitions=row.partitions,
        created=row.created,
        retention=settings.retention,
        retention_bytes=settings.retention_bytes,
        deduplication=settings.window,
        messages=0,
        bytes=0,
        ranges=[(1, 1)] * row.partitions,
    )


def encode_settings(settings: TopicSettings) -> bytes:
    return msgspec.msgpack.encode(settings)


def decode_settings(data: bytes) -> TopicSettings:
    return msgspec.msgpack.decode(data, type=TopicSettings)


def check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise errors.InvalidArgument(
            f"{name!r} is not a name for a topic.",
            hint="Names have 1 to 249 letters, digits, dots, dashes and underscores, and begin with a letter or a digit.",
        )


def check_numbers(partitions: int, settings: TopicSettings, deduplication: float | None) -> None:
    """Refuses what makes no sense. `deduplication` is the window that this call gives, if it does:
    only then may it be too long.
    """
    if not 1 <= partitions <= PARTITIONS_MAX:
        raise errors.InvalidArgument(f"partitions={partitions} is out of range.", hint=f"A topic has 1 to {PARTITIONS_MAX}.")
    if settings.retention <= 0:
        raise errors.InvalidArgument(f"retention={settings.retention:g} s is not a span of time.", hint="It has to be positive.")
    if deduplication is not None and not 0 <= deduplication <= settings.retention:
        raise errors.InvalidArgument(
            f"deduplication={deduplication:g} s is out of range.",
            hint=f"It is at most the retention, {settings.retention:g} s.",
        )
    if settings.retention_bytes is not None and settings.retention_bytes <= 0:
        raise errors.InvalidArgument(f"retention_bytes={settings.retention_bytes} is not a size.", hint="It has to be positive, or None.")


def not_found(name: str, names: Iterable[str], *, creates: bool) -> errors.TopicNotFound:
    """The error for a topic that is not there, with the name that was probably meant."""
    close = difflib.get_close_matches(name, list(names), n=1)
    meant = f" Did you mean '{close[0]}'?" if close else ""
    create = "" if creates else f"This broker does not create topics by itself: client.create_topic('{name}')."
    return errors.TopicNotFound(f"there is no topic '{name}'.{meant}", hint=create, details={"topic": name})
