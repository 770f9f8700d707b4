"""The events of a queue sorted for the checkers: of one subscription, every row's leases, one after
the other, and everything that consumers asked for.

A `Stay` is a row under one grant: pushed, perhaps handed out, perhaps settled. An `Ask` is a request
to settle or to extend, with all its repeats. A subscription is known by its identity, which a stream
tells when it is opened; a subscription that was made anew under its name is another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import inf
from typing import NamedTuple

from tests.history import lease_takings
from tests.history.events import INVOKE, OK, Event, Row
from tests.history.lease_events import (
    ACK,
    CLOSE,
    CONSUME,
    CREDIT,
    DECIDE,
    DRAIN,
    EXTEND,
    HANDED,
    KEY_SHARED,
    LEAVE,
    LOST,
    PUSHED,
    READY,
    REVOKED,
    SETTLE,
    Delivery,
)
from tests.history.lease_keys import KeyOrder
from tests.history.lease_notes import Decision, Wrote
from tests.history.lease_takings import Sought, Taken
from tests.history.lease_time import LeaseClocks

Place = tuple[int, int]
AskKey = tuple[str, str, int, int]
"""Operation, session, partition, number."""


class Push(NamedTuple):
    """A row came to a kit."""

    time: float
    session: str
    stream: int
    now: int
    until: int
    retries: int
    again: bool
    span: int
    """How long the leases of that stream last."""
    asked: bool = False
    """The consumer has asked for it by its id, whatever its credit."""

    @property
    def granted(self) -> int:
        """When the lease began, if this was its first push."""
        return self.until - self.span


@dataclass(slots=True)
class Ask:
    """A request of a consumer, written once or more often."""

    operation: str
    session: str
    consumer: str
    partition: int
    number: int
    rows: tuple[Delivery, ...]
    written: float
    """When it was first written."""
    streams: dict[int, float] = field(default_factory=dict)
    """On which streams it was written, and when."""
    answers: list[tuple[float, int, frozenset[tuple[int, int]]]] = field(default_factory=list)
    """When answers came, the moments that they told, and the grants and offsets that were refused."""
    until: int = 0
    """Of an extension that was answered."""
    answered_on: int = 0
    """The stream of the first answer."""

    @property
    def answered(self) -> float:
        return self.answers[0][0] if self.answers else inf

    def refuses(self, grant: int, offset: int) -> bool:
        """Whether the answer says that the row is not the consumer's."""
        return bool(self.answers) and bool(self.answers[0][2] & {(grant, offset), (grant, 0)})


class HandedOut(NamedTuple):
    """An application was given a row, with what was said about it."""

    time: float
    session: str
    retries: int
    until: int


@dataclass(slots=True)
class Stay:
    """A row under one grant."""

    place: Place
    grant: int
    consumer: str
    pushes: list[Push] = field(default_factory=list)
    handed: list[HandedOut] = field(default_factory=list)
    asks: list[tuple[Ask, str]] = field(default_factory=list)
    """Requests that name it, with their outcomes."""

    @property
    def first(self) -> Push:
        return self.pushes[0]

    def until(self, by: float = inf) -> int:
        """Until when it was held for certain, as far as its consumer was told by then."""
        longer = (ask.until for ask, _ in self.asks if ask.operation == EXTEND and ask.answered <= by and not self._refused(ask))
        return max([*(push.until for push in self.pushes if push.time <= by), *longer], default=0)

    def until_perhaps(self) -> float:
        """Until when it may have been held."""
        return inf if any(self.may_have_extended(ask) for ask, _ in self.asks) else self.until()

    def may_have_extended(self, ask: Ask) -> bool:
        """Whether it was carried out, perhaps, and no answer tells: on a stream that broke. Its repeat came behind settlements."""
        return ask.operation == EXTEND and (not ask.answers or (self._refused(ask) and ask.answered_on > min(ask.streams)))

    def _refused(self, ask: Ask) -> bool:
        return ask.refuses(self.grant, self.place[1])

    def settled(self, outcome: str) -> list[Ask]:
        """The requests with that outcome that were carried out for certain."""
        return [ask for ask, asked in self.asks if asked == outcome and ask.answers and not self._refused(ask)]

    def given_back(self, by: float) -> bool:
        """Whether its consumer may have given it back by then."""
        return any(outcome not in ("", ACK) and ask.written <= by for ask, outcome in self.asks)


