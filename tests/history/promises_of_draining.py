"""Where a subscription begins, and that it forgets nothing: fresh consumers have taken everything
that was left after healing.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from tests.history.events import INVOKE, OK, Event
from tests.history.filtering import passes
from tests.history.keeping import Keeping
from tests.history.lease_events import ACK, LATEST, SUBSCRIBE, UNSUBSCRIBE
from tests.history.lease_facts import QueueFacts
from tests.history.lease_time import LeaseClocks
from tests.history.violations import Cases

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


def subscribed(events: list[Event], topic: str, name: str) -> Subscribed:
    """The last subscription of that name in the topic."""
    mine = [event for event in events if event.topic == topic and event.queue.subscription == name]
    asked = {event.call: event for event in mine if event.operation == SUBSCRIBE and event.kind == INVOKE}
    made = [event for event in mine if event.operation == SUBSCRIBE and event.kind == OK]
    deleted = [event.time for event in mine if event.operation == UNSUBSCRIBE and event.kind == INVOKE]
    if not made:
        return Subscribed(is_deleted=True)
    begun = asked[made[-1].call]
    return Subscribed(begun.time, made[-1].time, begun.queue.start, max(deleted, default=-inf) > begun.time, begun.queue.where)


def nothing_is_forgotten(queue: QueueFacts, made: Subscribed, kept: Keeping, clocks: LeaseClocks) -> Cases:
    """Invariant 8: every message that is there at the end, and that the subscription has to deliver,
    was acked, or is a dead letter; or its ack was not answered, and then it was carried out, for else it
    would have come again.
    """
    facts = kept.facts
    drained = max((session.closed for session in queue.sessions.values() if session.is_drain and session.closed < inf), default=inf)
    if drained == inf:
        return
    for place, row in sorted(facts.final.items()):
        send = facts.sends.get(row.label)
        if (queue.identity, *place) in clocks.damaged | clocks.buried:
            continue
        if send is None or (made.start == LATEST and send.invoked < made.ended) or kept.may_be_gone(place, facts.over, send):
            continue
        if kept.clocks is not None and send.sent.due > kept.clocks.earliest(drained) - DUE_MICROSECONDS:
            continue  # it need not have been due when the queue was drained; others are drained after it
        if not passes(made.where, send.sent):
            continue
        since = max((sought.invoked for sought in queue.sought), default=-inf)  # the last one goes back to the beginning
        stays = {grant: stay for grant, stay in queue.stays.get(place, {}).items() if stay.pushes[-1].time >= since}
        if not any(outcome == ACK and not ask.refuses(stay.grant, place[1]) for stay in stays.values() for ask, outcome in stay.asks):
            seen = f"it came by {[stay.grant for stay in stays.values()]}" if stays else "it never came"
            yield f"{row.label} of {queue.topic}/{place[0]}@{place[1]} was never acked for {queue.subscription}, and {seen}"


def latest_is_later(queue: QueueFacts, made: Subscribed, kept: Keeping, clocks: LeaseClocks) -> Cases:
    """A subscription from the latest on gets nothing that was acknowledged before it was asked for."""
    del clocks
    if made.start != LATEST:
        return
    for _, row in queue.rows:
        send = kept.facts.sends.get(row.label)
        if send is not None and send.acknowledged and send.ended < made.invoked and not send.answer.duplicate:
            stored = f"{row.label} of {queue.topic} was stored at {send.ended:.3f} s"
            yield f"{stored}, and came to {queue.subscription}, which was made at {made.invoked:.3f} s"


CHECKERS = (nothing_is_forgotten, latest_is_later)
