"""A broker's figures at one moment, as frozen values. `Broker.statistics()`, the metrics and later
the console read these and nothing else.

Totals cost little. Figures of single topics and positions are gathered partition by partition, so
`of_topics` gives the loop back every few hundred of them: a scrape of ten thousand partitions must
not delay a flush.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from bowstring.broker.counters import Counters, Distribution, QueueCounters
from bowstring.broker.incarnation import Incarnation
from bowstring.broker.queue.subscription import LiveSubscription
from bowstring.broker.shortage import disk_full
from bowstring.broker.topics import Topic
from bowstring.core.partition import Partition

PARTITIONS_AT_ONCE = 200
STUCK_SECONDS = 10.0
"""A flush that takes longer than this says that the disk hangs."""


class Readiness(NamedTuple):
    """Whether a broker can do its work, and if not, why."""

    ready: bool
    state: str
    """serving, full (publishes are refused), loading, stuck, failed or stopping."""
    reason: str = ""


class Traffic(NamedTuple):
    """Traffic in one direction since the process began."""

    batches: int
    messages: int
    bytes: int


class FlushStatistics(NamedTuple):
    """How changes became durable."""

    inlined: int
    """Flushes that carried their pages in the journal row."""
    waiting_bytes: int
    """Bytes of pages still to be written."""
    oldest_seconds: float
    """Age of the oldest flush under way; 0 if there is none."""
    publish_seconds: Distribution
    """From a flush's first change until its answers."""
    flush_seconds: Distribution
    """From taking a flush until it is committed."""
    sync_seconds: Distribution
    """Syncs of segments."""
    commit_seconds: Distribution
    """Commits in the catalog, with their sync."""


class WorkStatistics(NamedTuple):
    """One kind of upkeep: retention, seal, clear, clean, give-back."""

    work: str
    turns: int
    seconds: float
    troubles: int


class UpkeepStatistics(NamedTuple):
    """The work of upkeep."""

    seals: int
    sealed_pages: int
    sealed_bytes: int
    journal_rows: int
    """Rows that the journal has."""
    cleaned_bytes: int
    expired_messages: int
    """Messages that retention has taken."""
    released_segments: int
    work: tuple[WorkStatistics, ...]


class MemoryStatistics(NamedTuple):
    """A budget of memory."""

    part: str
    bytes: int
    bytes_max: int


class DiskStatistics(NamedTuple):
    """The store's files on the disk."""

    full: bool
    """Are publishes refused for lack of room?"""
    segments: int
    segment_bytes: int
    used_bytes: int
    """Bytes in use in the segments."""
    orphans: int
    orphan_bytes: int
    """Files that were put aside."""


class QueueStatistics(NamedTuple):
    """What all subscriptions have done since the process began."""

    subscriptions: int
    """How many there are now."""
    consumers: int
    """Consume streams that are open."""
    pushed: Traffic
    """What was sent to consumers."""
    leased: int
    """Messages that were leased; again counts again."""
    acked: int
    nacked: int
    """Rejects included."""
    expired: int
    """Messages whose lease ended unsettled."""
    aside: tuple[tuple[str, int], ...]
    """Messages that were settled because they could not be delivered, by the reason: expired, or
    damaged.
    """


class Statistics(NamedTuple):
    """A broker's figures at one moment. Counters begin at 0 with the process."""

    incarnation: int
    topics: int
    partitions: int
    messages: int
    """Messages that can be read."""
    flushes: int
    published: Traffic
    fetched: Traffic
    duplicates: int
    """Messages that the broker recognised, by their batch or by their id."""
    refused: tuple[tuple[str, int], ...]
    """Batches that were refused, by the kind of the error."""
    damaged: int
    """Reads that ended at a damaged page."""
    producers: int
    """Publish streams that are open."""
    incarnations: int
    flush: FlushStatistics
    upkeep: UpkeepStatistics
    memory: tuple[MemoryStatistics, ...]
    disk: DiskStatistics
    queue: QueueStatistics


class TopicStatistics(NamedTuple):
    """One topic, or several summed up."""

    name: str
    partitions: int
    messages: int
    bytes: int
    published_messages: int
    """Offsets ever given and committed, also by earlier processes."""
    published_bytes: int
    fetched_messages: int
    fetched_bytes: int


