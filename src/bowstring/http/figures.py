"""The figures that the pages show. A broker may have many topics, positions and subscriptions; only a
few of them get figures of their own.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, Protocol, TypeVar

from bowstring.broker.statistics import (
    PositionStatistics,
    Readiness,
    Statistics,
    SubscriptionStatistics,
    TopicsStatistics,
    TopicStatistics,
)

T = TypeVar("T")

OTHERS: Final = "(other)"
"""The label for all topics, positions and subscriptions beyond the bound. No topic can have this name."""


class DiskSpace(NamedTuple):
    """Sizes of the file system of a data directory."""

    size_bytes: int
    free_bytes: int
    catalog_bytes: int


class Figures(NamedTuple):
    """A broker and its server at one moment."""

    readiness: Readiness
    streams: int
    streams_max: int
    streams_refused: int
    statistics: Statistics | None = None
    """None while no incarnation serves."""
    topics: TopicsStatistics = TopicsStatistics([], [], [])


class Subject(Protocol):
    """The server of a broker, as HTTP sees it. Everything is called on the broker's loop."""

    def readiness(self) -> Readiness: ...

    async def figures(self) -> Figures: ...


def bounded_topics(topics: Iterable[TopicStatistics], topics_max: int) -> list[TopicStatistics]:
    """The largest ones, and all others as one."""
    shown, rest = _largest(topics, topics_max, lambda topic: (topic.bytes, topic.published_messages, topic.name))
    if rest:
        sums = [sum(column) for column in zip(*(topic[1:] for topic in rest), strict=True)]
        shown.append(TopicStatistics(OTHERS, *sums))
    return shown


def bounded_positions(positions: Iterable[PositionStatistics], positions_max: int) -> list[PositionStatistics]:
    """Those with the largest lag, and all others as one."""
    shown, rest = _largest(positions, positions_max, lambda position: (position.lag, position.topic, position.name))
    if rest:
        lag, moved = sum(position.lag for position in rest), max(position.moved for position in rest)
        shown.append(PositionStatistics(OTHERS, OTHERS, lag, moved))
    return shown


def bounded_subscriptions(subscriptions: Iterable[SubscriptionStatistics], subscriptions_max: int) -> list[SubscriptionStatistics]:
    """Those with the largest backlog, and all others as one."""
    shown, rest = _largest(subscriptions, subscriptions_max, lambda each: (each.backlog, each.topic, each.name))
    if rest:
        shown.append(SubscriptionStatistics(OTHERS, OTHERS, *[sum(column) for column in zip(*(each[2:] for each in rest), strict=True)]))
    return shown


def _largest(entries: Iterable[T], entries_max: int, size: Callable[[T], tuple[object, ...]]) -> tuple[list[T], list[T]]:
    """Up to this many, and the rest; both in their given order."""
    everything = list(entries)
    if len(everything) <= entries_max:
        return everything, []
    chosen = set(heapq.nlargest(entries_max, range(len(everything)), key=lambda at: size(everything[at])))
    shown = [entry for at, entry in enumerate(everything) if at in chosen]
    return shown, [entry for at, entry in enumerate(everything) if at not in chosen]