@dataclass(slots=True)
class Session:
    """One consumer object."""

    name: str
    client: str
    consumer: str
    opened: list[tuple[float, int, int]] = field(default_factory=list)
    """When its streams were opened: time, number, span of leases."""
    credits: list[Wrote] = field(default_factory=list)
    ready: dict[int, float] = field(default_factory=dict)
    """When it wrote on a stream that all requests are sent again."""
    lost: dict[tuple[int, int], float] = field(default_factory=dict)
    """Partitions and grants that it was told to have lost, and when."""
    pushes: list[tuple[Push, tuple[Delivery, ...]]] = field(default_factory=list)
    asks: list[Ask] = field(default_factory=list)
    revoked: dict[tuple[Place, int], float] = field(default_factory=dict)
    """Places and grants of rows that it was told to be revoked, and when."""
    ended: dict[int, str] = field(default_factory=dict)
    """The errors that ended its streams."""
    left: float = inf
    """When it wrote that it has settled all that it had. What the broker still holds for its name is
    given back then, uncounted."""
    closed: float = inf

    @property
    def is_drain(self) -> bool:
        return self.consumer.startswith(DRAIN)


@dataclass(slots=True)
class QueueFacts:
    """All about one subscription."""

    topic: str
    subscription: str
    identity: str
    stays: dict[Place, dict[int, Stay]] = field(default_factory=dict)
    """By place and grant."""
    asks: dict[AskKey, Ask] = field(default_factory=dict)
    sessions: dict[str, Session] = field(default_factory=dict)
    taken: list[Taken] = field(default_factory=list)
    sought: list[Sought] = field(default_factory=list)
    unsubscribed: list[tuple[float, float]] = field(default_factory=list)
    """When deletions of subscriptions of this name, with all leases, were asked for and answered."""
    decisions: list[Decision] = field(default_factory=list)
    rows: list[tuple[Push, Row]] = field(default_factory=list)
    """Every message that was pushed."""
    strays: list[tuple[float, str, Delivery]] = field(default_factory=list)
    """Rows that were handed out and never pushed by that grant."""
    keys: KeyOrder | None = None
    """The keys of its rows, if it is key-shared."""
    letters: dict[Place, Place] = field(default_factory=dict)
    """Places of redriven dead letters, as consumers name them, and where they lie in their own topic."""

    def of_the_topic(self) -> QueueFacts:
        """The same without redriven letters, which have no place in the topic."""
        if not self.letters:
            return self
        lanes = {partition for partition, _ in self.letters}
        stays = {place: stays for place, stays in self.stays.items() if place not in self.letters}
        rows = [(push, row) for push, row in self.rows if row.partition not in lanes]
        return replace(self, stays=stays, rows=rows, keys=self.keys and self.keys.without(lanes), letters={})

    def each_stay(self) -> Iterator[Stay]:
        for stays in self.stays.values():
            yield from stays.values()

    def in_order(self) -> Iterator[list[Stay]]:
        """The stays of each row, by grant."""
        for _, stays in sorted(self.stays.items()):
            yield [stay for _, stay in sorted(stays.items())]

    def may_be_taken(self, stay: Stay, by: float, clocks: LeaseClocks) -> bool:
        """Whether it may have been taken away by then, uncounted."""
        return self.taken_since(stay, clocks) <= by

    def taken_since(self, stay: Stay, clocks: LeaseClocks) -> float:
        """The earliest that it may have been taken away, uncounted: by an operator, because its
        consumer's name has left, or because an earlier row of its key was given back.
        """
        since = clocks.true_after(stay.first.granted)
        by_operator = [taken.invoked for taken in self.taken if taken.ended >= since and taken.consumer in ("", stay.consumer)]
        leaving = [session for session in self.sessions.values() if session.left < inf and session.consumer == stay.consumer]
        by_leaving = [session.left for session in leaving if self._back_at(session) >= since and not _had(session, stay, clocks)]
        revoked = inf if self.keys is None else self.keys.revoked_since(stay, clocks)
        return min([*by_operator, *by_leaving, revoked])

    def _back_at(self, left: Session) -> float:
        """When its name came again after it had left: then the broker had heard that it leaves, or
        never will.
        """
        mine = [each for session in self.sessions.values() if session.consumer == left.consumer for each in session.opened]
        return min((time for time, _, _ in mine if time > left.left), default=inf)


