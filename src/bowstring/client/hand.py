"""The rows that a reader or a consumer hands out: one by one, or as batches.

**Sharing.** Tasks, and with `sync` threads, may share a reader or a consumer: each message is handed
out once. The page in hand is a list's iterator. It gives each entry to one thread only, and `list()`
empties it in one step, both under the interpreter's lock. So handing out the next message takes no
lock of ours; going on to the next page does (`_taking`).

**Closing** ends iteration. It takes no lock either, because it may come from a signal handler, in
the middle of any step.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from itertools import count
from operator import length_hint
from typing import Any, ClassVar, Generic, Self, TypeVar

from bowstring import times
from bowstring.client.arguments import Span
from bowstring.client.arrivals import Arrivals
from bowstring.client.batch import Batch
from bowstring.client.connection import Connection
from bowstring.client.message import Message
from bowstring.client.pages import Chunk
from bowstring.client.reader_settings import FULL_BYTES, JOINED_BYTES, rows_limit

A = TypeVar("A", bound=Arrivals)
B = TypeVar("B", bound=Batch)
M = TypeVar("M", bound=Message)


class Hand(ABC, Generic[A, M, B]):
    """What a reader and a consumer have in common."""

    _hand_rows: ClassVar[int | None] = None
    """So many rows are taken in hand at once; None for as many as a page has."""

    def __init__(self, connection: Connection, arrivals: A) -> None:
        self._connection = connection
        self._read_ahead = arrivals
        self._open = True
        self._iterated = False
        self._doubt = False
        """Whether the next row in hand has to be checked before it is handed out. This is all that
        `for` asks for each message."""
        self._chunk: Chunk | None = None
        """The page in hand: the rows that `async for` is in."""
        self._messages: Iterator[M] = iter(())
        """The rows in hand that are not handed out yet."""
        self._unread: Chunk | None = None
        """The rows that were not handed out when it was closed."""
        self._stops = count()
        self._taking: AbstractContextManager[Any] = nullcontext()
        """Held while pages are taken; a lock if threads take them (`sync`)."""
        self._on_loop: Callable[[Callable[[], object]], object] = lambda call: call()

    def _taken_by_threads(self, lock: AbstractContextManager[Any], on_loop: Callable[[Callable[[], object]], object]) -> None:
        """Has pages taken in any thread, under this lock; `on_loop` calls a function on the
        loop."""
        self._taking, self._on_loop = lock, on_loop

    def _doubted(self) -> None:
        self._doubt = True

    @abstractmethod
    def _made(self, chunk: Chunk) -> Iterator[M]:
        """The messages of these rows, as an iterator whose remaining length `length_hint` tells."""

    @abstractmethod
    def _batch_of(self, chunks: list[Chunk]) -> B:
        """The batch of these rows."""

    @abstractmethod
    def _check_open(self) -> None:
        """Raises Conflict if it is closed, or another process's."""

    # ---- one by one

    def __aiter__(self) -> Self:
        self._iterated = True
        return self

    async def __anext__(self) -> M:
        while True:
            message = next(self._messages, None)
            if message is not None:
                if self._doubt and not self._may_hand_out(message):
                    continue
                return message
            if not self._iterated:
                self._check_open()
            if not await self._next_messages():
                raise StopAsyncIteration

    async def _next_messages(self) -> bool:
        """Goes on to the next rows; False at the end."""
        while not self._messages_at_hand():
            if not await self._available():
                return False
        return True

    async def _available(self) -> bool:
        """Waits for rows to take; False at the end. After a `seek` it waits at the new place."""
        self._connection.check_process()
        while self._open:
            ahead = self._read_ahead
            if await ahead.available():
                return self._open
            if ahead is self._read_ahead:
                return False
        return False

    def _has_rows_in_hand(self) -> bool:
        return length_hint(self._messages) > 0

    def _messages_at_hand(self) -> bool:
        """Goes on to the next rows if they are there; in any thread. Another thread may have done
        so meanwhile."""
        with self._taking:
            if not length_hint(self._messages):
                self._doubt = False  # before looking: what is heard meanwhile counts for these
                chunk = self._read_ahead.take(self._hand_rows) if self._open else None
                if chunk is None:
                    return False
                self._in_hand(chunk)
        self._grant()
        return True

    def _in_hand(self, chunk: Chunk) -> None:
        """Takes these rows in hand. If one of them can be over soon, each is checked."""
        self._chunk, self._messages = chunk, self._made(chunk)
        if self._read_ahead.is_near(chunk):
            self._doubt = True
        if not self._open:
            self._stop()

    def _may_hand_out(self, message: M) -> bool:
        """Whether this message, just taken from the rows in hand, is fresh; in any thread. If it is
        in doubt, so are those behind it: they are checked, and the fresh ones come next. The doubt
        lasts until other rows come, because other threads may have taken one of these."""
        with self._taking:
            own = Chunk(message._page, message._row, 1)  # pyright: ignore[reportPrivateUsage]
            if not self._read_ahead.doubts(own):
                return True
            rest = self._rest()
            if rest is not None and (fresh := self._read_ahead.fresh(rest)) is not None:
                self._in_hand(fresh)
            return self._read_ahead.fresh(own) is not None

    # ---- as batches

    async def _next_batch(self, max_rows: int, max_wait: Span) -> B | None:
        """The next of `batches`; None at the end."""
        limit, seconds = rows_limit(max_rows), times.span(max_wait, "max_wait")
        while (left := length_hint(self._messages)) or await self._available():
            if not self._read_ahead.holds(limit - left, FULL_BYTES):
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await self._read_ahead.filled(limit - left)
            if batch := self._batch(limit, JOINED_BYTES):
                return batch
        return None

    def _batch_at_hand(self, max_rows: int) -> B | None:
        """The next of `batches`, if there is enough for it without waiting; in any thread."""
        if self._open and self._read_ahead.holds(rows_limit(max_rows), FULL_BYTES):
            return self._batch(max_rows, JOINED_BYTES) or None
        return None

    def _batch(self, rows_max: int, bytes_max: int) -> B:
        """The messages that are there now."""
        chunks: list[Chunk] = []
        with self._taking:
            if self._open:
                chunks = self._left_over(rows_max)
            rows, size = sum(chunk.rows for chunk in chunks), sum(chunk.size for chunk in chunks)
            while self._open and rows < rows_max and not (chunks and size + self._read_ahead.next_size() > bytes_max):
                chunk = self._read_ahead.take(rows_max - rows)
                if chunk is None:
                    break
                chunks.append(chunk)
                rows += chunk.rows
                size += chunk.size
        self._grant()
        return self._batch_of(chunks)

    def _grant(self) -> None:
        """Rows were taken."""

    def _left_over(self, limit: int) -> list[Chunk]:
        """The rows in hand that `async for` has not handed out."""
        rest = self._rest()
        if rest is None:
            return []
        chunk = self._read_ahead.fresh(rest)
        if chunk is not None and chunk.rows > limit:
            self._in_hand(Chunk(chunk.page, chunk.first + limit, chunk.rows - limit))
            chunk = Chunk(chunk.page, chunk.first, limit)
        return [] if chunk is None else [chunk]

    def _rest(self) -> Chunk | None:
        """Takes the rows in hand away from `async for`."""
        rest = list(self._messages)
        return Chunk(rest[0]._page, rest[0]._row, len(rest)) if rest else None  # pyright: ignore[reportPrivateUsage]

    def _ahead(self) -> Chunk | None:
        """The rows in hand that `async for` has not handed out, without taking them away."""
        remaining, chunk = length_hint(self._messages), self._chunk  # before `_unread`, which is written first
        if self._unread is not None or chunk is None or not remaining:
            return self._unread
        return Chunk(chunk.page, chunk.first + chunk.rows - remaining, remaining)

    # ---- the end

    def _stop(self) -> None:
        """Hands out nothing more. In any thread, and in a signal handler. Meanwhile the position is
        never ahead of what was handed out."""
        first = not next(self._stops)
        self._unread, self._open = self._ahead(), False
        rest = self._rest()
        if rest is not None:
            self._left_unread(rest)
        if first or rest is not None:
            self._unread = rest

    def _left_unread(self, rest: Chunk) -> None:
        """These rows were in hand when it was stopped."""

    def _leave_to_parent(self) -> None:
        """Hands out nothing in a forked child. A thread that is not here may hold the old lock."""
        self._taking = type(self._taking)()
        self._stop()
