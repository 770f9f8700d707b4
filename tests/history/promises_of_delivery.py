"""One small function per promise about rows that wait in a reader's kit: what is over by then, or deleted, is not handed out.

What the kit knows comes over a connection. So what time it is it knows a little late, and what another client has done it knows when it was
told; how late that can be stands in the `Clocks` of a history. What its own client has done it knows at once.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.history.events import CREATE, DELETE, INVOKE, OK, OPEN, READ, Event
from tests.history.facts import topics_of
from tests.history.keeping import Clocks, Keeping
from tests.history.violations import Cases, Violation


def over_is_not_handed_out(kept: Keeping) -> Cases:
    """What has expired, or is older than its topic keeps messages, is not handed out, however long ago it has come."""
    if kept.clocks is None:
        return
    for session in kept.facts.sessions.values():
        if not session.reads_ahead:
            continue
        for time, row in session.seen:
            place, moment = (row.partition, row.offset), time - kept.clocks.late
            send = kept.at(*place)
            since = session.opened if kept.clocks.notice is None else max(session.opened, moment - kept.clocks.notice)
            if send is not None and kept.must_be_gone(place, send, moment, since):
                where = f"{kept.facts.topic}/{row.partition}@{row.offset}"
                yield f"{session.name} handed {row.label} of {where} out at {time:.3f} s, and it was over"


def deleted_is_not_handed_out(kept: Keeping) -> Cases:
    """A message that was deleted is not handed out once the kit of its reader knows: when its own client was answered, when it was told,
    and where connections hold, a moment after anybody was answered."""
    notice = kept.clocks.notice if kept.clocks is not None else None
    answered = {(each.partition, each.offset): each for each in reversed(kept.facts.deletions) if each.offset}
    for session in kept.facts.sessions.values():
        if not session.reads_ahead:
            continue
        own = {(each.partition, each.offset): each for each in kept.facts.deletions if each.offset and each.client == session.client}
        for time, row in session.seen:
            place = row.partition, row.offset
            where = f"{session.name} handed {row.label} of {kept.facts.topic}/{row.partition}@{row.offset} out at {time:.3f} s"
            if place in own and time > own[place].ended:
                yield f"{where}, and its own client had deleted it at {own[place].ended:.3f} s"
            elif time > session.noticed.get(place, time):
                yield f"{where}, and was told at {session.noticed[place]:.3f} s that it was deleted"
            elif notice is not None and place in answered and time > answered[place].ended + notice:
                yield f"{where}, and it was deleted at {answered[place].ended:.3f} s"


CHECKERS: tuple[Callable[[Keeping], Cases], ...] = (over_is_not_handed_out, deleted_is_not_handed_out)


def a_deleted_topic_ends_its_readers(events: list[Event], clocks: Clocks) -> list[Violation]:
    """Where connections hold, a reader hands out nothing of a topic a moment after its deletion was acknowledged: not what it had, and
    nothing of the topic that was made again under the name."""
    if clocks.notice is None:
        return []
    return [
        Violation("a_deleted_topic_ends_its_readers", case)
        for topic in topics_of(events)
        for case in _went_on([event for event in events if event.topic == topic], clocks.notice)
    ]


def _went_on(events: list[Event], notice: float) -> Cases:
    """A reader that opens while the topic is being made again may be one of the new topic."""
    asked = {event.call: event.time for event in events if event.operation == DELETE and event.kind == INVOKE}
    deletions = [(asked[event.call], event.time) for event in events if event.operation == DELETE and event.kind == OK]
    creations = [event.time for event in events if event.operation == CREATE and event.kind == OK]
    opened = {event.session: event.time for event in events if event.operation == OPEN and event.kind == OK and event.reads_ahead}
    for event in events:
        begun = opened.get(event.session) if event.operation == READ and event.rows else None
        if begun is None:
            continue
        for invoked, answered in deletions:
            placed = begun + notice
            if any(made > begun for made in creations if made < invoked) or placed > invoked:
                continue
            if event.time > answered + notice:
                what = f"{event.session} handed {event.rows[0].label} out at {event.time:.3f} s"
                yield f"{what}, and the topic was deleted at {answered:.3f} s"
                break
