"""One small function per promise about rows that wait in a reader's kit: it does not hand out rows
that have expired or are deleted by then.

The kit's knowledge comes over a connection. So it knows the time a little late, and learns of
another client's deletions by a notice; the `Clocks` of a history say how late that can be. It knows
at once what its own client has done.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.history.events import CREATE, DELETE, INVOKE, OK, OPEN, READ, Event
from tests.history.facts import topics_of
from tests.history.keeping import Clocks, Keeping
from tests.history.violations import Cases, Violation


def over_is_not_handed_out(kept: Keeping) -> Cases:
    """The kit does not hand out a message that has expired, or is older than the retention, however
    long ago it arrived. The kit may know the time late, but not only late: it may have learned at
    once of a longer retention, which keeps what is still there. So every retention counts that was
    in force until the message was handed out.
    """
    if kept.clocks is None:
        return
    for session in kept.facts.sessions.values():
        if not session.reads_ahead:
            continue
        for time, row in session.seen:
            place, moment = (row.partition, row.offset), time - kept.clocks.late
            send = kept.at(*place)
            since = session.opened if kept.clocks.notice is None else max(session.opened, moment - kept.clocks.notice)
            if send is not None and kept.must_be_gone(place, send, moment, since, until=time):
                where = f"{kept.facts.topic}/{row.partition}@{row.offset}"
                yield f"{session.name} handed {row.label} of {where} out at {time:.3f} s, and it was over"


def deleted_is_not_handed_out(kept: Keeping) -> Cases:
    """The kit of a reader does not hand out a deleted message once it knows: when its own client
    was answered, when the notice came, and if connections hold, a moment after any client was
    answered.
    """
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
    """If connections hold, a reader hands out nothing of a topic from a moment after its deletion
    was acknowledged: neither rows that it had, nor rows of the topic that was created again under
    the name.
    """
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
