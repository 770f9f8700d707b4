"""A history sorted for the checkers: for one topic, every send, every reader and what was there at
the end.

A topic that was deleted and made again is another topic. Facts are about the last one of a name:
readers that opened after its creation was acknowledged. A send that was answered only after the
creation began may have gone to either, so it counts as unknown; one that was answered before
certainly went to an earlier topic, and is among the `forgotten`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from tests.history.events import (
    ALTER,
    CAME,
    CANCEL,
    CREATE,
    DELETE,
    ERASE,
    FAIL,
    FINAL,
    FIND,
    INVOKE,
    MOVE,
    NOTICED,
    OK,
    OPEN,
    PUBLISH,
    READ,
    SILENT,
    UNKNOWN,
    Event,
    Row,
    Settings,
)

UNCERTAIN = frozenset({"", "error", "outcome-unknown", "unavailable", "full"})
"""Kinds of errors after which a message may be stored or not. Every other kind says that it
certainly is not.
"""


UNANSWERED = Row("")


@dataclass(slots=True)
class Send:
    """One message as its sender knows it."""

    label: str
    client: str
    producer: str
    sequence: int
    row: int
    """Which row of its call, the first is 0."""
    sent: Row
    invoked: float
    ended: float = inf
    outcome: str = UNKNOWN
    answer: Row = UNANSWERED
    read_id: str = ""
    """The id under which a reader got it. Its sender may not know it: it has ignored the receipt,
    or was not answered.
    """

    @property
    def id(self) -> str:
        return self.sent.id or self.answer.id or self.read_id

    @property
    def acknowledged(self) -> bool:
        return self.outcome == OK

    @property
    def refused(self) -> bool:
        """Certainly not stored."""
        return self.outcome == FAIL and self.answer.error not in UNCERTAIN


class Seen(NamedTuple):
    """A row that a reader got."""

    time: float
    row: Row


@dataclass(slots=True)
class Session:
    """One reader, from its opening on."""

    name: str
    opened: float
    starts: dict[int, int]
    """The offset that it began with, by partition, where it is known."""
    seen: list[Seen] = field(default_factory=list)
    overtaken: float = inf
    """When the broker told it that it cannot continue."""
    where: str = ""
    since: int = 0
    asked: float = 0.0
    client: str = ""
    reads_ahead: bool = False
    came: set[tuple[int, int]] = field(default_factory=set)
    """Places that its kit had, of topics that keep messages for a short time."""
    noticed: dict[tuple[int, int], float] = field(default_factory=dict)
    """Places that its kit knows to be deleted, and since when."""


class Held(NamedTuple):
    """Settings of a topic, and when they may have been in force."""

    begun: float
    ended: float
    settings: Settings


class Found(NamedTuple):
    """An answer to `find`: where the message is, or offset 0."""

    invoked: float
    ended: float
    id: str
    partition: int
    offset: int


class Deletion(NamedTuple):
    """A delete of one message by its id. Where it was is known only if that was acknowledged."""

    invoked: float
    ended: float
    id: str
    group: str
    partition: int = -1
    offset: int = 0
    client: str = ""
    error: str = ""
    """Why it was refused."""
    is_cancel: bool = False
    """Only if the message was not due."""


class Moved(NamedTuple):
    """A message was given another due time, perhaps. Where it is is known only if that was acknowledged."""

    invoked: float
    ended: float
    id: str
    group: str
    due: int
    partition: int = -1
    offset: int = 0


@dataclass(slots=True)
class Facts:
    """All about the last topic of one name."""

    topic: str
    created: float = -inf
    """When the creation of the last topic of this name was invoked, and when it was acknowledged."""
    acknowledged: float = -inf
    deleted: bool = False
    """A delete was invoked after that: the contents at the end are unknown."""
    sends: dict[str, Send] = field(default_factory=dict)
    forgotten: dict[str, Send] = field(default_factory=dict)
    sessions: dict[str, Session] = field(default_factory=dict)
    finds: list[Found] = field(default_factory=list)
    deletions: list[Deletion] = field(default_factory=list)
    moves: list[Moved] = field(default_factory=list)
    final: dict[tuple[int, int], Row] = field(default_factory=dict)
    """What was there at the end, by partition and offset."""
    rows: dict[tuple[int, int], Row] = field(default_factory=dict)
    """Everything that any reader has read, at any time."""
    held: list[Held] = field(default_factory=list)
    silent: set[str] = field(default_factory=set)
    """Labels of messages whose receipts no client looked at, although neither flush nor close
    raised an error.
    """
    foreseen: frozenset[str] = frozenset()
    """Kinds of errors that something before the broker may have caused."""
    read_to_the_end: bool = False
    over: float = 0.0
    """The time of the last event."""

    @property
    def made_anew(self) -> bool:
        """There was a topic of this name before."""
        return self.created > -inf

    def read_under(self, row: Row) -> None:
        """A reader got this message under this id."""
        if row.label in self.sends:
            self.sends[row.label].read_id = row.id

    def acknowledged_before(self, time: float, id: str) -> Iterator[Send]:
        """The messages of an id whose sends were acknowledged before that time."""
        return (send for send in self.sends.values() if send.acknowledged and send.answer.id == id and send.ended < time)

    def stored(self) -> dict[str, Row]:
        """What was ever there, by label."""
        return {row.label: row for row in self.rows.values()}

    def settings(self, begun: float, ended: float) -> list[Settings]:
        """Those that may have been in force in a stretch of time."""
        return [held.settings for held in self.held if held.begun <= ended and held.ended >= begun] or [Settings()]


def facts_of(events: Iterable[Event], topic: str) -> Facts:
    """Sorts the events of one topic."""
    mine = [event for event in events if event.topic == topic]
    facts = Facts(topic, over=max((event.time for event in mine), default=0.0))
    _lifetime(facts, mine)
    _settings(facts, mine)
    _sends(facts, mine)
    _readings(facts, mine)
    _deletions(facts, mine)
    return facts


def topics_of(events: Iterable[Event]) -> list[str]:
    return sorted({event.topic for event in events if event.topic})


def _lifetime(facts: Facts, events: list[Event]) -> None:
    """When the last topic of this name was made. A topic made once has existed from the beginning."""
    invoked = {event.call: event.time for event in events if event.operation == CREATE and event.kind == INVOKE}
    made = [(invoked[event.call], event.time) for event in events if event.operation == CREATE and event.kind == OK]
    deletes = [event.time for event in events if event.operation == DELETE and event.kind == INVOKE]
    if not deletes:
        return
    if made:
        facts.created, facts.acknowledged = made[-1]
    facts.deleted = not made or max(deletes) >= facts.created


def _settings(facts: Facts, events: list[Event]) -> None:
    """Settings apply at the earliest from the request on, and at the latest until the next settings
    were acknowledged.
    """
    asked = {event.call: event for event in events if event.operation in (CREATE, ALTER) and event.kind == INVOKE}
    done = {event.call: event.time for event in events if event.operation in (CREATE, ALTER) and event.kind == OK}
    calls = [call for call, event in asked.items() if event.time >= facts.created]
    for at, call in enumerate(calls):
        later = [done.get(other, inf) for other in calls[at + 1 :]]
        facts.held.append(Held(asked[call].time, min(later, default=inf), asked[call].settings))


def _sends(facts: Facts, events: list[Event]) -> None:
    calls: dict[int, list[Send]] = {}
    for event in events:
        if event.operation != PUBLISH:
            continue
        if event.kind == INVOKE:
            calls[event.call] = [
                Send(row.label, event.client, event.producer, event.sequence, at, row, event.time) for at, row in enumerate(event.rows)
            ]
            continue
        for send, answer in zip(calls[event.call], event.rows or _answers(calls[event.call], event), strict=True):
            send.ended, send.answer = event.time, answer
            send.outcome = OK if event.kind == OK and not answer.error else FAIL if answer.error not in UNCERTAIN else UNKNOWN
    for sends in calls.values():
        for send in sends:
            if send.ended < facts.created:
                facts.forgotten[send.label] = send
                continue
            if send.invoked < facts.acknowledged and send.outcome == OK:
                send.outcome = UNKNOWN
            facts.sends[send.label] = send


def _answers(sends: list[Send], event: Event) -> list[Row]:
    """A call that failed as a whole: every row has its error."""
    return [send.sent._replace(error=event.error) for send in sends]


def _deletions(facts: Facts, events: list[Event]) -> None:
    """Drops sends that an earlier topic of the name answered; sends that it may have answered
    become unknown.
    """
    operations = (ERASE, CANCEL, MOVE)
    ends = {event.call: event for event in events if event.operation in operations and event.kind != INVOKE}
    for event in events:
        if event.operation not in operations or event.kind != INVOKE:
            continue
        end = ends.get(event.call)
        if end is not None and end.time < facts.created:
            continue
        known = end is not None and end.kind == OK and event.time >= facts.acknowledged
        for at, asked in enumerate(event.rows):
            facts.read_under(asked)
            answer = end.rows[at] if end is not None and known else Row("")
            place = (answer.partition, answer.offset) if not answer.error else (-1, 0)
            ended = end.time if end is not None else inf
            if event.operation == MOVE:
                facts.moves.append(Moved(event.time, ended, asked.id, asked.group, asked.due, *place))
            else:
                cancel = event.operation == CANCEL
                facts.deletions.append(Deletion(event.time, ended, asked.id, asked.group, *place, event.client, answer.error, cancel))


def _readings(facts: Facts, events: list[Event]) -> None:
    finds: dict[int, Event] = {}
    for event in events:
        if event.operation == OPEN and event.kind == FAIL:
            if event.session in facts.sessions:
                facts.sessions[event.session].overtaken = event.time
        elif event.operation == OPEN and event.time >= facts.acknowledged:
            starts = {row.partition: row.offset for row in event.rows}
            facts.sessions[event.session] = Session(
                event.session,
                event.time,
                starts,
                where=event.where,
                since=event.since,
                asked=event.asked,
                client=event.client,
                reads_ahead=event.reads_ahead,
            )
            facts.read_to_the_end |= event.session.startswith(FINAL)
        elif event.operation == READ and event.session in facts.sessions:
            facts.sessions[event.session].seen += [Seen(event.time, row) for row in event.rows]
            for row in event.rows:
                facts.read_under(row)
                facts.rows.setdefault((row.partition, row.offset), row)
            if event.session.startswith(FINAL):
                facts.final.update({(row.partition, row.offset): row for row in event.rows})
        elif event.operation == CAME and event.session in facts.sessions:
            facts.sessions[event.session].came |= {(row.partition, row.offset) for row in event.rows}
        elif event.operation == NOTICED and event.session in facts.sessions:
            for row in event.rows:
                facts.sessions[event.session].noticed.setdefault((row.partition, row.offset), event.time)
        elif event.operation == SILENT:
            facts.silent.update(row.label for row in event.rows)
        elif event.operation == FIND and event.kind == INVOKE and event.time >= facts.acknowledged:
            finds[event.call] = event
        elif event.operation == FIND and event.kind == OK and event.call in finds:
            asked = finds[event.call]
            where = event.rows[0] if event.rows else Row("")
            facts.finds.append(Found(asked.time, event.time, asked.rows[0].id, where.partition, where.offset))
