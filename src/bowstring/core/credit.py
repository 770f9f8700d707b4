"""A budget of bytes: memory is reserved before bytes are accepted (invariant 10).

First come, first served, so that small batches do not starve a large one. A claim larger than the
whole budget is served alone, when nothing else is reserved.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

Waiter = TypeVar("Waiter")


class Credit(Generic[Waiter]):
    """The bytes reserved, and the claims that wait."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.reserved = 0
        """Bytes reserved and not yet released."""
        self._waiting: deque[tuple[Waiter, int]] = deque()

    def try_reserve(self, size: int) -> bool:
        """Reserves the bytes if there is room and no other claim waits."""
        if self._waiting or not self._fits(size):
            return False
        self.reserved += size
        return True

    def wait(self, size: int, waiter: Waiter) -> None:
        """Adds a claim that could not be reserved: a later `release` names the waiter."""
        self._waiting.append((waiter, size))

    def release(self, size: int) -> list[tuple[Waiter, int]]:
        """Releases bytes, and returns the waiters whose turn it is now, with the bytes reserved for
        each.
        """
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
