"""From where to where a reader reads: what people give as `start` and `end`, and the offsets that it means.

`"beginning"` and `"latest"` are what they are when the reader begins. A number is an offset in every partition, a dict one for each. A
negative number is the newest so many messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from bowstring import errors
from bowstring.wire.generated import bowstring_pb2 as pb

Start = str | int | Mapping[int, int] | datetime | timedelta | None
End = str | int | Mapping[int, int] | datetime | timedelta | None

_HINT = "Use 'beginning', 'latest', an offset, {partition: offset} or a negative number for the newest messages."


def check(given: object, name: str) -> Any:
    """A start or an end of a form that is taken."""
    if given is None or given in ("beginning", "latest"):
        return given
    if isinstance(given, datetime | timedelta):
        raise errors.NotSupported(f"{name}={given!r}: reading by time is not in this version.", hint=_HINT)
    if isinstance(given, Mapping):
        for partition, offset in given.items():
            if not _whole(partition) or partition < 0 or not _whole(offset) or offset < 1:
                raise errors.InvalidArgument(f"{name} has {partition!r}: {offset!r}.", hint="Partitions count from 0, offsets from 1.")
        return dict(given)
    if not _whole(given) or given == 0:
        hint = "Offsets count from 1." if given == 0 and not isinstance(given, bool) else _HINT
        raise errors.InvalidArgument(f"{name}={given!r} is not a place in a topic.", hint=hint)
    return given


def check_partitions(given: Sequence[int] | None) -> tuple[int, ...] | None:
    """The partitions that a reader is limited to."""
    if given is None:
        return None
    if isinstance(given, str) or not given or not all(_whole(number) and number >= 0 for number in given):
        raise errors.InvalidArgument(f"partitions={given!r} is not taken.", hint="Give their numbers in a list; they count from 0.")
    return tuple(dict.fromkeys(given))


def resolve(topic: pb.Topic, start: Any, end: Any, partitions: tuple[int, ...] | None) -> tuple[dict[int, int], dict[int, int]]:
    """The first offset to read, and the first one not to read (0 for no end), of each partition."""
    wanted = tuple(range(topic.partitions)) if partitions is None else partitions
    if isinstance(start, dict) and partitions is None:
        wanted = tuple(start)
    for number in wanted:
        if number >= topic.partitions:
            raise errors.InvalidArgument(f"'{topic.name}' has no partition {number}.", hint=f"It has {topic.partitions}, counted from 0.")
    starts = {number: _place(topic, number, start, len(wanted), topic.ranges[number].first) for number in wanted}
    ends = {number: _place(topic, number, end, len(wanted), 0) for number in wanted}
    return starts, ends


def _place(topic: pb.Topic, partition: int, given: Any, partitions: int, default: int) -> int:
    held = topic.ranges[partition]
    if given is None:
        return default
    if given == "beginning":
        return held.first
    if given == "latest":
        return held.next
    if isinstance(given, dict):
        return given.get(partition, default)
    if given < 0:
        if partitions > 1:
            raise errors.NotSupported("the newest messages over several partitions are not in this version.", hint="Give partitions=[0].")
        return max(held.first, held.next + given)
    return given


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
