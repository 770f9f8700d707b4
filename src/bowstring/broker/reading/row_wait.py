"""A reader that waits for rows, and takes them in the step in which they become visible.

A commit wakes those who wait by `set`. Waking a task costs a turn of the loop, in which everything
else that the commit has woken comes first. So `set` first offers the rows to the reader itself, and
wakes the task only if the reader does not take them all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from bowstring.broker.reading.fetched import Fetched


class Receiver(Protocol):
    """A session that can send without waiting."""

    def room(self) -> int:
        """How many bytes it takes at once; 0 for none."""
        ...

    def take(self, answers: list[Fetched]) -> list[Fetched]:
        """Sends answers, and gives back those that it cannot send without waiting."""
        ...


class RowWait(asyncio.Event):
    """Set when there may be something to read. `offer` hands rows over at once, and says whether
    the wait goes on.
    """

    def __init__(self, offer: Callable[[], bool]) -> None:
        super().__init__()
        self._offer = offer

    def set(self) -> None:
        """Offers the rows; wakes the task that waits, unless the reader has taken them all."""
        if not self.is_set() and not self._offer():
            super().set()
