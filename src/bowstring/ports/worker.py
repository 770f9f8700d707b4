"""A thread that runs blocking calls one after the other, seen from the loop.

SQLite and file syncs block. They run on a worker, and the loop awaits them. In the simulation a worker has no thread: the call runs
inline after a seeded wait, and the power can go in the middle of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Worker(Protocol):
    """Runs calls in the order in which they were handed over."""

    async def run(self, call: Callable[[], T]) -> T:
        """Runs the call, and gives what it returned or raises what it raised. A cancelled caller does not stop the call."""
        ...

    async def close(self) -> None:
        """Lets the calls that were handed over finish, then ends the thread."""
        ...
