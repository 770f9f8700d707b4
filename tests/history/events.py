"""One history: the calls of all clients, and their results.

Every call has two events. `invoke` is written before the call is made; then comes `ok`, `fail`
(certainly not done) or `unknown`; a client that dies leaves an invoke alone, which is unknown too.
A publish has a row per message, because a batch may be answered row by row. A reader has a session:
`open` when it starts, and a `read` with the rows of every batch that it got.

A message is recognised by its label, a text that is unique to one call of send and that its value
begins with. A caller that repeats a message under the same id takes a new label: so the history
shows which of the two was stored. A delete of messages has a row per id.

What consumers write is in `lease_events`; it stands in the last field of an event.

On disk an event is one line of JSON, an array in the order of the fields; rows are arrays, too.
Times are seconds on one clock for all clients of a run; `arrived` is the broker's moment in
microseconds.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from tests.history.lease_events import NOTHING, Consuming, Delivery

LABEL = re.compile(rb"<[0-9a-z.-]{3,60}>")
"""What a label looks like inside a value, so that labels can be found in raw bytes."""

PUBLISH, READ, OPEN, FIND, CREATE, DELETE, NOTE = "publish", "read", "open", "find", "create", "delete", "note"
ALTER, COMMIT, SET, LOOK, SILENT = "alter", "commit", "set", "look", "silent"
FORGET = "forget"
"""A reader deletes its position."""
OBSERVE = "observe"
"""A client looks at another client's position."""
ERASE = "erase"
"""An owner deletes messages; the other delete is that of topics."""
CANCEL, MOVE = "cancel", "move"
"""An owner deletes messages that are not due yet, or gives them another due time (`Row.due`)."""
CAME, NOTICED = "came", "noticed"
"""Rows reached a reader's kit, which hands them out when the program asks; and the kit learned that
some were deleted.
"""
INVOKE, OK, FAIL, UNKNOWN = "invoke", "ok", "fail", "unknown"


class Row(NamedTuple):
    """A message: as it was sent (invoke), as it was answered (ok, fail, unknown), or as it was
    read.
    """

    label: str
    id: str = ""
    key: str = ""
    value: str = ""
    """Length and CRC-32 of the value, see `fingerprint`."""
    partition: int = -1
    offset: int = 0
    arrived: int = 0
    natural: bool = False
    """The caller gave the id, the kit did not generate it."""
    duplicate: bool = False
    error: str = ""
    """The kind of the refusal, empty where the row is stored."""
    due: int = 0
    expires: int = 0
    """Moments in microseconds, 0 for none."""
    attributes: str = ""
    group: str = ""
    """The owner: of the message, or of those that a delete asks for."""


class Settings(NamedTuple):
    """The retention settings of a topic: seconds, and bytes over all partitions (0 for no limit)."""

    retention: float = 7 * 86_400.0
    retention_bytes: int = 0
    deduplication: float = 600.0
    partitions: int = 1


class Event(NamedTuple):
    """One line of a history."""

    kind: str
    client: str
    call: int
    time: float
    operation: str
    topic: str = ""
    rows: tuple[Row, ...] = ()
    producer: str = ""
    sequence: int = 0
    """The running number of this send among those of its producer."""
    session: str = ""
    """Which reader, for open and read. The one of the end has the name FINAL."""
    error: str = ""
    settings: Settings = Settings()
    """For create and alter: the settings from then on."""
    where: str = ""
    """For open: the filter of the reader."""
    since: int = 0
    """For open: the moment from which on it reads, where it began by time."""
    asked: float = 0.0
    """For open: when the reader asked where that is."""
    reads_ahead: bool = False
    """For open: it is a reader of the real kit, which has rows before it hands them out."""
    queue: Consuming = NOTHING
    """For what concerns subscriptions and consumers."""


FINAL = "final"
"""Sessions whose name begins with this read everything from the beginning after healing."""


def label(*parts: object) -> str:
    return "<" + "-".join(str(part).lower() for part in parts) + ">"


