"""One small function per promise about subscriptions that choose: a filter lets only its messages pass,
and a seek ends leases and has messages come again. `promises_of_draining` says that a filter loses no
message.
"""

from __future__ import annotations

from tests.history.events import Event
from tests.history.facts import Facts
from tests.history.filtering import passes
from tests.history.lease_events import SETTLE, SUBSCRIBE
from tests.history.lease_facts import QueueFacts
from tests.history.lease_time import LeaseClocks
from tests.history.violations import Cases


def filter_of(events: list[Event], topic: str, name: str) -> str:
    """The filter of a subscription: it has the same one whenever it is made."""
    made = (event.queue for event in events if event.operation == SUBSCRIBE and event.topic == topic)
    return next((queue.where for queue in made if queue.subscription == name and queue.where), "")


def only_what_passes_the_filter_comes(queue: QueueFacts, facts: Facts, where: str) -> Cases:
    """A row whose page cannot be read counts as one that passes; it is set aside and never comes."""
    for push, row in queue.rows:
        send = facts.sends.get(row.label)
        if send is not None and not passes(where, send.sent):
            yield f"{push.session} got {row.label} at {queue.topic}/{row.partition}@{row.offset}, which does not pass {where}"


def a_seek_ends_leases(queue: QueueFacts, clocks: LeaseClocks) -> Cases:
    """What was granted before a seek was asked for, and is settled after it was done, is refused. A seek
    does not move dead letters that were sent back: their leases stay.
    """
    del clocks
    for stay in queue.of_the_topic().each_stay():
        for sought in queue.sought:
            if stay.first.time >= sought.invoked:
                continue
            for ask, outcome in stay.asks:
                late = ask.operation == SETTLE and ask.written > sought.ended and bool(ask.answers)
                if late and not ask.refuses(stay.grant, stay.place[1]):
                    row = f"{queue.topic}/{stay.place[0]}@{stay.place[1]}"
                    yield f"{row}: {outcome} by grant {stay.grant} was accepted, asked after the seek of {sought.ended:.3f} s"
