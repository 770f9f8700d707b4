"""The arguments of a reader, checked in the call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bowstring import errors
from bowstring.client import arguments, ranges
from bowstring.client.pages import COLUMNS, ReaderSelection
from bowstring.client.positions import position_name
from bowstring.client.ranges import Clocks
from bowstring.messages import filters

JOINED_BYTES = 1024 * 1024
"""`batches` joins small pages up to this size, which copies them. A larger page comes alone, as it
is."""
FULL_BYTES = JOINED_BYTES // 2
"""From this size on a batch does not wait for more: the next page would probably not fit in."""


class WantedTopic(NamedTuple):
    """What a reader wants of one topic."""

    topic: str
    start: Any
    end: Any
    partitions: tuple[int, ...] | None
    name: str | None
    """Where the position of this name is, the reader goes on; None to begin at the start."""
    selection: ReaderSelection


class ReaderSettings(NamedTuple):
    """The checked arguments of a reader."""

    topics: tuple[str, ...]
    several: bool
    """Whether a list was given; then places are by topic and partition."""
    starts: dict[str, Any]
    ends: dict[str, Any]
    name: str | None
    columns: tuple[str, ...] | None
    where: str
    partitions: tuple[int, ...] | None
    window: int | None
    window_share: float

    @classmethod
    def checked(
        cls,
        topic: object,
        clocks: Clocks,
        *,
        start: Any = None,
        end: Any = None,
        name: Any = None,
        columns: Any = None,
        where: Any = None,
        partitions: Any = None,
        uncommitted: Any = False,
        window: Any = None,
        window_share: Any = 0.5,
    ) -> ReaderSettings:
        """Refuses arguments that make no sense."""
        if uncommitted:
            raise errors.NotSupported("uncommitted=True is not in this version.", hint="Omit uncommitted=.")
        several = isinstance(topic, Sequence) and not isinstance(topic, str)
        topics = _topics(topic) if several else (arguments.topic_name(topic),)
        starts = {each: place(start, each, "start", several, clocks) for each in topics}
        ends = {each: place(end, each, "end", several, clocks) for each in topics}
        for each in topics:
            ranges.check_order(starts[each], ends[each])
        return cls(
            topics,
            several,
            starts,
            ends,
            None if name is None else position_name(name),
            _columns(columns),
            "" if where is None else _where(where),
            ranges.check_partitions(partitions),
            _window(window, name),
            _share(window_share),
        )

    @property
    def depends_on_now(self) -> bool:
        """Whether its start or end depends on the contents of the topic when it begins."""
        places = (*self.starts.values(), *self.ends.values())
        return any(place == "latest" or (isinstance(place, int) and place < 0) for place in places)

    def wanted(self, starts: dict[str, Any], name: str | None) -> list[WantedTopic]:
        """The part of each topic to read."""
        selection = ReaderSelection(None if self.columns is None else frozenset(self.columns), self.where)
        return [WantedTopic(topic, starts[topic], self.ends[topic], self.partitions, name, selection) for topic in self.topics]


def _topics(given: Any) -> tuple[str, ...]:
    if not given:
        raise errors.InvalidArgument("no topic was given.", hint="Give the name of one, or a list of names.")
    names = [arguments.topic_name(name) for name in given]
    if len(set(names)) < len(names):
        raise errors.InvalidArgument(f"{given!r} names a topic twice.", hint="Name each once.")
    return tuple(names)


def place(given: Any, topic: str, argument: str, several: bool, clocks: Clocks) -> Any:
    """A start or an end in one of the topics. For a list of topics, a dict has them by topic; any
    other place applies to all of them.
    """
    if several and isinstance(given, Mapping) and any(isinstance(key, str) for key in given):
        given = given.get(topic)
        if given is None:
            hint = "Use {topic: {partition: offset}} with every topic that is read."
            raise errors.InvalidArgument(f"{argument} has nothing for '{topic}'.", hint=hint)
    return ranges.check(given, argument, clocks)


def rows_limit(max_rows: object, name: str = "max_rows") -> int:
    """A number of rows."""
    if isinstance(max_rows, bool) or not isinstance(max_rows, int) or max_rows < 1:
        raise errors.InvalidArgument(f"{name}={max_rows!r} is not valid.", hint="Use a whole number above 0.")
    return max_rows


def _window(window: object, name: object) -> int | None:
    if window is None:
        return None
    rows = rows_limit(window, "window")
    if name is None:
        raise errors.InvalidArgument(f"window={window} needs a name to commit under.", hint="Give name='…', too.")
    return rows


def _share(share: Any) -> float:
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
        raise errors.InvalidArgument(f"window_share={share!r} is not a share.", hint="Use a number above 0 and up to 1, such as 0.5.")
    return float(share)


def _where(given: object) -> str:
    if not isinstance(given, str):
        raise errors.InvalidArgument(f"where={given!r} is of type {type(given).__name__}.", hint="Use text: \"key = 'a'\".")
    filters.parse(given)
    return given


def _columns(given: Any) -> tuple[str, ...] | None:
    if given is None:
        return None
    known = COLUMNS.names
    if isinstance(given, str) or not given or not all(name in known for name in given):
        raise errors.InvalidArgument(f"columns={given!r} are not all columns of a batch.", hint=f"Those are {', '.join(known)}.")
    return tuple(name for name in known if name in given)
