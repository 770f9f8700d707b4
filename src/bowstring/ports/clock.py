"""Time.
A moment is a whole number of microseconds since 1970 in UTC; a span that code waits for is seconds
as a float."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """The wall clock, which may jump, and the monotonic one, which does not."""

    def now(self) -> int:
        """Gives the wall clock in microseconds since 1970, UTC.
        It may jump either way: no order rests on it."""
        ...

    def monotonic(self) -> float:
        """Gives seconds since some start, never falling: the time base of waits and of the kit's
        estimate of the broker's clock."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Waits.
        For timeouts use `asyncio.timeout`, which runs on the loop's own time and so on simulated
        time too."""
        ...
