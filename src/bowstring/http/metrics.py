"""The metrics, in one table: name, kind, meaning, and where the value comes from.

The table makes `/metrics` and the page docs/reference/metrics.md; a test checks the Grafana
dashboard against it. Names follow Prometheus: `bowstring_`, a noun, the unit, `_total` for
counters. Labels have few values: kinds of errors, parts of memory, and topics, positions and
subscriptions up to a bound (`figures`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from bowstring.broker.counters import Distribution
from bowstring.broker.statistics import PositionStatistics, Statistics, SubscriptionStatistics, TopicStatistics
from bowstring.http.figures import DiskSpace, Figures

Sample = tuple[tuple[str, ...], float]
"""The values of the labels, and the value."""


class View(NamedTuple):
    """Everything that a scrape shows."""

    version: str
    figures: Figures
    topics: list[TopicStatistics]
    positions: list[PositionStatistics]
    subscriptions: list[SubscriptionStatistics]
    disk: DiskSpace | None
    """None if the broker keeps everything in memory."""


class Metric(NamedTuple):
    """One metric."""

    name: str
    kind: str
    """counter, gauge or histogram."""
    meaning: str
    samples: Callable[[View], Iterable[Any]]
    """The values that `/metrics` shows: samples, or one distribution; empty if there are none now."""
    labels: tuple[str, ...] = ()


class MetricGroup(NamedTuple):
    """Metrics that belong together."""

    title: str
    metrics: tuple[Metric, ...]


def _always(name: str, kind: str, meaning: str, value: Callable[[Figures], float]) -> Metric:
    return Metric(name, kind, meaning, lambda view: [((), value(view.figures))])


def _broker(name: str, kind: str, meaning: str, value: Callable[[Statistics], float]) -> Metric:
    """A figure of a broker that serves."""
    return Metric(name, kind, meaning, lambda view: [((), value(found))] if (found := view.figures.statistics) else ())


def _seconds(name: str, meaning: str, value: Callable[[Statistics], Distribution]) -> Metric:
    return Metric(name, "histogram", meaning, lambda view: [value(found)] if (found := view.figures.statistics) else ())


def _labelled(name: str, kind: str, meaning: str, labels: str, values: Callable[[Statistics], Iterable[Sample]]) -> Metric:
    names = tuple(labels.split())
    return Metric(name, kind, meaning, lambda view: values(found) if (found := view.figures.statistics) else (), names)


def _topic(name: str, kind: str, meaning: str, value: Callable[[TopicStatistics], float]) -> Metric:
    return Metric(name, kind, meaning, lambda view: [((topic.name,), value(topic)) for topic in view.topics], ("topic",))


def _position(name: str, kind: str, meaning: str, value: Callable[[PositionStatistics], float]) -> Metric:
    def samples(view: View) -> Iterator[Sample]:
        return (((each.topic, each.name), value(each)) for each in view.positions)

    return Metric(name, kind, meaning, samples, ("topic", "position"))


def _subscription(name: str, kind: str, meaning: str, value: Callable[[SubscriptionStatistics], float]) -> Metric:
    def samples(view: View) -> Iterator[Sample]:
        return (((each.topic, each.name), value(each)) for each in view.subscriptions)

    return Metric(name, kind, meaning, samples, ("topic", "subscription"))


def _space(name: str, meaning: str, value: Callable[[DiskSpace], float]) -> Metric:
    return Metric(name, "gauge", meaning, lambda view: [((), value(view.disk))] if view.disk else ())


GROUPS: Final = (
    MetricGroup(
        "The broker",
        (
            Metric("bowstring_build_info", "gauge", "Always 1, with the version.", lambda view: [((view.version,), 1)], ("version",)),
            _always("bowstring_ready", "gauge", "1 if `/readyz` answers 200.", lambda now: now.readiness.ready),
            _broker(
                "bowstring_incarnations_total",
                "counter",
                "How often the broker has loaded its state: 1 after a start, more after a full disk or a lost fence.",
                lambda now: now.incarnations,
            ),
            _broker("bowstring_topics", "gauge", "Topics.", lambda now: now.topics),
            _broker("bowstring_partitions", "gauge", "Partitions of all topics.", lambda now: now.partitions),
            _broker("bowstring_messages", "gauge", "Messages that can be read.", lambda now: now.messages),
            _always("bowstring_streams", "gauge", "Publish, fetch, consume and backup streams that are open.", lambda now: now.streams),
            _always("bowstring_streams_max", "gauge", "The setting `connections.max`.", lambda now: now.streams_max),
            _always(
                "bowstring_refused_streams_total",
                "counter",
                "Streams refused by `connections.max` or `connection.streams-max`.",
                lambda now: now.streams_refused,
            ),
        ),
    ),
    MetricGroup(
        "Publishing",
        (
            _broker("bowstring_published_batches_total", "counter", "Batches that were committed.", lambda now: now.published.batches),
            _broker("bowstring_published_messages_total", "counter", "Messages in them.", lambda now: now.published.messages),
            _broker("bowstring_published_bytes_total", "counter", "Bytes of their pages.", lambda now: now.published.bytes),
            _broker(
                "bowstring_duplicate_messages_total",
                "counter",
                "Messages that the broker recognised, by their batch or by their id, and did not store again.",
                lambda now: now.duplicates,
            ),
            _labelled(
                "bowstring_refused_batches_total",
                "counter",
                "Batches that were refused, by the kind of the error.",
                "kind",
                lambda now: [((kind,), count) for kind, count in now.refused],
            ),
            _broker("bowstring_producers", "gauge", "Publish streams that are open.", lambda now: now.producers),
            _seconds(
                "bowstring_publish_seconds",
                "From the first batch of a flush until its answers: the longest wait in each flush.",
                lambda now: now.flush.publish_seconds,
            ),
        ),
    ),
    MetricGroup(
        "Reading",
        (
            _broker("bowstring_fetched_batches_total", "counter", "Batches handed to readers.", lambda now: now.fetched.batches),
            _broker("bowstring_fetched_messages_total", "counter", "Messages in them.", lambda now: now.fetched.messages),
            _broker("bowstring_fetched_bytes_total", "counter", "Bytes of these batches.", lambda now: now.fetched.bytes),
            _broker(
                "bowstring_damaged_reads_total",
                "counter",
                "Reads that ended with `Corrupt`, because a page did not verify.",
                lambda now: now.damaged,
            ),
        ),
    ),
    MetricGroup(
        "Queues",
        (
            _broker("bowstring_subscriptions", "gauge", "Subscriptions of all topics.", lambda now: now.queue.subscriptions),
            _broker("bowstring_consumers", "gauge", "Consume streams that are open.", lambda now: now.queue.consumers),
            _broker("bowstring_pushed_batches_total", "counter", "Batches sent to consumers.", lambda now: now.queue.pushed.batches),
            _broker("bowstring_pushed_messages_total", "counter", "Messages in them.", lambda now: now.queue.pushed.messages),
            _broker("bowstring_pushed_bytes_total", "counter", "Bytes of these batches.", lambda now: now.queue.pushed.bytes),
            _broker(
                "bowstring_leased_messages_total", "counter", "Messages that were leased; again counts again.", lambda now: now.queue.leased
            ),
            _broker("bowstring_acked_messages_total", "counter", "Messages that were acked.", lambda now: now.queue.acked),
            _broker("bowstring_nacked_messages_total", "counter", "Messages that were nacked or rejected.", lambda now: now.queue.nacked),
            _broker(
                "bowstring_ended_leases_messages_total",
                "counter",
                "Messages whose lease ended before they were settled.",
                lambda now: now.queue.expired,
            ),
            _labelled(
                "bowstring_undelivered_messages_total",
                "counter",
                "Messages that subscriptions passed over, because they were `expired` or `damaged`.",
                "reason",
                lambda now: [((reason,), count) for reason, count in now.queue.aside],
            ),
        ),
    ),
    MetricGroup(
        "Flushes",
        (
            _broker("bowstring_flushes_total", "counter", "Flushes that were committed.", lambda now: now.flushes),
            _broker(
                "bowstring_inlined_flushes_total",
                "counter",
                "Flushes that carried their pages in the journal row.",
                lambda now: now.flush.inlined,
            ),
            _broker("bowstring_flush_waiting_bytes", "gauge", "Bytes of pages still to be written.", lambda now: now.flush.waiting_bytes),
            _broker(
                "bowstring_flush_oldest_seconds",
                "gauge",
                "Age of the oldest flush under way; 0 if there is none.",
                lambda now: now.flush.oldest_seconds,
            ),
            _seconds("bowstring_flush_seconds", "From taking a flush until it is committed.", lambda now: now.flush.flush_seconds),
            _seconds("bowstring_sync_seconds", "Syncs of a segment, one for each large flush.", lambda now: now.flush.sync_seconds),
            _seconds("bowstring_commit_seconds", "Commits in the catalog, with their sync.", lambda now: now.flush.commit_seconds),
        ),
    ),
    MetricGroup(
        "Upkeep: seal, cleaner, retention",
        (
            _labelled(
                "bowstring_upkeep_turns_total",
                "counter",
                "Turns of each kind of work: retention, seal, clear, clean, give-back.",
                "work",
                lambda now: [((each.work,), each.turns) for each in now.upkeep.work],
            ),
            _labelled(
                "bowstring_upkeep_seconds_total",
                "counter",
                "Time that they took.",
                "work",
                lambda now: [((each.work,), each.seconds) for each in now.upkeep.work],
            ),
            _labelled(
                "bowstring_upkeep_troubles_total",
                "counter",
                "Turns that a full disk or a damaged page ended.",
                "work",
                lambda now: [((each.work,), each.troubles) for each in now.upkeep.work],
            ),
            _broker("bowstring_journal_rows", "gauge", "Rows in the journal.", lambda now: now.upkeep.journal_rows),
            _broker("bowstring_seals_total", "counter", "Seals of the journal.", lambda now: now.upkeep.seals),
            _broker("bowstring_sealed_pages_total", "counter", "Pages that became part of an extent.", lambda now: now.upkeep.sealed_pages),
            _broker("bowstring_sealed_bytes_total", "counter", "Bytes of these pages.", lambda now: now.upkeep.sealed_bytes),
            _broker(
                "bowstring_cleaned_bytes_total",
                "counter",
                "Bytes of pages that the cleaner copied out of segments that were mostly dead.",
                lambda now: now.upkeep.cleaned_bytes,
            ),
            _broker(
                "bowstring_expired_messages_total",
                "counter",
                "Messages that retention removed, by age or by bytes.",
                lambda now: now.upkeep.expired_messages,
            ),
            _broker(
                "bowstring_released_segments_total",
                "counter",
                "Segments that no longer hold anything in use.",
                lambda now: now.upkeep.released_segments,
            ),
        ),
    ),
    MetricGroup(
        "Memory",
        (
            _labelled(
                "bowstring_memory_bytes",
                "gauge",
                "Bytes in use of each budget: publish, tail, pages, index, ids.",
                "part",
                lambda now: [((each.part,), each.bytes) for each in now.memory],
            ),
            _labelled(
                "bowstring_memory_max_bytes",
                "gauge",
                "The budgets, as the settings `memory.*` have them.",
                "part",
                lambda now: [((each.part,), each.bytes_max) for each in now.memory],
            ),
        ),
    ),
    MetricGroup(
        "Disk",
        (
            _broker("bowstring_disk_full", "gauge", "1 if publishes are refused for lack of room.", lambda now: now.disk.full),
            _space("bowstring_disk_size_bytes", "The file system of the data directory.", lambda disk: disk.size_bytes),
            _space("bowstring_disk_free_bytes", "Free space for this user.", lambda disk: disk.free_bytes),
            _space("bowstring_catalog_bytes", "The catalog with its write-ahead log.", lambda disk: disk.catalog_bytes),
            _broker("bowstring_segments", "gauge", "Segment files that are complete.", lambda now: now.disk.segments),
            _broker("bowstring_segment_bytes", "gauge", "Their size.", lambda now: now.disk.segment_bytes),
            _broker("bowstring_segment_used_bytes", "gauge", "Bytes in use in these segment files.", lambda now: now.disk.used_bytes),
            _broker("bowstring_orphans", "gauge", "Files that the broker put aside: see operations.", lambda now: now.disk.orphans),
            _broker("bowstring_orphan_bytes", "gauge", "Their size.", lambda now: now.disk.orphan_bytes),
        ),
    ),
    MetricGroup(
        "Topics",
        (
            _topic("bowstring_topic_partitions", "gauge", "Partitions.", lambda topic: topic.partitions),
            _topic("bowstring_topic_messages", "gauge", "Messages that can be read.", lambda topic: topic.messages),
            _topic("bowstring_topic_bytes", "gauge", "Bytes of their pages.", lambda topic: topic.bytes),
            _topic(
                "bowstring_topic_published_messages_total",
                "counter",
                "Offsets ever given and committed, also by earlier processes.",
                lambda topic: topic.published_messages,
            ),
            _topic("bowstring_topic_published_bytes_total", "counter", "Bytes published.", lambda topic: topic.published_bytes),
            _topic("bowstring_topic_fetched_messages_total", "counter", "Messages that readers got.", lambda topic: topic.fetched_messages),
            _topic("bowstring_topic_fetched_bytes_total", "counter", "Bytes that readers got.", lambda topic: topic.fetched_bytes),
        ),
    ),
    MetricGroup(
        "Positions",
        (
            _position(
                "bowstring_position_lag_messages",
                "gauge",
                "Offsets from a reader's named position to the end of the log, over all partitions.",
                lambda position: position.lag,
            ),
            _position(
                "bowstring_position_moved_timestamp_seconds",
                "gauge",
                "When the position moved last, in seconds since 1970.",
                lambda position: position.moved / 1e6,
            ),
        ),
    ),
    MetricGroup(
        "Subscriptions",
        (
            _subscription("bowstring_subscription_backlog_messages", "gauge", "Messages that are not settled.", lambda each: each.backlog),
            _subscription("bowstring_subscription_leased_messages", "gauge", "Those that a consumer holds.", lambda each: each.leased),
            _subscription(
                "bowstring_subscription_overtaken_messages",
                "gauge",
                "Messages that expired before they were settled.",
                lambda each: each.overtaken,
            ),
            _subscription("bowstring_subscription_consumers", "gauge", "Consumers that are connected.", lambda each: each.consumers),
            _subscription(
                "bowstring_subscription_delivered_messages_total",
                "counter",
                "Messages that were leased since the broker loaded.",
                lambda each: each.delivered,
            ),
            _subscription("bowstring_subscription_acked_messages_total", "counter", "Messages that were acked.", lambda each: each.acked),
            _subscription(
                "bowstring_subscription_nacked_messages_total",
                "counter",
                "Messages that were nacked or rejected.",
                lambda each: each.nacked,
            ),
            _subscription(
                "bowstring_subscription_ended_leases_messages_total",
                "counter",
                "Messages whose lease ended before they were settled.",
                lambda each: each.expired,
            ),
        ),
    ),
)


def metrics() -> Iterator[Metric]:
    """All of them."""
    return (metric for group in GROUPS for metric in group.metrics)
