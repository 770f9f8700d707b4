"""The alarm of one incarnation: sleepers set their deadlines, and one sleep waits for the first of
them.

Partitions have no timers of their own. With ten thousand of them nothing is scheduled while no
partition has a deadline, and however many have one, there is one task and one heap.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from typing import Protocol

from bowstring.core.machine import NEVER
from bowstring.ports.clock import Clock


class Sleeper(Protocol):
    """A partition, or another part of the broker, that the alarm wakes."""

    def woken(self, now: int) -> None:
        """The deadline has come. Another one has to be set anew."""


class Alarm:
    """Wakes each sleeper once, at the earliest deadline that was set for it."""

    def __init__(self, clock: Clock, fail: Callable[[Exception], None]) -> None:
        self._clock = clock
        self._fail = fail
        """Gets the failure, which ends the incarnation."""
        self._heap: list[tuple[int, int, Sleeper]] = []
        self._wanted: dict[Sleeper, int] = {}
        """When each is to be woken; what stands in the heap beside that is out of date."""
        self._count = 0
        self._task: asyncio.Task[None] | None = None

    def set(self, sleeper: Sleeper, deadline: int) -> None:
        """Wakes the sleeper then, unless it is to be woken earlier anyway."""
        if deadline >= self._wanted.get(sleeper, NEVER):
            return
        self._wanted[sleeper] = deadline
        self._count += 1
        heapq.heappush(self._heap, (deadline, self._count, sleeper))
        if self._heap[0][1] == self._count:
            self._cancel()
            self._task = asyncio.create_task(self._run())

    def stop(self) -> None:
        """Forgets all deadlines that were set."""
        self._cancel()
        self._heap.clear()
        self._wanted.clear()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        try:
            while self._heap:
                await self._clock.sleep(max(0, self._heap[0][0] - self._clock.now()) / 1e6)
                self._ring(self._clock.now())
        except Exception as failure:
            self._fail(failure)

    def _ring(self, now: int) -> None:
        """Wakes the sleepers whose time has come."""
        due: list[Sleeper] = []
        while self._heap and self._heap[0][0] <= now:
            deadline, _, sleeper = heapq.heappop(self._heap)
            if self._wanted.get(sleeper) == deadline:
                del self._wanted[sleeper]
                due.append(sleeper)
        for sleeper in due:
            sleeper.woken(now)
