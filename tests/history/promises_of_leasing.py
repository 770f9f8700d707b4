"""One small function per promise about leases: a row has one at a time, a grant is used once, an
active lease keeps its row.

A lease ends at its moment, by the clock that leases run by; when its consumer gives the row back;
when an operator takes it away. An ack ends it too, and then the row never comes again.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.history.facts import Facts
from tests.history.keeping import Keeping
from tests.history.lease_facts import QueueFacts, Stay
from tests.history.lease_time import LeaseClocks
from tests.history.subscriptions import Subscribed
from tests.history.violations import Cases

Promise = Callable[[QueueFacts, LeaseClocks], Cases]
ROUNDED = 2
"""How far a moment may be rounded on its way, in microseconds."""


def one_lease_at_a_time(queue: QueueFacts, clocks: LeaseClocks) -> Cases:
    """Invariant 7: no row comes to a consumer before the lease of the one before has ended: by true
    time as far as clocks allow, and by the moments that the broker itself has told.
    """
    for stays in queue.in_order():
        for at, later in enumerate(stays):
            for earlier in stays[:at]:
                push = later.first
                if earlier.given_back(push.time) or queue.may_be_taken(earlier, push.time, clocks):
                    continue
                until = earlier.until()
                where = f"{_row(queue, later)} came to {later.consumer} by grant {later.grant} at {push.time:.3f} s"
                held = f"{earlier.consumer} held it by grant {earlier.grant} until {until}"
                if until > clocks.latest(push.time):
                    yield f"{where}, and {held}, which is {(until - clocks.latest(push.time)) / 1e6:.3f} s later"
                elif not push.again and until > push.granted + ROUNDED:
                    yield f"{where}, granted at {push.granted}, and {held}"


def a_grant_is_used_once(queue: QueueFacts, clocks: LeaseClocks) -> Cases:
    """A grant belongs to one consumer. A row comes by it once, and again only on another stream; and
    numbers rise with time.
    """
    owners: dict[tuple[int, int], tuple[str, int]] = {}
    for session in queue.sessions.values():
        for push, rows in session.pushes:
            key = rows[0].partition, rows[0].grant
            owner, granted = owners.setdefault(key, (session.consumer, 0 if push.again else push.granted))
            where = f"grant {key[1]} of partition {key[0]} of {queue.topic}/{queue.subscription}"
            if owner != session.consumer:
                yield f"{where} was pushed to {owner} and to {session.consumer}"
            elif not push.again and granted and abs(push.granted - granted) > ROUNDED:
                yield f"{where} was granted at {granted} and at {push.granted}"
            elif not granted and not push.again:
                owners[key] = owner, push.granted
    for stay in queue.each_stay():
        if sum(not push.again for push in stay.pushes) > 1:
            yield f"{_row(queue, stay)} was pushed twice by grant {stay.grant}, for the first time each"
        streams = [(push.session, push.stream) for push in stay.pushes]
        if len(set(streams)) < len(streams):
            yield f"{_row(queue, stay)} was pushed twice by grant {stay.grant} on one stream of {stay.consumer}"
    last: dict[int, tuple[int, int]] = {}
    for (partition, grant), (_, granted) in sorted(owners.items()):
        before = last.get(partition, (0, 0))
        if granted and granted + ROUNDED < before[1]:
            yield f"grant {grant} of partition {partition} was made at {granted}, and grant {before[0]} at {before[1]}"
        if granted:
            last[partition] = grant, granted


CHECKERS: tuple[Promise, ...] = (one_lease_at_a_time, a_grant_is_used_once)


def a_delete_under_a_lease_is_refused(queue: QueueFacts, facts: Facts, clocks: LeaseClocks) -> Cases:
    """An owner cannot delete a message while any subscription has an active lease on it."""
    for deletion in facts.deletions:
        if not deletion.offset:
            continue
        for stay in queue.stays.get((deletion.partition, deletion.offset), {}).values():
            asked = any(ask.operation == "settle" and ask.written <= deletion.ended for ask, _ in stay.asks)
            if stay.first.time > deletion.invoked or asked or queue.may_be_taken(stay, deletion.ended, clocks):
                continue
            since = clocks.true_after(stay.first.granted)
            if any(invoked <= deletion.ended and ended >= since for invoked, ended in queue.unsubscribed):
                continue
            until = stay.until(deletion.invoked)
            if until > clocks.latest(deletion.ended):
                where = f"{_row(queue, stay)} was deleted between {deletion.invoked:.3f} and {deletion.ended:.3f} s"
                yield f"{where}, and {stay.consumer} held it by grant {stay.grant} until {until}"


def a_deleted_row_is_not_delivered(queue: QueueFacts, facts: Facts, clocks: LeaseClocks) -> Cases:
    """No lease begins on a row whose delete was acknowledged before."""
    for deletion in facts.deletions:
        if not deletion.offset:
            continue
        for stay in queue.stays.get((deletion.partition, deletion.offset), {}).values():
            push = stay.first
            if not push.again and push.granted > clocks.latest(deletion.ended):
                yield f"{_row(queue, stay)} was granted at {push.granted}, and was deleted at {deletion.ended:.3f} s"


def what_is_over_is_not_pushed(queue: QueueFacts, made: Subscribed, kept: Keeping, clocks: LeaseClocks) -> Cases:
    """A message that has expired, or is older than its topic keeps messages, is not pushed for the
    first time of a lease, exact to the second. The broker tells when it pushed it. The second is for the clock: what counts
    is any retention that was in force from then until the push came.
    """
    if kept.clocks is None:
        return
    for stay in queue.each_stay():
        send, push = kept.at(*stay.place), stay.first
        if send is None or push.again:
            continue
        pushed = clocks.true_after(push.now, push.time)
        if kept.must_be_gone(stay.place, send, pushed - 1.0, until=push.time, longer=made.kept_longer):
            yield f"{_row(queue, stay)} was pushed after {pushed:.3f} s, and {send.label} was over"


def _row(queue: QueueFacts, stay: Stay) -> str:
    return f"{queue.topic}/{stay.place[0]}@{stay.place[1]} for {queue.subscription}"
