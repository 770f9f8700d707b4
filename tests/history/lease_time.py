"""What the time of leases can have been at a moment of a history.

Leases run by a clock of the broker's own. It begins with each incarnation, a little behind the wall
clock and never before the newest moment that a lease knows, and does not jump from then on. A run
knows what its nemesis did to the wall clock, and so between which bounds that clock was.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import NamedTuple


class LeaseClocks(NamedTuple):
    """The bounds, in microseconds. Moments of a history are seconds; 0 is the moment `origin`."""

    origin: int
    behind: Callable[[float], float]
    """The least that this clock was ahead of true time, of any that a kit may have learned up to a
    moment; in seconds."""
    ahead: Callable[[float], float]
    """The most that it was ahead, up to a moment."""
    uncertain: float = 0.0
    """How far the moments that a broker tells may be off this model, in seconds."""
    late: float = 0.0
    """By how many seconds a kit may think that it is later than it is: it does not know how long an
    answer was on its way."""
    buried: frozenset[tuple[str, int, int]] = frozenset()
    """Rows that are dead letters: subscription, partition, offset."""
    damaged: frozenset[tuple[str, int, int]] = frozenset()
    """Rows that the broker has set aside because it could not read them: the identity of the
    subscription, partition, offset."""

    def earliest(self, time: float, until: float = 0.0) -> float:
        """At a moment, or at any later one until another: the next incarnation may begin further behind."""
        return self.origin + (time + self.behind(max(time, until)) - self.uncertain) * 1e6

    def latest(self, time: float) -> float:
        return self.origin + (time + self.ahead(time) + self.uncertain) * 1e6

    def true_after(self, moment: int, until: float = inf) -> float:
        """The earliest true time, in seconds, at which a broker may have told this moment."""
        return (moment - self.origin) / 1e6 - self.ahead(until) - self.uncertain


EXACT = LeaseClocks(0, lambda _: 0.0, lambda _: 0.0)
"""For histories that are told by hand."""
