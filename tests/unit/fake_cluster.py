"""Two fake brokers with the same topics, of which each serves some partitions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bowstring.client.client import Client
from tests.unit.fake_broker import FakeBroker, FakeDialer, FakeRandomness
from tests.unit.virtual_time import FakeClock


class FakeCluster:
    """Two brokers, a:1 and b:1, with the same topics. Each partition is served by one of them."""

    def __init__(self, partitions: int) -> None:
        self.brokers = {"a:1": FakeBroker(), "b:1": FakeBroker()}
        self.dialer = FakeDialer(self.brokers)
        self.homes = {number: ("a:1", "b:1")[number % 2] for number in range(partitions)}
        self.topic = self.brokers["a:1"].topic("t", partitions)
        self.brokers["b:1"].topics = self.brokers["a:1"].topics
        for address, broker in self.brokers.items():
            broker.elsewhere = lambda partition, address=address: self._elsewhere(partition, address)

    def _elsewhere(self, partition: int, asked: str) -> str | None:
        home = self.homes[partition]
        return None if home == asked else home

    def move(self, partition: int, address: str) -> None:
        """Another broker serves the partition from now on. Whoever waits for it at the old one is told."""
        self.homes[partition] = address
        self.topic.partitions[partition].grown.set()

    @asynccontextmanager
    async def connected(self, *seeds: str) -> AsyncIterator[Client]:
        """A client that knows these seeds."""
        client = await Client(seeds or ["a:1"], dialer=self.dialer, clock=FakeClock(), randomness=FakeRandomness()).open()
        async with client:
            yield client
