"""Admits publishes, and keeps the callers that wait: credit for publishes, their answers, and calls
that wait for a commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from bowstring import errors
from bowstring.broker.counters import Counters
from bowstring.broker.log.flusher import Flusher
from bowstring.core.answers import Answer
from bowstring.core.credit import Credit

Answered = Callable[[Answer | Exception], None]
"""Gets what became of a batch. The flusher calls it once; it must not raise."""


class Admitted:
    """A batch whose bytes are reserved. They are given back when it is settled."""

    __slots__ = ("_admission", "_answered", "_size")

    def __init__(self, admission: Admission, size: int, answered: Answered) -> None:
        self._admission = admission
        self._size = size
        self._answered: Answered | None = answered

    @property
    def is_settled(self) -> bool:
        return self._answered is None

    def settle(self, outcome: Answer | Exception) -> None:
        """The last word, unless there was one."""
        answered, self._answered = self._answered, None
        if answered is not None:
            self._admission.settled(self, self._size, outcome)
            answered(outcome)


class Admission:
    """The callers of one incarnation. When it ends, all that wait get an error."""

    def __init__(self, *, bytes_max: int, flusher: Flusher, counters: Counters) -> None:
        self._credit: Credit[asyncio.Future[None]] = Credit(bytes_max)
        self._flusher = flusher
        self._counters = counters
        self._outstanding: dict[Admitted, None] = {}
        self._awaited: dict[asyncio.Future[None], None] = {}
        """Commits that calls wait for."""
        self.ended: errors.Error | None = None

    @property
    def reserved_bytes(self) -> int:
        """Bytes of batches on their way to the disk."""
        return self._credit.reserved

    def try_admit(self, size: int) -> bool:
        """Reserves bytes if there is credit at once. Raises Unavailable when the incarnation has
        ended.
        """
        if self.ended is not None:
            raise self.ended.with_traceback(None)
        return self._credit.try_reserve(size)

    async def admit(self, size: int) -> None:
        """Waits for credit. Raises Unavailable when the incarnation ends meanwhile."""
        if self.try_admit(size):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._credit.wait(size, turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._release_credit(size)
            raise

    def outstanding(self, size: int, answered: Answered) -> Admitted:
        """Notes a batch whose bytes are reserved."""
        admitted = Admitted(self, size, answered)
        self._outstanding[admitted] = None
        return admitted

    def settled(self, admitted: Admitted, size: int, outcome: Answer | Exception) -> None:
        """Takes the bytes of an answered batch back."""
        del self._outstanding[admitted]
        self._release_credit(size)
        self._counters.settled(outcome)

    def _release_credit(self, size: int) -> None:
        for turn, reserved in self._credit.release(size):
            if turn.done():
                self._release_credit(reserved)
            else:
                turn.set_result(None)

    def refuse(self, admitted: Admitted, error: errors.Error) -> None:
        """Refuses once everything that was decided before is committed: a refusal rests on it as
        any answer does.
        """
        if self.ended is not None:
            admitted.settle(self.ended)
        else:
            self._flusher.answer(lambda: admitted.settle(error))

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
        for admitted in tuple(self._outstanding):
            admitted.settle(error)
        for waiting in self._awaited:
            if not waiting.done():
                waiting.set_exception(error)
