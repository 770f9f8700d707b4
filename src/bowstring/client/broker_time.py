"""What the broker's clock shows, as far as the kit can know.

Timeouts of publishes count by the broker's clock, so a producer stamps them with it. This machine's wall clock is not asked: it may be
wrong, and it may jump. The handshake tells the broker's time, which then was half a round trip ago, give or take that half; from there
on the monotonic clock counts. Every answer of a publish carries the broker's time too, and it was read between the writing of the batch
and the reading of the answer: where the estimate lies outside of what that allows, it is moved to the nearest end.

A client of an embedded broker with a manual clock asks that very clock.
"""

from __future__ import annotations

from bowstring.ports.clock import Clock


class BrokerTime:
    """An estimate of the broker's clock, in microseconds since 1970. Read from any thread, corrected on the loop."""

    __slots__ = ("_ahead", "_clock", "_followed", "_known")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead = 0
        """The broker's time minus the monotonic one, in microseconds."""
        self._known = False
        self._followed = False

    def follow(self, clock: Clock) -> None:
        """This is the broker's clock itself: nothing is estimated from now on."""
        self._clock, self._known, self._followed = clock, False, True

    def now(self) -> int:
        """The broker's time now; this machine's own as long as no broker has told."""
        if not self._known:
            return self._clock.now()
        return int(self._clock.monotonic() * 1e6) + self._ahead

    def measured(self, broker_time: int, asked: float, answered: float) -> None:
        """A handshake: asked and answered at these monotonic seconds."""
        self._ahead = broker_time - int((asked + answered) / 2 * 1e6)
        self._known = not self._followed

    def heard(self, broker_time: int, written: float, read: float) -> None:
        """The broker's clock has shown this at some time between these two monotonic seconds."""
        earliest = broker_time - int(read * 1e6)
        latest = broker_time - int(written * 1e6)
        self._ahead = min(max(self._ahead, earliest), latest)

    def drift(self) -> float:
        """Seconds by which this machine's clock is ahead of the broker's."""
        return (self._clock.now() - self.now()) / 1e6
