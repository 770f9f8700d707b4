"""Admits publishes, and keeps the callers that wait: credit for publishes, their answers, and calls
that wait for a commit.
"""

from __future__ import annotations

import asyncio

from bowstring import errors
from bowstring.broker.counters import Counters
from bowstring.broker.log.flusher import Flusher
from bowstring.core.answers import Answer
from bowstring.core.credit import Credit


class Admission:
    """The callers of one incarnation. When it ends, all that wait get an error."""

    def __init__(self, *, bytes_max: int, flusher: Flusher, counters: Counters) -> None:
        self._credit: Credit[asyncio.Future[None]] = Credit(bytes_max)
        self._flusher = flusher
        self._counters = counters
        self._outstanding: dict[int, asyncio.Future[Answer]] = {}
        self._awaited: dict[asyncio.Future[None], None] = {}
        """Commits that calls wait for."""
        self._calls = 0
        self.ended: errors.Error | None = None

    @property
    def reserved_bytes(self) -> int:
        """Bytes of batches on their way to the disk."""
        return self._credit.reserved

    async def admit(self, size: int) -> None:
        """Waits for credit. Raises Unavailable when the incarnation ends meanwhile."""
        if self.ended is not None:
            raise self.ended.with_traceback(None)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._credit.reserve(size, turn):
            return
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._release_credit(size)
            raise

    def outstanding(self, size: int) -> asyncio.Future[Answer]:
        """A future for the answer to a batch whose bytes are reserved. They are given back when it
        is settled.
        """
        self._calls += 1
        call = self._calls
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._outstanding[call] = answer

        def settled(answer: asyncio.Future[Answer]) -> None:
            del self._outstanding[call]
            self._release_credit(size)
            self._counters.settled(answer)

        answer.add_done_callback(settled)
        return answer

    def _release_credit(self, size: int) -> None:
        for turn, reserved in self._credit.release(size):
            if turn.done():
                self._release_credit(reserved)
            else:
                turn.set_result(None)

    def refuse(self, answer: asyncio.Future[Answer], error: errors.Error) -> None:
        """Refuses once everything that was decided before is committed: a refusal rests on it as
        any answer does.
        """
        if self.ended is not None:
            answer.set_exception(self.ended)
        else:
            self._flusher.answer(lambda: None if answer.done() else answer.set_exception(error))

    async def durable(self) -> None:
        """Waits until everything decided so far is committed. Raises Unavailable if the incarnation
        ends before.
        """
        if self.ended is not None:
            raise self.ended.with_traceback(None)
        commitment = self._flusher.commitment()
        self._awaited[commitment] = None
        try:
            await commitment
        finally:
            del self._awaited[commitment]

    def end(self, error: errors.Error) -> None:
        """The incarnation is over."""
        self.ended = error
        for waiting in (*self._outstanding.values(), *self._awaited):
            if not waiting.done():
                waiting.set_exception(error)
