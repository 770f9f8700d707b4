"""A clock that stands still until `advance` moves it: for tests of things that take hours.

A broker with this clock does everything by it: leases end, retention removes, messages expire when
`advance` says so, and not before, however long a test takes. `advance` returns when the broker has
done everything that became due, so the line after it sees the result. It jumps in one step: work
that the broker does every second, it does once.

Waiting for an answer is different: timeouts of calls and pauses before reconnecting use the
machine's clock, or a test would hang. Clients made by `broker.connect()` take the broker's time
from this clock; others learn of it with the next answer of the broker.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

_DONE_SECONDS: Final = 10.0
"""The longest time that `go_on` waits for due work, by the machine's clock."""


class ManualTime:
    """The `Clock` of a broker (`bowstring.ports.clock`). It outlives the broker's restarts, and the
    loops that it ran on.
    """

    def __init__(self, start: int) -> None:
        self._start = start
        self._passed = 0
        """How far it was advanced, in microseconds."""
        self._sleepers: dict[asyncio.Task[Any], tuple[int, asyncio.Future[None]]] = {}
        """The sleepers: until when each sleeps, and the future that wakes it."""
        self._awaited: dict[asyncio.Task[Any], asyncio.Future[None]] = {}
        """The tasks that `advance` woke, and the futures that tell it that they sleep again."""

    def now(self) -> int:
        """Microseconds since 1970, UTC."""
        return self._start + self._passed

    def monotonic(self) -> float:
        """How far it was advanced, in seconds."""
        return self._passed / 1e6

    async def sleep(self, seconds: float) -> None:
        """Waits until the clock was advanced by this much."""
        task = asyncio.current_task()
        if seconds <= 0 or task is None:
            return await asyncio.sleep(0)
        wake = asyncio.get_running_loop().create_future()
        self._sleepers[task] = (self._passed + round(seconds * 1e6), wake)
        if (awaited := self._awaited.pop(task, None)) is not None and not awaited.done():
            awaited.set_result(None)
        try:
            return await wake
        finally:
            self._sleepers.pop(task, None)

    def set_forward(self, seconds: float) -> None:
        """Advances without waking anyone: for a broker that does not run."""
        self._passed += round(seconds * 1e6)

    async def go_on(self, seconds: float) -> None:
        """Advances, wakes the sleepers whose time has come, and waits until they sleep again. Runs
        on the broker's loop.
        """
        self.set_forward(seconds)
        resting: list[asyncio.Future[Any]] = []
        for task, (until, wake) in list(self._sleepers.items()):
            if until <= self._passed and not wake.done():
                rests = self._awaited[task] = asyncio.get_running_loop().create_future()
                task.add_done_callback(lambda _, rests=rests: rests.done() or rests.set_result(None))
                resting.append(rests)
                wake.set_result(None)
        if resting:
            await asyncio.wait(resting, timeout=_DONE_SECONDS)
