"""A loop whose time is virtual: tests of the kit wait for minutes and take milliseconds."""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any

START = 1_800_000_000_000_000


class _JumpingSelector(selectors.DefaultSelector):
    """Instead of waiting it moves the time on."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> Any:
        events = super().select(0)
        if not events:
            assert timeout is not None, "nothing can happen any more"
            self.loop.now += max(0.0, timeout)
        return events


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop that never waits: when nothing is ready it is the time of the next timer."""

    def __init__(self) -> None:
        self.now = 1000.0
        selector = _JumpingSelector()
        super().__init__(selector)
        selector.loop = self

    def time(self) -> float:
        return self.now


def run(story: Coroutine[Any, Any, Any]) -> Any:
    """Runs a test's story on virtual time, for at most ten virtual minutes."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(asyncio.wait_for(story, 600))


def on_virtual_time(story: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., None]:
    """Makes a test of a story: it runs on virtual time, and not on the loop of pytest."""

    @functools.wraps(story)
    def test(*arguments: Any, **named: Any) -> None:
        run(story(*arguments, **named))

    return test


class FakeClock:
    """Both clocks on the loop's time; the wall clock may be set wrongly."""

    def __init__(self, ahead: float = 0.0) -> None:
        self.ahead = ahead

    def now(self) -> int:
        return START + int((asyncio.get_running_loop().time() + self.ahead) * 1e6)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
