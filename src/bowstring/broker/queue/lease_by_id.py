"""A consumer leases messages that it names by their ids: messages that wait, and that it has seen by a
peek, perhaps.

Ids are looked up, then each partition grants in one step what can be granted, by a grant like any
other. The rows are sent when that is committed, before everything else that waits for the consumer,
and then the answer: which ids were refused and why, and which the consumer holds already.

**Credit.** The consumer has asked for these messages, so its credit for messages does not limit them:
a consumer that pauses gets them, too. They count in what it holds, so that it is pushed nothing else
until it has settled as many. Its bytes do limit them: what does not fit is given back and refused as
`Full`.

**Rows ahead.** Of rows from the cursor on it has to be known first whether they are due, pass the
filter and have a free key; that is the work of the schedule, the scout and the keys, and it is waited
for. They look a bounded way ahead: what is behind it is refused.

**Keys.** A message of a key-shared subscription is granted if its key is free and no earlier message
of the key waits, unless that one is granted with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bowstring import errors
from bowstring.broker.log import message_lookup
from bowstring.broker.queue.consumer import LiveConsumer
from bowstring.broker.queue.partition_leasing import OwnLease, PartitionLeasing
from bowstring.broker.queue.queues import Queues
from bowstring.core.row_set import RowSet
from bowstring.messages.limits import ID_BYTES_MAX, LEASED_IDS_MAX


class IdsLeased(NamedTuple):
    """The answer."""

    own: Sequence[OwnLease]
    refused: Mapping[int, errors.Error]
    """By the place of an id in the request."""


async def lease_by_id(queues: Queues, consumer: LiveConsumer, number: int, ids: Sequence[str]) -> IdsLeased:
    """Grants the messages of these ids to a consumer, and sends them. Raises InvalidArgument."""
    check_ids(ids)
    return await _Leasing(queues, consumer, number, ids).lease()


def check_ids(ids: Sequence[str]) -> None:
    """Raises InvalidArgument if there are too many, or one cannot be an id."""
    if not 1 <= len(ids) <= LEASED_IDS_MAX:
        raise errors.InvalidArgument(f"{len(ids)} ids were given.", hint=f"One request leases 1 to {LEASED_IDS_MAX}.")
    for text in ids:
        size = len(text.encode())
        if not 1 <= size <= ID_BYTES_MAX:
            raise errors.InvalidArgument(f"an id of {size} bytes was given.", hint=f"An id has 1 to {ID_BYTES_MAX} bytes as UTF-8.")


class _Leasing:
    """One request."""

    def __init__(self, queues: Queues, consumer: LiveConsumer, number: int, ids: Sequence[str]) -> None:
        self._queues = queues
        self._consumer = consumer
        self._subscription = consumer.subscription
        self._number = number
        self._ids = ids
        self._own: list[OwnLease] = []
        self._refused: dict[int, errors.Error] = {}

    async def lease(self) -> IdsLeased:
        sent: list[tuple[PartitionLeasing, asyncio.Future[RowSet]]] = []
        for partition, offsets in (await self._places()).items():
            part = PartitionLeasing(self._queues, self._consumer, self._subscription.topic.actors[partition], offsets)
            await part.until_known()
            future = part.grant(self._number)
            await part.tell_why()
            if future is not None:
                sent.append((part, future))
            self._own += part.own
            self._refused |= part.refused
        for part, future in sent:
            part.tell_unsent(await future)
            self._refused |= part.refused
        await self._queues.log.durable()
        return IdsLeased(self._own, self._refused)

    async def _places(self) -> dict[int, dict[int, list[int]]]:
        """By partition and offset the places of ids in the request."""
        log, topic = self._queues.log, self._subscription.topic.row.name
        found: dict[int, dict[int, list[int]]] = {}
        for row, text in enumerate(self._ids):
            place = await message_lookup.find(log, topic, text)
            if place is None:
                self._refused[row] = message_lookup.not_found(topic, text)
            else:
                found.setdefault(place.partition, {}).setdefault(place.offset, []).append(row)
        return found
