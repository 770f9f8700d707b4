"""What a reader asks about its topic: settings, offsets, positions. Each question is repeated until
a broker answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bowstring import errors
from bowstring.client.connection import Connection, Pauses
from bowstring.wire.generated import bowstring_pb2 as pb

CALL_SECONDS: Final = 5.0


class TopicQuestions:
    """Asks about one topic, over one connection."""

    def __init__(self, connection: Connection, topic: str, changed: Callable[[], object]) -> None:
        self._connection = connection
        self._topic = topic
        self._clock = connection.world.clock
        self._changed = changed
        """Called when a broker has gone away."""
        self.pauses = Pauses(connection.world)
        self.away_since: float | None = self._clock.monotonic()
        """Since when no broker has answered, in monotonic seconds; None while one does."""

    async def describe(self) -> pb.Topic:
        """The topic as it is now."""
        return pb.Topic.FromString(await self._ask("DescribeTopic", pb.DescribeTopicRequest(name=self._topic)))

    async def offsets(self, request: pb.OffsetsRequest) -> pb.OffsetsAnswer:
        """The offsets that a place means."""
        return pb.OffsetsAnswer.FromString(await self._ask("Offsets", request))

    async def committed(self, name: str | None, numbers: tuple[int, ...]) -> dict[int, int]:
        """The offsets of a named position in these partitions; empty if there is none."""
        if name is None:
            return {}
        try:
            answer = await self._ask("DescribePosition", pb.DescribePositionRequest(topic=self._topic, name=name))
        except errors.TopicNotFound:
            raise
        except errors.NotFound:
            return {}
        return {each.partition: each.offset for each in pb.Position.FromString(answer).offsets if each.partition in numbers}

    async def _ask(self, method: str, request: Any) -> bytes:
        while True:
            try:
                await self._connection.hello()
                answer = await self._connection.channel.call(method, request.SerializeToString(), CALL_SECONDS)
            except errors.Unavailable as error:
                if (ended := self._connection.given_up(error)) is not None:
                    raise ended from None
                self.unanswered(self._clock.monotonic())
                await self.pauses.wait()
            else:
                self.away_since = None
                return answer

    def unanswered(self, since: float) -> None:
        """No broker has answered since then."""
        if self.away_since is None:
            self.away_since = since
            self._changed()
