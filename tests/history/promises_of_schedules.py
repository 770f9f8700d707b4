"""One small function per promise about what comes later: messages that were published for later, moved
or cancelled, and rows that were nacked with a time or that wait because of a backoff. None comes early.
"""

from __future__ import annotations

from itertools import pairwise
from math import inf

from tests.history.events import Event
from tests.history.facts import Moved, Send
from tests.history.filtering import passes
from tests.history.keeping import Keeping
from tests.history.lease_events import LATEST, NACK, SETTLE, SUBSCRIBE, Delivery
from tests.history.lease_facts import Ask, QueueFacts, Stay
from tests.history.lease_time import LeaseClocks
from tests.history.moves import in_force
from tests.history.subscriptions import DUE_MICROSECONDS, NO_BACKOFF, Backoff, Subscribed
from tests.history.violations import Cases

ROUNDED = 10
"""How far a wait may be rounded, in microseconds."""


def backoff_of(events: list[Event], topic: str, name: str) -> Backoff:
    """The backoff of a subscription: it has the same one whenever it is made."""
    made = (event.queue for event in events if event.operation == SUBSCRIBE and event.topic == topic)
    return next((queue.backoff for queue in made if queue.subscription == name and queue.backoff[0]), NO_BACKOFF)


def nothing_comes_before_it_is_due(queue: QueueFacts, kept: Keeping, clocks: LeaseClocks) -> Cases:
    """By the clock of schedules, as far ahead as it may have been when the broker pushed the row."""
    del clocks
    if kept.clocks is None:
        return
    for push, row in queue.rows:
        if row.due > (now := kept.clocks.latest_due(push.time)):
            early = (row.due - now) / 1e6
            yield f"{row.label} of {queue.topic} came to {queue.subscription} at {push.time:.3f} s, {early:.3f} s before it was due"


def a_moved_row_waits_for_its_new_time(queue: QueueFacts, kept: Keeping, clocks: LeaseClocks) -> Cases:
    """Whatever the row itself says: it comes no earlier than the earliest moment to which it may have
    been moved by then.
    """
    del clocks
    if kept.clocks is None:
        return
    for push, row in queue.rows:
        send = kept.facts.sends.get(row.label)
        if send is None or not kept.facts.moves or push.again:
            continue
        moves = in_force(kept.facts, send, (row.partition, row.offset), push.time, push.time)
        due = min(move.due for move in moves)
        if due > (now := kept.clocks.latest_due(push.time)):
            where = f"{row.label} of {queue.topic}/{row.partition}@{row.offset} came to {queue.subscription} at {push.time:.3f} s"
            yield f"{where}, {(due - now) / 1e6:.3f} s before the moment that it was moved to"


def a_reader_sees_the_new_due_time(kept: Keeping) -> Cases:
    """A reader that begins after a move was acknowledged sees the new due time, or a later one."""
    facts = kept.facts
    for session in facts.sessions.values() if facts.moves else ():
        for time, row in session.seen:
            send = facts.sends.get(row.label)
            moves = in_force(facts, send, (row.partition, row.offset), session.opened, time) if send is not None else []
            if moves and not any(_may_show(row.due, move, send) for move in moves):
                where = f"{session.name} read {row.label} of {facts.topic}/{row.partition}@{row.offset}"
                yield f"{where} at {time:.3f} s as due at {row.due}, and it was moved to {moves[-1].due} before"


def _may_show(due: int, move: Moved, send: Send | None) -> bool:
    """A moment that has passed means now, which is later."""
    return due == move.due or (move.invoked > -inf and due > move.due and send is not None and due != send.sent.due)


def what_is_due_comes(queue: QueueFacts, made: Subscribed, kept: Keeping, clocks: LeaseClocks) -> Cases:
    """A message that was published for later, and was due a second before fresh consumers ended, has
    come by then: also without a restart, which begins schedules anew.
    """
    ends = sorted({session.closed for session in queue.sessions.values() if session.is_drain and session.closed < inf})
    if kept.clocks is None or queue.sought:
        return
    for place, send in kept.places().items():
        known = send.sent.due and send.acknowledged and not send.answer.duplicate and passes(made.where, send.sent)
        if not known or (made.start == LATEST and send.invoked < made.ended) or (queue.identity, *place) in clocks.damaged | clocks.buried:
            continue
        for end in ends:
            ripe = max(kept.due_at_most(place, send), kept.clocks.origin + send.ended * 1e6) < kept.clocks.earliest(end) - DUE_MICROSECONDS
            came = any(stay.first.time <= end for stay in queue.stays.get(place, {}).values())
            if ripe and not came and not kept.may_be_gone(place, end, send):
                where = f"{send.label} of {queue.topic}/{place[0]}@{place[1]}"
                yield f"{where} had not come to {queue.subscription} at {end:.3f} s, and was due"


