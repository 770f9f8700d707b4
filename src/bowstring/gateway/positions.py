"""The calls about places in topics: the offsets of a moment, and the named positions of readers."""

from __future__ import annotations

from typing import Final

from bowstring import errors
from bowstring.broker.broker import Broker
from bowstring.broker.log import positions
from bowstring.broker.log.positions import PositionFacts
from bowstring.broker.reading import places
from bowstring.gateway import requests
from bowstring.gateway.requests import PlacedOffsets, PositionPage
from bowstring.ports.transport import Caller

PAGE_POSITIONS_MAX: Final = 1000


async def offsets(broker: Broker, request: requests.OffsetsRequest, caller: Caller) -> PlacedOffsets:
    """Finds the offsets that a place means."""
    if request.place is None:
        raise errors.InvalidArgument("no place was asked for.", hint="Give one of beginning, latest, moment and newest.")
    return PlacedOffsets(*await places.offsets(broker.serving.reading, request.topic, request.partitions, request.place))


async def commit(broker: Broker, request: requests.CommitPositionRequest, caller: Caller) -> PositionFacts:
    """Moves a position forward."""
    return await positions.commit(broker.serving.log, request.topic, request.name, request.offsets, request.topic_id)


async def put(broker: Broker, request: requests.SetPositionRequest, caller: Caller) -> PositionFacts:
    """Moves a position anywhere."""
    return await positions.put(broker.serving.log, request.topic, request.name, request.offsets, dry_run=request.dry_run)


async def describe(broker: Broker, request: requests.DescribePositionRequest, caller: Caller) -> PositionFacts:
    return await positions.describe(broker.serving.log, request.topic, request.name)


async def list_page(broker: Broker, request: requests.ListPositionsRequest, caller: Caller) -> PositionPage:
    """Gives a page of positions.
    The caller asks for the next page with the last topic and name of this one."""
    limit = min(request.limit or PAGE_POSITIONS_MAX, PAGE_POSITIONS_MAX)
    return PositionPage(*await positions.list_page(broker.serving.log, request.topic, request.after, limit))


async def delete(broker: Broker, request: requests.DeletePositionRequest, caller: Caller) -> bool:
    """Deletes a position, and says whether there was one."""
    return await positions.delete(broker.serving.log, request.topic, request.name, missing_ok=request.missing_ok)