class PositionStatistics(NamedTuple):
    """A reader's named position, over the partitions of its topic."""

    topic: str
    name: str
    lag: int
    """Offsets from the position to the end of the log."""
    moved: int
    """When it was moved last, in microseconds since 1970."""


class SubscriptionStatistics(NamedTuple):
    """A subscription, over the partitions of its topic."""

    topic: str
    name: str
    backlog: int
    """Messages that are not settled."""
    leased: int
    """Those of them that a consumer holds."""
    overtaken: int
    """Messages that expired before they were settled."""
    consumers: int
    """Those that are connected."""
    delivered: int
    """Messages that were leased since the broker loaded; again counts again."""
    acked: int
    nacked: int
    expired: int


class TopicsStatistics(NamedTuple):
    """Every topic, every position and every subscription."""

    topics: list[TopicStatistics]
    positions: list[PositionStatistics]
    subscriptions: list[SubscriptionStatistics]


def of(incarnation: Incarnation, messages: int | None = None) -> Statistics:
    """The figures of a broker that serves; `messages` if they are counted already."""
    counters, topics = incarnation.surroundings.counters, list(incarnation.topics.all())
    if messages is None:
        messages = sum(actor.partition.messages for topic in topics for actor in topic.actors)
    return Statistics(
        incarnation=incarnation.fence.epoch,
        topics=len(topics),
        partitions=sum(topic.row.partitions for topic in topics),
        messages=messages,
        flushes=counters.flushes,
        published=Traffic(counters.batches, counters.messages, counters.bytes),
        fetched=Traffic(counters.answers, counters.fetched_messages, counters.fetched_bytes),
        duplicates=counters.duplicates,
        refused=tuple(sorted(counters.refused.items())),
        damaged=counters.damaged,
        producers=len(incarnation.log.publishers),
        incarnations=counters.incarnations,
        flush=_flush(incarnation, counters),
        upkeep=_upkeep(incarnation, counters),
        memory=_memory(incarnation),
        disk=_disk(incarnation),
        queue=_queue(incarnation, counters.queue),
    )


def _queue(incarnation: Incarnation, counters: QueueCounters) -> QueueStatistics:
    live = [subscription for queue in incarnation.queues.all() for subscription in queue]
    return QueueStatistics(
        subscriptions=len(live),
        consumers=sum(len(subscription.consumers) for subscription in live),
        pushed=Traffic(counters.pushed_batches, counters.pushed_messages, counters.pushed_bytes),
        leased=counters.leased,
        acked=counters.acked,
        nacked=counters.nacked,
        expired=counters.expired,
        aside=tuple(sorted(counters.aside.items())),
    )


def _flush(incarnation: Incarnation, counters: Counters) -> FlushStatistics:
    return FlushStatistics(
        inlined=counters.inlined,
        waiting_bytes=incarnation.log.flusher.waiting_bytes,
        oldest_seconds=incarnation.log.flusher.oldest_seconds,
        publish_seconds=counters.publishing.distribution(),
        flush_seconds=counters.flushing.distribution(),
        sync_seconds=counters.syncing.distribution(),
        commit_seconds=counters.committing.distribution(),
    )


def _upkeep(incarnation: Incarnation, counters: Counters) -> UpkeepStatistics:
    return UpkeepStatistics(
        seals=counters.seals,
        sealed_pages=counters.sealed_pages,
        sealed_bytes=counters.sealed_bytes,
        journal_rows=incarnation.log.flusher.committed - incarnation.upkeep.sealer.trimmed,
        cleaned_bytes=counters.cleaned_bytes,
        expired_messages=counters.expired,
        released_segments=counters.released,
        work=tuple(WorkStatistics(name, work.turns, work.seconds, work.troubles) for name, work in counters.upkeep.items()),
    )


def _memory(incarnation: Incarnation) -> tuple[MemoryStatistics, ...]:
    settings, reading = incarnation.surroundings.settings, incarnation.reading
    return (
        MemoryStatistics("publish", incarnation.log.admission.reserved_bytes, settings.memory_publish_bytes),
        MemoryStatistics("tail", reading.caches.tail.bytes, settings.memory_tail_bytes),
        MemoryStatistics("pages", reading.caches.pages.bytes, settings.memory_pages_bytes),
        MemoryStatistics("index", reading.extents.bytes, settings.memory_index_bytes),
        MemoryStatistics("ids", reading.sealed_ids.bytes, settings.memory_ids_bytes),
    )


