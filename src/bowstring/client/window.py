"""The batches of one stream: those that wait to be written, and those without an answer.

The window is bounded in bytes, so that large batches do not pile up at a slow broker, and in
batches, so that tiny ones do not either. One batch may always be written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Sequence
from typing import Final

from bowstring.client.sent_batch import Progress, SentBatch

BYTES_MAX: Final = 8 * 1024 * 1024
"""The bound of the window, however much the broker takes: enough for it to work on some batches
while others travel."""
BATCHES_MAX: Final = 512


class Window:
    """One stream's batches: queued, and written without an answer."""

    def __init__(self) -> None:
        self.bytes_max = BYTES_MAX
        self.queue: deque[SentBatch] = deque()
        self._written: dict[int, SentBatch] = {}
        """Written and not answered, by number, the oldest write first."""
        self._used = 0

    @property
    def oldest(self) -> int | None:
        """The serial of the oldest batch that is under way; None if there is none."""
        return next(iter(self._written.values())).serial if self._written else None

    def add(self, batch: SentBatch) -> None:
        """Queues a batch behind all others."""
        batch.queue()
        self.queue.append(batch)

    def again(self, batches: Sequence[SentBatch]) -> None:
        """Queues batches before all others, to be written once more."""
        for batch in reversed(batches):
            batch.queue()
            self.queue.appendleft(batch)

    def next(self) -> SentBatch | None:
        """The batch to write now; None if there is none, or no room for it."""
        while self.queue:
            batch = self.queue[0]
            full = self._used + batch.size > self.bytes_max or len(self._written) >= BATCHES_MAX
            undecided = batch.progress is not Progress.DECIDED
            if undecided and full and self._written:
                return None
            self.queue.popleft()
            if undecided:
                return batch
        return None

    def wrote(self, batch: SentBatch, size: int) -> None:
        """A batch is under way now, for the first time or again."""
        if batch.number not in self._written:
            batch.cost = size
            self._used += size
        self._written[batch.number] = batch

    def answered(self, batch: SentBatch) -> None:
        """A batch is not under way any more."""
        if self._written.pop(batch.number, None) is not None:
            self._used -= batch.cost

    def withdraw(self, numbers: Container[int]) -> None:
        """Takes away the batches of these numbers, queued or under way."""
        self.queue = deque(batch for batch in self.queue if batch.number not in numbers)
        for batch in [batch for batch in self._written.values() if batch.number in numbers]:
            self.answered(batch)

    def restart(self, batches: Sequence[SentBatch]) -> None:
        """The stream has ended: queues these for the next one, in the order of their numbers."""
        self._written.clear()
        self._used = 0
        for batch in batches:
            batch.withdraw()
        self.queue = deque(sorted(batches, key=lambda batch: batch.number))