def _had(session: Session, stay: Stay, clocks: LeaseClocks) -> bool:
    """Whether it had come to this consumer before that left: then it was for the consumer to settle. It
    was not if its application never saw it, and the lease had ended by the time that the kit knew.
    """
    came = any(push.session == session.name and push.time <= session.left for push in stay.pushes)
    seen = any(handed.time <= session.left for handed in stay.handed)
    return came and (seen or clocks.latest(session.left) + clocks.late * 1e6 < stay.until(session.left))


def queues_of(events: list[Event]) -> list[QueueFacts]:
    """Sorts the events of every subscription that a stream was opened to. A consumer object has one
    subscription: it never goes on with another one of the same name.
    """
    found: dict[str, QueueFacts] = {}
    sessions: dict[str, QueueFacts] = {}
    for event in events:
        if event.operation == CONSUME and event.kind == OK:
            about = event.queue
            key = f"{event.topic}/{about.subscription}/{about.identity}"
            facts = sessions[event.session] = found.setdefault(key, QueueFacts(event.topic, about.subscription, about.identity))
            if about.mode == KEY_SHARED and facts.keys is None:
                facts.keys = KeyOrder()
    sorting = {key: _Sorting(facts) for key, facts in found.items()}
    places = {session: sorting[f"{facts.topic}/{facts.subscription}/{facts.identity}"] for session, facts in sessions.items()}
    for event in events:
        if event.session in places:
            places[event.session].sort(event)
        elif event.kind != INVOKE and event.operation in (SETTLE, EXTEND, DECIDE):
            for each in sorting.values():
                each.decided(event) if event.operation == DECIDE else each.answered(event)
    lease_takings.sort(found.values(), events)
    return list(found.values())