def _disk(incarnation: Incarnation) -> DiskStatistics:
    store = incarnation.surroundings.store
    segments, orphans = store.segments(), store.orphans()
    return DiskStatistics(
        full=incarnation.log.room.is_full,
        segments=len(segments),
        segment_bytes=sum(segments.values()),
        used_bytes=sum(incarnation.usage.of(segment) for segment in segments),
        orphans=len(orphans),
        orphan_bytes=sum(orphans.values()),
    )


def readiness(incarnation: Incarnation) -> Readiness:
    """Whether the incarnation can commit. A full disk is no reason to turn readers away."""
    seconds = incarnation.log.flusher.oldest_seconds
    if seconds > STUCK_SECONDS:
        return Readiness(False, "stuck", f"a flush has been under way for {seconds:.0f} s: the disk hangs.")
    return Readiness(True, "full", disk_full().message) if incarnation.log.room.is_full else Readiness(True, "serving")


async def of_topics(incarnation: Incarnation) -> TopicsStatistics:
    """Topics by name, and their positions and subscriptions. Other tasks run meanwhile, so the figures are not of one
    instant.
    """
    topics: list[TopicStatistics] = []
    positions: list[PositionStatistics] = []
    subscriptions: list[SubscriptionStatistics] = []
    looked_at = 0
    for topic in list(incarnation.topics.all()):
        sums, lags, queues = _Sums(), _Lags(), _Queues(list(incarnation.queues.of(topic)))
        for actor in topic.actors:
            sums.add(actor.partition)
            lags.add(actor.partition)
            queues.add(actor.partition)
            looked_at += 1
            if looked_at % PARTITIONS_AT_ONCE == 0:
                await incarnation.surroundings.clock.sleep(0)
        topics.append(sums.of(topic, incarnation.surroundings.counters))
        positions += lags.of(topic)
        subscriptions += queues.of(topic)
    return TopicsStatistics(topics, positions, subscriptions)


class _Sums:
    """The sums over the partitions of a topic."""

    def __init__(self) -> None:
        self._messages = self._bytes = self._published = 0

    def add(self, partition: Partition) -> None:
        self._messages += partition.messages
        self._bytes += partition.bytes
        self._published += partition.committed_offset - 1

    def of(self, topic: Topic, counters: Counters) -> TopicStatistics:
        number = topic.row.id
        return TopicStatistics(
            name=topic.row.name,
            partitions=topic.row.partitions,
            messages=self._messages,
            bytes=self._bytes,
            published_messages=self._published,
            published_bytes=counters.topic_bytes[number],
            fetched_messages=counters.topic_fetched[number],
            fetched_bytes=counters.topic_fetched_bytes[number],
        )


class _Lags:
    """The positions in a topic, over its partitions."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[int, int]] = {}

    def add(self, partition: Partition) -> None:
        for name in partition.positions.names():
            if (held := partition.positions.get(name)) is not None:
                lag, moved = self._found.get(name, (0, 0))
                self._found[name] = lag + max(0, partition.readable_offset - held.offset), max(moved, held.moved)

    def of(self, topic: Topic) -> Iterable[PositionStatistics]:
        return (PositionStatistics(topic.row.name, name, lag, moved) for name, (lag, moved) in self._found.items())


class _Queues:
    """The subscriptions of a topic, over its partitions."""

    def __init__(self, subscriptions: list[LiveSubscription]) -> None:
        self._found = [(subscription, [0, 0, 0]) for subscription in subscriptions]
        """With backlog, leased and overtaken messages."""

    def add(self, partition: Partition) -> None:
        for subscription, sums in self._found:
            if subscription.number in partition.ledgers:
                figures = partition.ledgers.figures(subscription.number, partition.committed_offset)
                sums[0] += figures.backlog
                sums[1] += figures.leased
                sums[2] += figures.overtaken

    def of(self, topic: Topic) -> Iterable[SubscriptionStatistics]:
        for each, (backlog, leased, overtaken) in self._found:
            rows, consumers = (backlog, leased, overtaken), len(each.consumers)
            yield SubscriptionStatistics(topic.row.name, each.name, *rows, consumers, *each.rates.totals)
