"""The latest time that the broker's lease clock can show.

Leases run by a clock of the broker that neither jumps nor slows while the broker runs. Its answers
tell what that clock showed when they were written. An answer to a request that the kit wrote at w
was written later than w, so at a later moment m the broker's clock shows at most what the answer
says plus m - w. The kit keeps the least of these bounds, and hands out no message whose lease has
ended by it: it may refuse a message a little too early, never too late.

Two machines count seconds a little differently, so a bound grows by `DRIFT` while it ages. A broker
that restarts begins its lease clock anew: the first answer of a stream replaces the bound.

A client of an embedded broker with a manual clock counts by that very clock.
"""

from __future__ import annotations

from typing import Final

from bowstring.client.broker_time import BrokerTime

DRIFT: Final = 500e-6
"""The most by which two clocks differ in a second, in seconds."""


class LeaseTime:
    """An upper bound of the lease clock, in microseconds. Written on the loop, read in any thread."""

    __slots__ = ("_bound", "broker_time")

    def __init__(self, broker_time: BrokerTime) -> None:
        self.broker_time = broker_time
        self._bound: tuple[int, float] | None = None
        """What the clock showed at most at a monotonic second."""

    @property
    def is_followed(self) -> bool:
        """Whether the kit uses the broker's own clock, which a test advances."""
        return self.broker_time.followed

    def monotonic(self) -> float:
        """The seconds by which moments of writing are given."""
        return self.broker_time.monotonic()

    def restart(self, shown: int, written: float) -> None:
        """The first answer of a stream, to a request that was written then."""
        self._bound = shown, written

    def heard(self, shown: int, written: float) -> None:
        """Another answer of the same stream."""
        if self._bound is None or shown < self._at(written):
            self._bound = shown, written

    def latest(self) -> int:
        """What the clock shows now at most; 0 until a broker has answered."""
        return self._at(self.broker_time.monotonic())

    def _at(self, moment: float) -> int:
        if self._bound is None:
            return 0
        shown, written = self._bound
        passed = moment - written
        return shown + int(passed * 1e6) + (int(max(0.0, passed) * DRIFT * 1e6) if not self.broker_time.followed else 0)
