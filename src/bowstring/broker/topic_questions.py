"""Questions about a whole topic: each of its partitions is asked, and the answers are put together.

This is the one place that knows where the partitions of a topic are. Today all of them are in this
broker. When several brokers own them, the questions go to their owners from here: finding and
deleting messages by id, counting, and looking for the newest so many.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from bowstring.broker.log.actor import PartitionActor

T = TypeVar("T")


class TopicCounts(NamedTuple):
    """What the partitions of a topic have, in all and one by one."""

    messages: int
    bytes: int
    ranges: list[tuple[int, int]]
    """The first offset of each partition that can be read, and the first that cannot."""


class ArrivalRun(NamedTuple):
    """Messages of one partition that arrived together."""

    arrived: int
    first: int
    end: int
    messages: int
    at: int
    """The place of the partition among those that are asked."""


async def of_each(actors: Sequence[PartitionActor], question: Callable[[PartitionActor], Awaitable[T]]) -> list[T]:
    """The answers of all partitions, asked at the same time. Raises the first error."""
    return await asyncio.gather(*map(question, actors))


async def of_each_or_why_not(
    actors: Sequence[PartitionActor], question: Callable[[PartitionActor], Awaitable[T]]
) -> list[T | BaseException]:
    """The same with errors among the answers, so that one partition's does not hide the others."""
    return await asyncio.gather(*map(question, actors), return_exceptions=True)


async def one_by_one(actors: Sequence[PartitionActor], question: Callable[[int, PartitionActor], Awaitable[T]]) -> list[T]:
    """The answers of all partitions, each asked after the one before: for questions that read many pages."""
    return [await question(at, actor) for at, actor in enumerate(actors)]


def counts(actors: Sequence[PartitionActor]) -> TopicCounts:
    """What can be read, and the bytes of it."""
    partitions = [actor.partition for actor in actors]
    size = sum(partition.bytes for partition in partitions)
    return TopicCounts(sum(partition.messages for partition in partitions), size, ranges(actors))


def ranges(actors: Sequence[PartitionActor]) -> list[tuple[int, int]]:
    """The first offset of each partition that can be read, and the first that cannot."""
    return [(actor.partition.retained.first, actor.partition.readable_offset) for actor in actors]


def newest(runs: Iterable[ArrivalRun], ends: Sequence[int], count: int, back: Callable[[int, int, int], int]) -> list[int]:
    """Where the newest so many messages of all partitions together begin. Partitions end at `ends`, and
    `back(at, end, n)` is the offset in one of them from which on there are n messages before `end`."""
    found, left = list(ends), count
    for run in sorted(runs, reverse=True):
        if run.messages >= left:
            found[run.at] = back(run.at, run.end, left)
            break
        found[run.at], left = run.first, left - run.messages
    return found
