"""The calls about messages by their ids: where one is, and deleting some."""

from __future__ import annotations

from bowstring.broker.broker import Broker
from bowstring.broker.log import message_lookup
from bowstring.gateway.requests import DeletedMessages, DeleteMessagesRequest, FindRequest, MessagePlace
from bowstring.ports.transport import Caller


async def find(broker: Broker, request: FindRequest, caller: Caller) -> MessagePlace | None:
    """Says where the message of an id is."""
    return await message_lookup.find(broker.serving.log, request.topic, request.id)


async def delete(broker: Broker, request: DeleteMessagesRequest, caller: Caller) -> DeletedMessages:
    """Deletes messages for their owner. Each that cannot be deleted is refused by itself."""
    topic_id = broker.serving.topics.topic(request.topic).row.id
    return DeletedMessages(topic_id, await message_lookup.delete(broker.serving.log, request.topic, request.group, list(request.ids)))
