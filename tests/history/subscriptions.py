"""How a subscription was made, as a history tells."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from tests.history.events import INVOKE, OK, Event
from tests.history.lease_events import SUBSCRIBE, UNSUBSCRIBE

Backoff = tuple[int, float, int]
NO_BACKOFF: Backoff = (0, 1.0, 0)
DUE_MICROSECONDS = 1_000_000
"""A message that was due so long before the end has come."""


class Subscribed(NamedTuple):
    """How the last subscription of a name was made."""

    invoked: float = -inf
    ended: float = -inf
    start: str = ""
    is_deleted: bool = False
    """Its deletion was asked for after that."""
    where: str = ""
    """Its filter."""
    backoff: Backoff = NO_BACKOFF
    unsettled: str = ""
    """What becomes of its rows when retention reaches them; empty for dropped."""
    keep_max: int = 0

    @property
    def loses_nothing(self) -> bool:
        """Rows that retention reaches stay, or become dead letters."""
        return self.unsettled in ("keep", "dead_letter")

    @property
    def kept_longer(self) -> float:
        """For how long after the retention of their topic it gets rows, in microseconds."""
        return 0.0 if self.unsettled != "keep" else self.keep_max or inf


def subscribed(events: list[Event], topic: str, name: str) -> Subscribed:
    """The last subscription of that name in the topic."""
    mine = [event for event in events if event.topic == topic and event.queue.subscription == name]
    asked = {event.call: event for event in mine if event.operation == SUBSCRIBE and event.kind == INVOKE}
    made = [event for event in mine if event.operation == SUBSCRIBE and event.kind == OK]
    deleted = [event.time for event in mine if event.operation == UNSUBSCRIBE and event.kind == INVOKE]
    if not made:
        return Subscribed(is_deleted=True)
    begun = asked[made[-1].call]
    about, is_deleted = begun.queue, max(deleted, default=-inf) > begun.time
    return Subscribed(begun.time, made[-1].time, about.start, is_deleted, about.where, about.backoff, about.unsettled, about.keep_max)
