"""The calls about messages by their ids: where one is, and deleting some."""

from __future__ import annotations

from bowstring.broker.broker import Broker
from bowstring.broker.log import message_lookup
from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.reading.partition_dues import PartitionDues
from bowstring.gateway.requests import CancelMessagesRequest, DeletedMessages, DeleteMessagesRequest, FindRequest, MessagePlace
from bowstring.ports.transport import Caller


async def find(broker: Broker, request: FindRequest, caller: Caller) -> MessagePlace | None:
    """Says where the message of an id is."""
    return await message_lookup.find(broker.serving.log, request.topic, request.id)


async def cancel(broker: Broker, request: CancelMessagesRequest, caller: Caller) -> DeletedMessages:
    """Deletes messages for their owner that are not due yet."""
    serving = broker.serving
    topic_id = serving.topics.topic(request.topic).row.id

    async def due_times(actor: PartitionActor, offsets: list[int]) -> dict[int, int]:
        return await PartitionDues(actor.partition, serving.reading).of_offsets(offsets)

    return DeletedMessages(topic_id, await message_lookup.delete(serving.log, request.topic, request.group, list(request.ids), due_times))


async def delete(broker: Broker, request: DeleteMessagesRequest, caller: Caller) -> DeletedMessages:
    """Deletes messages for their owner. Each that cannot be deleted is refused by itself."""
    topic_id = broker.serving.topics.topic(request.topic).row.id
    return DeletedMessages(topic_id, await message_lookup.delete(broker.serving.log, request.topic, request.group, list(request.ids)))
