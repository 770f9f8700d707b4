"""The client's calls about places in topics and about named positions of readers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bowstring import errors, times
from bowstring.client import arguments, ranges
from bowstring.client.broker_time import BrokerTime
from bowstring.client.connection import Connection
from bowstring.client.ranges import Start
from bowstring.messages.limits import NAME_BYTES_MAX
from bowstring.wire.generated import bowstring_pb2 as pb

PAGE_POSITIONS = 1000


@dataclass(frozen=True, slots=True)
class Position:
    """A named position as it was when it was asked for."""

    name: str
    topic: str
    offsets: dict[int, int]
    """The next offset to read, by partition."""
    lag: dict[int, int]
    """How many offsets follow it, by partition."""
    moved: datetime | None
    """When it was committed or set last."""


def position_name(given: object) -> str:
    """The name of a position."""
    fits = isinstance(given, str) and given.isprintable() and 0 < len(given.encode(errors="replace")) <= NAME_BYTES_MAX
    if not fits or not isinstance(given, str):
        raise errors.InvalidArgument(f"name={given!r} is not a name for a position.", hint=f"Use 1 to {NAME_BYTES_MAX} bytes of text.")
    return given


def offsets_message(offsets: Mapping[int, int]) -> list[pb.PartitionOffset]:
    """Offsets as they travel."""
    return [pb.PartitionOffset(partition=partition, offset=offset) for partition, offset in sorted(offsets.items())]


def from_wire(message: pb.Position) -> Position:
    """A position as the broker tells it."""
    return Position(
        message.name,
        message.topic,
        {each.partition: each.offset for each in message.offsets},
        {each.partition: each.lag for each in message.offsets},
        times.to_datetime(max(each.moved for each in message.offsets)) if message.offsets else None,
    )


class PositionCalls:
    """The calls of a client about places."""

    _connection: Connection
    _broker_time: BrokerTime
    _timeout: float

    async def offsets(self, topic: str, at: Start = "latest", *, partitions: Sequence[int] | None = None) -> dict[int, int]:
        """The offset that a place means in each partition: `"beginning"`, `"latest"` (the next
        message's), a moment (the first message that arrived then or later), `-100` (where the
        newest 100 of the topic begin).
        """
        return await self._resolved(arguments.topic_name(topic), at, "at", ranges.check_partitions(partitions))

    async def _resolved(self, topic: str, place: Any, argument: str, partitions: tuple[int, ...] | None) -> dict[int, int]:
        checked = ranges.check(place, argument, self._clocks())
        request = pb.DescribeTopicRequest(name=topic)
        described = pb.Topic.FromString(await self._ask("DescribeTopic", request))

        async def ask(request: pb.OffsetsRequest) -> pb.OffsetsAnswer:
            return pb.OffsetsAnswer.FromString(await self._ask("Offsets", request))

        return await ranges.resolve(ask, described, checked, ranges.wanted(described, checked, partitions))

    def _clocks(self) -> ranges.Clocks:
        return ranges.Clocks(self._broker_time.now(), self._broker_time.drift())

    async def positions(self, topic: str | None = None) -> AsyncIterator[Position]:
        """All named positions by topic and name, or those of one topic; page by page."""
        after: tuple[str, str] | None = ("", "")
        while after is not None:
            page, after = await self._position_page(topic, after)
            for position in page:
                yield position

    async def _position_page(self, topic: str | None, after: tuple[str, str]) -> tuple[list[Position], tuple[str, str] | None]:
        """The positions behind a topic and name, and where to go on; None if these were the
        last."""
        name = "" if topic is None else arguments.topic_name(topic)
        request = pb.ListPositionsRequest(topic=name, after_topic=after[0], after_name=after[1], limit=PAGE_POSITIONS)
        answer = pb.ListPositionsAnswer.FromString(await self._ask("ListPositions", request))
        page = [from_wire(message) for message in answer.positions]
        return page, (page[-1].topic, page[-1].name) if answer.more and page else None

    async def position(self, name: str, topic: str) -> Position:
        """A named position. Raises `NotFound`."""
        request = pb.DescribePositionRequest(topic=arguments.topic_name(topic), name=position_name(name))
        return from_wire(pb.Position.FromString(await self._ask("DescribePosition", request)))

    async def set_position(self, name: str, topic: str, to: Start, *, dry_run: bool = False) -> Position:
        """Moves a named position, also backwards, and creates it if there is none; `to` is a place
        as a reader's `start`. Running readers do not move. With `dry_run` it only returns the new
        position.
        """
        if to is None:
            raise errors.InvalidArgument("to=None is no place.", hint="Use 'beginning', 'latest', an offset or a moment.")
        offsets = await self._resolved(arguments.topic_name(topic), to, "to", None)
        request = pb.SetPositionRequest(topic=topic, name=position_name(name), offsets=offsets_message(offsets), dry_run=dry_run)
        return from_wire(pb.Position.FromString(await self._ask("SetPosition", request)))

    async def delete_position(self, name: str, topic: str, missing_ok: bool = False) -> None:
        """Deletes a named position: the next reader of that name begins at its `start`. Raises
        `NotFound`, unless `missing_ok`.
        """
        request = pb.DeletePositionRequest(topic=arguments.topic_name(topic), name=position_name(name), missing_ok=missing_ok)
        await self._connection.change("DeletePosition", request.SerializeToString(), self._timeout)

    async def _ask(self, method: str, request: Any) -> bytes:
        return await self._connection.call(method, request.SerializeToString(), self._timeout)
