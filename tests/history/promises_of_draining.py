"""Where a subscription begins, and that it forgets nothing: fresh consumers have taken everything
that was left after healing.
"""

from __future__ import annotations

from math import inf

from tests.history.facts import Send
from tests.history.filtering import passes
from tests.history.keeping import Keeping
from tests.history.lease_events import ACK, LATEST
from tests.history.lease_facts import QueueFacts
from tests.history.lease_time import LeaseClocks
from tests.history.promises_of_schedules import comes_again, what_is_due_comes
from tests.history.subscriptions import DUE_MICROSECONDS, Subscribed
from tests.history.violations import Cases


def nothing_is_forgotten(queue: QueueFacts, made: Subscribed, kept: Keeping, clocks: LeaseClocks) -> Cases:
    """Invariant 8: every message that is there at the end, and that the subscription has to deliver,
    was acked, or is a dead letter; or its ack was not answered, and then it was carried out, for else it
    would have come again. Messages that retention has reached count too if the subscription keeps them or
    has dead letters of them.
    """
    drained = max((session.closed for session in queue.sessions.values() if session.is_drain and session.closed < inf), default=inf)
    if drained == inf:
        return
    for place, send in sorted(_of_the_queue(made, kept).items()):
        if (queue.identity, *place) in clocks.damaged | clocks.buried:
            continue
        if (made.start == LATEST and send.invoked < made.ended) or _may_be_gone(made, kept, place, send):
            continue
        if kept.clocks is not None and kept.due_at_most(place, send) > kept.clocks.earliest(drained) - DUE_MICROSECONDS:
            continue  # it need not have been due when the queue was drained; others are drained after it
        if not passes(made.where, send.sent):
            continue
        since = max((sought.invoked for sought in queue.sought), default=-inf)  # the last one goes back to the beginning
        stays = {grant: stay for grant, stay in queue.stays.get(place, {}).items() if stay.pushes[-1].time >= since}
        again = comes_again(list(stays.values()), made.backoff, clocks)
        if again > min(clocks.earliest(drained), kept.clocks.earliest(drained) if kept.clocks is not None else inf) - DUE_MICROSECONDS:
            continue  # it waits since a nack, or an expiry
        if not any(outcome == ACK and not ask.refuses(stay.grant, place[1]) for stay in stays.values() for ask, outcome in stay.asks):
            seen = f"it came by {[stay.grant for stay in stays.values()]}" if stays else "it never came"
            yield f"{send.label} of {queue.topic}/{place[0]}@{place[1]} was never acked for {queue.subscription}, and {seen}"


def _of_the_queue(made: Subscribed, kept: Keeping) -> dict[tuple[int, int], Send]:
    """The messages that it may have to deliver, by their places."""
    facts = kept.facts
    final = {place: send for place, row in facts.final.items() if (send := facts.sends.get(row.label)) is not None}
    if not made.loses_nothing:
        return final
    return final | {place: send for place, send in kept.places().items() if send.acknowledged and send.invoked > made.ended}


def _may_be_gone(made: Subscribed, kept: Keeping, place: tuple[int, int], send: Send) -> bool:
    """Whether no one has to deliver it any more."""
    over = kept.facts.over
    if not made.loses_nothing:
        return kept.may_be_gone(place, over, send)
    if kept.may_be_deleted(send, over) or kept.has_expired(send, over):
        return True
    return bool(made.keep_max) and kept.too_old(place, send, over, made.keep_max)


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


CHECKERS = (nothing_is_forgotten, latest_is_later, what_is_due_comes)
