"""Dead letters go back to their subscription, or are deleted.

To redrive a letter means that its lane delivers it: to the consumers of its subscription, and to no one
else. The topic that it came from does not change, so its readers and its other subscriptions see
nothing. A letter is redriven once: a request that names it again changes nothing. Who fails with it
again makes another letter, which this request does not name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bowstring import errors
from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.log.requests import Question
from bowstring.broker.queue import subscriptions
from bowstring.broker.queue.letter_list import LIMIT_MAX, LetterRows
from bowstring.broker.queue.letter_requests import PurgeLetters, RedriveLetters, RowsKept
from bowstring.broker.queue.queues import Queues
from bowstring.broker.queue.subscription import LiveSubscription
from bowstring.ports.transport import Caller


class LetterRequest(NamedTuple):
    """Dead letters that something is to be done with."""

    topic: str
    subscription: str
    letters: LetterRows


class LettersDone(NamedTuple):
    """What a request comes to."""

    changed: int
    """So many letters it has redriven, or deleted."""
    others: LetterRows
    """Letters that it could not: they are gone, or a consumer holds them."""


async def redrive(queues: Queues, wanted: LetterRequest, caller: Caller) -> LettersDone:
    """Durable when it returns, in one flush. Raises SubscriptionNotFound."""
    subscription = _checked(queues, wanted)
    queues.log.room.check(0)
    asked = [(actor, RedriveLetters(subscription.lane, wanted.letters[number])) for number, actor in _actors(subscription, wanted)]
    done = await _ask(queues, asked, wanted)
    told = {"topic": wanted.topic, "subscription": wanted.subscription, "messages": done.changed, "client": caller.address}
    queues.observer.note("dead-letters-redriven", **told)
    return done


async def purge(queues: Queues, wanted: LetterRequest, caller: Caller) -> LettersDone:
    """The same, for letters that are to be deleted."""
    subscription = _checked(queues, wanted)
    now = queues.clock.now()
    asked = [(actor, PurgeLetters(subscription.lane, wanted.letters[number], now)) for number, actor in _actors(subscription, wanted)]
    done = await _ask(queues, asked, wanted)
    told = {"topic": wanted.topic, "subscription": wanted.subscription, "messages": done.changed, "client": caller.address}
    queues.observer.note("dead-letters-purged", **told)
    return done


def _checked(queues: Queues, wanted: LetterRequest) -> LiveSubscription:
    subscription = subscriptions.find(queues, wanted.topic, wanted.subscription)
    count = sum(map(len, wanted.letters.values()))
    if not 1 <= count <= LIMIT_MAX:
        raise errors.InvalidArgument(f"{count} dead letters were named.", hint=f"One request takes 1 to {LIMIT_MAX}.")
    for number in wanted.letters:
        subscription.topic.actor(number)
    return subscription


def _actors(subscription: LiveSubscription, wanted: LetterRequest) -> list[tuple[int, PartitionActor]]:
    """The partitions of the companion, if it has any letter."""
    companion = subscription.companion
    return [] if companion is None else [(number, companion.actors[number]) for number in sorted(wanted.letters)]


async def _ask(queues: Queues, asked: Sequence[tuple[PartitionActor, Question[RowsKept]]], wanted: LetterRequest) -> LettersDone:
    if not asked:
        await queues.log.durable()
        return LettersDone(0, wanted.letters)
    answers = await PartitionActor.ask_together(asked)
    numbers = [actor.partition.number for actor, _ in asked]
    others = {number: answer.others for number, answer in zip(numbers, answers, strict=True) if answer.others}
    return LettersDone(sum(answer.changed for answer in answers), others)
