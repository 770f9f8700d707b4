"""A clock that stands still until it is told to go on: for tests of what takes hours.

A broker with this clock does everything by it: leases end, retention removes, messages expire when `advance` says so, and not before,
however long a test takes. `advance` returns when what became due has been done, so the line after it sees the result. It goes there in
one step: what the broker does every second, it does once.

Waiting for an answer is another thing: timeouts of calls and pauses before reconnecting go by the machine's clock, or a test would hang.
Clients made by `broker.connect()` take the broker's time from this clock; others learn of it with the next answer of the broker.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

_DONE_SECONDS: Final = 10.0
"""How long `go_on` waits at most for what became due, by the machine's clock."""


class ManualTime:
    """The `Clock` of a broker (`bowstring.ports.clock`). It outlives the broker's restarts, and the loops that it ran on."""

    def __init__(self, start: int) -> None:
        self._start = start
        self._passed = 0
        """Microseconds that it was advanced by."""
        self._sleepers: dict[asyncio.Task[Any], tuple[int, asyncio.Future[None]]] = {}
        """Who sleeps, until what has passed, and what wakes them."""
        self._awaited: dict[asyncio.Task[Any], asyncio.Future[None]] = {}
        """Those that `advance` woke, and what tells it that they sleep again."""

    def now(self) -> int:
        """Microseconds since 1970, UTC."""
        return self._start + self._passed

    def monotonic(self) -> float:
        """Seconds that it was advanced by."""
        return self._passed / 1e6

    async def sleep(self, seconds: float) -> None:
        """Waits until it was advanced by so much."""
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
        """Goes on without anybody noticing: for a broker that does not run."""
        self._passed += round(seconds * 1e6)

    async def go_on(self, seconds: float) -> None:
        """Goes on, wakes those whose time has come, and waits until they sleep again. Runs on the broker's loop."""
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
