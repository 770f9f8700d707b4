"""Removes messages that are too old, or too many: raises the floor of each partition, and frees the
space below it.

Readers do not wait for it: what is too old by the second is not delivered (`visibility`), whether
the floor has come there yet or not. Here pages go as a whole, oldest first. The floor is a change
like any other and is committed with the next flush; only then extents that are below it leave the
catalog. Pages with rows that their due time or a lease keeps stay where they are, and the floor
passes them by: it says which rows are kept. Age goes by the trusted clock, so that a clock that jumps deletes
nothing.

A turn looks at some partitions, and the next one at the next: with ten thousand of them each has
its turn every ten seconds. It is a glance, because what was found once holds until something moves;
an idle broker has next to nothing to do, however many there are.
"""

from __future__ import annotations

from typing import NamedTuple

from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.log.log import Log
from bowstring.broker.log.requests import RaiseFloor
from bowstring.broker.reading.reading import Reading
from bowstring.broker.surroundings import Surroundings
from bowstring.broker.topics import Topic
from bowstring.broker.upkeep.extent_removal import ExtentRemoval
from bowstring.broker.upkeep.survey import Survey, Surveyed
from bowstring.core.machine import NEVER
from bowstring.core.partition import Partition
from bowstring.core.retention import Outlook, decide, note_releases
from bowstring.ports.failures import Damaged

PARTITIONS_A_TURN = 1000
ASKED_A_TURN = 100
"""Of these, partitions about which catalog or store have to be asked. After a start those are few:
the sums of the load tell of most that nothing is to be done yet.
"""


class _Seen(NamedTuple):
    """The findings about a partition, as of that many moves and that floor."""

    moves: int
    floor: int
    empty_until: int
    """Where the log ended, if nothing was in it; else 0."""
    outlook: Outlook
    rescheduled: int
    """The version of the moved rows."""

    def holds(self, partition: Partition) -> bool:
        seen, there = (self.moves, self.floor, self.rescheduled), (partition.moves, partition.retained.floor, partition.moved_rows.version)
        same = seen == there
        return same and self.empty_until in (0, partition.committed_offset)


class Retention:
    """Retention of one incarnation's topics."""

    def __init__(self, surroundings: Surroundings, log: Log, reading: Reading, removal: ExtentRemoval) -> None:
        self._clock = surroundings.clock
        self._counters = surroundings.counters
        self._kept_seconds = surroundings.tuning.kept_seconds
        self._topics = log.topics
        self._trusted = reading.trusted
        self._note_damage = reading.note_damage
        self._removal = removal
        self._survey = Survey(extents=reading.extents, reader=reading.reader, due_times=reading.due_times)
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
        if len(self._seen) > len(everything):  # topics are gone
            self._seen.clear()
            self._survey.forget_all()
        for at, (topic, actor) in enumerate(some):
            partition = actor.partition
            seen = self._seen.get((partition.topic, partition.number))
            if seen is None or not seen.holds(partition):
                asked += partition.sealed_above_floor is None
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
        """Asks for what was not seen yet, or has changed since; then it is known when there will be something to do."""
        partition, is_new, changed = actor.partition, seen is None, False
        if seen is None:
            seen = self._seen[partition.topic, partition.number] = await self._look(partition)
        horizon = now - int(topic.settings.retention * 1e6)
        if seen.outlook.arrived < horizon or _is_too_much(topic, partition) or self._releases(partition, seen, horizon):
            changed = await self._retain(topic, actor, seen, horizon)
        if is_new or changed or seen.outlook.expires < now:
            await self._removal.drop(actor, now)
            if topic.settings.retention_bytes is not None:
                partition.bytes_behind = await self._survey.bytes_behind(partition)

    async def _look(self, partition: Partition) -> _Seen:
        moves, end, floor, rescheduled = partition.moves, partition.committed_offset, partition.retained.floor, partition.moved_rows.version
        outlook = await self._survey.outlook(partition)
        return _Seen(moves, floor, 0 if outlook.arrived != NEVER else end, outlook, rescheduled)

    def _releases(self, partition: Partition, seen: _Seen, horizon: int) -> bool:
        """Whether rows that are kept are to be released: once a minute, if the time of some is over, some are deleted, or subscriptions
        may need some no more.
        """
        if not len(partition.retained.kept):
            return False
        key, monotonic = (partition.topic, partition.number), self._clock.monotonic()
        if monotonic - self._kept_at.get(key, self._begun) < self._kept_seconds:
            return False
        self._kept_at[key] = monotonic
        deleted = len(partition.deletions.among(partition.retained.kept)) > 0
        return seen.outlook.due < horizon or deleted or self._survey.may_release(partition)

    async def _retain(self, topic: Topic, actor: PartitionActor, seen: _Seen, horizon: int) -> bool:
        """Raises the floor as far as it goes, and waits for the commit. Says whether anything has changed."""
        partition = actor.partition
        surveyed = await self._survey.facts(partition, horizon, await self._surplus(topic, partition))
        if actor.closed is not None:
            return False
        retained, messages = partition.retained, partition.messages
        before = retained.floor, len(retained.kept)
        note_releases(partition, surveyed.facts)
        raised = actor.ask(RaiseFloor(lambda partition, now: decide(partition, surveyed.facts, now)))
        self._note(partition, seen, surveyed)
        expired = messages - partition.messages
        await raised
        self._counters.expired += max(0, expired)
        return before != (retained.floor, len(retained.kept))

    def _note(self, partition: Partition, seen: _Seen, surveyed: Surveyed) -> None:
        """What is known now, for the next glance. Where there are no pages there may be some the next time."""
        self._survey.remember(partition, surveyed)
        outlook = seen.outlook._replace(arrived=surveyed.arrived, due=surveyed.next_due)
        key = partition.topic, partition.number
        if surveyed.arrived == NEVER:
            self._seen.pop(key, None)
        else:
            self._seen[key] = seen._replace(outlook=outlook)

    async def _surplus(self, topic: Topic, partition: Partition) -> int:
        """By how many bytes there is too much."""
        limit = topic.settings.retention_bytes
        if limit is None:
            return 0
        partition.bytes_behind = await self._survey.bytes_behind(partition)
        return partition.bytes - limit // topic.row.partitions


def _is_too_much(topic: Topic, partition: Partition) -> bool:
    limit = topic.settings.retention_bytes
    return limit is not None and partition.bytes > limit // topic.row.partitions
