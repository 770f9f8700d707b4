"""Messages by their ids: where one is, deleting some, and moving some to another due time.

A generated id names its partition; a natural one is looked for in all of them, because it may have
been published with any key. A request of many ids is one lookup and one change in each partition
that it concerns, and all are durable before it is answered: also with a no, because that rests on
what may not be durable yet (invariant 1).

An id is known until retention takes its message. Each question is asked twice: first within the
deduplication window, which memory answers, and then, only for ids that were not found there, in
everything that is stored (`Lookup.old`). So a partition that has never had an id is not searched on
the disk when another one has just got it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from bowstring import errors, times
from bowstring.broker import topic_questions
from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.log.log import Log
from bowstring.broker.log.requests import DeleteMessages, FindGenerated, FindNatural, MoveMessages
from bowstring.broker.topics import Topic
from bowstring.core import known_messages
from bowstring.core.decisions import GivenBack, Ids, Rows
from bowstring.core.ledgers import SubscriptionLease
from bowstring.messages import ids
from bowstring.messages.hashing import id_hashes
from bowstring.messages.limits import DELETED_IDS_MAX, ID_BYTES_MAX, MOMENT_MAX, MOVED_MAX

DueTimesOf = Callable[[PartitionActor, list[int]], Awaitable[dict[int, tuple[int, int]]]]
"""Tells when messages of a partition were published to be due, and when they expire, by their offsets."""


class MessagePlace(NamedTuple):
    """Where a message is, or was until it was deleted."""

    partition: int
    offset: int


async def find(log: Log, topic: str, message_id: str) -> MessagePlace | None:
    """Where the message of an id is: the newest that is live, if there are several."""
    found = log.topics.topic(topic)
    place = await _find(found, message_id, old=False) or await _find(found, message_id, old=True)
    if place is None and any(known_messages.is_partly_blind(actor.partition, log.clock.now()) for actor in found.actors):
        raise _unreadable(found)
    return place


def not_found(topic: str, message_id: str) -> errors.MessageNotFound:
    """The error for an id that no message has."""
    return errors.MessageNotFound(
        f"there is no message {message_id!r} in '{topic}'.",
        hint="An id is known until retention takes its message.",
        details={"topic": topic},
    )


async def _find(topic: Topic, message_id: str, *, old: bool) -> MessagePlace | None:
    generated = ids.parse(message_id)
    if generated is not None and generated.partition < len(topic.actors):
        given = GivenBack(0, generated.producer, generated.number, generated.row)
        offset = await topic.actors[generated.partition].ask(FindGenerated(given, old=old))
        if offset:
            return MessagePlace(generated.partition, offset)
    return await _find_natural(topic, message_id, old)


async def _find_natural(topic: Topic, message_id: str, old: bool) -> MessagePlace | None:
    column = pa.array([message_id], pa.utf8())
    wanted = Ids(id_hashes(column), None)
    found = await topic_questions.of_each(topic.actors, lambda actor: actor.ask(FindNatural(wanted, column, old=old)))
    live = [(place.arrived, MessagePlace(number, place.offset)) for number, place in enumerate(found) if place is not None]
    return max(live)[1] if live else None


# Deleting and moving


async def delete(
    log: Log, topic: str, group: str, message_ids: Sequence[str], due_times: DueTimesOf | None = None
) -> list[MessagePlace | errors.Error]:
    """Deletes messages of a group: for each id where its message was, or why it is not deleted.
    What was deleted before is answered as it was then. With `due_times` it cancels: only messages
    that are due later are deleted.
    """

    async def asked(actor: PartitionActor, wanted: _Wanted) -> _Outcomes:
        request = partial(DeleteMessages, wanted.ids, group, wanted.column, old=wanted.old)
        deleted = await actor.ask(request(scheduled=None if due_times is None else {}))
        if due_times is not None and deleted.due:
            stored = await due_times(actor, sorted(deleted.due.values()))
            deleted = await actor.ask(request(scheduled={offset: due for offset, (due, _) in stored.items()}))
        verb = "delete" if due_times is None else "cancel"
        refused = {row: _not_yours(wanted.texts[row], owner, verb) for row, owner in deleted.others.items()}
        refused |= {row: _leased(wanted.texts[row], lease) for row, lease in deleted.leased.items()}
        refused |= {row: _due(wanted.texts[row], "cancelled", "Use producer.delete(ids).") for row in deleted.due}
        return _Outcomes(deleted.offsets, refused)

    return await _each(log, topic, group, message_ids, asked)


async def move(
    log: Log, topic: str, group: str, message_ids: Sequence[str], due: int, due_times: DueTimesOf
) -> list[MessagePlace | errors.Error]:
    """Gives messages of a group that are not due yet another due time: for each id where its message
    is, or why it is not moved.
    """
    if not 0 <= due < MOMENT_MAX:
        raise errors.InvalidArgument(f"due={due} is not a moment.", hint="Use microseconds since 1970, before 2200.")

    async def asked(actor: PartitionActor, wanted: _Wanted) -> _Outcomes:
        request = partial(MoveMessages, wanted.ids, group, wanted.column, due, old=wanted.old)
        moved = await actor.ask(request())
        if moved.due:
            moved = await actor.ask(request(stored=await due_times(actor, sorted(moved.due.values()))))
        refused: dict[int, errors.Error] = {row: _not_yours(wanted.texts[row], owner, "move") for row, owner in moved.others.items()}
        refused |= {row: _due(wanted.texts[row], "moved", "Nack it with a time when it is delivered.") for row in moved.due}
        refused |= {row: _expired(wanted.texts[row], expires) for row, expires in moved.expired.items()}
        refused |= {row: _too_many(wanted.texts[row]) for row in moved.full}
        return _Outcomes(moved.offsets, refused)

    return await _each(log, topic, group, message_ids, asked)


class _Wanted(NamedTuple):
    """The ids of a request, as one partition is asked for them."""

    texts: Sequence[str]
    column: pa.Array
    ids: Ids
    old: bool
    """Also what the deduplication window has passed."""


class _Outcomes(NamedTuple):
    """What became of the ids in one partition."""

    offsets: Rows
    """0 where there is no message, or it is refused."""
    refused: Mapping[int, errors.Error]


async def _each(
    log: Log, topic: str, group: str, message_ids: Sequence[str], asked: Callable[[PartitionActor, _Wanted], Awaitable[_Outcomes]]
) -> list[MessagePlace | errors.Error]:
    """Asks all partitions for the ids: within the deduplication window, then for what is older."""
    found = log.topics.topic(topic)
    _check(group, message_ids)
    outcomes = await _ask_all(log, found, message_ids, asked, old=False)
    left = [row for row, outcome in enumerate(outcomes) if outcome is None]
    if left:
        older = await _ask_all(log, found, [message_ids[row] for row in left], asked, old=True)
        for row, outcome in zip(left, older, strict=True):
            outcomes[row] = outcome
    return [outcome or not_found(topic, text) for outcome, text in zip(outcomes, message_ids, strict=True)]


async def _ask_all(
    log: Log, topic: Topic, message_ids: Sequence[str], asked: Callable[[PartitionActor, _Wanted], Awaitable[_Outcomes]], *, old: bool
) -> list[MessagePlace | errors.Error | None]:
    """What the request comes to in all partitions: for each id where its message is, why it is
    refused, or None if there is none.
    """
    column = pa.array(message_ids, pa.utf8())
    hashes, given = id_hashes(column), _generated(message_ids)
    outcomes: list[MessagePlace | errors.Error | None] = [None] * len(message_ids)
    doubt: errors.Error | None = None

    def wanted(actor: PartitionActor) -> _Wanted:
        return _Wanted(message_ids, column, Ids(hashes, None, tuple(given.get(actor.partition.number, ()))), old)

    told = await topic_questions.of_each_or_why_not(topic.actors, lambda actor: asked(actor, wanted(actor)))
    for actor, answer in zip(topic.actors, told, strict=True):
        if isinstance(answer, errors.Corrupt):
            doubt = answer
            continue
        if isinstance(answer, BaseException):
            raise answer
        for row in answer.offsets.nonzero()[0].tolist():
            outcomes[row] = MessagePlace(actor.partition.number, int(answer.offsets[row]))
        for row, error in answer.refused.items():
            outcomes[row] = outcomes[row] or error
        if known_messages.is_partly_blind(actor.partition, log.clock.now()):
            doubt = _unreadable(topic)
    return [outcome or (doubt if old else None) for outcome in outcomes]


def _generated(message_ids: Sequence[str]) -> dict[int, list[GivenBack]]:
    """The ids that look like those that a kit generates, by the partition that they name."""
    found: dict[int, list[GivenBack]] = {}
    for row, text in enumerate(message_ids):
        name = ids.parse(text)
        if name is not None:
            found.setdefault(name.partition, []).append(GivenBack(row, name.producer, name.number, name.row))
    return found


def _check(group: str, message_ids: Sequence[str]) -> None:
    if not group:
        raise errors.InvalidArgument("no producer group was given.", hint="Give the one that the messages were published with.")
    if not 1 <= len(message_ids) <= DELETED_IDS_MAX:
        raise errors.InvalidArgument(f"{len(message_ids)} ids were given.", hint=f"One request takes 1 to {DELETED_IDS_MAX}.")
    for text in message_ids:
        size = len(text.encode())
        if not 1 <= size <= ID_BYTES_MAX:
            raise errors.InvalidArgument(f"an id of {size} bytes was given.", hint=f"An id has 1 to {ID_BYTES_MAX} bytes as UTF-8.")


def _not_yours(message_id: str, owner: str, verb: str) -> errors.NotAuthorised:
    return errors.NotAuthorised(
        f"message {message_id!r} belongs to group {owner!r}.", hint=f"Only its owner may {verb} it.", details={"group": owner}
    )


def _leased(message_id: str, lease: SubscriptionLease) -> errors.Leased:
    until = times.to_text(lease.leased.until)
    return errors.Leased(
        f"message {message_id!r} is leased to '{lease.leased.consumer}' for the subscription '{lease.name}' until {until}.",
        hint="Delete it when the lease has ended, or take the lease away: bowstring lease release.",
        details={"subscription": lease.name, "consumer": lease.leased.consumer, "until": until},
    )


def _due(message_id: str, done: str, hint: str) -> errors.Conflict:
    return errors.Conflict(f"message {message_id!r} is due: it cannot be {done} any more.", hint=hint)


def _expired(message_id: str, expires: int) -> errors.InvalidArgument:
    text = times.to_text(expires)
    return errors.InvalidArgument(
        f"message {message_id!r} expires at {text}, and was to be due later.", hint="Use an earlier moment.", details={"expires": text}
    )


def _too_many(message_id: str) -> errors.Conflict:
    return errors.Conflict(
        f"message {message_id!r} is not moved: {MOVED_MAX:,} messages of its partition are moved already.",
        hint="Cancel it, and publish it anew with another id.",
    )


def _unreadable(topic: Topic) -> errors.Corrupt:
    return errors.Corrupt(f"stored ids of '{topic.row.name}' could not be read, so whether this one is stored is unknown.")
