"""One small function per promise about dead letters. A message that died is in the list of its
subscription once. It comes again only when an operator has sent it back, to the consumers of this
subscription and to no other, and each letter is sent back once.
"""

from __future__ import annotations

from collections import Counter
from math import inf

from tests.history.events import Row
from tests.history.keeping import Keeping
from tests.history.lease_events import ACK, REJECT
from tests.history.lease_facts import QueueFacts, Stay
from tests.history.lease_time import LeaseClocks
from tests.history.letter_facts import LetterFacts, Listed
from tests.history.promises_of_schedules import comes_again
from tests.history.subscriptions import DUE_MICROSECONDS, Subscribed
from tests.history.violations import Cases

Place = tuple[int, int]


def a_redrive_reaches_one_subscription_only(queue: QueueFacts, letters: LetterFacts) -> Cases:
    """A dead letter comes to the consumers of a subscription only after a redrive that was asked for
    there may have named it. A dry run brings none.
    """
    for push, row in queue.rows:
        letter = queue.letters.get((row.partition, row.offset))
        if letter is not None and not any(asked.may_bring(letter, row, push.time) for asked in letters.redrives):
            where = f"{row.label} came to {push.session} of {queue.subscription} at {push.time:.3f} s"
            yield f"{where}, and no redrive of {queue.topic}/{queue.subscription} has sent dead letter {_at(letter)} back"


def a_letter_is_what_died(queue: QueueFacts, kept: Keeping) -> Cases:
    """A redriven letter has the content of a message that was sent."""
    for push, row in queue.rows:
        letter = queue.letters.get((row.partition, row.offset))
        send = kept.facts.sends.get(row.label) if letter is not None else None
        if letter is None:
            continue
        where = f"{push.session} got {row.label} as dead letter {_at(letter)} of {queue.topic}/{queue.subscription}"
        if send is None:
            yield f"{where}, which was never sent"
        elif send.refused:
            yield f"{where}, which was refused at {send.ended:.3f} s ({send.answer.error})"
        elif _content(row) != _content(send.sent):
            yield f"{where} as {row}, and sent was {send.sent}"


def a_dead_message_comes_only_as_a_letter(queue: QueueFacts) -> Cases:
    """What was rejected, and that was answered, never comes from its own place again."""
    for stays in queue.of_the_topic().in_order() if not queue.sought else ():
        yield from _again(queue, stays, "died")


def a_letter_is_redriven_once(queue: QueueFacts) -> Cases:
    """A letter that was acked, or has died again, never comes again: whoever sends it back twice."""
    for place in sorted(queue.letters):
        stays = [stay for _, stay in sorted(queue.stays.get(place, {}).items())]
        yield from _again(queue, stays, "was settled")


def _again(queue: QueueFacts, stays: list[Stay], how: str) -> Cases:
    over = (ACK, REJECT) if how == "was settled" else (REJECT,)
    for at, stay in enumerate(stays):
        if any(stay.settled(outcome) for outcome in over) and at + 1 < len(stays):
            later = stays[at + 1]
            where = f"{queue.topic}/{_at(stay.place)} {how} for {queue.subscription} by grant {stay.grant}"
            yield f"{where}, and came again by grant {later.grant} at {later.first.time:.3f} s"


def an_acked_letter_leaves_the_list(queue: QueueFacts, letters: LetterFacts) -> Cases:
    """A letter is in the list until a consumer has acked it, or until it has died again."""
    over: dict[Place, float] = {}
    for place, letter in queue.letters.items():
        for stay in queue.stays.get(place, {}).values():
            settled = [ask.answered for outcome in (ACK, REJECT) for ask in stay.settled(outcome)]
            wait = inf if not stay.settled(ACK) else min(settled)
            over[letter] = min(wait, over.get(letter, inf))
    for listed in letters.lists:
        for row, _ in listed.letters:
            if over.get((row.partition, row.offset), inf) < listed.invoked:
                where = f"{row.label} was in the list of {queue.topic}/{queue.subscription} at {listed.invoked:.3f} s"
                yield f"{where}, and dead letter {_at((row.partition, row.offset))} was acked before"