def a_cancel_after_the_due_time_is_refused(queue: QueueFacts, kept: Keeping, clocks: LeaseClocks) -> Cases:
    """What was certainly due before it was to be cancelled is not, unless another delete has taken it."""
    del queue, clocks
    facts = kept.facts
    if kept.clocks is None:
        return
    for cancel in facts.deletions:
        place = cancel.partition, cancel.offset
        send = kept.at(*place) if cancel.is_cancel and cancel.offset else None
        if send is None or any(other is not cancel and other.id == cancel.id for other in facts.deletions):
            continue
        if kept.due_at_most(place, send) < kept.clocks.earliest(cancel.invoked):
            yield f"{send.label} of {facts.topic}/{place[0]}@{place[1]} was cancelled after {cancel.invoked:.3f} s, and was due before"


def a_nacked_row_waits(queue: QueueFacts, kept: Keeping, clocks: LeaseClocks) -> Cases:
    """A row that was nacked with a span or a moment does not come before that is over. A span begins
    when the broker gets the nack, and runs by the clock of leases; a moment is one of schedules.
    """
    for stays in queue.in_order():
        for stay, after in pairwise(stays):
            for ask, later in _nacks(stay):
                if _sought(queue, stay, after):
                    continue
                if later < 0 and _granted(after, clocks) + ROUNDED < (until := clocks.earliest(ask.written) - later):
                    yield f"{_came(queue, after)}, {(until - _granted(after, clocks)) / 1e6:.3f} s before its nack's delay was over"
                if later > 0 and kept.clocks is not None and later > kept.clocks.latest_due(after.first.time):
                    early = (later - kept.clocks.latest_due(after.first.time)) / 1e6
                    yield f"{_came(queue, after)}, {early:.3f} s before the moment of its nack"


def a_backoff_grows(queue: QueueFacts, backoff: Backoff, clocks: LeaseClocks) -> Cases:
    """A row that failed waits, the longer the oftener it has failed: after a nack without a time from
    when the broker got it, after an expiry from the end of the lease.
    """
    for stays in queue.in_order() if backoff[0] else ():
        for stay, after in pairwise(stays):
            if _sought(queue, stay, after) or queue.taken_since(stay, clocks) <= after.first.time:
                continue
            wait = wait_after(backoff, stay.first.retries + 1)
            nacks = [ask for ask, later in _nacks(stay) if not later]
            settles = [ask for ask, _ in stay.asks if ask.operation == SETTLE]
            if nacks:
                since = clocks.earliest(nacks[0].written)
            elif not settles and stay.until_perhaps() < inf and after.first.retries > stay.first.retries:  # else it was revoked
                since = float(stay.until())
            else:
                continue
            if (granted := _granted(after, clocks)) + ROUNDED < since + wait:
                failed = f"after {stay.first.retries + 1} failures a row waits {wait / 1e6:g} s"
                yield f"{_came(queue, after)}, {(since + wait - granted) / 1e6:.3f} s early: {failed}"


def wait_after(backoff: Backoff, failures: int) -> float:
    """How long a row waits after so many failures, in microseconds: multiplied step by step."""
    first, factor, most = backoff
    wait = float(first)
    for _ in range(min(failures - 1, 1000)):
        wait = min(most, wait * factor)
    return min(most, wait)


def comes_again(stays: list[Stay], backoff: Backoff, clocks: LeaseClocks) -> float:
    """The latest moment at which a row that came by these comes again, by the clock of leases; it is
    the one of schedules, too, as far as a nack names one.
    """
    asks = [(ask, row.later) for stay in stays for ask in _asked(stay) for row in _rows(ask, stay)]
    ends = [later if later > 0 else clocks.latest(min(ask.answered, ask.written + 60.0)) - later for ask, later in asks if later]
    ends += [clocks.latest(min(ask.answered, ask.written + 60.0)) + backoff[2] for ask, later in asks if not later and backoff[0]]
    ends += [stay.until() + backoff[2] for stay in stays if backoff[0]]
    return max(ends, default=-inf)


def _asked(stay: Stay) -> list[Ask]:
    return [ask for ask, outcome in stay.asks if outcome == NACK]


def _rows(ask: Ask, stay: Stay) -> list[Delivery]:
    return [row for row in ask.rows if row.grant == stay.grant and row.offset in (0, stay.place[1]) and row.outcome == NACK]


def _nacks(stay: Stay) -> list[tuple[Ask, int]]:
    """Nacks that were carried out, and when the row was to come again."""
    return [(ask, row.later) for ask in stay.settled(NACK) for row in _rows(ask, stay)[:1]]


def _sought(queue: QueueFacts, stay: Stay, after: Stay) -> bool:
    """Whether the subscription may have been set to another place between: then rows come anew."""
    return any(sought.ended >= stay.first.time and sought.invoked <= after.first.time for sought in queue.sought)


def _granted(stay: Stay, clocks: LeaseClocks) -> float:
    push = stay.first
    return clocks.latest(push.time) if push.again else push.granted


def _came(queue: QueueFacts, stay: Stay) -> str:
    return f"{queue.topic}/{stay.place[0]}@{stay.place[1]} came to {queue.subscription} by grant {stay.grant} at {stay.first.time:.3f} s"


CHECKERS = (
    nothing_comes_before_it_is_due,
    a_moved_row_waits_for_its_new_time,
    a_cancel_after_the_due_time_is_refused,
    a_nacked_row_waits,
)
