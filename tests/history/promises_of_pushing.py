"""One small function per promise about pushes: credit is never exceeded, nothing comes before its
time, and rows are those of the log.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile

from tests.history.events import Row
from tests.history.facts import Facts
from tests.history.lease_events import SETTLE
from tests.history.lease_facts import Push, QueueFacts, Session, Stay, Wrote
from tests.history.lease_time import LeaseClocks
from tests.history.moves import may_be_due
from tests.history.violations import Cases

Promise = Callable[[QueueFacts, Facts, LeaseClocks], Cases]
ROUNDED = 2


def credit_is_never_exceeded(queue: QueueFacts, facts: Facts, clocks: LeaseClocks) -> Cases:
    """What a consumer certainly holds when something new is pushed to it, and that, is within its
    credit, over all partitions. A new credit counts when a settlement that was written behind it is
    answered; until then the one before may still count. What it asked for by its id comes in any case.
    """
    del facts
    for name in {session.consumer for session in queue.sessions.values()}:
        mine = [session for session in queue.sessions.values() if session.consumer == name]
        stays = [stay for stay in queue.each_stay() if stay.consumer == name]
        for session in mine:
            for at, (push, rows) in enumerate(session.pushes):
                if push.again or push.asked:
                    continue
                behind = takewhile(lambda other, now=push.time: other[0].time == now, session.pushes[at:])  # in the same moment
                new = {(row.partition, row.offset, row.grant) for _, some in behind for row in some}
                held = [stay for stay in stays if (*stay.place, stay.grant) not in new and _holds(queue, stay, push, mine, clocks)]
                credit = max((wrote.credit for wrote in _credits(session, push)), default=0)
                if len(held) + len(rows) > credit:
                    where = f"{session.name} of {queue.topic}/{queue.subscription} got {len(rows)} rows at {push.time:.3f} s"
                    yield f"{where}, and held {len(held)}; its credit was {credit}"


def _holds(queue: QueueFacts, stay: Stay, push: Push, sessions: list[Session], clocks: LeaseClocks) -> bool:
    """Whether the consumer certainly held it when something was granted to it."""
    if not any(other.time < push.time or other.time == push.time for other in stay.pushes) or stay.first.time > push.time:
        return False
    asked = any(ask.operation == SETTLE and ask.written <= push.time for ask, _ in stay.asks)
    lost = any(session.lost.get((stay.place[0], stay.grant), push.time + 1) <= push.time for session in sessions)
    ended = stay.until(push.time) <= clocks.latest(push.time)
    return not (asked or lost or ended or queue.may_be_taken(stay, push.time, clocks))


def _credits(session: Session, push: Push) -> list[Wrote]:
    """Those that may have counted when the push was granted."""
    wrote = [each for each in session.credits if each.stream == push.stream and each.time <= push.time]
    for at in range(len(wrote) - 1, 0, -1):
        confirmed = [
            ask.answers[0][1]
            for ask in session.asks
            if ask.answers and ask.answered_on == push.stream and ask.streams.get(push.stream, -1.0) > wrote[at].time
        ]
        if confirmed and min(confirmed) + ROUNDED < push.granted:
            return wrote[at:]
    return wrote


def nothing_is_pushed_before_all_is_sent_again(queue: QueueFacts, facts: Facts, clocks: LeaseClocks) -> Cases:
    """A stream gets nothing before its kit has sent the requests again that were not answered."""
    del facts, clocks
    for session in queue.sessions.values():
        for push, rows in session.pushes:
            if session.ready.get(push.stream, push.time + 1) > push.time:
                where = f"{len(rows)} rows of grant {rows[0].grant} on stream {push.stream} at {push.time:.3f} s"
                yield f"{session.name} got {where}, before it had said that it is ready"


def pushed_is_what_was_sent(queue: QueueFacts, facts: Facts, clocks: LeaseClocks) -> Cases:
    """A row is the message that was sent there, and the one that readers read there; none of a
    publish that was certainly refused.
    """
    del clocks
    for push, row in queue.rows:
        send = facts.sends.get(row.label)
        where = f"{push.session} got {row.label} at {queue.topic}/{row.partition}@{row.offset}"
        read = facts.rows.get((row.partition, row.offset))
        if send is None:
            yield f"{where}, which was never sent"
        elif send.refused:
            yield f"{where} at {push.time:.3f} s, which was refused at {send.ended:.3f} s ({send.answer.error})"
        elif _content(row) != _content(send.sent) or not may_be_due(facts, send, row):
            yield f"{where} as {row}, and sent was {send.sent}"
        elif read is not None and read != row._replace(due=read.due):
            yield f"{where} as {row}, and a reader read {read}"


def _content(row: Row) -> tuple[object, ...]:
    return row.value, row.key, row.attributes, row.group


OF_STREAMS: tuple[Promise, ...] = (credit_is_never_exceeded, nothing_is_pushed_before_all_is_sent_again)
"""Whatever is pushed counts, redriven letters too."""
CHECKERS: tuple[Promise, ...] = (*OF_STREAMS, pushed_is_what_was_sent)
