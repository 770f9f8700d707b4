"""A budget of bytes: memory is reserved before bytes are accepted (invariant 10).

Whoever comes first is served first, so that a large batch is not starved by small ones. A claim larger than the whole budget is served
alone, when nothing else is reserved.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

Waiter = TypeVar("Waiter")


class Credit(Generic[Waiter]):
    """Who has how much, and who waits."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.reserved = 0
        """Bytes given out and not yet given back."""
        self._waiting: deque[tuple[Waiter, int]] = deque()

    def reserve(self, size: int, waiter: Waiter) -> bool:
        """True if the bytes are the caller's at once; else the waiter is among those that a later `release` names."""
        if not self._waiting and self._fits(size):
            self.reserved += size
            return True
        self._waiting.append((waiter, size))
        return False

    def release(self, size: int) -> list[tuple[Waiter, int]]:
        """Gives bytes back, and names those whose turn it is now, with the bytes that are reserved for each."""
        self.reserved -= size
        assert self.reserved >= 0, "more credit was given back than was reserved"
        served: list[tuple[Waiter, int]] = []
        while self._waiting and self._fits(self._waiting[0][1]):
            waiter, wanted = self._waiting.popleft()
            self.reserved += wanted
            served.append((waiter, wanted))
        return served

    def _fits(self, size: int) -> bool:
        return self.reserved + size <= self.budget or self.reserved == 0
