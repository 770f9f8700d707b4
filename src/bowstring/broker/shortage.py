"""Reports when the disk becomes full and when that ends.

Publishers notice first: one of them is refused. Upkeep notices the end, when the next segment is
there and the catalog has its reserve again, at several turns one after the other. A nearly full
disk has a little room for a moment now and then, in a smaller segment or one that upkeep uses
itself; if that counted as the end, the log would say full, free and full again.
"""

from __future__ import annotations

from typing import Final

from bowstring import errors
from bowstring.ports.clock import Clock
from bowstring.ports.events import Observer

TURNS_FREE: Final = 3
"""The number of turns of upkeep in a row that must find room."""


class Shortage:
    """One for all incarnations of a broker, because a full disk can end one."""

    def __init__(self, observer: Observer, clock: Clock) -> None:
        self._observer = observer
        self._clock = clock
        self._since: float | None = None
        self._turns_free = 0

    @property
    def is_on(self) -> bool:
        """Whether the disk is reported as full."""
        return self._since is not None

    def begin(self) -> None:
        """A publish was refused, or would be."""
        self._turns_free = 0
        if self._since is None:
            self._since = self._clock.monotonic()
            self._observer.note("disk-full")

    def found_room(self) -> None:
        """A turn of upkeep has found room."""
        self._turns_free += 1
        if self._since is not None and self._turns_free >= TURNS_FREE:
            seconds = self._clock.monotonic() - self._since
            self._since = None
            self._observer.note("disk-free", seconds=seconds)


def disk_full() -> errors.Full:
    """The error of a refused publish."""
    return errors.Full("the disk is full; nothing of this was stored.", hint="Free some space: the broker goes on by itself.")
