"""The broker's own time: the wall clock, except that it never falls.

A machine's clock may jump ahead and be set back. Time that falls would make a refusal untrue (a
second copy of a batch that was refused as too late would be in time again), and time far behind the
last arrival would make the broker refuse everything that is sent "now" as older than its memory. So
the broker decides by this clock, and tells kits its time. While the wall clock is behind it, it
runs at half speed until the wall clock has caught up. It begins no earlier than the last recorded
arrival.
"""

from __future__ import annotations

from bowstring.ports.clock import Clock

SLOW = 0.5
MICROSECONDS_SLOWED = 1e6 * SLOW


class SteadyClock:
    """A `Clock` whose `now` never falls."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.wall = clock.now  # asked several times a batch
        """What the machine's clock shows."""
        self.monotonic = clock.monotonic
        self._last = 0
        self._asked = clock.monotonic()

    def now(self) -> int:
        """Microseconds since 1970, never less than the answer before."""
        asked, wall = self.monotonic(), self.wall()
        slowed = self._last + int((asked - self._asked) * MICROSECONDS_SLOWED)
        self._asked = asked
        self._last = last = wall if wall > slowed else slowed
        return last

    def not_before(self, moment: int) -> None:
        """Makes it show at least this moment from now on."""
        self._last = max(self._last, moment)

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
