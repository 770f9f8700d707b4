"""The kit's estimate of the broker's clock.

Timeouts of publishes count by the broker's clock, so a producer stamps batches with it. The kit
does not use this machine's wall clock, which may be wrong and may jump. The handshake tells the
broker's time as of half a round trip ago, give or take that half; from then on the monotonic clock
counts. Every answer of a publish also carries the broker's time, read between the writing of the
batch and the reading of the answer. If the estimate lies outside of that interval, it moves to the
nearest end.

Retention goes by another clock of the broker, which does not follow jumps, and so does the kit when
it decides whether to hand out a message. Of that clock the kit keeps the latest time that it
certainly shows: the time in an answer, without the time that the answer travelled. So it drops
nothing too early, and may hand out a message late by the time that an answer takes.

A client of an embedded broker with a manual clock asks that very clock.
"""

from __future__ import annotations

from bowstring.ports.clock import Clock


class BrokerTime:
    """An estimate of the broker's clock, in microseconds since 1970. Any thread reads it; the loop
    corrects it."""

    __slots__ = ("_ahead", "_clock", "_keeping_ahead", "_known", "followed")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead = 0
        """The broker's time minus the monotonic one, in microseconds."""
        self._keeping_ahead = 0
        """The keeping time minus the monotonic one; or minus the broker's, if the keeping time
        follows it."""
        self._known = False
        self.followed = False
        """Whether the clock is the broker's own."""

    def follow(self, clock: Clock) -> None:
        """Uses the broker's clock itself: nothing is estimated from now on."""
        self._clock, self._known, self._keeping_ahead, self.followed = clock, False, 0, True

    def now(self) -> int:
        """The broker's time now; this machine's own until a broker has told its time."""
        if not self._known:
            return self._clock.now()
        return int(self._clock.monotonic() * 1e6) + self._ahead

    def keeping(self) -> int:
        """The keeping time, or a little earlier; 0 until a broker has told it."""
        if self.followed:
            return self._clock.now() + self._keeping_ahead
        return int(self._clock.monotonic() * 1e6) + self._keeping_ahead if self._known else 0

    def measured(self, broker_time: int, asked: float, answered: float, keeping_time: int = 0) -> None:
        """A handshake, asked and answered at these monotonic seconds. A broker that does not tell
        its keeping time keeps by the other clock."""
        keeping_time = keeping_time or broker_time
        if self.followed:
            self._keeping_ahead = keeping_time - broker_time
            return
        earliest, latest = keeping_time - int(answered * 1e6), keeping_time - int(asked * 1e6)
        self._keeping_ahead = min(max(self._keeping_ahead, earliest), latest) if self._known else earliest
        self._ahead = broker_time - int((asked + answered) / 2 * 1e6)
        self._known = True

    def heard_keeping(self, keeping_time: int, read: float) -> None:
        """An answer that was read at these monotonic seconds told the keeping time."""
        if not self.followed:
            self._keeping_ahead = max(self._keeping_ahead, keeping_time - int(read * 1e6))

    def heard(self, broker_time: int, written: float, read: float) -> None:
        """The broker's clock showed this at some time between these two monotonic seconds."""
        earliest = broker_time - int(read * 1e6)
        latest = broker_time - int(written * 1e6)
        self._ahead = min(max(self._ahead, earliest), latest)

    def drift(self) -> float:
        """Seconds by which this machine's clock is ahead of the broker's."""
        return (self._clock.now() - self.now()) / 1e6
