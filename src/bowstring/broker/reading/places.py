"""Which offsets a place in a topic means: a moment, or so many messages back from the end.

Arrival never falls within a partition, so a moment is found as a word is in a dictionary: in the extents by their last arrival, in the
index of one of them, and only in a page that was coalesced of several arrivals by its header. No message is read.

What has arrived and is not committed yet arrived before now, so for a moment that is not to come everything that arrived before it is
waited for first: then the answer is the same whenever it is asked.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bowstring import errors
from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.log.requests import AwaitCommit
from bowstring.broker.reading.page_reader import arrivals
from bowstring.broker.reading.reading import Reading
from bowstring.core.pages import PageEntry, decode_header
from bowstring.core.partition import Partition
from bowstring.ports.failures import Damaged

OFFSETS_AT_ONCE = 1 << 20
PAGES_A_READ = 1024


class Place(NamedTuple):
    """A place in a topic: one of these is given."""

    beginning: bool = False
    latest: bool = False
    moment: int | None = None
    newest: int | None = None


async def offsets(reading: Reading, topic: str, partitions: Iterable[int], place: Place) -> tuple[int, dict[int, int]]:
    """The topic's id, and the offset that the place means in each of these partitions, or in all."""
    found = reading.topics.topic(topic)
    actors = [found.actor(number) for number in sorted(set(partitions))] or found.actors
    numbers = [actor.partition.number for actor in actors]
    return found.row.id, dict(zip(numbers, await _offsets(reading, actors, place), strict=True))


async def _offsets(reading: Reading, actors: list[PartitionActor], place: Place) -> list[int]:
    if place.moment is not None:
        return [await offset_at(reading, actor, place.moment) for actor in actors]
    if place.newest is not None:
        return await _newest(reading, actors, place.newest)
    partitions = [actor.partition for actor in actors]
    return [partition.retained.first if place.beginning else partition.readable_offset for partition in partitions]


async def offset_at(reading: Reading, actor: PartitionActor, moment: int) -> int:
    """The first offset that arrived at that moment or later, if it is there; else the end."""
    partition = actor.partition
    if partition.arrived < moment and partition.committed_offset < partition.next_offset:
        await actor.ask(AwaitCommit())
    while True:
        moves = partition.moves
        try:
            return max(await _found(reading, partition, moment), partition.retained.first)
        except Damaged as error:
            if moves == partition.moves:
                raise _corrupt(reading, partition, error) from error


async def _found(reading: Reading, partition: Partition, moment: int) -> int:
    entry = await reading.reader.entry_since(partition, moment)
    if entry is None:
        return partition.readable_offset
    if entry.arrived >= moment:
        return entry.first_offset
    arrived = await _arrivals(reading, partition, entry)
    return entry.first_offset + int(np.searchsorted(arrived, moment))


async def _arrivals(reading: Reading, partition: Partition, entry: PageEntry) -> NDArray[np.int64]:
    """When each row of a page arrived; the page is read only where its entry does not tell."""
    if entry.arrived == entry.arrived_last:
        return np.full(entry.rows, entry.arrived, np.int64)
    return arrivals(decode_header((await reading.reader.pages(partition, [entry]))[0].header), entry)


# Counting back


async def _newest(reading: Reading, actors: list[PartitionActor], count: int) -> list[int]:
    """Where the newest so many messages of all these partitions together begin, by their arrival."""
    ends = [actor.partition.readable_offset for actor in actors]
    starts = [_back(actor.partition, end, count) for actor, end in zip(actors, ends, strict=True)]
    if len(actors) == 1 or not count:
        return starts
    runs = [
        await _runs(reading, actor.partition, at, start, end)
        for at, (actor, start, end) in enumerate(zip(actors, starts, ends, strict=True))
    ]
    found, left = list(ends), count
    for run in sorted(itertools.chain.from_iterable(runs), reverse=True):
        if run.messages >= left:
            found[run.at] = _back(actors[run.at].partition, run.end, left)
            break
        found[run.at], left = run.first, left - run.messages
    return found


def _back(partition: Partition, end: int, count: int) -> int:
    """The offset from which on there are so many messages before `end`, or the first that is there."""
    first = partition.retained.first
    if not len(partition.deletions) and end - count >= partition.retained.floor:
        return end - count
    while count and end > first:
        live = partition.live(max(first, end - OFFSETS_AT_ONCE), end)
        if len(live) >= count:
            return int(live[len(live) - count])
        end, count = max(first, end - OFFSETS_AT_ONCE), count - len(live)
    return end


class _Run(NamedTuple):
    """Messages of one partition that arrived together."""

    arrived: int
    first: int
    end: int
    messages: int
    at: int
    """The place of the partition among those that were asked for."""


async def _runs(reading: Reading, partition: Partition, at: int, start: int, end: int) -> list[_Run]:
    found: list[_Run] = []
    offset = start
    while offset < end:
        moves = partition.moves
        try:
            entries = await reading.reader.entries(partition, offset, end, 1 << 62, PAGES_A_READ)
            if not entries:
                break
            for entry in entries:
                arrived = await _arrivals(reading, partition, entry)
                breaks = np.concatenate(([0], np.flatnonzero(np.diff(arrived)) + 1, [entry.rows]))
                for a, b in itertools.pairwise(breaks.tolist()):
                    first, last = max(entry.first_offset + a, start), min(entry.first_offset + b, end)
                    if last > first:
                        found.append(_Run(int(arrived[a]), first, last, len(partition.live(first, last)), at))
                offset = entry.end
        except Damaged as error:
            if moves == partition.moves:
                raise _corrupt(reading, partition, error) from error
    return found


def _corrupt(reading: Reading, partition: Partition, error: Damaged) -> errors.Corrupt:
    reading.note_damage(partition, error)
    name = reading.topics.by_id(partition.topic).row.name
    return errors.Corrupt(f"{name}/{partition.number}: {error}", hint="bowstring inspect tells more.")
