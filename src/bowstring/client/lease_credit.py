"""How many messages a consumer may hold.

By default the credit follows what the program works off in about a second. It begins at 1 and
doubles when the program has worked off as many messages as the credit allows within a second. If
that takes longer, the credit falls to what the program has done in a second. So a slow consumer does
not hoard, and a fast one never waits for its next message. The credit never falls below 1, nor below
the number of threads and tasks that iterate over the consumer at the same time: each of them works
on one message.

Time counts only while the consumer holds something: a consumer that has nothing to do keeps its
credit. A pause of less than `PAUSE_SECONDS` does not begin the count anew, because the next messages
may have been on their way: the broker sends what was settled in parts, and a program that settles
one part before the next one comes would never be counted to the end.
"""

from __future__ import annotations

from typing import Final

FIRST: Final = 1
MOST: Final = 1 << 20
"""The highest credit that the kit chooses by itself; the bytes bound it before."""
LAP_SECONDS: Final = 1.0
PAUSE_SECONDS: Final = 0.1


class LeaseCredit:
    """The credit of one consumer. On the loop."""

    def __init__(self, fixed: int | None, size: int) -> None:
        self._fixed = fixed
        self._adaptive = self._lowest = FIRST
        self.bytes = size
        self.held = 0
        """The messages that came and were not settled, by the kit's knowledge."""
        self._lap_began = 0.0
        self._lap_settled = 0
        self._idle_since = -PAUSE_SECONDS
        self.paused = False

    @property
    def messages(self) -> int:
        """How many messages the consumer may hold now."""
        return 0 if self.paused else self.limit

    @property
    def limit(self) -> int:
        """How many it may hold when it does not pause."""
        return self._adaptive if self._fixed is None else self._fixed

    def came(self, rows: int, now: float) -> None:
        """Messages have come."""
        if self.held <= 0:
            idle = now - self._idle_since
            if idle < PAUSE_SECONDS:
                self._lap_began += idle
            else:
                self._begin_lap(now)
        self.held += rows

    def settled(self, rows: int, now: float) -> bool:
        """The program has worked messages off. Returns whether the credit has changed."""
        before = self.limit
        self.held -= rows
        if self.held <= 0:
            self._idle_since = now
        self._lap_settled += rows
        if self._lap_settled >= before:
            self._end_lap(now, doubles=True)
        return self.limit != before

    def asked(self, askers: int) -> bool:
        """So many threads and tasks iterate at the same time. Returns whether the credit has
        changed.
        """
        before = self.limit
        self._lowest = max(self._lowest, min(askers, MOST))
        self._adaptive = max(self._adaptive, self._lowest)
        return self.limit != before

    def gone(self, rows: int) -> None:
        """Messages were given back or lost: the program did not work them off."""
        self.held -= rows

    def look(self, now: float) -> bool:
        """Lowers the credit of a program that has not worked it off in time. Returns whether it has
        changed. Called about once a second.
        """
        before = self.limit
        if self.held > 0 and now - self._lap_began > LAP_SECONDS:
            self._end_lap(now, doubles=False)
        return self.limit != before

    def _end_lap(self, now: float, *, doubles: bool) -> None:
        seconds = now - self._lap_began
        if seconds > LAP_SECONDS:
            self._adaptive = max(self._lowest, min(self._adaptive, int(self._lap_settled / seconds)))
        elif doubles:
            self._adaptive = min(2 * self._adaptive, MOST)
        self._begin_lap(now)

    def _begin_lap(self, now: float) -> None:
        self._lap_began, self._lap_settled = now, 0
