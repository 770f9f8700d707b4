"""Finds the offsets of a read: compares the options with the offsets that the topics have at this
moment.

Offsets are known here as `{topic: {partition: offset}}`, where the offset is the next one to read
or the first one not to read. As JSON, in checkpoints and in a stream's progress, they look like
those of Spark's Kafka source, plus the numbers of the topics: a topic that was deleted and created
again is another topic, and its offsets mean other messages. The end of a stream's first micro-batch
also carries where that micro-batch begins, because Spark does not log it. No topic's name begins
with `_`, so these keys cannot clash with a topic.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bowstring import times
from bowstring.errors import Conflict, InvalidArgument, NotFound, OutOfRange, TopicNotFound
from bowstring.spark.options import EARLIEST, IDS, LATEST, Options, Place

if TYPE_CHECKING:
    from bowstring.client.sync import Client
    from bowstring.client.topics import Topic

Offsets = dict[str, dict[int, int]]
INITIAL: Final = "_initial"
"""Marks the start of a query that has not begun."""
START: Final = "_start"
"""Where the first micro-batch begins, in its end."""
METRICS: Final = "_metrics"
"""The figures of a micro-batch, in the latest offsets of a progress."""
LOST = "Set failOnDataLoss to false to go on with what is there."


class Standing(NamedTuple):
    """A topic at this moment, as far as it is read."""

    id: int
    ranges: dict[int, range]
    """The offsets that can be read, of each partition that is wanted."""
    row_bytes: float
    """The average size of a message."""

    @property
    def ends(self) -> dict[int, int]:
        return {partition: offsets.stop for partition, offsets in self.ranges.items()}

    @property
    def firsts(self) -> dict[int, int]:
        return {partition: offsets.start for partition, offsets in self.ranges.items()}


Standings = dict[str, Standing]


def look(client: Client, options: Options) -> Standings:
    """The topics that are read, in the order of their names. Raises `TopicNotFound` for a named
    topic that does not exist.
    """
    return standings_of(listed(client, options, missing_ok=False), options)


def listed(client: Client, options: Options, *, missing_ok: bool) -> list[Topic]:
    """The topics that the options name."""
    if options.pattern is not None:
        return [topic for topic in client.topics() if re.fullmatch(options.pattern, topic.name)]
    return [topic for name in options.topics if (topic := _topic(client, name, missing_ok)) is not None]


def standings_of(topics: Iterable[Topic], options: Options) -> Standings:
    """The topics as far as they are read, in the order of their names."""
    return {topic.name: _standing(topic, options.assigned.get(topic.name)) for topic in sorted(topics, key=lambda topic: topic.name)}


def check_named(client: Client, options: Options, standings: Standings) -> None:
    """Raises `TopicNotFound` for a named topic that does not exist."""
    for name in options.topics:
        if name not in standings:
            client.topic(name)


def _topic(client: Client, name: str, missing_ok: bool) -> Topic | None:
    try:
        return client.topic(name)
    except TopicNotFound:
        if missing_ok:
            return None
        raise


def _standing(topic: Topic, assigned: tuple[int, ...] | None) -> Standing:
    wanted = range(topic.partitions) if assigned is None else assigned
    for partition in wanted:
        if partition >= topic.partitions:
            raise InvalidArgument(f"assign has '{topic.name}'/{partition}.", hint=f"It has {topic.partitions} partitions, counted from 0.")
    return Standing(topic.id, {number: topic.ranges[number] for number in wanted}, topic.bytes / max(1, topic.messages))


# ---- what was asked for ----------------------------------------------------------------------------------------------


def resolve(client: Client, place: Place, standings: Standings, strategy: str) -> Offsets:
    """The offsets that a place means now."""
    if place.kind == "earliest":
        return {name: standing.firsts for name, standing in standings.items()}
    if place.kind == "latest":
        return {name: standing.ends for name, standing in standings.items()}
    if place.kind == "offsets":
        _check_covers(place, standings)
        return {name: _offsets(place.offsets[name], standing) for name, standing in standings.items()}
    if place.kind == "moments":
        _check_covers(place, standings)
    return {name: _since(client, name, standing, place, strategy) for name, standing in standings.items()}


def _offsets(given: Mapping[int, int], standing: Standing) -> dict[int, int]:
    words = {EARLIEST: standing.firsts, LATEST: standing.ends}
    return {number: words[given[number]][number] if given[number] in words else given[number] for number in standing.ranges}


def _check_covers(place: Place, standings: Standings) -> None:
    """Refuses offsets by partition unless they name exactly the partitions that are read."""
    wanted = {(name, partition) for name, standing in standings.items() for partition in standing.ranges}
    given = {(name, partition) for name, partitions in place.offsets.items() for partition in partitions}
    if missing := sorted(wanted - given):
        word = "a moment" if place.kind == "moments" else "an offset, -1 for the latest"
        early = ", -2 for the earliest" if place.kind == "offsets" and place.option.startswith("starting") else ""
        raise InvalidArgument(f"{place.option} says nothing about {_named(missing)}.", hint=f"Give each partition {word}{early}.")
    if surplus := sorted(given - wanted):
        raise InvalidArgument(
            f"{place.option} has {_named(surplus)}, which is not read.", hint=f"What is read is {_named(sorted(wanted))}."
        )


def _named(partitions: list[tuple[str, int]]) -> str:
    shown = ", ".join(f"{name}/{partition}" for name, partition in partitions[:5])
    return f"{shown} and {len(partitions) - 5} more" if len(partitions) > 5 else shown or "nothing"


def _since(client: Client, name: str, standing: Standing, place: Place, strategy: str) -> dict[int, int]:
    """The first offsets that arrived at a moment or later. If there is none, a start fails, or is
    the end if the strategy says so.
    """
    moments = {partition: place.offsets[name][partition] if place.kind == "moments" else place.moment for partition in standing.ranges}
    arrived: dict[int, int] = {}
    if place.option.startswith("ending"):  # a batch ends with what is there, and does not wait for messages that arrive by then
        arrived = {partition: standing.ranges[partition].stop for partition, moment in moments.items() if moment > place.asked}
    for moment in dict.fromkeys(moments[partition] for partition in moments.keys() - arrived.keys()):
        wanted = [partition for partition, its in moments.items() if its == moment]
        arrived |= client.offsets(name, times.to_datetime(moment), partitions=wanted)
    found: dict[int, int] = {}
    for partition, moment in moments.items():
        offset, end = arrived[partition], standing.ranges[partition].stop
        if offset >= end and place.option.startswith("starting") and strategy == "error":
            raise NotFound(
                f"nothing has arrived in {name}/{partition} at {times.to_text(moment)} or later, which {place.option} asks for.",
                hint="Set startingOffsetsByTimestampStrategy to latest to begin with what comes.",
            )
        found[partition] = min(offset, end)
    return found


# ---- what is lost ----------------------------------------------------------------------------------------------------


def check_start(starts: Offsets, standings: Standings) -> None:
    """Raises `OutOfRange` if requested messages are gone, or were never there."""
    for name, offsets in starts.items():
        for partition, offset in offsets.items():
            kept = standings[name].ranges[partition]
            if offset < kept.start:
                problem = f"{name}/{partition} begins at offset {kept.start} (older messages expired), {offset} was to be read."
                raise OutOfRange(problem, hint=LOST)
            if offset > kept.stop:
                raise OutOfRange(f"{name}/{partition} ends at offset {kept.stop}, {offset} was to be read.", hint=LOST)


def check_range(starts: Offsets, ends: Offsets, standings: Standings) -> None:
    """The same for both sides of a batch; and the end may not come before the start."""
    check_start(starts, standings)
    check_start(ends, standings)
    for name, offsets in starts.items():
        for partition, offset in offsets.items():
            if offset > ends[name][partition]:
                problem = f"{name}/{partition} would be read from offset {offset} to {ends[name][partition]}."
                raise InvalidArgument(problem, hint="The end may not come before the start.")


def clamp(starts: Offsets, standings: Standings) -> Offsets:
    """The starts, moved to offsets that can be read."""
    return {
        name: {
            partition: min(max(offset, standings[name].ranges[partition].start), standings[name].ranges[partition].stop)
            for partition, offset in offsets.items()
        }
        for name, offsets in starts.items()
    }


# ---- as JSON ---------------------------------------------------------------------------------------------------------


def to_json(offsets: Offsets, ids: Mapping[str, int]) -> dict[str, Any]:
    """Offsets as Spark keeps them. The same offsets give the same text, because Spark compares
    that.
    """
    told: dict[str, Any] = {
        name: {str(number): offset for number, offset in sorted(partitions.items())} for name, partitions in sorted(offsets.items())
    }
    return {**told, IDS: dict(sorted(ids.items()))}


def from_json(told: Mapping[str, Any]) -> tuple[Offsets, dict[str, int]]:
    """Offsets as Spark gives them back, and the numbers of their topics."""
    offsets = {
        name: {int(number): int(offset) for number, offset in partitions.items()}
        for name, partitions in told.items()
        if not name.startswith("_")
    }
    return offsets, dict(told.get(IDS, {}))


def start_of(start: Mapping[str, Any], end: Mapping[str, Any]) -> Mapping[str, Any]:
    """Where a micro-batch begins: in the first one, where its end says; else where the one before
    ended.
    """
    begin: Mapping[str, Any] = end.get(START, start)
    if INITIAL in begin:
        raise Conflict(
            "the checkpoint does not say where its first micro-batch begins: an older version wrote it.",
            hint="Nothing of it is committed: start with a new checkpoint location.",
        )
    return begin
