"""Whether the disk is full, told when that begins and when it ends.

Publishers notice first: one of them is refused. The end is noticed by upkeep, when the next segment is there and the catalog has its
reserve again. A small publish may find room before that, in what is left of a segment; if that were the end, the disk would be told to
be full, free and full again.
"""

from __future__ import annotations

from bowstring.ports.clock import Clock
from bowstring.ports.events import Observer


class Shortage:
    """One for all incarnations of a broker, because a full disk can end one."""

    def __init__(self, observer: Observer, clock: Clock) -> None:
        self._observer = observer
        self._clock = clock
        self._since: float | None = None

    def begin(self) -> None:
        """Something was refused, or would be."""
        if self._since is None:
            self._since = self._clock.monotonic()
            self._observer.note("disk-full")

    def end(self) -> None:
        """There is room again."""
        if self._since is not None:
            seconds = self._clock.monotonic() - self._since
            self._since = None
            self._observer.note("disk-free", seconds=seconds)
