"""Looking at the messages that a subscription would deliver next."""

from __future__ import annotations

from collections.abc import Sequence

from bowstring import errors
from bowstring.client import arguments
from bowstring.client.arguments import shown
from bowstring.client.batch import Batch
from bowstring.client.connection import Connection
from bowstring.client.consumer_settings import checked_name
from bowstring.client.pages import Chunk, FetchedPage
from bowstring.messages import filters
from bowstring.wire.generated import bowstring_pb2 as pb

LIMIT_MAX = 10_000


async def peek(
    connection: Connection, topic: str, subscription: str, limit: int, where: str | None, ids: Sequence[str], seconds: float
) -> Batch:
    """What would come next. Nothing is leased."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= LIMIT_MAX:
        raise errors.InvalidArgument(f"limit={shown(limit)} is not valid.", hint=f"Use a whole number from 1 to {LIMIT_MAX}.")
    if where is not None:
        if not isinstance(where, str):
            raise errors.InvalidArgument(f"where={shown(where)} is of type {type(where).__name__}.", hint="Use text: \"key = 'a'\".")
        filters.parse(where)
    names = arguments.topic_name(topic), checked_name(subscription, "subscription")
    request = pb.PeekRequest(topic=names[0], subscription=names[1], limit=limit, where=where or "", ids=ids)
    answer = pb.PeekAnswer.FromString(await connection.call("Peek", request.SerializeToString(), seconds))
    pages = [FetchedPage(topic, page, memoryview(page.batch) if page.batch else None) for page in answer.pages]
    return Batch([Chunk(page, 0, page.rows) for page in pages])
