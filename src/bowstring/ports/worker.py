"""A thread that runs blocking calls one after the other, as the loop sees it.

SQLite and file syncs block. They run on a worker, and the loop awaits them. In the simulation a
worker has no thread: the call runs inline after a seeded wait, and a power cut can interrupt it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Worker(Protocol):
    """Runs calls in the order in which they were handed over."""

    async def run(self, call: Callable[[], T]) -> T:
        """Runs the call, and returns or raises as the call does.
        A cancelled caller does not stop the call."""
        ...

    async def close(self) -> None:
        """Lets the calls that were handed over finish, then ends the thread."""
        ...
