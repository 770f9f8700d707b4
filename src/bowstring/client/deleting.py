"""Deleting messages by their ids: requests that a broker takes, and their answers as one per id."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import pyarrow as pa

from bowstring import errors
from bowstring.client.connection import Connection
from bowstring.client.receipts import Answers
from bowstring.messages.limits import DELETED_IDS_MAX
from bowstring.wire.codec import HEADER_BYTES_MAX
from bowstring.wire.generated import bowstring_pb2 as pb
from bowstring.wire.status import from_message

BYTES_MAX: Final = HEADER_BYTES_MAX // 2
"""Of the ids of one request: half of what a broker takes, for all that is around them."""


Deleted = Callable[[str, int, Sequence[tuple[int, int]]], object]
"""Told of a topic, its id, and the partitions and offsets at which messages were deleted."""


async def delete(connection: Connection, topic: str, group: str, ids: Sequence[str], seconds: float, deleted: Deleted) -> Answers:
    """Deletes messages of a group. A request whose answer got lost is sent again, and answered as it would have been."""
    outcomes: list[pb.DeletedMessage] = []
    for some in _requests(ids):
        request = pb.DeleteMessagesRequest(topic=topic, group=group, ids=some).SerializeToString()
        answer = pb.DeleteMessagesAnswer.FromString(await connection.call("DeleteMessages", request, seconds))
        if len(answer.messages) != len(some):
            raise errors.Error(f"the broker has answered {len(answer.messages)} of {len(some)} ids.")
        outcomes += answer.messages
        deleted(topic, answer.topic_id, [(each.partition, each.offset) for each in answer.messages if not each.HasField("refused")])
    return _answers(topic, outcomes)


def _requests(ids: Sequence[str]) -> Iterator[list[str]]:
    some: list[str] = []
    size = 0
    for text in ids:
        length = len(text.encode())
        if some and (len(some) >= DELETED_IDS_MAX or size + length > BYTES_MAX):
            yield some
            some, size = [], 0
        some.append(text)
        size += length
    yield some


def _answers(topic: str, outcomes: Sequence[pb.DeletedMessage]) -> Answers:
    refused = {row: from_message(outcome.refused) for row, outcome in enumerate(outcomes) if outcome.HasField("refused")}
    ok = [row not in refused for row in range(len(outcomes))]
    partitions = pa.array([outcome.partition if good else None for outcome, good in zip(outcomes, ok, strict=True)], pa.int32())
    offsets = pa.array([outcome.offset if good else None for outcome, good in zip(outcomes, ok, strict=True)], pa.int64())
    return Answers(topic, pa.array(ok), partitions, offsets, pa.array([False] * len(ok)), refused)
