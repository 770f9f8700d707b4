"""A broker on real files, in this process. A test moves its clock, and asks it to seal and clean."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import bowstring.aio
from bowstring.broker.incarnation import Incarnation
from bowstring.host.clock import SystemClock
from bowstring.server import Server, open_broker
from bowstring.settings import KIB, Settings

HOUR = 3600.0


class MovableClock(SystemClock):
    """The machine's clock, and as much ahead of it as a test says: both of its hands."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def now(self) -> int:
        return super().now() + int(self.ahead * 1e6)

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead


class House:
    """A data directory, and a broker on it that seals and cleans on request."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.clock = MovableClock()
        self.server: Server | None = None

    def settings(self) -> Settings:
        return Settings(
            data=str(self.data), listen="127.0.0.1:0", segment_bytes_first=64 * KIB, segment_bytes_max=256 * KIB, upkeep_seconds=HOUR
        )

    async def start(self) -> None:
        self.server = await open_broker(self.settings(), clock=self.clock)

    async def stop(self) -> None:
        assert self.server is not None
        await self.server.stop()

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    @property
    def live(self) -> Incarnation:
        assert self.server is not None
        assert self.server.broker.live is not None
        return self.server.broker.live

    @asynccontextmanager
    async def client(self) -> AsyncIterator[bowstring.aio.Client]:
        assert self.server is not None
        async with bowstring.aio.connect(f"bowstring://{self.server.address}") as client:
            yield client

    async def seal(self) -> None:
        await self.live.upkeep.sealer.seal()

    async def upkeep(self) -> None:
        """Everything that a broker does by the way, until nothing is left to do."""
        for _ in range(4):
            await self.live.upkeep._turn()

    def segment_files(self) -> list[str]:
        return sorted(path.name for path in self.data.iterdir() if path.name.startswith("segment-"))


@pytest.fixture
async def started_house(tmp_path: Path) -> AsyncIterator[House]:
    """For test files that say `house = started_house`."""
    house = House(tmp_path / "data")
    await house.start()
    yield house
    await house.stop()
