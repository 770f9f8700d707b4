"""A thread that runs blocking calls one after the other, as the loop sees it.

SQLite and file syncs block. They run on a worker, and the loop awaits them. In the simulation a
worker has no thread: the call runs inline after a seeded wait, and the power can go in the middle
of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Worker(Protocol):
    """Runs calls in the order of their submission."""

    async def run(self, call: Callable[[], T]) -> T:
        """Runs the call; returns what it returns, raises what it raises. A cancelled caller does
        not stop the call.
        """
        ...

    async def close(self) -> None:
        """Waits for the submitted calls, then ends the thread."""
        ...
