"""The pages that the broker has pushed to a consumer and that wait for the program.

A message is handed out only while its lease lasts by the latest time that the broker's clock can
show (`lease_time`), and only before it expires. Rows whose lease has ended are lost: the broker
delivers them again. Rows that have expired are given back, uncounted, and the broker sets them
aside.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, cast
from weakref import WeakSet

import numpy as np

from bowstring import errors
from bowstring.client.arrivals import Arrivals
from bowstring.client.lease_marks import RELEASE
from bowstring.client.lease_time import LeaseTime
from bowstring.client.leased_page import LeasedPage
from bowstring.client.pages import Chunk
from bowstring.client.receipts import raisable

NEAR_MICROSECONDS: Final = 600_000_000
"""If a row can expire within this time, rows are checked one by one while they are handed out."""


class Deliveries(Arrivals):
    """What was pushed and not taken."""

    def __init__(self, lease_time: LeaseTime, fill_bytes: int, awaited: Callable[[], int], asked: Callable[[int], object]) -> None:
        super().__init__(fill_bytes)
        self._lease_time = lease_time
        self._awaited = awaited
        """How many more rows the broker may push before some are settled."""
        self._asked = asked
        """Called when more threads and tasks iterate than ever before."""
        self._tasks: WeakSet[asyncio.Task[Any]] = WeakSet()
        """The tasks that have waited for messages, as long as they live."""
        self._askers_most = 1
        self.error: errors.Error | None = None
        """What ended the consumer for good."""
        self.is_told = False
        """Whether the program has got this error."""
        self._bytes_came = self._bytes_taken = 0

    def came(self, chunks: Iterable[Chunk]) -> None:
        """Rows have come."""
        for chunk in chunks:
            self._add(chunk)
            self._bytes_came += chunk.size
        self._change()

    def fail(self, error: errors.Error) -> None:
        """Nothing more comes, and nothing is handed out any more."""
        self.error = error
        self._change()

    def close(self) -> None:
        """Wakes all callers that wait."""
        self._closed = True
        self._change()

    # ---- waiting

    async def available(self) -> bool:
        while not self._closed:
            if self.error is not None:
                self.is_told = True
                raise raisable(self.error)
            if self._pages:
                return True
            if (task := asyncio.current_task()) is not None and not self._loops:
                self._tasks.add(task)
                self._ask()
            await self._wait()
        return False

    def wants_rows(self) -> bool:
        return not self._pages and not self._over()

    def iterated(self, loops: int) -> None:
        super().iterated(loops)
        self._ask()

    def _ask(self) -> None:
        """Another thread or task asks for messages."""
        askers = self._loops + sum(not task.done() for task in self._tasks)
        if askers > self._askers_most:
            self._askers_most = askers
            self._asked(askers)

    def _over(self) -> bool:
        return self._closed or self.error is not None

    def holds(self, rows: int, size: int) -> bool:
        """Whether there is enough, or as much as comes before something is settled."""
        if self.error is not None or not self._pages:
            return False
        return super().holds(rows, min(size, self._fill_bytes)) or self._awaited() <= 0

    # ---- taking

    def _next(self) -> Chunk | None:
        while self.error is None:
            try:
                chunk = self._pages.popleft()
            except IndexError:
                return None
            if not self.doubts(chunk):
                return chunk
            fresh = self._sifted(chunk)
            if fresh is not None:
                return fresh
        return None

    def _took(self, chunk: Chunk, *, last_of_page: bool) -> None:
        _leased(chunk).taken = chunk.first + chunk.rows
        self._bytes_taken += chunk.size

    @property
    def bytes_ahead(self) -> int:
        return self._bytes_came - self._bytes_taken

    def take_all(self) -> list[Chunk]:
        """Takes everything, to give it back."""
        chunks: list[Chunk] = []
        while self._pages:
            chunk = self._pages.popleft()
            self.dropped += chunk.rows
            self._bytes_taken += chunk.size
            chunks.append(chunk)
        return chunks

    def untake(self, chunk: Chunk) -> None:
        """Rows that were in hand are given back after all."""
        self.messages -= chunk.rows
        self.dropped += chunk.rows

    def take_away(self, pages: Iterable[LeasedPage]) -> list[Chunk]:
        """Takes what waits of these pages, to give it back."""
        unwanted = set(pages)
        all_chunks = [self._pages.popleft() for _ in range(len(self._pages))]
        away = [chunk for chunk in all_chunks if chunk.page in unwanted]
        self._pages.extendleft(reversed([chunk for chunk in all_chunks if chunk.page not in unwanted]))
        self.dropped += sum(chunk.rows for chunk in away)
        self._bytes_taken += sum(chunk.size for chunk in away)
        return away

    def pick(self, wanted: Mapping[LeasedPage, Sequence[int]]) -> list[Chunk]:
        """Takes rows of pages that wait, by their offsets, ahead of others."""
        picked: list[Chunk] = []
        left: list[Chunk] = []
        for chunk in [self._pages.popleft() for _ in range(len(self._pages))]:
            page = _leased(chunk)
            mine = np.isin(chunk.offsets, wanted.get(page, ())) & (page.mark_array[chunk.first : chunk.first + chunk.rows] == 0)
            edges = [0, *(np.flatnonzero(np.diff(mine)) + 1).tolist(), chunk.rows]
            for first, end in itertools.pairwise(edges):
                (picked if mine[first] else left).append(Chunk(page, chunk.first + first, end - first))
        self._pages.extendleft(reversed(left))
        self.messages += sum(chunk.rows for chunk in picked)
        self._bytes_taken += sum(chunk.size for chunk in picked)
        return picked

    def put_back(self, chunk: Chunk) -> None:
        """Rows that were in hand wait again."""
        _leased(chunk).taken = chunk.first
        self.messages -= chunk.rows
        self._bytes_taken -= chunk.size
        self._pages.appendleft(chunk)
        self._change()

    def handed_out(self, chunks: Iterable[Chunk]) -> None:
        """Rows that never waited were handed out."""
        for chunk in chunks:
            _leased(chunk).taken = chunk.first + chunk.rows
            self._rows_came += chunk.rows
            self.messages += chunk.rows

    # ---- what may be handed out

    def doubts(self, chunk: Chunk) -> bool:
        page = _leased(chunk)
        if self.error is not None or page.has_lost or page.until(chunk.first) <= self._lease_time.latest():
            return True
        return page.expires_from <= self._lease_time.broker_time.keeping()

    def is_near(self, chunk: Chunk) -> bool:
        page, keeping = chunk.page, self._lease_time.broker_time.keeping()
        return self._lease_time.is_followed or page.expires_from <= keeping + NEAR_MICROSECONDS

    def fresh(self, chunk: Chunk) -> Chunk | None:
        if not self.doubts(chunk):
            return chunk
        self.messages -= chunk.rows
        self._bytes_taken -= chunk.size
        rest = self._sifted(chunk)
        if rest is not None:
            self.messages += rest.rows
            self._bytes_taken += rest.size
        return rest

    def _sifted(self, chunk: Chunk) -> Chunk | None:
        """The first consecutive rows that may be handed out. Those behind them wait again."""
        page, first, end = _leased(chunk), chunk.first, chunk.first + chunk.rows
        if self.error is not None or page.lease.is_lost or page.until(first) <= self._lease_time.latest():
            self._drop(chunk)
            page.lose(first, chunk.rows)
            return None
        gone = (page.expiries[first:end] <= self._lease_time.broker_time.keeping()) | (page.mark_array[first:end] != 0)
        if not gone.any():
            return chunk
        over = int(np.argmin(gone)) if not gone.all() else chunk.rows
        if over:
            self._drop(Chunk(page, first, over))
            page.mark(first, over, RELEASE)
            if over == chunk.rows:
                return None
        rows = int(np.argmax(gone[over:])) or chunk.rows - over
        if over + rows < chunk.rows:
            self._pages.appendleft(Chunk(page, first + over + rows, chunk.rows - over - rows))
        return Chunk(page, first + over, rows)

    def _drop(self, chunk: Chunk) -> None:
        self.dropped += chunk.rows
        self._bytes_taken += chunk.size


def _leased(chunk: Chunk) -> LeasedPage:
    return cast("LeasedPage", chunk.page)
