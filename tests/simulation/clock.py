"""Time, randomness and threads of a simulated node.

The wall clock belongs to the machine: it drifts, and the nemesis makes it jump, either way. The monotonic one starts anew with each
process and never falls. Nothing a process draws at random is drawn again by another one.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from tests.simulation.node import Incarnation
    from tests.simulation.world import World

T = TypeVar("T")

START = 1_767_225_600_000_000  # 2026-01-01, in microseconds since 1970
WORKER_SHARE = 0.05


class WallClock:
    """A machine's clock: virtual time, running a little too fast or slow, and set wrongly now and then."""

    def __init__(self, world: World, name: str) -> None:
        source = world.source(f"{name}/clock")
        self._world = world
        self._name = name
        self._rate = 1.0 + source.uniform(-1.0, 1.0) * world.options.drift
        self._offset = 0.0
        self._jump_was_seen = True
        self.jumps: list[tuple[float, float]] = []
        """When it was set, and how far it has been off true time from then on."""

    def now(self) -> int:
        if not self._jump_was_seen:
            self._jump_was_seen = True
            self._world.fault("clock-jump", f"{self._name} {self._offset:.6f}")
        return START + round((self._world.loop.time() * self._rate + self._offset) * 1e6)

    @property
    def drift(self) -> float:
        """By how much it gains on true time, as a share of it."""
        return self._rate - 1.0

    def jump(self, seconds: float) -> None:
        """Sets the clock forward or back. It counts as a fault when somebody looks at it the next time."""
        self._offset += seconds
        self.jumps.append((self._world.loop.time(), self._offset))
        self._jump_was_seen = False


class SimulatedClock:
    """`ports.clock.Clock` of one incarnation."""

    def __init__(self, wall: WallClock, world: World, started: float) -> None:
        self._wall = wall
        self._loop = world.loop
        self._started = started

    def now(self) -> int:
        return self._wall.now()

    def monotonic(self) -> float:
        return self._loop.time() - self._started

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class SimulatedRandomness:
    """`ports.randomness.Randomness` of one incarnation."""

    def __init__(self, source: random.Random, clock: SimulatedClock) -> None:
        self._source = source
        self._clock = clock

    def unit(self) -> float:
        return self._source.random()

    def unique(self) -> bytes:
        """A UUIDv7: the time in milliseconds, then random bits around version and variant."""
        number = self._source.getrandbits(80) | (self._clock.now() // 1000 & (1 << 48) - 1) << 80
        number = number & ~(0xF << 76) | 7 << 76
        number = number & ~(0x3 << 62) | 2 << 62
        return number.to_bytes(16, "big")


class SimulatedWorker:
    """`ports.worker.Worker` without a thread: a call runs at once, at a moment that is drawn, and the time that the disk took for it passes
    before its caller is told. A caller whose process died meanwhile is never told."""

    def __init__(self, life: Incarnation) -> None:
        self._life = life
        self._loop = life.world.loop
        self._queue: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()
        self._busy = False
        self._idle: list[asyncio.Future[None]] = []

    async def run(self, call: Callable[[], T]) -> T:
        future: asyncio.Future[T] = self._loop.create_future()
        self._queue.append((call, future))
        self._life.under_way += 1
        if not self._busy:
            self._next()
        return await future

    async def close(self) -> None:
        if self._busy:
            idle: asyncio.Future[None] = self._loop.create_future()
            self._idle.append(idle)
            await idle

    def _next(self) -> None:
        self._busy = bool(self._queue)
        if self._busy:
            self._life.later(self._life.seconds(WORKER_SHARE), self._execute)
        else:
            for idle in self._idle:
                if not idle.done():
                    idle.set_result(None)
            self._idle.clear()

    def _execute(self) -> None:
        call, future = self._queue.popleft()
        result, error = None, None
        try:
            result = call()
        except BaseException as raised:
            error = raised
        if self._life.dead:
            self._loop.graveyard.append((self, call, future, result, error))
        else:
            self._life.later(self._life.take_debt(), partial(self._finish, future, result, error))

    def _finish(self, future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
        self._life.under_way -= 1
        if not future.done():
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)
        self._next()
