"""One small function per promise about settlements: a late one is refused and one in time is not,
what was acked never comes again, a repeat gets the answer of the first time, and an application is
told what the broker has said.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.history.lease_events import ACK, EXTEND, LONGER, NACK, SETTLE
from tests.history.lease_facts import Ask, Decision, QueueFacts, Stay
from tests.history.lease_time import LeaseClocks
from tests.history.violations import Cases

Promise = Callable[[QueueFacts, LeaseClocks], Cases]


def a_late_settlement_is_refused(queue: QueueFacts, clocks: LeaseClocks) -> Cases:
    """What is settled or extended after the lease has ended is refused, whether or not somebody else
    has the row by then. (A repeat may be late: its first copy was not.)
    """
    for stay in queue.each_stay():
        for ask, outcome in stay.asks:
            late = clocks.earliest(ask.written) >= _until_before(stay, ask)
            if ask.answers and late and not ask.refuses(stay.grant, stay.place[1]):
                what = outcome or "extension"
                yield f"{_row(queue, stay)}: {what} by grant {stay.grant} was accepted, written at {ask.written:.3f} s, after its end"


def _until_before(stay: Stay, ask: Ask) -> float:
    """Until when it may have been held, but for this request itself."""
    others = [other for other, _ in stay.asks if other is not ask and other.operation == EXTEND and other.written <= ask.written]
    if any(stay.may_have_extended(other) for other in others):
        return float("inf")
    told = [other.until for other in others if not other.refuses(stay.grant, stay.place[1])]
    return max([push.until for push in stay.pushes] + told)


def a_held_row_is_not_refused(queue: QueueFacts, clocks: LeaseClocks) -> Cases:
    """What is settled or extended under a valid lease is accepted, for the first time that it is
    settled.
    """
    for stay in queue.each_stay():
        for at, (ask, outcome) in enumerate(stay.asks):
            if not ask.answers or not ask.refuses(stay.grant, stay.place[1]) or ask.consumer != stay.consumer:
                continue
            before = any(other.operation == SETTLE and (place < at or _overtakes(other, ask)) for place, (other, _) in enumerate(stay.asks))
            held = stay.until(ask.written) > clocks.latest(ask.answered)
            if held and not before and not queue.may_be_taken(stay, ask.answered, clocks) and _first_named(ask, stay):
                what = outcome or "extension"
                where = f"{_row(queue, stay)}: {what} by grant {stay.grant} was refused at {ask.answered:.3f} s"
                yield f"{where}, and it was held until {stay.until()}"


def _overtakes(other: Ask, ask: Ask) -> bool:
    """Whether a settlement may come before a request that is older: what is not answered is sent again, an extension behind the
    settlements of the new stream, and a settlement behind those of a program that had the name meanwhile.
    """
    return (ask.operation != SETTLE or ask.session != other.session) and other.written < ask.answered


def _first_named(ask: Ask, stay: Stay) -> bool:
    """Whether the request names the row once."""
    return sum(row.grant == stay.grant and row.offset in (0, stay.place[1]) for row in ask.rows) == 1


def acked_never_comes_again(queue: QueueFacts, clocks: LeaseClocks) -> Cases:
    """Invariant 8: a row whose ack was carried out is never granted again, and its lease is not
    pushed again on a later stream; also if only the application was told so.
    """
    del clocks
    for stays in queue.in_order():
        for stay in stays:
            acks = stay.settled(ACK)
            if not acks:
                continue
            when = min(ask.answered for ask in acks)
            said = f"{_row(queue, stay)} was acked by grant {stay.grant} of {stay.consumer} ({when:.3f} s)"
            for later in stays:
                if later.grant > stay.grant:
                    yield f"{said}, and came to {later.consumer} by grant {later.grant} at {later.first.time:.3f} s"
            for push in stay.pushes:
                if any(push.session == name and push.stream == number and time > when for name, time, number in _streams(queue)):
                    yield f"{said}, and was pushed again at {push.time:.3f} s"


def _streams(queue: QueueFacts) -> list[tuple[str, float, int]]:
    return [(session.name, time, number) for session in queue.sessions.values() for time, number, _ in session.opened]


def a_repeat_gets_the_same_answer(queue: QueueFacts, clocks: LeaseClocks) -> Cases:
    """A request that is sent again changes nothing and is answered as the first time."""
    del clocks
    for ask in queue.asks.values():
        if ask.operation == SETTLE and len({refused for _, _, refused in ask.answers}) > 1:
            told = " and ".join(str(sorted(refused)) for _, _, refused in ask.answers)
            yield f"request {ask.number} of {ask.session} in partition {ask.partition} was refused {told}"


def answers_are_about_what_was_asked(queue: QueueFacts, clocks: LeaseClocks) -> Cases:
    """Only rows that a request names are refused: nothing else in the batch is affected."""
    del clocks
    for ask in queue.asks.values():
        named = {(row.grant, row.offset) for row in ask.rows}
        whole = {row.grant for row in ask.rows if not row.offset}
        for _, _, refused in ask.answers:
            strange = {(grant, offset) for grant, offset in refused if (grant, offset) not in named and grant not in whole}
            strange -= {(row.grant, 0) for row in ask.rows}
            if strange:
                what = f"request {ask.number} of {ask.session} in partition {ask.partition}"
                yield f"{what} does not name {sorted(strange)}, which were refused"


def an_application_is_told_what_came(queue: QueueFacts, clocks: LeaseClocks) -> Cases:
    """What the broker has answered is what the application is told: done only for rows that are
    done, and lost only for rows that are not.
    """
    for decision in queue.decisions:
        row = decision.row
        stay = queue.stays.get(row.place, {}).get(row.grant)
        if stay is None or decision.told == "?":
            continue
        where = (
            f"{_row(queue, stay)}: {decision.session} was told {decision.told or 'done'!r} for its {row.outcome} at {decision.ended:.3f} s"
        )
        mine = [ask for ask, outcome in stay.asks if ask.session == decision.session and outcome == _outcome(row.outcome)]
        done = [ask for ask in mine if ask.answered <= decision.ended and not ask.refuses(stay.grant, stay.place[1])]
        if not decision.told and not done:
            yield f"{where}, and the broker had not said so"
        elif decision.told == "lease-lost" and row.outcome != LONGER and any(ask.written >= decision.invoked for ask in done):
            yield f"{where}, and the broker had carried it out"
        elif decision.told == "lease-lost" and not mine and not _may_have_lost(queue, stay, decision, clocks):
            yield f"{where}, and held it until {stay.until()}"


def _outcome(outcome: str) -> str:
    return "" if outcome == LONGER else outcome


def _may_have_lost(queue: QueueFacts, stay: Stay, decision: Decision, clocks: LeaseClocks) -> bool:
    """Whether a kit may say by itself that the row is not its consumer's any more."""
    session = queue.sessions[decision.session]
    told = session.lost.get((stay.place[0], stay.grant), decision.ended + 1) <= decision.ended
    settled = any(ask.operation == SETTLE and ask.session == decision.session for ask, _ in stay.asks)
    ended = clocks.latest(decision.ended) + clocks.late * 1e6 >= stay.until(decision.ended)
    return told or settled or ended or bool(session.ended) or session.closed <= decision.ended or _may_be_revoked(queue, stay, decision)


