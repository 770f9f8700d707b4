"""A broker whose clock stands still until a test moves it, and calls about its queues: for tests that
speak the protocol by hand.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from bowstring import aio
from bowstring.ports.transport import Channel
from bowstring.wire.generated import bowstring_pb2 as pb
from bowstring.wire.native_client import NativeDialer
from tests.process import wire_calls as wire

SECOND = 1_000_000


@pytest.fixture
async def broker() -> AsyncIterator[aio.Broker]:
    async with aio.Broker.ephemeral(clock="manual") as running:
        yield running


@pytest.fixture
async def channel(broker: aio.Broker) -> AsyncIterator[Channel]:
    dialled = dial(broker)
    yield dialled
    await dialled.close()


def dial(broker: aio.Broker) -> Channel:
    return NativeDialer().dial(broker.address.removeprefix("bowstring://"))


async def subscribe(channel: Channel, topic: str = "orders", name: str = "billing", **fields: Any) -> pb.Subscription:
    """Makes the subscription, and the topic if there is none."""
    await wire.create(channel, topic, exists_ok=True)
    request = pb.CreateSubscriptionRequest(topic=topic, name=name, **fields)
    return await wire.call(channel, "CreateSubscription", request, pb.Subscription)


async def described(channel: Channel, topic: str = "orders", name: str = "billing") -> pb.Subscription:
    return await wire.call(channel, "DescribeSubscription", pb.DescribeSubscriptionRequest(topic=topic, name=name), pb.Subscription)


async def leases(channel: Channel, topic: str = "orders", name: str = "billing", **fields: Any) -> pb.ListLeasesAnswer:
    request = pb.ListLeasesRequest(topic=topic, subscription=name, **fields)
    return await wire.call(channel, "ListLeases", request, pb.ListLeasesAnswer)


class Shop:
    """A producer of one topic, by the broker's time."""

    def __init__(self, channel: Channel, broker: aio.Broker, topic: str) -> None:
        self._channel = channel
        self._broker = broker
        self._topic = topic
        self._number = 0
        self._last: dict[int, int] = {}
        self._stream: Any = None

    async def publish(self, *values: bytes, partition: int = 0, **fields: Any) -> int:
        """One batch; gives the offset of its first row."""
        if self._stream is None:
            self._stream = await wire.open_publish(self._channel, self._topic)
        self._number += 1
        previous, self._last[partition] = self._last.get(partition, 0), self._number
        now = round(self._broker.clock.now().timestamp() * 1e6)
        given = {"previous": previous, "partition": partition, "sent": now, **fields}
        answer = await wire.publish(self._stream, self._number, list(values), **given)
        assert answer.HasField("stored"), answer
        return answer.stored.first_offset


async def shop(channel: Channel, broker: aio.Broker, topic: str = "orders") -> Shop:
    return Shop(channel, broker, topic)
