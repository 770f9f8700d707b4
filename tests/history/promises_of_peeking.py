"""One small function per promise about peeks and leases by id. A peek shows what waits and takes nothing:
that no count rises and no credit is used by it is for the promises of pushes and retry counts to say. A
lease by id is a lease as any other; each id that was asked for is leased, or refused with a reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import NamedTuple

from tests.history.events import INVOKE, OK, Event, Row
from tests.history.filtering import passes
from tests.history.lease_events import ACK, BY_ID, PEEK, SETTLE
from tests.history.lease_facts import QueueFacts, Stay
from tests.history.lease_time import LeaseClocks
from tests.history.violations import Cases


class Look(NamedTuple):
    """A peek or a lease by id, and its answer."""

    invoked: float
    ended: float
    session: str
    where: str
    asked: tuple[Row, ...]
    rows: tuple[Row, ...]


def a_peek_shows_what_waits(queue: QueueFacts, events: list[Event], clocks: LeaseClocks) -> Cases:
    """No message that was acked before, none that a consumer holds all the time, and none that does not
    pass the filter.
    """
    for look in _looks(queue, events, PEEK):
        for row in look.rows:
            where = f"{look.session} saw {row.label} at {queue.topic}/{row.partition}@{row.offset} at {look.ended:.3f} s"
            if not passes(look.where, row):
                yield f"{where}, which does not pass {look.where}"
            for stay in queue.stays.get((row.partition, row.offset), {}).values():
                if not queue.sought and (acked := _acked(stay)) < look.invoked:
                    yield f"{where}, and it was acked for {queue.subscription} at {acked:.3f} s"
                elif _held(queue, stay, look, clocks):
                    yield f"{where}, and {stay.consumer} held it by grant {stay.grant} until {stay.until(look.ended)}"


def an_id_is_leased_or_refused(queue: QueueFacts, events: list[Event], clocks: LeaseClocks) -> Cases:
    """Each id has one answer. What came was not acked before; what is refused as taken was not, either."""
    del clocks
    acks: dict[str, float] = {}
    for _, row in queue.rows:
        for stay in queue.stays.get((row.partition, row.offset), {}).values():
            acks[row.id] = min(_acked(stay), acks.get(row.id, inf))
    places: dict[str, set[tuple[int, int]]] = {}
    for _, row in queue.rows:
        places.setdefault(row.id, set()).add((row.partition, row.offset))
    for look in _looks(queue, events, BY_ID):
        answers = [row.id for row in look.rows]
        for asked in look.asked if look.rows else ():
            if answers.count(asked.id) != 1:
                yield f"{look.session} asked for {asked.id} at {look.invoked:.3f} s, and got {answers.count(asked.id)} answers"
        for row in look.rows:
            taken = row.error == "lease-taken" and not queue.sought and len(places.get(row.id, ())) == 1
            if taken and acks.get(row.id, inf) < look.invoked:
                where = f"{look.session} was told at {look.ended:.3f} s that {row.id} of {queue.topic} is taken"
                yield f"{where}, and it was acked for {queue.subscription} at {acks[row.id]:.3f} s"


def _acked(stay: Stay) -> float:
    return min((ask.answered for ask in stay.settled(ACK)), default=inf)


def _held(queue: QueueFacts, stay: Stay, look: Look, clocks: LeaseClocks) -> bool:
    """Whether it was certainly held all the time."""
    if stay.first.time > look.invoked or any(ask.operation == SETTLE and ask.written <= look.ended for ask, _ in stay.asks):
        return False
    return stay.until(look.invoked) > clocks.latest(look.ended) and not queue.may_be_taken(stay, look.ended, clocks)


def _looks(queue: QueueFacts, events: list[Event], operation: str) -> Iterator[Look]:
    asked = {event.call: event for event in events if event.operation == operation and event.kind == INVOKE}
    for event in events:
        if event.operation == operation and event.kind == OK and event.call in asked:
            begun = asked[event.call]
            if begun.session in queue.sessions:
                yield Look(begun.time, event.time, begun.session, begun.queue.where, begun.rows, event.rows)


CHECKERS = (a_peek_shows_what_waits, an_id_is_leased_or_refused)