def each_dead_letter_exactly_once(queue: QueueFacts, letters: LetterFacts, kept: Keeping) -> Cases:
    """When everything is drained, each message that died for certain is in the list once, unless a
    consumer may have acked its letter; and no other message is there twice.
    """
    labels, acked = _lives(queue)
    for listed in _last(queue, letters):
        found = Counter(origin for _, origin in listed.letters)
        for origin, times in sorted(found.items()) if not queue.sought else ():
            if times > 1:
                yield f"{_list(queue, listed)} has {times} dead letters of {queue.topic}/{_at(origin)}"
        there = {row.label for row, _ in listed.letters}
        for label, stay in sorted(labels.items()):
            send = kept.facts.sends.get(label)
            gone = send is None or kept.may_be_deleted(send, listed.ended) or kept.may_have_aged(stay.place, listed.ended, send)
            rejected = min((ask.answered for ask in stay.settled(REJECT)), default=inf)
            if label not in there and label not in acked and not gone and rejected < listed.invoked:
                case = f"{label} of {queue.topic}/{_at(stay.place)} was rejected by grant {stay.grant} at {rejected:.3f} s"
                yield f"{_list(queue, listed)} does not have {label}, and {case}"


def _lives(queue: QueueFacts) -> tuple[dict[str, Stay], set[str]]:
    """Messages that were rejected, and messages of which a letter may have been acked."""
    labels: dict[str, Stay] = {}
    acked: set[str] = set()
    for _, row in queue.rows:
        place = row.partition, row.offset
        for stay in queue.stays.get(place, {}).values():
            if place not in queue.letters and stay.settled(REJECT):
                labels[row.label] = stay
            if place in queue.letters and any(outcome == ACK for _, outcome in stay.asks):
                acked.add(row.label)
    return labels, acked


def what_was_redriven_comes(queue: QueueFacts, letters: LetterFacts, made: Subscribed, kept: Keeping, clocks: LeaseClocks) -> Cases:
    """A letter that was sent back, and that was answered, is not in the list any more when everything
    is drained: it has come, and was acked or has died again. Unless it waits since a nack, or an expiry.
    """
    stays = {letter: queue.stays.get(place, {}) for place, letter in queue.letters.items()}
    for listed in _last(queue, letters):
        there = {(row.partition, row.offset) for row, _ in listed.letters}
        for asked in letters.redrives:
            for letter in sorted((asked.done or frozenset()) & there) if made.ended < asked.invoked < listed.invoked else ():
                mine = list(stays.get(letter, {}).values())
                again = comes_again(mine, made.backoff, clocks) if mine else 0.0
                now = min(clocks.earliest(listed.invoked), kept.clocks.earliest(listed.invoked) if kept.clocks is not None else inf)
                if again <= now - DRAINED_SECONDS * 1e6 - DUE_MICROSECONDS:
                    seen = f"it came by {[stay.grant for stay in mine]}" if mine else "it never came"
                    where = f"dead letter {_at(letter)} was sent back at {asked.ended:.3f} s, {seen}"
                    yield f"{_list(queue, listed)} has it: {where}"


DRAINED_SECONDS = 20.0
"""The consumers of the drain of another subscription may have ended so long before the list."""


def _last(queue: QueueFacts, letters: LetterFacts) -> list[Listed]:
    """The lists after everything was drained, if it was this subscription that was."""
    drained = min((session.closed for session in queue.sessions.values() if session.is_drain and session.closed < inf), default=inf)
    return [listed for listed in letters.lists if listed.is_last and listed.invoked > drained]


def _content(row: Row) -> tuple[object, ...]:
    return row.value, row.key, row.attributes, row.group


def _list(queue: QueueFacts, listed: Listed) -> str:
    return f"the list of {queue.topic}/{queue.subscription} at {listed.invoked:.3f} s"


def _at(place: Place) -> str:
    return f"{place[0]}@{place[1]}"
