"""The calls about places in topics: which offsets a moment means, and the named positions of readers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from bowstring import errors
from bowstring.broker.broker import Broker
from bowstring.broker.log import positions
from bowstring.broker.log.positions import PositionFacts
from bowstring.broker.reading import places
from bowstring.broker.reading.places import Place
from bowstring.ports.transport import Caller
from bowstring.wire.generated import bowstring_pb2 as pb

PAGE_POSITIONS_MAX: Final = 1000


async def offsets(broker: Broker, request: pb.OffsetsRequest, caller: Caller) -> pb.OffsetsAnswer:
    """The offsets that a place means."""
    given = request.WhichOneof("at")
    if given is None:
        raise errors.InvalidArgument("no place was asked for.", hint="Give one of beginning, latest, moment and newest.")
    place = Place(**{given: getattr(request, given)})
    topic_id, found = await places.offsets(broker.serving.reading, request.topic, request.partitions, place)
    answer = pb.OffsetsAnswer(topic_id=topic_id)
    for partition, offset in found.items():
        answer.offsets.add(partition=partition, offset=offset)
    return answer


async def commit(broker: Broker, request: pb.CommitPositionRequest, caller: Caller) -> pb.Position:
    """Moves a position forward."""
    wanted = _offsets(request.offsets)
    return _message(await positions.commit(broker.serving.log, request.topic, request.name, wanted, request.topic_id))


async def put(broker: Broker, request: pb.SetPositionRequest, caller: Caller) -> pb.Position:
    """Moves a position anywhere."""
    wanted = _offsets(request.offsets)
    return _message(await positions.put(broker.serving.log, request.topic, request.name, wanted, dry_run=request.dry_run))


async def describe(broker: Broker, request: pb.DescribePositionRequest, caller: Caller) -> pb.Position:
    return _message(await positions.describe(broker.serving.log, request.topic, request.name))


async def list_page(broker: Broker, request: pb.ListPositionsRequest, caller: Caller) -> pb.ListPositionsAnswer:
    """A page of positions; the caller asks for the next one after the last topic and name of this."""
    after, limit = (request.after_topic, request.after_name), min(request.limit or PAGE_POSITIONS_MAX, PAGE_POSITIONS_MAX)
    found, more = await positions.list_page(broker.serving.log, request.topic, after, limit)
    return pb.ListPositionsAnswer(positions=[_message(facts) for facts in found], more=more)


async def delete(broker: Broker, request: pb.DeletePositionRequest, caller: Caller) -> pb.DeletePositionAnswer:
    deleted = await positions.delete(broker.serving.log, request.topic, request.name, missing_ok=request.missing_ok)
    return pb.DeletePositionAnswer(deleted=deleted)


def _offsets(given: Iterable[pb.PartitionOffset]) -> dict[int, int]:
    return {each.partition: each.offset for each in given}


def _message(facts: PositionFacts) -> pb.Position:
    answer = pb.Position(name=facts.name, topic=facts.topic)
    for partition, offset, moved, lag in facts.offsets:
        answer.offsets.add(partition=partition, offset=offset, moved=moved, lag=lag)
    return answer
