"""The kit's estimate of the broker's clock.

Timeouts of publishes count by the broker's clock, so a producer stamps them with it. The kit does
not use this machine's wall clock, which may be wrong, and may jump. The handshake gives the
broker's time, which is half a round trip old, give or take that half; from there on the monotonic
clock counts. Every answer to a publish carries the broker's time too, read between the writing of
the batch and the reading of the answer: if the estimate lies outside these bounds, it moves to the
nearest one.

Another clock of the broker, that of retention, decides how long messages may be handed out: it does
not follow jumps. The kit keeps the latest time that this clock certainly shows, and never a later
one: it ignores how long the answer travelled. So the kit never drops a message too early, but may
hand out an expired one for as long as an answer travels.

A client of an embedded broker with a manual clock asks that very clock.
"""

from __future__ import annotations

from bowstring.ports.clock import Clock


class BrokerTime:
    """An estimate of the broker's clock, in microseconds since 1970. Read from any thread,
    corrected on the loop.
    """

    __slots__ = ("_ahead", "_clock", "_keeping_ahead", "_known", "followed")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead = 0
        """The broker's time minus the monotonic one, in microseconds."""
        self._keeping_ahead = 0
        """The keeping time minus the monotonic time; minus the broker's time, if the kit follows
        the broker's own clock.
        """
        self._known = False
        self.followed = False
        """Whether the clock is the broker's own."""

    def follow(self, clock: Clock) -> None:
        """Uses the broker's clock itself: nothing is estimated from now on."""
        self._clock, self._known, self._keeping_ahead, self.followed = clock, False, 0, True

    def now(self) -> int:
        """The broker's time now; this machine's own until a broker has answered."""
        if not self._known:
            return self._clock.now()
        return int(self._clock.monotonic() * 1e6) + self._ahead

    def monotonic(self) -> float:
        """The seconds of the clock that it counts by."""
        return self._clock.monotonic()

    def keeping(self) -> int:
        """The keeping time, or a little earlier; 0 until a broker has answered."""
        if self.followed:
            return self._clock.now() + self._keeping_ahead
        return int(self._clock.monotonic() * 1e6) + self._keeping_ahead if self._known else 0

    def measured(self, broker_time: int, asked: float, answered: float, keeping_time: int = 0) -> None:
        """Takes over the times of a handshake, asked and answered at these monotonic seconds. A
        broker that sends no keeping time uses its ordinary one.
        """
        keeping_time = keeping_time or broker_time
        if self.followed:
            self._keeping_ahead = keeping_time - broker_time
            return
        earliest, latest = keeping_time - int(answered * 1e6), keeping_time - int(asked * 1e6)
        self._keeping_ahead = min(max(self._keeping_ahead, earliest), latest) if self._known else earliest
        self._ahead = broker_time - int((asked + answered) / 2 * 1e6)
        self._known = True

    def heard_keeping(self, keeping_time: int, read: float) -> None:
        """Takes over the keeping time of an answer that was read at these monotonic seconds."""
        if not self.followed:
            self._keeping_ahead = max(self._keeping_ahead, keeping_time - int(read * 1e6))

    def heard(self, broker_time: int, written: float, read: float) -> None:
        """The broker's clock has shown this at some time between these two monotonic seconds."""
        earliest = broker_time - int(read * 1e6)
        latest = broker_time - int(written * 1e6)
        self._ahead = min(max(self._ahead, earliest), latest)

    def drift(self) -> float:
        """Seconds by which this machine's clock is ahead of the broker's."""
        return (self._clock.now() - self.now()) / 1e6
