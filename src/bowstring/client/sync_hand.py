"""What a reader and a consumer for programs without asyncio have in common: the program's own thread
takes arrived messages, and waits for them; the rest happens on the loop (`sync`).

Waiting on the loop would cost two more changes of threads and a task for each wait. So a thread
asks the loop only if there is more to know than "not yet": an end, an error, a broker that is away.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from bowstring import times
from bowstring.client.arguments import Span
from bowstring.client.batch import Batch
from bowstring.client.hand import Hand
from bowstring.client.message import Message
from bowstring.client.reader_settings import rows_limit
from bowstring.wire.loops import LoopThread

# The two faces are one thing in two files.
# pyright: reportPrivateUsage=false

B = TypeVar("B", bound=Batch)
M = TypeVar("M", bound=Message)


class SyncHand(Generic[M, B]):
    """The face of a `Hand` for threads."""

    def __init__(self, hand: Hand[Any, M, B], thread: LoopThread) -> None:
        self._hand = hand
        self._thread = thread
        self._taking = threading.RLock()
        hand._taken_by_threads(self._taking, thread.loop.call_soon_threadsafe)

    def __iter__(self) -> Iterator[M]:
        hand = self._hand
        hand._read_ahead.iterated(1)
        try:
            while True:
                for message in hand._messages:
                    if hand._doubt and not hand._may_hand_out(message):
                        break
                    yield message
                if not hand._messages_at_hand() and not self._next_messages():
                    return
        finally:
            hand._read_ahead.iterated(-1)

    def _next_messages(self) -> bool:
        """Waits for the next rows and takes them in hand; False at the end."""
        while self._came():
            if self._hand._messages_at_hand():
                return True
        return self._thread.run(self._hand._next_messages())

    def _came(self) -> bool:
        """Waits until something has come; False if there is more to do than to wait."""
        ahead = self._hand._read_ahead
        with self._thread.bell() as bell:
            ahead.bells.add(bell)
            try:
                waits = ahead.wants_rows()
                if waits:
                    bell.wait()
            finally:
                ahead.bells.discard(bell)
        return waits

    def _batches(self, max_rows: int, max_wait: Span) -> Iterator[B]:
        """Raises InvalidArgument at once, and not when something has come."""
        rows_limit(max_rows)
        times.span(max_wait, "max_wait")
        return self._each_batch(max_rows, max_wait)

    def _each_batch(self, max_rows: int, max_wait: Span) -> Iterator[B]:
        while batch := self._hand._batch_at_hand(max_rows) or self._next_batch(max_rows, max_wait):
            yield batch

    def _next_batch(self, max_rows: int, max_wait: Span) -> B | None:
        """Waits for the next of `batches`; None at the end. What is not full waits on the loop."""
        hand = self._hand
        if not hand._has_rows_in_hand() and self._came() and (batch := hand._batch_at_hand(max_rows)):
            return batch
        return self._thread.run(hand._next_batch(max_rows, max_wait))

    def close(self) -> None:
        """Ends it, and every call that waits for it."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return repr(self._hand)

    def __reduce__(self) -> Any:
        return self._hand.__reduce__()
