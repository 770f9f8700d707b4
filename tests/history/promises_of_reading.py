"""One small function per promise of readers with a name, a filter or a moment: positions, filters,
and where a moment is.

A name belongs to one client of a history, which does one thing after the other. A commit without an
answer may have landed or not, and may land late: its offsets count as "maybe" until something
shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf

from tests.history.events import COMMIT, FAIL, FORGET, INVOKE, LOOK, OBSERVE, OK, OPEN, SET, UNKNOWN, Event
from tests.history.filtering import passes
from tests.history.keeping import Keeping
from tests.history.violations import Cases, Violation

Promise = Callable[[Keeping, list[Event]], Cases]


class Place:
    """What is known of one position in one partition."""

    def __init__(self) -> None:
        self.known = 0
        """Where it was put for certain, 0 if nowhere."""
        self.maybe: list[int] = []
        """Where it may have been put since, or may yet be."""

    def may_be_at(self, offset: int) -> bool:
        return offset == self.known or (offset in self.maybe and offset > self.known)


def positions_go_only_forward(kept: Keeping, events: list[Event]) -> Cases:
    """A position is where it was committed last: after any restart, never before that, and never
    further than anybody asked for. Only setting it moves it back, and only deleting it makes it go.
    """
    for name, mine in _by_name(events).items():
        places: dict[int, Place] = {}
        asked: dict[int, Event] = {}
        for event in mine:
            offsets = {row.partition: row.offset for row in event.rows}
            if event.operation in (OPEN, LOOK):
                yield from _resumed(kept, name, event, places)
            elif event.kind == INVOKE:
                asked[event.call] = event
                for partition, offset in offsets.items():
                    places.setdefault(partition, Place()).maybe.append(offset)
            elif event.operation == FORGET:
                for place in places.values() if event.kind == OK else ():
                    place.known = 0
            elif event.call in asked:
                yield from _ended(kept, name, event, asked[event.call], places)


def _resumed(kept: Keeping, name: str, event: Event, places: dict[int, Place]) -> Cases:
    for row in event.rows:
        place = places.setdefault(row.partition, Place())
        if not place.may_be_at(row.offset):
            where = f"{kept.facts.topic}/{row.partition}@{row.offset}"
            known = f"put at {place.known}, perhaps at {place.maybe}"
            yield f"{name} was found at {where} ({event.time:.3f} s), and it was {known}"
        place.known = max(place.known, row.offset)


def _ended(kept: Keeping, name: str, event: Event, asked: Event, places: dict[int, Place]) -> Cases:
    topic, offsets = kept.facts.topic, {row.partition: row.offset for row in asked.rows}
    if event.kind == UNKNOWN:
        return
    for partition, offset in offsets.items():
        places[partition].maybe.remove(offset)
    if event.kind == OK:
        for partition, offset in offsets.items():
            place = places[partition]
            if asked.operation == COMMIT and offset < place.known:
                yield f"{name} was committed at {topic}/{partition}@{offset} ({event.time:.3f} s), and it was at {place.known}"
            place.known = offset
    elif (
        event.error == "conflict"
        and not kept.facts.made_anew
        and not any(o < max((places[p].known, *places[p].maybe)) for p, o in offsets.items())
    ):
        yield f"{name} was not committed at {offsets} of {topic} ({event.error}, {event.time:.3f} s), and was nowhere further"


def a_delete_knows_its_own_work(kept: Keeping, events: list[Event]) -> Cases:
    """Who deletes a position that is there is never told that there is none: not even if the kit
    had to ask twice, because the answer to the first request was lost.
    """
    if kept.facts.made_anew:
        return
    for name, mine in _by_name(events).items():
        there: dict[int, int] = {}
        asked: dict[int, Event] = {}
        for event in mine:
            if event.kind == INVOKE:
                asked[event.call] = event
            elif event.operation == FORGET:
                if event.kind == FAIL and event.error == "not-found" and there:
                    yield f"{name} was deleted at {event.time:.3f} s and told {event.error!r}, and it was at {there} of {kept.facts.topic}"
                there = {}
            elif event.kind == OK and event.operation != OPEN:
                there.update((row.partition, row.offset) for row in asked.get(event.call, event).rows if row.offset)


def nobody_sees_a_position_fall(kept: Keeping, events: list[Event]) -> Cases:
    """Where anybody was told that a position is, it is there or further on for everybody who asks
    later; unless it was ever set or deleted.
    """
    if kept.facts.made_anew:
        return
    for name, mine in _by_name(events, others=True).items():
        if any(event.operation in (SET, FORGET) for event in mine):
            continue
        told: list[tuple[float, int, int]] = []
        asked: dict[int, Event] = {}
        for event in mine:
            if event.operation == OBSERVE:
                yield from _fallen(kept, name, event, told)
            if event.operation == COMMIT and event.kind == INVOKE:
                asked[event.call] = event
            elif event.kind == OK:
                told += [(event.time, row.partition, row.offset) for row in asked.get(event.call, event).rows]


def _fallen(kept: Keeping, name: str, event: Event, told: list[tuple[float, int, int]]) -> Cases:
    found = {row.partition: row.offset for row in event.rows}
    for time, partition, offset in told:
        if time < event.asked and offset > found.get(partition, 0):
            where = f"{kept.facts.topic}/{partition}@{found.get(partition, 0)}"
            yield f"{event.client} saw {name} at {where} ({event.time:.3f} s), and it was told to be at {offset} at {time:.3f} s"
            return


def committed_was_handed_out(kept: Keeping, events: list[Event]) -> Cases:
    """A position that a reader commits is behind what it has handed out: it had every message
    before it that is there and passes the filter.
    """
    facts = kept.facts
    by_partition: dict[int, list[int]] = {}
    for partition, offset in sorted(kept.places()):
        by_partition.setdefault(partition, []).append(offset)
    for event in events:
        session = facts.sessions.get(event.session) if event.operation == COMMIT and event.kind == INVOKE else None
        if session is None:
            continue
        seen = {(row.partition, row.offset) for time, row in session.seen if time <= event.time}
        for commit in event.rows:
            start = session.starts.get(commit.partition, 1 << 62)
            for offset in by_partition.get(commit.partition, []):
                place = commit.partition, offset
                if not start <= offset < commit.offset or place in seen:
                    continue
                send = kept.places()[place]
                if passes(session.where, send.sent) and not kept.may_be_gone(place, event.time) and not kept.has_expired(send, event.time):
                    where = f"{facts.topic}/{commit.partition}@{offset}"
                    yield f"{session.name} committed {commit.offset} at {event.time:.3f} s, and never had {send.label} at {where}"


def only_what_passes_is_read(kept: Keeping, events: list[Event]) -> Cases:
    """A reader with a filter gets nothing else."""
    for session in kept.facts.sessions.values():
        for time, row in session.seen:
            if not passes(session.where, row):
                yield f"{session.name} read {row.label} at {time:.3f} s, which is not {session.where}"


def a_moment_is_where_it_was(kept: Keeping, events: list[Event]) -> Cases:
    """A reader from a moment on begins with the first message that arrived then or later. If the
    broker's clock was set back, and the moment is still in the future, that message is not sent
    yet: a reader cannot skip what was not there when it asked.
    """
    facts = kept.facts
    stored = {label: send.ended for label, send in facts.sends.items() if send.acknowledged}
    for session in facts.sessions.values():
        if not session.since:
            continue
        for place, row in facts.rows.items():
            start = session.starts.get(place[0], 0)
            where = f"{session.name} from {session.since} on began at {facts.topic}/{place[0]}@{start}"
            if row.arrived < session.since and place[1] >= start > 0 and stored.get(row.label, inf) < session.asked:
                yield f"{where}, and @{place[1]} arrived at {row.arrived} already"
            elif row.arrived >= session.since and place[1] < start and not kept.may_be_gone(place, session.opened):
                yield f"{where}, and @{place[1]} arrived at {row.arrived} only"


CHECKERS: tuple[Promise, ...] = (
    positions_go_only_forward,
    a_delete_knows_its_own_work,
    nobody_sees_a_position_fall,
    committed_was_handed_out,
    only_what_passes_is_read,
    a_moment_is_where_it_was,
)


def filtered_bytes_never_travel(sent: Iterable[tuple[float, str, str, frozenset[str]]], events: list[Event]) -> list[Violation]:
    """Invariant 13: no bytes of a message that a filter keeps back are in anything that its reader
    is sent, padding included.

    `sent` are the moments at which something was taken for a reader, with the topic, the filter,
    and the labels in the raw bytes.
    """
    rows = {row.label: row for event in events if event.operation == "publish" and event.kind == INVOKE for row in event.rows}
    return [
        Violation("filtered_bytes_never_travel", f"{label} of {topic} was taken at {time:.3f} s for a reader of {where}")
        for time, topic, where, labels in sent
        for label in sorted(labels & rows.keys())
        if not passes(where, rows[label])
    ]


def check(events: list[Event], kept: Keeping) -> list[Violation]:
    """Every broken promise about one topic."""
    facts = kept.facts
    mine = [event for event in events if event.topic == facts.topic and event.time >= facts.created]
    return [Violation(checker.__name__, case) for checker in CHECKERS for case in checker(kept, mine)]


def _by_name(events: list[Event], *, others: bool = False) -> dict[str, list[Event]]:
    """The events of each position, from calls to this topic; with the observations of other clients
    if they are wanted.
    """
    looks = (OPEN, LOOK, OBSERVE) if others else (OPEN, LOOK)
    found: dict[str, list[Event]] = {}
    names: dict[int, str] = {}
    for event in events:
        if event.operation in (COMMIT, SET, FORGET) and event.kind == INVOKE:
            names[event.call] = event.producer
        moved = event.operation in (COMMIT, SET, FORGET)
        name = names.get(event.call, "") if moved else event.producer if event.operation in looks else ""
        if name:
            found.setdefault(name, []).append(event)
    return found