def value_of(label: str, size: int) -> bytes:
    """A value of at least the label's length, made of repetitions of the label: a row's bytes show
    anywhere which row they belong to. No label in it is cut off, so that the bytes after the value
    in a batch cannot form another label with it.
    """
    text = label.encode()
    times = max(1, size // len(text))
    return text * times + b"." * max(0, size - times * len(text))


def label_in(value: bytes | None) -> str:
    """The label that a value begins with, or a name for a value that has none."""
    found = LABEL.match(value or b"")
    return found.group().decode() if found else f"?{(value or b'')[:32]!r}"


def fingerprint(value: bytes | None) -> str:
    return f"{len(value)}:{zlib.crc32(value):08x}" if value is not None else "none"


class History:
    """The events of a run, in the order in which they were written. `sink` gets each as it comes."""

    def __init__(self, now: Callable[[], float], sink: Callable[[Event], None] | None = None) -> None:
        self.events: list[Event] = []
        self._now = now
        self._sink = sink
        self._calls = 0

    def invoke(
        self,
        client: str,
        operation: str,
        topic: str = "",
        rows: Iterable[Row] = (),
        *,
        producer: str = "",
        sequence: int = 0,
        session: str = "",
        settings: Settings = Settings(),  # noqa: B008
        queue: Consuming = NOTHING,
    ) -> int:
        """Before the call. The number goes into its `ended`. Of a position the name is the
        `producer`.
        """
        self._calls += 1
        event = Event(INVOKE, client, self._calls, self._now(), operation, topic, tuple(rows), producer, sequence, session)
        self._add(event._replace(settings=settings, queue=queue))
        return self._calls

    def ended(
        self,
        kind: str,
        client: str,
        call: int,
        operation: str,
        topic: str = "",
        rows: Iterable[Row] = (),
        *,
        error: str = "",
        queue: Consuming = NOTHING,
    ) -> None:
        """Call this after the call: its result row by row, or one error for all rows."""
        self._add(Event(kind, client, call, self._now(), operation, topic, tuple(rows), error=error, queue=queue))

    def happened(
        self, client: str, operation: str, topic: str, queue: Consuming, rows: Iterable[Row] = (), *, session: str = "", error: str = ""
    ) -> None:
        """Something that has no two ends: a consumer received, wrote or was given something."""
        self._add(
            Event(FAIL if error else OK, client, 0, self._now(), operation, topic, tuple(rows), session=session, error=error, queue=queue)
        )

    def opened(
        self,
        client: str,
        session: str,
        topic: str,
        starts: Mapping[int, int],
        *,
        name: str = "",
        where: str = "",
        since: int = 0,
        asked: float = 0.0,
        reads_ahead: bool = False,
    ) -> None:
        """A reader opens at these offsets by partition. With a name it continues at its position."""
        event = Event(OK, client, 0, self._now(), OPEN, topic, places(starts), name, session=session, where=where, since=since)
        self._add(event._replace(asked=asked, reads_ahead=reads_ahead))

    def came(self, client: str, session: str, topic: str, rows: Iterable[Row]) -> None:
        """These places came to the kit of a reader; it has not handed them out yet."""
        self._add(Event(OK, client, 0, self._now(), CAME, topic, tuple(rows), session=session))

    def noticed(self, client: str, session: str, topic: str, rows: Iterable[Row]) -> None:
        """The kit of a reader knows that these places were deleted."""
        self._add(Event(OK, client, 0, self._now(), NOTICED, topic, tuple(rows), session=session))

    def looked(self, client: str, topic: str, name: str, offsets: Mapping[int, int]) -> None:
        """A position was asked for, and is there."""
        self._add(Event(OK, client, 0, self._now(), LOOK, topic, places(offsets), name))

    def observed(self, client: str, topic: str, name: str, offsets: Mapping[int, int], asked: float) -> None:
        """Another's position was asked for at that moment, and is there."""
        self._add(Event(OK, client, 0, self._now(), OBSERVE, topic, places(offsets), name, asked=asked))

    def overtaken(self, client: str, session: str, topic: str, error: str) -> None:
        """The broker told a reader that it cannot continue at its offset."""
        self._add(Event(FAIL, client, 0, self._now(), OPEN, topic, session=session, error=error))

    def read(self, client: str, session: str, topic: str, rows: Iterable[Row]) -> None:
        self._add(Event(OK, client, 0, self._now(), READ, topic, tuple(rows), session=session))

    def silent(self, client: str, topic: str, rows: Iterable[Row]) -> None:
        """A client sent these without looking at their receipts, and then a flush, or a close,
        raised nothing.
        """
        self._add(Event(OK, client, 0, self._now(), SILENT, topic, tuple(rows)))

    def note(self, client: str, text: str) -> None:
        """A note that explains a history to a person: a crash, a fault."""
        self._add(Event(OK, client, 0, self._now(), NOTE, error=text))

    def _add(self, event: Event) -> None:
        self.events.append(event)
        if self._sink is not None:
            self._sink(event)


def places(offsets: Mapping[int, int]) -> tuple[Row, ...]:
    """Offsets by partition, as rows."""
    return tuple(Row("", partition=partition, offset=offset) for partition, offset in offsets.items())


def line(event: Event) -> str:
    """An event as one line of JSON."""
    return json.dumps(event, separators=(",", ":"))


def parsed(lines: Iterable[str]) -> Iterator[Event]:
    """The events of a file. A last line that a killed client has written only in part is left out."""
    for text in lines:
        if text.endswith("]\n") or text.endswith("]"):
            event = Event(*json.loads(text))
            queue = Consuming(*event.queue)
            deliveries = tuple(Delivery(*delivery) for delivery in queue.rows)
            rows = tuple(Row(*row) for row in event.rows)
            yield event._replace(
                rows=rows, settings=Settings(*event.settings), queue=queue._replace(rows=deliveries, backoff=tuple(queue.backoff))
            )


def merged(*histories: Iterable[Event]) -> list[Event]:
    """The histories of several clients as one, by time."""
    return sorted((event for history in histories for event in history), key=lambda event: event.time)
