"""The deadlines of a producer's batches, with one timer for all of them.

Nearly every batch is decided long before its deadline. A timer of the loop for each, made and
cancelled again, would cost more than its encoding. So deadlines lie in a heap, the one timer is set
to the first, and batches that are decided stay in the heap until their time comes or until they are
more than the others: then the heap is made anew without them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from math import inf
from typing import Final

from bowstring.client.sent_batch import Progress, SentBatch
from bowstring.ports.clock import Clock

TIDY_MIN: Final = 64
"""The heap is not made anew while it is smaller."""
LATE_SECONDS: Final = 0.001
"""How much later than its moment the timer fires: then the moment has passed, however the loop
rounds."""

Act = Callable[[SentBatch], object]


class Deadlines:
    """Calls back at the deadlines of undecided batches."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._heap: list[tuple[float, int, Act, SentBatch]] = []
        self._count = 0
        """Deadlines so far: orders those of the same moment."""
        self._tidy_at = TIDY_MIN
        """The size at which the heap is made anew."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = inf
        self._closed = False

    def __len__(self) -> int:
        """How many it holds, decided ones among them."""
        return len(self._heap)

    def add(self, when: float, act: Act, batch: SentBatch) -> None:
        """Calls `act(batch)` at this moment, in monotonic seconds, unless the batch is decided by
        then."""
        if self._closed:
            return
        self._count += 1
        heappush(self._heap, (when, self._count, act, batch))
        if len(self._heap) >= self._tidy_at:
            self._tidy()
        if when < self._timer_at:
            self._watch()

    def close(self) -> None:
        """Makes no more calls."""
        self._closed = True
        self._heap.clear()
        self._watch()

    def _tidy(self) -> None:
        self._heap = [entry for entry in self._heap if entry[3].progress is not Progress.DECIDED]
        heapify(self._heap)
        self._tidy_at = max(TIDY_MIN, 2 * len(self._heap))

    def _watch(self) -> None:
        """Sets the timer to the first deadline."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = None, inf
        if self._heap:
            self._timer_at = self._heap[0][0]
            wait = max(0.0, self._timer_at - self._clock.monotonic()) + LATE_SECONDS
            self._timer = self._loop.call_later(wait, self._fire)

    def _fire(self) -> None:
        now = self._clock.monotonic()
        while self._heap and (self._heap[0][0] <= now or self._heap[0][3].progress is Progress.DECIDED):
            _, _, act, batch = heappop(self._heap)
            if batch.progress is not Progress.DECIDED:
                act(batch)
        self._watch()
