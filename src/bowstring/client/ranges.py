"""From where to where a reader reads: the arguments `start` and `end`, and the offsets that they
mean.

`"beginning"` and `"latest"` are resolved when the reader begins. A number is an offset in every
partition, a dict has one for each. A negative number means the newest messages of the topic, so
many of them, in whichever partitions they are. A moment is an aware datetime, or a timedelta from
now: from the first message that arrived then or later. An end is exclusive, and the reader waits
for one that is still to come.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from bowstring import errors, times
from bowstring.client import arguments
from bowstring.client.arguments import shown
from bowstring.wire.generated import bowstring_pb2 as pb

Start = str | int | Mapping[int, int] | Mapping[str, Mapping[int, int]] | datetime | timedelta | None
End = str | int | Mapping[int, int] | Mapping[str, Mapping[int, int]] | datetime | timedelta | None
OpenRange = tuple[int, int, int]
"""What is still to come of a partition: (partition, offset, end); an end of 0 is none."""

OFFSET_MAX: Final = 2**63 - 1
AHEAD_MICROSECONDS: Final = 1_000_000
"""A start up to this far in the future counts as now: two clocks never agree quite."""

_HINT = "Use 'beginning', 'latest', an offset, {partition: offset}, a negative number for the newest messages, or a moment."


class Moment(NamedTuple):
    """A point in time as a place, in microseconds."""

    microseconds: int


class Clocks(NamedTuple):
    """The time by the broker's clock, and by how many seconds this machine's clock is ahead of
    it."""

    now: int
    drift: float = 0.0


def check(given: object, name: str, clocks: Clocks) -> Any:
    """A checked start or end; times become a `Moment`."""
    if given is None or (isinstance(given, str) and given in ("beginning", "latest")):
        return given
    if isinstance(given, datetime | timedelta):
        return _moment(given, name, clocks)
    if isinstance(given, Mapping):
        return _offsets(given, name)
    if not isinstance(given, int) or isinstance(given, bool) or not 0 < abs(given) <= OFFSET_MAX:
        raise errors.InvalidArgument(f"{name}={shown(given)} is not a place in a topic.", hint=_hint(given, name))
    return given


def _moment(given: datetime | timedelta, name: str, clocks: Clocks) -> Moment:
    moment = times.moment_or_span(given, name, clocks.now)
    if name != "end":
        ahead = AHEAD_MICROSECONDS + max(0, times.microseconds(clocks.drift))
        if moment > clocks.now + ahead:
            times.moment_or_span(given, name, clocks.now, future=False)
        moment = min(moment, clocks.now)
    return Moment(moment)


def _offsets(given: Mapping[Any, Any], name: str) -> dict[int, int]:
    if not given:
        raise errors.InvalidArgument(f"{name}={{}} names no partition.", hint="Use {partition: offset}.")
    for partition, offset in given.items():
        if not _whole(partition) or partition < 0 or not _whole(offset) or not 1 <= offset <= OFFSET_MAX:
            raise errors.InvalidArgument(
                f"{name} has {shown(partition)}: {shown(offset)}.", hint="Partitions count from 0, offsets from 1."
            )
    return dict(given)


def _hint(given: object, name: str) -> str:
    if given == 0 and not isinstance(given, bool):
        return "Offsets count from 1."
    if isinstance(given, str) and (meant := {"earliest": "beginning", "first": "beginning", "end": "latest", "last": "latest"}.get(given)):
        return f"Use {name}='{meant}'."
    if isinstance(given, str):
        return _HINT + " Text is for commands but not for Python."
    return _HINT


def check_order(start: Any, end: Any) -> None:
    """Refuses a range that is plainly empty."""
    shown = ""
    if isinstance(start, Moment) and isinstance(end, Moment) and start > end:
        shown = f"start={times.to_text(start.microseconds)} is behind end={times.to_text(end.microseconds)}"
    elif isinstance(start, int) and isinstance(end, int) and (start < 0) == (end < 0) and start > end:
        shown = f"start={start} is behind end={end}"
    if shown:
        raise errors.InvalidArgument(f"{shown}.", hint="The end is not included, and comes after the start.")


def check_partitions(given: Sequence[int] | None) -> tuple[int, ...] | None:
    """The partitions that a reader is limited to."""
    if given is None:
        return None
    if (
        not isinstance(given, Sequence)
        or isinstance(given, str)
        or not given
        or not all(_whole(number) and number >= 0 for number in given)
    ):
        raise errors.InvalidArgument(f"partitions={shown(given)} is not valid.", hint="Give their numbers in a list; they count from 0.")
    return tuple(dict.fromkeys(given))


def wanted(topic: pb.Topic, start: Any, partitions: tuple[int, ...] | None) -> tuple[int, ...]:
    """The partitions to read: those named by the argument or by the start; else all."""
    found = partitions or (tuple(start) if isinstance(start, dict) else tuple(range(topic.partitions)))
    for number in found:
        if number >= topic.partitions:
            raise arguments.no_partition(topic.name, number, topic.partitions)
    return found


Ask = Callable[[pb.OffsetsRequest], Awaitable[pb.OffsetsAnswer]]


async def resolve(ask: Ask, topic: pb.Topic, place: Any, partitions: Sequence[int]) -> dict[int, int]:
    """The offset of a place in each of these partitions, without those that a dict does not
    name."""
    if place is None or place == "beginning":
        return {number: topic.ranges[number].first for number in partitions}
    if place == "latest":
        return {number: topic.ranges[number].next for number in partitions}
    if isinstance(place, dict):
        return {number: place[number] for number in partitions if number in place}
    if isinstance(place, int) and place > 0:
        return dict.fromkeys(partitions, place)
    request = pb.OffsetsRequest(topic=topic.name, partitions=partitions)
    if isinstance(place, Moment):
        request.moment = place.microseconds
    else:
        request.newest = -place
    answer = await ask(request)
    if answer.topic_id != topic.id:
        raise errors.Conflict(f"'{topic.name}' was deleted and made again meanwhile.", hint="Ask again.")
    return {each.partition: each.offset for each in answer.offsets}


def _whole(value: object) -> Any:
    return isinstance(value, int) and not isinstance(value, bool)
