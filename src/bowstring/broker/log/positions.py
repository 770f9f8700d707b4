"""The named positions of readers, over the partitions of their topic.

A position is a change of each partition that it concerns. All of one call go into one flush, so
they are durable together or not at all, and the caller gets its answer when they are. A refusal
waits too, because it rests on positions that may not be durable yet (invariant 1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from bowstring import errors
from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.log.log import Log
from bowstring.broker.log.requests import MovePosition
from bowstring.broker.topics import Topic
from bowstring.core.decisions import Refused
from bowstring.messages.limits import NAME_BYTES_MAX


class PositionFacts(NamedTuple):
    """A position as it is described to users."""

    name: str
    topic: str
    offsets: list[tuple[int, int, int, int]]
    """Partition, offset, when it was moved last, and how many offsets are behind it."""


async def commit(log: Log, topic: str, name: str, offsets: Mapping[int, int], topic_id: int = 0) -> PositionFacts:
    """Moves a position forward. Raises Conflict if that would be backwards."""
    found = log.topics.topic(topic)
    if topic_id and topic_id != found.row.id:
        raise errors.Conflict(f"'{topic}' was deleted and made again since it was read.", hint="Make another reader.")
    return await _move(log, found, name, offsets, forward=True, dry_run=False)


async def put(log: Log, topic: str, name: str, offsets: Mapping[int, int], *, dry_run: bool) -> PositionFacts:
    """Moves a position anywhere, or only returns the new one."""
    return await _move(log, log.topics.topic(topic), name, offsets, forward=False, dry_run=dry_run)


async def delete(log: Log, topic: str, name: str, *, missing_ok: bool) -> bool:
    """Says whether there was one."""
    found = log.topics.topic(topic)
    log.room.check(0)
    actors = [actor for actor in found.actors if actor.partition.positions.get(name) is not None]
    await PartitionActor.ask_together([(actor, MovePosition(topic, name, 0, forward=False)) for actor in actors])
    if actors:
        return True
    await log.durable()
    if not missing_ok:
        raise _not_found(topic, name)
    return False


async def describe(log: Log, topic: str, name: str) -> PositionFacts:
    """Raises NotFound."""
    found = log.topics.topic(topic)
    facts = _facts(found, name, {})
    await log.durable()
    if not facts.offsets:
        raise _not_found(topic, name)
    return facts


async def list_page(log: Log, topic: str, after: tuple[str, str], limit: int) -> tuple[list[PositionFacts], bool]:
    """Positions by topic and name behind `after`, and whether there are more."""
    topics = [log.topics.topic(topic)] if topic else list(log.topics.all())
    names = sorted((each.row.name, name) for each in topics for name in _names(each.actors))
    behind = [key for key in names if key > after]
    page = [_facts(log.topics.topic(topic_name), name, {}) for topic_name, name in behind[:limit]]
    await log.durable()
    return page, len(behind) > limit


async def _move(log: Log, topic: Topic, name: str, offsets: Mapping[int, int], *, forward: bool, dry_run: bool) -> PositionFacts:
    _check_name(name)
    if not offsets:
        raise errors.InvalidArgument("no partition was given.", hint=f"'{topic.row.name}' has {len(topic.actors)}, numbered from 0.")
    actors = {topic.actor(number): offset for number, offset in offsets.items()}
    log.room.check(0)
    moves = [(actor, MovePosition(topic.row.name, name, offset, forward=forward)) for actor, offset in actors.items()]
    if dry_run:
        moved = log.clock.now()
        refused = [request.decide(actor.partition, moved, None) for actor, request in moves]
        facts = _facts(topic, name, dict.fromkeys(offsets, moved), offsets)
        await log.durable()
        for decision in refused:
            if isinstance(decision, Refused):
                raise decision.error
        return facts
    answered = PartitionActor.ask_together(moves)
    facts = _facts(topic, name, {}, {})
    await answered
    return facts


def _names(actors: Iterable[PartitionActor]) -> set[str]:
    return {name for actor in actors for name in actor.partition.positions.names()}


def _facts(topic: Topic, name: str, moved: Mapping[int, int], offsets: Mapping[int, int] | None = None) -> PositionFacts:
    """As it is, or as it would be with these offsets."""
    found: list[tuple[int, int, int, int]] = []
    for actor in topic.actors:
        partition, held = actor.partition, actor.partition.positions.get(name)
        offset = (offsets or {}).get(partition.number, 0) or (held.offset if held is not None else 0)
        if offset:
            when = moved.get(partition.number, 0) or (held.moved if held is not None else 0)
            found.append((partition.number, offset, when, max(0, partition.readable_offset - offset)))
    return PositionFacts(name, topic.row.name, found)


def _check_name(name: str) -> None:
    if not name.isprintable() or not 0 < len(name.encode()) <= NAME_BYTES_MAX:
        raise errors.InvalidArgument(f"{name!r} is not a name for a position.", hint=f"Use 1 to {NAME_BYTES_MAX} bytes of text.")


def _not_found(topic: str, name: str) -> errors.NotFound:
    return errors.NotFound(f"there is no position '{name}' in '{topic}'.", hint="client.positions() lists them.", details={"topic": topic})