class _Sorting:
    """Sorts the events of one subscription."""

    def __init__(self, facts: QueueFacts) -> None:
        self._facts = facts
        self._calls: dict[int, Ask] = {}
        self._decides: dict[int, Event] = {}
        self._spans: dict[tuple[str, int], int] = {}
        self._answered: set[int] = set()
        self._extended: dict[tuple[str, int, int], list[Ask]] = {}
        """Extensions of whole grants, by session, partition and grant: they concern rows that are still on their way, too."""

    def sort(self, event: Event) -> None:
        about = event.queue
        session = self._facts.sessions.setdefault(event.session, Session(event.session, event.client, about.consumer))
        if event.operation == CONSUME and event.kind == OK:
            session.opened.append((event.time, about.stream, about.span))
            self._spans[event.session, about.stream] = about.span
        elif event.operation == CONSUME:
            session.ended[about.stream] = event.error
        elif event.operation == CREDIT:
            session.credits.append(Wrote(event.time, about.stream, about.credit))
        elif event.operation == READY:
            session.ready.setdefault(about.stream, event.time)
        elif event.operation == LOST:
            for row in about.rows:
                session.lost.setdefault((row.partition, row.grant), event.time)
        elif event.operation == REVOKED:
            for row in about.rows:
                session.revoked.setdefault((row.place, row.grant), event.time)
        elif event.operation == LEAVE:
            session.left = min(session.left, event.time)
        elif event.operation == CLOSE:
            session.closed = event.time
        elif event.operation == PUSHED:
            self._pushed(session, event)
        elif event.operation == HANDED:
            self._handed(session, event)
        elif event.operation in (SETTLE, EXTEND) and event.kind == INVOKE:
            self._asked(session, event)
        elif event.operation == DECIDE and event.kind == INVOKE:
            self._decides[event.call] = event

    def _stay(self, row: Delivery) -> Stay | None:
        return self._facts.stays.get(row.place, {}).get(row.grant)

    def _pushed(self, session: Session, event: Event) -> None:
        about, span = event.queue, self._spans.get((event.session, event.queue.stream), 0)
        for row, message in zip(about.rows, event.rows, strict=True):
            stays = self._facts.stays.setdefault(row.place, {})
            stay = stays.setdefault(row.grant, Stay(row.place, row.grant, about.consumer))
            if not stay.pushes:
                stay.asks += [(ask, "") for ask in self._extended.get((session.name, row.partition, row.grant), ())]
            if row.home >= 0:
                self._facts.letters[row.place] = row.home, row.offset
            push = Push(event.time, session.name, about.stream, about.now, row.until, row.retries, row.again, span, row.asked)
            stay.pushes.append(push)
            self._facts.rows.append((push, message))
            if self._facts.keys is not None:
                self._facts.keys.add(stay, message)
        if about.rows:
            first = about.rows[0]
            push = Push(event.time, session.name, about.stream, about.now, first.until, first.retries, first.again, span, first.asked)
            session.pushes.append((push, about.rows))

    def _handed(self, session: Session, event: Event) -> None:
        for row in event.queue.rows:
            stay = self._stay(row)
            if stay is None:
                self._facts.strays.append((event.time, session.name, row))
            else:
                stay.handed.append(HandedOut(event.time, session.name, row.retries, row.until))

    def _asked(self, session: Session, event: Event) -> None:
        """A request is written, perhaps again. Where it means all rows of a grant, these are the rows
        that its consumer has got and not named before.
        """
        about = event.queue
        partition = about.rows[0].partition if about.rows else -1
        key = event.operation, session.name, partition, about.request
        ask = self._facts.asks.get(key)
        if ask is None:
            ask = Ask(event.operation, session.name, session.consumer, partition, about.request, about.rows, event.time)
            self._facts.asks[key] = ask
            session.asks.append(ask)
            for row in about.rows:
                if event.operation == EXTEND and not row.offset:
                    self._extended.setdefault((session.name, partition, row.grant), []).append(ask)
                for stay in [self._stay(row)] if row.offset else self._all_of(session, row):
                    if stay is not None:
                        stay.asks.append((ask, row.outcome))
        ask.streams.setdefault(about.stream, event.time)
        self._calls[event.call] = ask

    def _all_of(self, session: Session, part: Delivery) -> list[Stay]:
        mine = [stays[part.grant] for place, stays in self._facts.stays.items() if place[0] == part.partition and part.grant in stays]
        return [
            stay
            for stay in mine
            if any(push.session == session.name for push in stay.pushes)
            and not any(ask.operation == SETTLE and ask.session == session.name for ask, _ in stay.asks)
        ]

    def answered(self, event: Event) -> None:
        """An answer to a request that was written."""
        ask = self._calls.get(event.call)
        if ask is not None:
            refused = frozenset((row.grant, row.offset) for row in event.queue.rows)
            if not ask.answers:
                ask.until, ask.answered_on = event.queue.span, event.queue.stream
            ask.answers.append((event.time, event.queue.now, refused))

    def decided(self, event: Event) -> None:
        """What an application was told."""
        asked = self._decides.get(event.call)
        if asked is None:
            return
        rows = event.queue.rows or asked.queue.rows
        for row in rows:
            told = row.error if event.kind == OK else "?"
            self._facts.decisions.append(Decision(asked.session, asked.time, event.time, row, told))
