"""One small function per promise about the keys of a key-shared subscription (invariant 9): messages
of one key are never out of order and never in two leases at once. One that is given back, or whose
lease ends, holds the later ones back, and those of them that its consumer has are revoked: they are
not handed out any more, what is said about them is refused, and their retry counts stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

from tests.history.keeping import Keeping
from tests.history.lease_events import NACK, SETTLE
from tests.history.lease_facts import QueueFacts, Stay
from tests.history.lease_keys import KeyOrder
from tests.history.lease_time import LeaseClocks
from tests.history.violations import Cases

Promise = Callable[[QueueFacts, LeaseClocks], Cases]
ROUNDED = 2
"""How far a moment may be rounded on its way, in microseconds."""
TOLD_MICROSECONDS = 1_000_000
"""A scheduled message has joined its key so long after it was due."""


def a_key_is_in_one_lease(queue: QueueFacts, clocks: LeaseClocks) -> Cases:
    """No row of a key comes by a grant while another row of it is held by an earlier one."""
    for keys, grants in _grants(queue):
        last: list[tuple[Stay, float]] = []
        for grant in sorted(grants):
            stays = list(grants[grant].values())
            for stay in stays:
                for earlier, free in last:
                    if earlier.place != stay.place and (case := _overlap(earlier, free, stay, clocks)):
                        yield f"{_row(queue, keys, stay)} {case}"
            last += [(stay, _free(queue, stay, clocks)) for stay in stays]


def _overlap(earlier: Stay, free: float, later: Stay, clocks: LeaseClocks) -> str:
    push, until = later.first, earlier.until()
    if free <= push.time:
        return ""
    came = f"came to {later.consumer} by grant {later.grant} at {push.time:.3f} s"
    held = f"{earlier.consumer} held offset {earlier.place[1]} of its key by grant {earlier.grant} until {until}"
    if until > clocks.latest(push.time) or (not push.again and until > push.granted + ROUNDED):
        return f"{came}, and {held}"
    return ""


def _free(queue: QueueFacts, stay: Stay, clocks: LeaseClocks) -> float:
    """The earliest true time at which it may not be held any more, but for the end of its lease."""
    settled = [ask.written for ask, _ in stay.asks if ask.operation == SETTLE]
    return min([*settled, queue.taken_since(stay, clocks)])


def a_key_is_in_order(queue: QueueFacts, kept: Keeping, clocks: LeaseClocks) -> Cases:
    """A row comes only by a grant that has all earlier rows of its key, or after those are done: none
    of them comes by a later grant. A scheduled message joins its key when it is due.
    """
    if queue.sought:
        return
    for keys, grants in _grants(queue):
        ends: dict[int, int] = {}
        for grant, stays in grants.items():
            for offset in stays:
                ends[offset] = max(grant, ends.get(offset, 0))
        for grant, stays in grants.items():
            for offset, stay in stays.items():
                for earlier, end in ends.items():
                    if earlier < offset and end > grant and earlier not in stays and _was_due(keys, stay, earlier, kept, clocks):
                        after = f"offset {earlier} of its key came after that, by grant {end}"
                        yield f"{_row(queue, keys, stay)} came by grant {grant} at {stay.first.time:.3f} s, and {after}"


def _was_due(keys: KeyOrder, stay: Stay, earlier: int, kept: Keeping, clocks: LeaseClocks) -> bool:
    """Whether an earlier row was due for certain when this one was granted."""
    due = keys.rows[stay.place[0], earlier].due
    if not due:
        return True
    granted = clocks.true_after(stay.first.granted, stay.first.time)
    return kept.clocks is not None and due + TOLD_MICROSECONDS < kept.clocks.earliest(granted)


def what_is_said_of_a_revoked_row_is_refused(queue: QueueFacts, clocks: LeaseClocks) -> Cases:
    """A row that was revoked is not its consumer's any more: by the answer to a request that gives an
    earlier one of its key back.
    """
    del clocks
    for stay in _keyed(queue):
        for back in queue.keys.revoked_by(stay):
            for ask, outcome in stay.asks:
                named = any((row.grant, row.offset) == (stay.grant, stay.place[1]) for row in ask.rows)
                if named and ask.written > back.answered and ask.answers and not ask.refuses(stay.grant, stay.place[1]):
                    what = f"{outcome or 'extension'} by grant {stay.grant} was accepted, written at {ask.written:.3f} s"
                    yield f"{_row(queue, queue.keys, stay)}: {what}, and request {back.number} had revoked it at {back.answered:.3f} s"


def a_revoked_row_is_not_counted(queue: QueueFacts, clocks: LeaseClocks) -> Cases:
    """A row that waited for an earlier one of its key was not delivered in vain: if it comes again
    before another lease can have ended, its retry count is the same.
    """
    del clocks
    if queue.keys is None:
        return
    for stays in queue.in_order():
        for before, after in pairwise(stays):
            end = _revoked_at(queue.keys, before)
            if end and not after.first.again and after.first.granted < end + SHORTEST and after.first.retries != before.first.retries:
                counts = f"{before.first.retries} and then {after.first.retries}"
                yield f"{_row(queue, queue.keys, after)} came by grants {before.grant} and {after.grant} with retry counts {counts}"


SHORTEST = 1_000_000
"""The shortest lease, in microseconds."""


def _revoked_at(keys: KeyOrder, stay: Stay) -> int:
    """The earliest moment at which it was revoked for certain; 0 if it may have ended otherwise. The
    answer to the request that did it says what the time was at most; its lease did not end before.
    """
    if any(ask.operation == SETTLE for ask, _ in stay.asks):
        return 0
    moments = [back.answers[0][1] for back in keys.revoked_by(stay) if back.answers[0][1] < stay.first.until]
    if moments:
        return stay.first.granted
    ends = [mate.first.until for mate in keys.mates(stay) if not mate.asks and mate.first.until <= stay.first.until]
    return min(ends) if ends and not stay.asks else 0


def a_revoked_row_is_not_handed_out(queue: QueueFacts, clocks: LeaseClocks) -> Cases:
    """Neither when its application has given an earlier one of its key back, nor when its kit was
    told.
    """
    del clocks
    back: dict[tuple[str, int, int, str], list[tuple[float, int]]] = {}
    for decision in queue.decisions if queue.keys is not None else ():
        row = decision.row
        if row.outcome == NACK and not decision.told and row.place in queue.keys.rows:
            key = queue.keys.rows[row.place].key
            back.setdefault((decision.session, row.partition, row.grant, key), []).append((decision.invoked, row.offset))
    for stay in _keyed(queue):
        key = queue.keys.rows[stay.place].key
        for time, name, _, _ in stay.handed:
            where = f"{name} handed {_row(queue, queue.keys, stay)} out at {time:.3f} s by grant {stay.grant}"
            if queue.sessions[name].revoked.get((stay.place, stay.grant), time) < time:
                yield f"{where}, and was told before that it is revoked"
            for given, offset in back.get((name, stay.place[0], stay.grant, key), ()):
                if given < time and offset < stay.place[1]:
                    yield f"{where}, and its application had given offset {offset} of its key back at {given:.3f} s"


def _grants(queue: QueueFacts) -> Iterator[tuple[KeyOrder, dict[int, dict[int, Stay]]]]:
    """The grants of each key, and their stays by offset."""
    for grants in queue.keys.stays.values() if queue.keys is not None else ():
        yield queue.keys, grants


def _keyed(queue: QueueFacts) -> Iterator[Stay]:
    for _, grants in _grants(queue):
        for stays in grants.values():
            yield from stays.values()


def _row(queue: QueueFacts, keys: KeyOrder, stay: Stay) -> str:
    return f"{queue.topic}/{stay.place[0]}@{stay.place[1]} of key {keys.rows[stay.place].key} for {queue.subscription}"


CHECKERS: tuple[Promise, ...] = (
    a_key_is_in_one_lease,
    what_is_said_of_a_revoked_row_is_refused,
    a_revoked_row_is_not_counted,
    a_revoked_row_is_not_handed_out,
)
