"""Pages that have come from the broker and wait for the program, in the order in which they came.

A reader and a consumer have them: `read_ahead` and `deliveries` add which rows may be taken, and
what ends them.

**Threads.** Pages come on the loop; they are taken there or in a thread of the program (`sync`), by
one at a time. Every count has one writer. A thread that waits for rows waits at a bell of its own,
which the loop rings in the step in which something comes.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from contextlib import suppress
from typing import Final

from bowstring.client.pages import Chunk
from bowstring.wire.loops import Bell

BOUNDLESS: Final = 1 << 62
"""More rows than there are."""


class Arrivals(ABC):
    """What has come and was not taken."""

    def __init__(self, fill_bytes: int) -> None:
        self._fill_bytes = fill_bytes
        """A caller never waits for more than this, because more might not come before some of it is
        taken.
        """
        self._closed = False
        self._pages: deque[Chunk] = deque()
        self._rows_came = 0
        self.messages = 0
        """How many were taken."""
        self.dropped = 0
        """How many arrived rows were dropped, because they might not be handed out any more."""
        self._loops = 0
        """The loops of threads that iterate."""
        self._changed = asyncio.Event()
        self.bells: set[Bell] = set()
        """The bells of threads that wait for a change."""

    def _add(self, chunk: Chunk) -> None:
        self._rows_came += chunk.rows
        self._pages.append(chunk)

    def _change(self) -> None:
        """Wakes those who wait, after what they wait for is there to be seen."""
        self._changed.set()
        for bell in tuple(self.bells):
            bell.ring()

    # ---- waiting

    @abstractmethod
    async def available(self) -> bool:
        """Waits until there are rows to take; False at the end. Raises what ended it for good."""

    @abstractmethod
    def wants_rows(self) -> bool:
        """Whether there is nothing to do but to wait for rows, however long that takes. For a
        thread that has put its bell into `bells`: if True, the bell rings when this changes.
        """

    def iterated(self, loops: int) -> None:
        """A loop of a thread begins to iterate (1), or has ended (-1)."""
        self._loops += loops

    @abstractmethod
    def _over(self) -> bool:
        """Whether nothing more comes."""

    async def filled(self, rows: int) -> None:
        """Waits until there is enough work for a program, or nothing more to come."""
        while not self.holds(rows, self._fill_bytes) and not self._over():
            await self._wait()

    async def _wait(self, seconds: float | None = None) -> None:
        self._changed.clear()
        if seconds is None:
            await self._changed.wait()
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    # ---- taking

    def take(self, rows_max: int | None) -> Chunk | None:
        """The next rows, all of one page; None if there are none now."""
        room = self._room() if rows_max is None else min(rows_max, self._room())
        if room <= 0 or (chunk := self._next()) is None:
            return None
        whole = chunk.rows <= room
        if not whole:
            self._pages.appendleft(Chunk(chunk.page, chunk.first + room, chunk.rows - room))
            chunk = Chunk(chunk.page, chunk.first, room)
        self.messages += chunk.rows
        self._took(chunk, last_of_page=whole)
        return chunk

    @abstractmethod
    def _next(self) -> Chunk | None:
        """Takes the rest of the first page of which something may be handed out."""

    @abstractmethod
    def _took(self, chunk: Chunk, *, last_of_page: bool) -> None:
        """The program has these rows."""

    def _room(self) -> int:
        """How many rows may be handed out now."""
        return BOUNDLESS

    def holds(self, rows: int, size: int) -> bool:
        """Whether this many rows, or bytes, can be taken now; or as many as the program may have
        before it does something.
        """
        room = self._room()
        return room > 0 and (self.rows_ahead >= min(rows, room) or self.bytes_ahead >= size)

    @property
    def rows_ahead(self) -> int:
        """How many rows have come and were not taken."""
        return self._rows_came - self.messages - self.dropped

    @property
    @abstractmethod
    def bytes_ahead(self) -> int:
        """The bytes that have come and were not taken."""

    def next_size(self) -> int:
        """The bytes of the rows that `take` gives next; 0 if there are none now."""
        return self._pages[0].size if self._pages else 0

    # ---- what may be handed out

    @abstractmethod
    def fresh(self, chunk: Chunk) -> Chunk | None:
        """The rows that may still be handed out, of rows that were taken before; the same object if
        all may.
        """

    @abstractmethod
    def doubts(self, chunk: Chunk) -> bool:
        """Whether some of these rows may have to be dropped."""

    @abstractmethod
    def is_near(self, chunk: Chunk) -> bool:
        """Whether one of these rows can be over soon."""
