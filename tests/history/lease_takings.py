"""What ends leases before their time: an operator who takes them away, and a seek."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from tests.history.events import FAIL, INVOKE, OK, Event
from tests.history.lease_events import SEEK, TAKE_AWAY, UNSUBSCRIBE

if TYPE_CHECKING:
    from tests.history.lease_facts import QueueFacts


class Sought(NamedTuple):
    """The subscription was set to another place."""

    invoked: float
    ended: float
    start: str


class Taken(NamedTuple):
    """An operator took leases away."""

    invoked: float
    ended: float
    consumer: str
    """Whose; empty for all."""


def sort(queues: Iterable[QueueFacts], events: list[Event]) -> None:
    """Sorts them to their subscriptions. A seek takes all leases away, too."""
    calls = {event.call: event for event in events if event.operation in (TAKE_AWAY, SEEK) and event.kind == INVOKE}
    ends = {event.call: event.time for event in events if event.operation in (TAKE_AWAY, SEEK) and event.kind in (OK, FAIL)}
    for call, event in calls.items():
        for facts in queues:
            if (facts.topic, facts.subscription) == (event.topic, event.queue.subscription):
                facts.taken.append(Taken(event.time, ends.get(call, inf), event.queue.consumer))
                if event.operation == SEEK:
                    facts.sought.append(Sought(event.time, ends.get(call, inf), event.queue.start))
    answered = {event.call: event.time for event in events if event.operation == UNSUBSCRIBE and event.kind in (OK, FAIL)}
    for event in events:
        for facts in queues if event.operation == UNSUBSCRIBE and event.kind == INVOKE else ():
            if (facts.topic, facts.subscription) == (event.topic, event.queue.subscription):
                facts.unsubscribed.append((event.time, answered.get(event.call, inf)))