def _may_be_revoked(queue: QueueFacts, stay: Stay, decision: Decision) -> bool:
    """Whether a kit may know that the row is revoked: it was told, or its own application has given an
    earlier one of its key back, or the kit has, because the consumer closes.
    """
    if queue.keys is None:
        return False
    if queue.sessions[decision.session].revoked.get((stay.place, stay.grant), decision.ended + 1) <= decision.ended:
        return True
    mates = list(queue.keys.mates(stay))
    asks = (ask for mate in mates for ask, outcome in mate.asks if outcome == NACK)
    if any(ask.session == decision.session and ask.written <= decision.ended for ask in asks):
        return True
    places = {mate.place for mate in mates}
    mine = (each for each in queue.decisions if each.session == decision.session and each.invoked <= decision.ended)
    return any(each.row.place in places and each.row.grant == stay.grant and each.row.outcome == NACK for each in mine)


CHECKERS: tuple[Promise, ...] = (
    a_late_settlement_is_refused,
    a_held_row_is_not_refused,
    acked_never_comes_again,
    a_repeat_gets_the_same_answer,
    answers_are_about_what_was_asked,
    an_application_is_told_what_came,
)


def _row(queue: QueueFacts, stay: Stay) -> str:
    return f"{queue.topic}/{stay.place[0]}@{stay.place[1]} for {queue.subscription}"
