"""Removes messages that are too old, or too many: raises the floor of each partition, and frees the
space below it.

Readers do not wait for it: what is too old by the second is not delivered (`visibility`), whether
the floor has come there yet or not. Here pages go as a whole, oldest first. The floor is a change
like any other and is committed with the next flush; only then extents that are below it leave the
catalog. Pages with rows whose due time keeps them stay where they are, and the floor passes them
by: it says which rows are kept. Age goes by the trusted clock, so that a clock that jumps deletes
nothing.

A turn looks at some partitions, and the next one at the next: with ten thousand of them each has
its turn every ten seconds. It is a glance, because what was found once holds until something moves;
an idle broker has next to nothing to do, however many there are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.log.log import Log
from bowstring.broker.log.requests import RaiseFloor
from bowstring.broker.reading.reading import Reading
from bowstring.broker.reading.visibility import moments_of
from bowstring.broker.surroundings import Surroundings
from bowstring.broker.topics import Topic
from bowstring.broker.upkeep.sealer import Sealer
from bowstring.broker.upkeep.switch import Switch
from bowstring.core.changes import Runs
from bowstring.core.offset_set import OffsetSet, runs_of
from bowstring.core.pages import LOST, PageEntry, decode_header
from bowstring.core.partition import Partition
from bowstring.messages import encoding
from bowstring.messages.schema import DUE
from bowstring.ports.extents import Extent
from bowstring.ports.failures import Damaged
from bowstring.ports.journal import Edit

PARTITIONS_A_TURN = 1000
ASKED_A_TURN = 100
"""Of these, partitions about which catalog or store have to be asked."""
EXTENTS_AN_EDIT = 50
PAGES_A_READ = 256
KEPT_SECONDS = 60.0
"""How often rows that are kept below the floor are looked at."""

NEVER = 1 << 62


class _Seen(NamedTuple):
    """The findings about a partition, as of that many moves and that floor."""

    moves: int
    floor: int
    empty_until: int
    """Where the log ended, if nothing was in it; else 0."""
    arrived: int
    """When the oldest page arrived."""
    expires: int
    """When the first of its extents expires."""

    def holds(self, partition: Partition) -> bool:
        same = self.moves == partition.moves and self.floor == partition.retained.floor
        return same and self.empty_until in (0, partition.committed_offset)


class _Reach(NamedTuple):
    """How far retention has come in a partition, and what stays below."""

    floor: int
    kept: list[tuple[int, int]]


class Retention:
    """Retention of one incarnation's topics."""

    def __init__(self, surroundings: Surroundings, log: Log, reading: Reading, sealer: Sealer, switch: Switch) -> None:
        self._clock = surroundings.clock
        self._journal = log.journal
        self._counters = surroundings.counters
        self._flusher = log.flusher
        self._topics = log.topics
        self._trusted = reading.trusted
        self._extents = reading.extents
        self._reader = reading.reader
        self._note_damage = reading.note_damage
        self._sealer = sealer
        self._switch = switch
        self._seen: dict[tuple[int, int], _Seen] = {}
        self._next = 0
        """Where the next turn begins."""
        self._begun = self._clock.monotonic()
        self._kept_at: dict[tuple[int, int], float] = {}
        """When the rows that are kept below a partition's floor were looked at last."""

    async def turn(self) -> None:
        """Looks at the next partitions, going round."""
        now = self._trusted.now()
        everything = [(topic, actor) for topic in self._topics.all() for actor in topic.actors]
        asked, first = 0, self._next if self._next < len(everything) else 0
        some = everything[first : first + PARTITIONS_A_TURN]
        self._next = first + len(some)
        if len(self._seen) > len(everything):
            self._seen.clear()  # topics are gone
        for at, (topic, actor) in enumerate(some):
            partition = actor.partition
            seen = self._seen.get((partition.topic, partition.number))
            if seen is None or not seen.holds(partition):
                asked += 1
                seen = None
            if asked > ASKED_A_TURN:
                self._next = first + at
                return
            if actor.closed is None:
                try:
                    await self._glance(topic, actor, seen, now)
                except Damaged as error:  # the others are not to wait for this one
                    self._note_damage(partition, error)

    async def _glance(self, topic: Topic, actor: PartitionActor, seen: _Seen | None, now: int) -> None:
        """Reads the facts about a partition that is new, or has changed since; then it is known
        when there is something to do.
        """
        partition, is_new = actor.partition, seen is None
        if seen is None:
            seen = self._seen[partition.topic, partition.number] = await self._look(partition)
        horizon = now - int(topic.settings.retention * 1e6)
        if seen.arrived < horizon or _is_too_much(topic, partition) or (len(partition.retained.kept) and self._kept_is_due(partition)):
            await self._retain(topic, actor, horizon)
        if is_new or seen.expires < now or seen.floor != partition.retained.floor:
            await self._drop_extents(actor, now)
            if topic.settings.retention_bytes is not None:
                partition.bytes_behind = await self._bytes_behind(partition)

    async def _look(self, partition: Partition) -> _Seen:
        moves, end, floor = partition.moves, partition.committed_offset, partition.retained.floor
        has_extents = partition.sealed_end > 1 and partition.sealed_bytes
        extents = await self._extents.of(partition) if has_extents else []
        expires = min((extent.expires for extent in extents if extent.expires), default=NEVER)
        if extents and extents[0].first_offset >= floor:
            return _Seen(moves, floor, 0, extents[0].arrived_first, expires)
        entries = await self._entries(partition, floor, end, 1)
        return _Seen(moves, floor, 0 if entries else end, entries[0].arrived if entries else NEVER, expires)

    async def _entries(self, partition: Partition, offset: int, end: int, pages_max: int) -> list[PageEntry]:
        """The next pages. An extent whose index cannot be read counts as one page that cannot be
        read, so that it holds nothing up.
        """
        try:
            return await self._reader.entries(partition, offset, end, 1 << 40, pages_max)
        except Damaged:
            for extent in await self._extents.of(partition):
                if extent.end_offset > offset and not await self._has_index(extent):
                    return [_as_a_page(extent)]
            raise

    async def _has_index(self, extent: Extent) -> bool:
        try:
            await self._extents.index(extent)
        except Damaged:
            return False
        return True

    def _kept_is_due(self, partition: Partition) -> bool:
        key, monotonic = (partition.topic, partition.number), self._clock.monotonic()
        is_due = monotonic - self._kept_at.get(key, self._begun) >= KEPT_SECONDS
        if is_due:
            self._kept_at[key] = monotonic
        return is_due

    async def _retain(self, topic: Topic, actor: PartitionActor, horizon: int) -> None:
        """Raises the floor as far as it goes, and waits for the commit."""
        partition = actor.partition
        reach = await self._reach(partition, horizon)
        reach = await self._reach_by_bytes(topic, partition, reach)
        kept, before = reach.kept, partition.retained.kept
        new = OffsetSet()
        new.add(kept)
        after, known = new.within(0, NEVER), before.within(0, NEVER)
        added, released = after[~before.of(after)], known[~new.of(known)]
        if (reach.floor == partition.retained.floor and not len(added) and not len(released)) or actor.closed is not None:
            return
        messages = partition.messages
        floor = partition.raise_floor(reach.floor, tuple(runs_of(added)), tuple(runs_of(released)))
        raised = actor.ask(RaiseFloor(lambda *_: floor))
        expired = messages - partition.messages
        await raised
        self._counters.expired += max(0, expired)

    async def _reach(self, partition: Partition, horizon: int) -> _Reach:
        """The first page that is not too old; and the rows before it that are kept."""
        kept: list[tuple[int, int]] = []
        floor, offset = partition.retained.floor, partition.retained.first
        while True:
            entries = await self._entries(partition, offset, partition.readable_offset, PAGES_A_READ)
            for entry in entries:
                if entry.arrived_last >= horizon:  # a longer retention may stop below the floor: what was kept from there on stays
                    return _Reach(max(floor, entry.first_offset), kept + _from(partition.retained.snapshot()[1], entry.first_offset))
                if entry.due >= horizon:
                    kept += await self._kept(partition, entry, horizon)
                offset = entry.end
                floor = max(floor, min(entry.end, partition.readable_offset))
            if not entries:
                return _Reach(floor, kept)

    async def _kept(self, partition: Partition, entry: PageEntry, horizon: int) -> Runs:
        """The rows of an old page whose due time keeps them: all of them, where they cannot be
        read, until none could be kept.
        """
        live: NDArray[np.int64] = partition.live(entry.first_offset, entry.end)
        try:
            page = (await self._reader.pages(partition, [entry]))[0]
        except Damaged:
            return tuple(runs_of(live))
        header = decode_header(page.header)
        if not header.columns & DUE:  # the rows that had one were repeats, and are not stored here
            return ()
        due = moments_of(encoding.decode(header.columns, page.body).column("due"))
        return tuple(runs_of(live[due[live - entry.first_offset] >= horizon]))

    async def _reach_by_bytes(self, topic: Topic, partition: Partition, reach: _Reach) -> _Reach:
        """Continues page by page until the rest fits the limit."""
        limit = topic.settings.retention_bytes
        if limit is None:
            return reach
        partition.bytes_behind = await self._bytes_behind(partition)
        surplus = partition.bytes - limit // topic.row.partitions
        offset, floor = partition.retained.floor, partition.retained.floor
        while surplus > 0:
            entries = await self._entries(partition, offset, partition.readable_offset, PAGES_A_READ)
            for entry in entries:
                if surplus > 0:
                    surplus -= entry.length
                    offset = entry.end
                    floor = min(entry.end, partition.readable_offset)
            if not entries:
                break
        return _Reach(max(floor, reach.floor), _from(reach.kept, floor))

    async def _bytes_behind(self, partition: Partition) -> int:
        """Bytes of pages below the floor that extents still have."""
        floor, size = partition.retained.floor, 0
        for extent in await self._extents.of(partition):
            if extent.end_offset <= floor:
                size += extent.bytes
            elif extent.first_offset < floor and await self._has_index(extent):
                index = await self._extents.index(extent)
                size += sum(entry.length for entry in index.state() if entry.end <= floor)
        return size

    async def _drop_extents(self, actor: PartitionActor, now: int) -> None:
        """Extents in which nothing lives leave the catalog."""
        partition = actor.partition
        if partition.sealed_end <= 1 or not partition.sealed_bytes:
            return
        extents = await self._extents.of(partition)
        gone = [extent for extent in extents if extent.end_offset <= partition.retained.first]
        # While the journal still has the pages, only a floor keeps them from coming back at load.
        rest = [extent for extent in extents[len(gone) :] if self._sealer.has_trimmed(extent)]
        gone += [extent for extent in rest if 0 < extent.expires < now or _is_below(partition, extent)]
        if any(extent.end_offset > partition.snapshot_end for extent in gone):  # else nothing tells how far the log was sealed
            await self._sealer.snapshot([actor])
        for start in range(0, len(gone), EXTENTS_AN_EDIT):
            step = gone[start : start + EXTENTS_AN_EDIT]
            await self._journal.edit(Edit(drop=[extent.key for extent in step]))
            self._switch.replaced(actor, step, None)


def _is_too_much(topic: Topic, partition: Partition) -> bool:
    limit = topic.settings.retention_bytes
    return limit is not None and partition.bytes > limit // topic.row.partitions


def _as_a_page(extent: Extent) -> PageEntry:
    """The due times in it are unknown, so all of it is kept until it is repaired, or until the
    bytes exceed the limit.
    """
    rows = extent.end_offset - extent.first_offset
    return PageEntry(
        first_offset=extent.first_offset,
        rows=rows,
        arrived=extent.arrived_first,
        segment=LOST,
        position=0,
        length=extent.bytes,
        written=0,
        columns=0,
        arrived_last=extent.arrived_last,
        due=NEVER,
    )


def _is_below(partition: Partition, extent: Extent) -> bool:
    """Is nothing in the extent retained?"""
    return not partition.retained.any(extent.first_offset, extent.end_offset)


def _from(runs: Iterable[tuple[int, int]], offset: int) -> list[tuple[int, int]]:
    """What of the runs is not before the offset."""
    return [(max(first, offset), first + rows - max(first, offset)) for first, rows in runs if first + rows > offset]
