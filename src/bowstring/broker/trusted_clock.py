"""The clock of retention: a clock that jumps deletes nothing.

People and daemons set wall clocks, and a wrong one must not cost messages. So the broker believes
the wall clock only while it agrees with the monotonic one. When they differ by more than a minute,
time goes on from where they last agreed, by the monotonic clock, until the wall clock agrees again
or the broker restarts.
"""

from __future__ import annotations

import logging

from bowstring.ports.clock import Clock

TOLERANCE = 60_000_000
"""How far the two may be apart, in microseconds."""

_log = logging.getLogger("bowstring.clock")


class TrustedClock:
    """Moments to delete by."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wall = clock.now()
        self._monotonic = clock.monotonic()
        self._is_trusted = True

    def now(self) -> int:
        """Microseconds since 1970."""
        wall, monotonic = self._clock.now(), self._clock.monotonic()
        expected = self._wall + int((monotonic - self._monotonic) * 1e6)
        agrees = abs(wall - expected) <= TOLERANCE
        if agrees:
            self._wall, self._monotonic = wall, monotonic
        elif self._is_trusted:
            apart = (wall - expected) / 1e6
            _log.warning("the wall clock has jumped by %.0f s; retention goes on by the time before", apart)
        self._is_trusted = agrees
        return wall if agrees else expected
