"""Decides which of many equal events to log: the first at once, the others as a number, once a
minute.

note("a", 0.0)  -> True       told
note("a", 1.0)  -> False      counted
due(60.0)       -> [("a", 1)] told as a number; counting goes on
due(120.0)      -> []         a minute without any: the next one is logged at once again
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

SECONDS: Final = 60.0
KEYS_MAX: Final = 1000
"""The most events told apart. Further ones are not logged, so the log is bounded."""

K = TypeVar("K", bound=Hashable)


class Repeats(Generic[K]):
    """Counts by key. Times are seconds of one clock, which the caller reads."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._since: dict[K, float] = {}
        self._counts: dict[K, int] = {}

    def note(self, key: K, now: float) -> bool:
        """Whether to log this one."""
        if key in self._since:
            self._counts[key] = self._counts.get(key, 0) + 1
            return False
        if len(self._since) >= KEYS_MAX:
            return False
        self._since[key] = now
        return True

    def due(self, now: float) -> list[tuple[K, int]]:
        """The events whose minute is over, and how many there were of each."""
        told: list[tuple[K, int]] = []
        for key in [key for key, since in self._since.items() if now - since >= self._seconds]:
            count = self._counts.pop(key, 0)
            if count:
                told.append((key, count))
                self._since[key] = now
            else:
                del self._since[key]
        return told

    def rest(self) -> list[tuple[K, int]]:
        """The events that were counted and not logged yet; then forgets everything."""
        counts = list(self._counts.items())
        self._since.clear()
        self._counts.clear()
        return counts

    @property
    def next_due(self) -> float | None:
        """When `due` has something to do next."""
        return min(self._since.values()) + self._seconds if self._since else None
