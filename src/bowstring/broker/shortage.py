"""Whether the disk is full, told when that begins and when it ends.

Publishers notice first: one of them is refused. The end is noticed by upkeep, which looks at every turn whether there is room for the
largest publish that was refused: with less than that the disk would be told to be full, free and full again.
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
        self.wanted = 0
        """The largest publish that there was no room for."""

    @property
    def is_on(self) -> bool:
        return self._since is not None

    def begin(self, wanted: int = 0) -> None:
        """There is no room for so many bytes."""
        self.wanted = max(self.wanted, wanted)
        if self._since is None:
            self._since = self._clock.monotonic()
            self._observer.note("disk-full")

    def end(self) -> None:
        """There is room for all that was refused."""
        if self._since is not None:
            seconds = self._clock.monotonic() - self._since
            self._since, self.wanted = None, 0
            self._observer.note("disk-free", seconds=seconds)
