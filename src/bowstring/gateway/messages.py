"""The calls about messages by their ids: where one is, deleting some, and moving some."""

from __future__ import annotations

from bowstring.broker.broker import Broker
from bowstring.broker.log import message_lookup
from bowstring.broker.reading.row_times import row_times
from bowstring.gateway.requests import (
    CancelMessagesRequest,
    DeletedMessages,
    DeleteMessagesRequest,
    FindRequest,
    MessagePlace,
    MoveMessagesRequest,
)
from bowstring.ports.transport import Caller


async def find(broker: Broker, request: FindRequest, caller: Caller) -> MessagePlace | None:
    """Says where the message of an id is."""
    return await message_lookup.find(broker.serving.log, request.topic, request.id)


async def cancel(broker: Broker, request: CancelMessagesRequest, caller: Caller) -> DeletedMessages:
    """Deletes messages for their owner that are not due yet."""
    topic_id, ids = broker.serving.topics.topic(request.topic).row.id, list(request.ids)
    return DeletedMessages(topic_id, await message_lookup.delete(broker.serving.log, request.topic, request.group, ids, _due_times(broker)))


async def move(broker: Broker, request: MoveMessagesRequest, caller: Caller) -> DeletedMessages:
    """Gives messages that are not due yet another due time, for their owner."""
    topic_id, ids, log = broker.serving.topics.topic(request.topic).row.id, list(request.ids), broker.serving.log
    return DeletedMessages(topic_id, await message_lookup.move(log, request.topic, request.group, ids, request.due, _due_times(broker)))


def _due_times(broker: Broker) -> message_lookup.DueTimesOf:
    reading = broker.serving.reading
    return lambda actor, offsets: row_times(actor.partition, reading, offsets)


async def delete(broker: Broker, request: DeleteMessagesRequest, caller: Caller) -> DeletedMessages:
    """Deletes messages for their owner. Each that cannot be deleted is refused by itself."""
    topic_id = broker.serving.topics.topic(request.topic).row.id
    return DeletedMessages(topic_id, await message_lookup.delete(broker.serving.log, request.topic, request.group, list(request.ids)))
