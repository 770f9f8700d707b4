"""One small function per promise of a consumer's kit: what it hands out, and what it says to the
broker on its application's behalf.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from tests.history.lease_events import RELEASE, SETTLE
from tests.history.lease_facts import QueueFacts, Stay
from tests.history.lease_time import LeaseClocks
from tests.history.violations import Cases

Promise = Callable[[QueueFacts, LeaseClocks], Cases]


def handed_out_under_a_valid_lease(queue: QueueFacts, clocks: LeaseClocks) -> Cases:
    """A kit hands a row out only while it holds it: it was pushed, its lease has not ended by the
    broker's clock, nothing was said about it to the broker, and it is not told to be lost.
    """
    for time, name, row in queue.strays:
        yield f"{name} handed {queue.topic}/{row.partition}@{row.offset} out at {time:.3f} s by grant {row.grant}, which never came"
    for stay in queue.each_stay():
        for time, name, _, _ in stay.handed:
            session = queue.sessions[name]
            where = f"{name} handed {_row(queue, stay)} out at {time:.3f} s"
            until = stay.until(time)
            if not any(push.session == name and push.time <= time for push in stay.pushes):
                yield f"{where} by grant {stay.grant}, which came to another consumer"
            elif clocks.earliest(time) >= until:
                yield f"{where}, and its lease had ended {(clocks.earliest(time) - until) / 1e6:.3f} s before"
            elif session.lost.get((stay.place[0], stay.grant), time) < time:
                yield f"{where}, and had been told that grant {stay.grant} is lost"
            elif any(ask.operation == SETTLE and ask.session == name and ask.written < time for ask, _ in stay.asks):
                yield f"{where}, and had settled it before"


def handed_out_once(queue: QueueFacts, clocks: LeaseClocks) -> Cases:
    """A kit hands a row out once for each grant, however often that is pushed."""
    del clocks
    for stay in queue.each_stay():
        for name in {each.session for each in stay.handed}:
            times = [each.time for each in stay.handed if each.session == name]
            if len(times) > 1:
                yield f"{name} handed {_row(queue, stay)} out at {times[0]:.3f} s and at {times[1]:.3f} s, by grant {stay.grant}"


def an_application_sees_the_count(queue: QueueFacts, clocks: LeaseClocks) -> Cases:
    """The retry count that the application sees is the one that came."""
    del clocks
    for stay in queue.each_stay():
        for time, name, retries, _ in stay.handed:
            if retries != stay.first.retries:
                yield f"{name} handed {_row(queue, stay)} out at {time:.3f} s with retry count {retries}, and {stay.first.retries} came"


def only_unseen_rows_are_released(queue: QueueFacts, clocks: LeaseClocks) -> Cases:
    """A row that the application was given is never released as unseen, and a row that it was not
    given is never acked, nor counted as failed.
    """
    del clocks
    for stay in queue.each_stay():
        for ask, outcome in stay.asks:
            if ask.operation != SETTLE:
                continue
            seen = any(each.session == ask.session and each.time <= ask.written for each in stay.handed)
            if seen == (outcome == RELEASE):
                known = "had seen it" if seen else "had not seen it"
                yield f"{ask.session} said {outcome} for {_row(queue, stay)} at {ask.written:.3f} s, and its application {known}"


def unanswered_requests_are_sent_again_first(queue: QueueFacts, clocks: LeaseClocks) -> Cases:
    """A kit says that it is ready when all its requests that were not answered are sent again."""
    del clocks
    for session in queue.sessions.values():
        for stream, ready in session.ready.items():
            for ask in session.asks:
                before = ask.operation == SETTLE and min(ask.streams) < stream and ask.answered > ready
                if before and ask.streams.get(stream, ready + 1) > ready:
                    yield f"{session.name} was ready on stream {stream} at {ready:.3f} s, and request {ask.number} was not sent again"


def a_consumer_leaves_with_nothing(queue: QueueFacts, clocks: LeaseClocks) -> Cases:
    """A kit says that its consumer leaves when all rows that came to it are settled, and that is
    answered; or are lost. Else the broker would give rows back, uncounted, that an application has.
    """
    for session in queue.sessions.values():
        for stay in queue.each_stay() if session.left < inf else ():
            came = [push.time for push in stay.pushes if push.session == session.name and push.time <= session.left]
            if not came:
                continue
            answered = [ask for ask, _ in stay.asks if ask.session == session.name and ask.answered <= session.left]
            settled = any(ask.operation == SETTLE or ask.refuses(stay.grant, stay.place[1]) for ask in answered)
            lost = session.lost.get((stay.place[0], stay.grant), inf) <= session.left
            ended = clocks.latest(session.left) + clocks.late * 1e6 >= stay.until(session.left)
            revoked = queue.keys is not None and queue.keys.revoked_since(stay, clocks) <= session.left
            if not (settled or lost or ended or revoked):
                where = f"{session.name} said that it leaves at {session.left:.3f} s"
                yield f"{where}, and had {_row(queue, stay)} by grant {stay.grant} since {came[0]:.3f} s"


CHECKERS: tuple[Promise, ...] = (
    handed_out_under_a_valid_lease,
    handed_out_once,
    an_application_sees_the_count,
    only_unseen_rows_are_released,
    unanswered_requests_are_sent_again_first,
    a_consumer_leaves_with_nothing,
)


def _row(queue: QueueFacts, stay: Stay) -> str:
    return f"{queue.topic}/{stay.place[0]}@{stay.place[1]} for {queue.subscription}"
