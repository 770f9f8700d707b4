"""What operators asked about the dead letters of one subscription, and what they were told."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from tests.history.events import INVOKE, OK, UNKNOWN, Event, Row
from tests.history.filtering import passes
from tests.history.lease_events import DRAIN, LIST, REDRIVE

Place = tuple[int, int]


class Listed(NamedTuple):
    """A list of dead letters."""

    invoked: float
    ended: float
    client: str
    letters: tuple[tuple[Row, Place], ...]
    """Each letter where it lies, and the place in the topic that it came from."""

    @property
    def is_last(self) -> bool:
        """When everything was drained, and nothing happened any more."""
        return self.client.startswith(DRAIN)


class Redriven(NamedTuple):
    """A redrive that may have been carried out."""

    invoked: float
    ended: float
    ids: frozenset[str]
    """Those that were named; none for all that pass the filter."""
    where: str
    done: frozenset[Place] | None
    """The letters that the answer has; None without an answer."""

    def may_bring(self, letter: Place, row: Row, time: float) -> bool:
        """Whether a letter may come at a moment because of it."""
        if self.invoked > time:
            return False
        if self.done is not None:
            return letter in self.done
        return row.id in self.ids if self.ids else passes(self.where, row)


class LetterFacts(NamedTuple):
    """Of a subscription's name, over all subscriptions that had it."""

    lists: list[Listed]
    redrives: list[Redriven]


def letters_of(events: list[Event], topic: str, name: str) -> LetterFacts:
    """Those of one subscription."""
    mine = [event for event in events if event.operation in (LIST, REDRIVE) and (event.topic, event.queue.subscription) == (topic, name)]
    ends = {event.call: event for event in mine if event.kind != INVOKE}
    facts = LetterFacts([], [])
    for event in mine:
        if event.kind != INVOKE:
            continue
        end = ends.get(event.call)
        if event.operation == LIST and end is not None and end.kind == OK:
            origins = [origin.place for origin in end.queue.rows]
            facts.lists.append(Listed(event.time, end.time, event.client, tuple(zip(end.rows, origins, strict=True))))
        elif event.operation == REDRIVE and (end is None or end.kind in (OK, UNKNOWN)):
            known = end is not None and end.kind == OK
            done = frozenset((row.partition, row.offset) for row in end.rows if not row.error) if end is not None and known else None
            ended = end.time if end is not None else inf
            facts.redrives.append(Redriven(event.time, ended, frozenset(row.id for row in event.rows), event.queue.where, done))
    return facts
