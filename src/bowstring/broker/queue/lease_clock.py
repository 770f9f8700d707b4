"""The time by which leases run: it neither jumps nor slows while an incarnation lasts.

The wall clock may be set, and then leases would end early or late. So this clock looks at the wall
once, at the start, and goes on by the monotonic one. It starts a second before the wall shows: that
is the allowed difference between two machines, so that a lease that another machine has granted
ends here no earlier than there. It starts no earlier than the newest moment in any ledger, because
moments in ledgers never fall.
"""

from __future__ import annotations

from typing import Final

from bowstring.ports.clock import Clock

ALLOWANCE: Final = 1_000_000
"""The allowed difference between the clocks of two machines, in microseconds."""


class LeaseClock:
    """A `Clock` of one incarnation, whose `now` is the time of leases."""

    def __init__(self, clock: Clock, wall: int, newest: int = 0) -> None:
        """`clock` is the broker's, `wall` is what the machine's shows now: after a jump that was taken
        back the broker's may be far ahead, and all leases would end. `newest` is the newest moment in any
        ledger.
        """
        self.monotonic = clock.monotonic
        self.sleep = clock.sleep
        self._broker_now = clock.now
        self._begun = clock.monotonic()
        self._start = max(wall - ALLOWANCE, newest)

    def now(self) -> int:
        """Microseconds since 1970, about."""
        return self._start + round((self.monotonic() - self._begun) * 1e6)

    def at(self, moment: int) -> int:
        """What it shows at a moment of the broker's clock, if both go on as they do now."""
        return moment - self._broker_now() + self.now()
