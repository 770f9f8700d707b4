"""The calls of a client about dead letters: looking at them, and sending them back.

A redrive has two steps. The kit first asks for the places of the letters that can be sent back, all of
them, then names these places in as many requests as it takes, at the pace that was asked for. So it
takes what is dead when it begins: a message that dies again is another letter, at another place.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bowstring import errors
from bowstring.client import arguments
from bowstring.client.arguments import shown
from bowstring.client.connection import Connection
from bowstring.client.consumer_settings import checked_name
from bowstring.messages import filters
from bowstring.wire.error_messages import from_message
from bowstring.wire.generated import bowstring_pb2 as pb

if TYPE_CHECKING:
    from bowstring.client.message import Message
    from bowstring.client.receipts import Answers

PAGE_LETTERS: Final = 1_000
PLACES: Final = 50_000
"""How many places are asked for at once, and named in one request."""
IDS: Final = 1_000
PARTS_A_SECOND: Final = 10
"""A redrive with a rate sends so many requests a second."""
RATE_MAX: Final = 1e9

Place = tuple[int, int]


Told = Callable[[int, int | None], None]
"""Gets to know how many letters are done, and of how many."""


def _untold(done: int, total: int | None) -> None:
    pass


class LetterMessages(NamedTuple):
    """A page of dead letters, and where the next one begins; None if it is the last."""

    messages: list[Message]
    redriven: set[Place]
    """The partitions and offsets of those that were sent back, and are not settled yet."""
    following: Place | None


class LetterPlan(NamedTuple):
    """The letters that a redrive or a purge concerns: one entry for each answer."""

    topic: str
    places: list[Place | None]
    refused: dict[int, errors.Error]


class LetterCalls:
    """The calls of a client about dead letters."""

    _connection: Connection
    _timeout: float

    def dead_letters(self, topic: str, subscription: str) -> AsyncIterator[Message]:
        """The dead letters of a subscription, by partition and offset: messages of its topic for dead
        letters whose attributes tell why they died, where they came from, and of their last
        delivery. One that was redriven is among them until a consumer has acked it. Raises
        `SubscriptionNotFound`.
        """
        return _each(self._letters(topic, subscription))

    async def _letters(
        self, topic: str, subscription: str, where: str | None = None, limit: int | None = None
    ) -> AsyncIterator[LetterMessages]:
        """The same, page by page; only those that pass a filter, and at most so many."""
        after: Place | None = (0, 0)
        while after is not None and limit != 0:
            page = await self._letter_page(topic, subscription, where, after, PAGE_LETTERS if limit is None else min(limit, PAGE_LETTERS))
            limit = None if limit is None else limit - len(page.messages)
            after = page.following
            yield page

    async def _letter_page(self, topic: str, subscription: str, where: str | None, after: Place, limit: int) -> LetterMessages:
        from bowstring.client.batch import Batch
        from bowstring.client.pages import Chunk, FetchedPage

        answer = await self._list(_request(topic, subscription, where), after, limit)
        pages = [FetchedPage(answer.dead_letters, page, memoryview(page.batch) if page.batch else None) for page in answer.pages]
        messages = list(Batch([Chunk(page, 0, page.rows) for page in pages]))
        return LetterMessages(messages, set(_places(answer.redriven)), _following(answer))

    async def _letter(self, topic: str, subscription: str, message: str) -> LetterMessages:
        """The page of one dead letter. Raises `MessageNotFound`, and `Conflict` for what is none."""
        request = _request(topic, subscription, None)
        request.redriven_too = True
        plan = await self._plan_of(request, arguments.message_ids([message]))
        place = plan.places[0]
        if place is None:
            raise plan.refused[0]
        return await self._letter_page(topic, subscription, None, (place[0], place[1] - 1), 1)

    async def redrive(
        self,
        topic: str,
        subscription: str,
        ids: Iterable[str] | None = None,
        where: str | None = None,
        rate: float | None = None,
        dry_run: bool = False,
    ) -> Answers:
        """Sends dead letters back to their subscription alone: its consumers get them again, while
        readers of the topic and other subscriptions see nothing. All that are dead when it begins, or
        only those of some `ids`, or those that pass the filter `where`; at most `rate` a second. A
        message that dies again is a dead letter again, and is not sent back twice. With `dry_run` it
        only returns what it would do.

        There is one answer per id, or one per letter, with its place among the dead letters. What is
        no dead letter of the subscription, or was redriven already, is refused with `Conflict`; an
        unknown id with `MessageNotFound`. Durable when it returns. Raises `SubscriptionNotFound`.
        """
        pace = checked_rate(rate)
        plan = await self._plan(topic, subscription, ids, where)
        return answers_of(plan) if dry_run else await self._redrive(topic, subscription, plan, pace)

    async def _redrive(self, topic: str, subscription: str, plan: LetterPlan, pace: float | None, told: Told = _untold) -> Answers:
        def made(letters: list[pb.LetterRows]) -> bytes:
            return pb.RedriveRequest(topic=topic, subscription=subscription, letters=letters).SerializeToString()

        rows = [row for row, place in enumerate(plan.places) if place is not None]
        clock = self._connection.world.clock
        begun, size = clock.monotonic(), PLACES if pace is None else max(1, min(PLACES, int(pace / PARTS_A_SECOND)))
        for first in range(0, len(rows), size):
            if pace is not None and (wait := begun + first / pace - clock.monotonic()) > 0:
                await clock.sleep(wait)
            some = rows[first : first + size]
            request = made(_letters([plan.places[row] for row in some]))
            answer = pb.RedriveAnswer.FromString(await self._connection.call("Redrive", request, self._timeout))
            _refuse(plan, some, set(_places(answer.gone)), _gone)
            told(first + len(some), len(rows))
        return answers_of(plan)

    async def _purge(self, topic: str, subscription: str, plan: LetterPlan, told: Told = _untold) -> Answers:
        """Deletes dead letters, but for those that a consumer holds."""
        rows = [row for row, place in enumerate(plan.places) if place is not None]
        for first in range(0, len(rows), PLACES):
            some = rows[first : first + PLACES]
            letters = _letters([plan.places[row] for row in some])
            request = pb.PurgeDeadLettersRequest(topic=topic, subscription=subscription, letters=letters)
            data = await self._connection.call("PurgeDeadLetters", request.SerializeToString(), self._timeout)
            _refuse(plan, some, set(_places(pb.PurgeDeadLettersAnswer.FromString(data).held)), _held)
            told(first + len(some), len(rows))
        return answers_of(plan)

    async def _plan(self, topic: str, subscription: str, ids: Any, where: Any, limit: int | None = None) -> LetterPlan:
        """What is dead now, of some ids, or of what passes a filter; at most so many."""
        if ids is not None and where is not None:
            raise errors.InvalidArgument("ids= and where= were given.", hint="Give one of them, or none for all dead letters.")
        request = _request(topic, subscription, where)
        if ids is not None:
            return await self._plan_of(request, arguments.message_ids(ids))
        request.places = True
        places: list[Place | None] = []
        name, after = "", (0, 0)
        while after is not None and (limit is None or len(places) < limit):
            answer = await self._list(request, after, PLACES if limit is None else min(PLACES, limit - len(places)))
            places += _places(answer.letters)
            name, after = answer.dead_letters, _following(answer)
        return LetterPlan(name, places, {})

    async def _plan_of(self, request: pb.ListDeadLettersRequest, ids: list[str]) -> LetterPlan:
        plan = LetterPlan("", [], {})
        for first in range(0, len(ids), IDS):
            request.ids[:] = ids[first : first + IDS]
            answer = await self._list(request, (0, 0), 1)
            plan = plan._replace(topic=answer.dead_letters)
            for found in answer.found:
                refused = found.HasField("refused")
                if refused:
                    plan.refused[len(plan.places)] = from_message(found.refused)
                plan.places.append(None if refused else (found.partition, found.offset))
        return plan

    async def _list(self, request: pb.ListDeadLettersRequest, after: Place, limit: int) -> pb.ListDeadLettersAnswer:
        request.after_partition, request.after_offset, request.limit = *after, limit
        data = await self._connection.call("ListDeadLetters", request.SerializeToString(), self._timeout)
        return pb.ListDeadLettersAnswer.FromString(data)


async def _each(pages: AsyncIterator[LetterMessages]) -> AsyncIterator[Message]:
    async for page in pages:
        for message in page.messages:
            yield message


def _request(topic: object, subscription: object, where: object) -> pb.ListDeadLettersRequest:
    if where is not None:
        if not isinstance(where, str):
            raise errors.InvalidArgument(f"where={shown(where)} is of type {type(where).__name__}.", hint="Use text: \"key = 'a'\".")
        filters.parse(where)
    names = arguments.topic_name(topic), checked_name(subscription, "subscription")
    return pb.ListDeadLettersRequest(topic=names[0], subscription=names[1], where=where or "")


def checked_rate(rate: object) -> float | None:
    """Messages a second."""
    if rate is None:
        return None
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not math.isfinite(rate) or not 0 < rate <= RATE_MAX:
        raise errors.InvalidArgument(f"rate={shown(rate)} is not valid.", hint="Use messages a second, above 0, or None for no limit.")
    return float(rate)


def _places(given: Iterable[pb.LetterRows]) -> list[Place]:
    return [
        (part.partition, offset + row)
        for part in given
        for offset, rows in zip(part.offsets, part.rows, strict=True)
        for row in range(rows)
    ]


def _letters(places: Sequence[Place | None]) -> list[pb.LetterRows]:
    """Places as runs, by partition."""
    by_partition: dict[int, set[int]] = {}
    for place in places:
        if place is not None:
            by_partition.setdefault(place[0], set()).add(place[1])
    told: list[pb.LetterRows] = []
    for partition, offsets in sorted(by_partition.items()):
        part = pb.LetterRows(partition=partition)
        for offset in sorted(offsets):
            if part.offsets and part.offsets[-1] + part.rows[-1] == offset:
                part.rows[-1] += 1
            else:
                part.offsets.append(offset)
                part.rows.append(1)
        told.append(part)
    return told


def _following(answer: pb.ListDeadLettersAnswer) -> Place | None:
    return (answer.next_partition, answer.next_offset) if answer.more else None


def _refuse(plan: LetterPlan, rows: Sequence[int], places: set[Place], error: Callable[[str, Place], errors.Error]) -> None:
    for row in rows if places else ():
        place = plan.places[row]
        if place is not None and place in places:
            plan.refused[row] = error(plan.topic, place)
            plan.places[row] = None


def _gone(topic: str, place: Place) -> errors.Error:
    gone = f"the dead letter {topic}/{place[0]}@{place[1]} is gone."
    return errors.MessageNotFound(gone, hint="It was purged, or retention has taken it.")


def _held(topic: str, place: Place) -> errors.Error:
    return errors.Leased(f"a consumer holds the dead letter {topic}/{place[0]}@{place[1]}.", hint="Wait until it is settled.")


def answers_of(plan: LetterPlan) -> Answers:
    import pyarrow as pa

    from bowstring.client.receipts import Answers

    ok = [place is not None for place in plan.places]
    partitions = pa.array([None if place is None else place[0] for place in plan.places], pa.int32())
    offsets = pa.array([None if place is None else place[1] for place in plan.places], pa.int64())
    no = pa.array([False] * len(ok), pa.bool_())
    return Answers(plan.topic, pa.array(ok, pa.bool_()), partitions, offsets, no, plan.refused)
