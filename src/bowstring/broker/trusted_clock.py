"""The time that retention goes by: a clock that jumps deletes nothing.

Wall clocks are set, by people and by daemons, and a wrong one must not cost messages. So the wall clock is believed only as long as it goes
along with the monotonic one. When they disagree by more than a minute, time goes on from where they last agreed, as the monotonic clock
counts it, until the wall clock is back there or the broker is started anew.
"""

from __future__ import annotations

import logging

from bowstring.ports.clock import Clock

TOLERANCE = 60_000_000
"""Microseconds that the two may be apart."""

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
