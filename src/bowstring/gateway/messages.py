"""The calls about messages by their ids: where one is, and deleting some."""

from __future__ import annotations

from bowstring.broker.broker import Broker
from bowstring.broker.log import message_lookup
from bowstring.ports.transport import Caller
from bowstring.wire.generated import bowstring_pb2 as pb
from bowstring.wire.status import to_message


async def find(broker: Broker, request: pb.FindRequest, caller: Caller) -> pb.FindAnswer:
    """Where the message of an id is."""
    found = await message_lookup.find(broker.serving.log, request.topic, request.id)
    return pb.FindAnswer() if found is None else pb.FindAnswer(found=True, partition=found.partition, offset=found.offset)


async def delete(broker: Broker, request: pb.DeleteMessagesRequest, caller: Caller) -> pb.DeleteMessagesAnswer:
    """Deletes messages for their owner; what cannot be deleted is refused for itself."""
    answer = pb.DeleteMessagesAnswer(topic_id=broker.serving.topics.topic(request.topic).row.id)
    for outcome in await message_lookup.delete(broker.serving.log, request.topic, request.group, list(request.ids)):
        if isinstance(outcome, message_lookup.Place):
            answer.messages.add(partition=outcome.partition, offset=outcome.offset)
        else:
            answer.messages.add(refused=to_message(outcome))
    return answer
