"""A subscription is set to another place: the call, and what it comes to as a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bowstring import errors
from bowstring.client import arguments
from bowstring.client.consumer_settings import checked_name
from bowstring.client.positions import PositionCalls, offsets_message
from bowstring.client.ranges import Start
from bowstring.wire.generated import bowstring_pb2 as pb

if TYPE_CHECKING:
    from bowstring.client.batch import Batch


@dataclass(frozen=True, slots=True)
class Seek:
    """What it comes to that a subscription is set to another place."""

    topic: str
    name: str
    offsets: dict[int, int]
    """By partition, the first message that comes from there on."""
    again: int
    """Messages that were settled and come again."""
    skipped: int
    """Messages that were not settled and do not come any more."""
    leased: int
    """Messages whose lease ends."""
    dry_run: bool
    """Whether nothing was changed."""


class SeekCalls(PositionCalls):
    """The calls of a client that look into a subscription, or set it to a place."""

    async def _peek(self, topic: str, subscription: str, limit: int, where: str | None, ids: Sequence[str]) -> Batch:
        """What a consumer's `peek` gives, without a consumer."""
        from bowstring.client.peek import peek

        return await peek(self._connection, topic, subscription, limit, where, ids, self._timeout)

    async def seek_subscription(self, topic: str, name: str, to: Start, dry_run: bool = False) -> Seek:
        """Sets a subscription to a place, as a reader's `start`: messages before it count as settled,
        those from there on come again, in all partitions at once. Leases end: settling what a consumer
        holds raises `LeaseLost`. With `dry_run` it only returns what that would come to. Raises
        `SubscriptionNotFound`, `OutOfRange`.
        """
        if to is None:
            raise errors.InvalidArgument("to=None is no place.", hint="Use 'beginning', 'latest', an offset or a moment.")
        request = pb.SeekSubscriptionRequest(topic=arguments.topic_name(topic), name=checked_name(name, "name"), dry_run=dry_run)
        if to == "beginning":
            request.beginning = True
        elif to == "latest":
            request.latest = True
        else:
            request.offsets.extend(offsets_message(await self._resolved(topic, to, "to", None)))
        answer = pb.SeekSubscriptionAnswer.FromString(await self._ask("SeekSubscription", request))
        again, skipped, leased = (sum(getattr(each, what) for each in answer.partitions) for what in ("again", "skipped", "leased"))
        offsets = {each.partition: each.offset for each in answer.partitions}
        return Seek(topic, name, offsets, again, skipped, leased, dry_run)
