"""How many bytes one broker may send to a reader ahead of the program.

The reader grants bytes, the broker sends while some are left, and more are granted as pages are
handed out. So what lies here unread is bounded, and a broker that serves a slow program waits.

**Threads.** The loop counts what came and what was granted, and the thread that takes pages counts
what was taken. Each count has one writer; what is ahead or owed is a difference.
"""

from __future__ import annotations

import asyncio
from typing import Final

GRANT_SHARE: Final = 4
"""Credit is given back in steps of about this part."""


class FetchCredit:
    """The credit of one broker. It outlives the streams to that broker."""

    def __init__(self) -> None:
        self._share = 0
        self._came = self._taken = self._granted = 0
        self.wanted = asyncio.Event()
        """There is credit to give back, or nothing more is wanted."""

    def opening(self, share: int) -> int:
        """The credit of a new stream: the share, less what has come and was not taken."""
        self._share, self._granted = share, self._taken
        return max(1, share - (self._came - self._granted))

    def came(self, size: int) -> None:
        """A page has come."""
        self._came += size

    def taken(self, size: int) -> None:
        """The program has a page."""
        self._taken += size

    def owes(self) -> bool:
        """Whether there is enough to give back."""
        return self._taken - self._granted >= self._share // GRANT_SHARE

    def grant(self) -> None:
        """Has credit given back for what was taken, once it is worth a request. On the loop."""
        if self.owes():
            self.wanted.set()

    def return_unused(self, size: int) -> None:
        """An answer without rows came: there is nothing to take, so its credit is owed at once."""
        self._granted -= size
        self.grant()

    def next_grant(self) -> int:
        """What to give back now."""
        taken = self._taken
        credit, self._granted = taken - self._granted, taken
        return credit
