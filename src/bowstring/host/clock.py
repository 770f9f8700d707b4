"""The machine's clocks."""

from __future__ import annotations

import asyncio
import math
import time


class SystemClock:
    """A `Clock` of the operating system."""

    nanoseconds = staticmethod(time.time_ns)
    """The same as a built-in function, for callers that ask once a message."""

    def now(self) -> int:
        """Microseconds since 1970, UTC."""
        return time.time_ns() // 1_000

    monotonic = staticmethod(time.monotonic)
    """Seconds, never falling. The loop runs on the same clock. A built-in function too: the kit asks
    several times a message."""

    async def sleep(self, seconds: float) -> None:
        """Waits on the running loop. uvloop counts whole milliseconds and rounds: of a sleep that ends half a
        millisecond early the rest would be none, so that its caller goes to sleep again twenty times.
        """
        await asyncio.sleep(math.ceil(seconds * 1e3) / 1e3)
