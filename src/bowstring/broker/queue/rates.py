"""How many messages a subscription has delivered and settled: in all, and a second over the last minute.

Counted per request, never per message, in a bucket for each second.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from bowstring.broker.counters import QueueCounters

SECONDS_MAX: Final = 60


class DeliveryTotals(NamedTuple):
    """Messages."""

    delivered: int = 0
    acked: int = 0
    nacked: int = 0
    """Rejects included."""
    expired: int = 0


class RatesFacts(NamedTuple):
    """Messages a second."""

    delivered: float
    acked: float
    nacked: float
    """Rejects included."""
    expired: float


class _Bucket(NamedTuple):
    """A second in which something was counted."""

    second: int
    before: DeliveryTotals
    """What there was before it."""


class Rates:
    """The rates of one subscription, by the monotonic clock."""

    def __init__(self, monotonic: Callable[[], float], counters: QueueCounters) -> None:
        self._monotonic = monotonic
        self._counters = counters
        self._begun = monotonic()
        self.totals = DeliveryTotals()
        """Since the incarnation began."""
        self._buckets: deque[_Bucket] = deque(maxlen=SECONDS_MAX + 1)

    def count(self, *, delivered: int = 0, acked: int = 0, nacked: int = 0, expired: int = 0) -> None:
        """So many messages more."""
        second, counters, totals = int(self._monotonic()), self._counters, self.totals
        if not self._buckets or self._buckets[-1].second != second:
            self._buckets.append(_Bucket(second, totals))
        self.totals = DeliveryTotals(totals[0] + delivered, totals[1] + acked, totals[2] + nacked, totals[3] + expired)
        counters.leased += delivered
        counters.acked += acked
        counters.nacked += nacked
        counters.expired += expired

    def facts(self) -> RatesFacts:
        """The rates now. While there is less than a minute to look back on, that is what they count."""
        now = self._monotonic()
        seconds = min(max(now - self._begun, 1.0), float(SECONDS_MAX))
        before = next((bucket.before for bucket in self._buckets if bucket.second > now - SECONDS_MAX), self.totals)
        return RatesFacts(*[(amount - earlier) / seconds for amount, earlier in zip(self.totals, before, strict=True)])
