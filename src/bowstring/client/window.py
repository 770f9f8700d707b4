"""What is under way on a producer's stream, and what waits to be written on it.

The window is counted in bytes, so that large batches do not pile up at a slow broker, and in batches, so that tiny ones do not either. One
batch may always be written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from bowstring.client.outgoing import Outgoing

BYTES_MAX: Final = 8 * 1024 * 1024
"""What is under way at most, whatever the broker would take: enough for it to work on some batches while others travel."""
BATCHES_MAX: Final = 512


class Window:
    """One stream's batches: queued, and written without an answer."""

    def __init__(self) -> None:
        self.bytes_max = BYTES_MAX
        self.queue: deque[Outgoing] = deque()
        """Sealed, and to be written on the stream that is, or will be, open."""
        self._written: dict[int, Outgoing] = {}
        """Written on this stream and not answered, by number, the oldest first."""
        self._used = 0
        self._serial = 0

    @property
    def serial(self) -> int:
        """How many batches were written so far, resends not counted."""
        return self._serial

    @property
    def oldest(self) -> int:
        """The serial of the oldest batch that is under way; above all others if there is none."""
        return next(iter(self._written.values())).serial if self._written else self._serial + 1

    def add(self, batch: Outgoing) -> None:
        """To be written behind all others."""
        batch.queued = True
        self.queue.append(batch)

    def again(self, batches: Sequence[Outgoing]) -> None:
        """To be written once more, before all others."""
        for batch in reversed(batches):
            batch.queued = True
            self.queue.appendleft(batch)

    def next(self) -> Outgoing | None:
        """What to write now; None while there is nothing, or no room for it."""
        while self.queue:
            batch = self.queue[0]
            full = self._used + batch.size > self.bytes_max or len(self._written) >= BATCHES_MAX
            if batch.outcome is None and full and self._written:
                return None
            self.queue.popleft()
            batch.queued = False
            if batch.outcome is None:
                return batch
        return None

    def wrote(self, batch: Outgoing, size: int) -> None:
        """It is written now, the first time or again."""
        if not batch.serial:
            self._serial += 1
            batch.serial = self._serial
        if not batch.writes:
            batch.cost = size
            self._used += size
        batch.writes += 1
        self._written[batch.number] = batch

    def answered(self, batch: Outgoing) -> None:
        """It is not under way any more."""
        if self._written.pop(batch.number, None) is not None:
            self._used -= batch.cost

    def restart(self, batches: Sequence[Outgoing]) -> None:
        """The stream has ended: these are to be written on the next, in the order of their numbers."""
        self._written.clear()
        self._used = 0
        for batch in batches:
            batch.writes = 0
            batch.queued = True
        self.queue = deque(sorted(batches, key=lambda batch: batch.number))
