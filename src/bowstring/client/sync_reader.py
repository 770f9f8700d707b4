"""A reader for programs without asyncio: the program's own thread takes arrived messages, the rest
happens on the loop (`sync`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any

from bowstring.client import reader as asynchronous_reader
from bowstring.client.batch import Batch
from bowstring.client.message import Message
from bowstring.client.ranges import Start
from bowstring.client.receipts import Span
from bowstring.client.statistics import ReaderStatistics
from bowstring.wire.loops import LoopThread

# The two faces are one thing in two files.
# pyright: reportPrivateUsage=false


class Reader:
    """Reads topics from a place on. `for message in reader`, or `batches()`, or `poll()`."""

    def __init__(self, reader: asynchronous_reader.Reader, thread: LoopThread) -> None:
        self.topic = reader.topic
        self.name = reader.name
        self._reader = reader
        self._thread = thread
        self._taking = threading.RLock()
        reader._taken_by_threads(self._taking, thread.loop.call_soon_threadsafe)

    def __iter__(self) -> Iterator[Message]:
        reader = self._reader
        while True:
            for message in reader._messages:
                if reader._doubt and not reader._may_hand_out(message):
                    break
                yield message
            if not reader._messages_at_hand() and not self._thread.run(reader._next_messages()):
                return

    def batches(self, max_rows: int = 65536, max_wait: Span = 0.05) -> Iterator[Batch]:
        """Batches of up to `max_rows`, or of about a MiB; one that is not full waits `max_wait` for
        more rows.
        """
        reader = self._reader
        while batch := reader._batch_at_hand(max_rows) or self._thread.run(reader._next_batch(max_rows, max_wait)):
            yield batch

    def poll(self, timeout: Span = 0, max_rows: int | None = None) -> Batch:
        """Returns the messages that are there now, after waiting up to `timeout` for some; an empty
        batch if none came.
        """
        return self._thread.run(self._reader.poll(timeout, max_rows))

    @property
    def position(self) -> dict[Any, Any]:
        """The next offset of each partition; empty until the reader knows where it begins. Of a
        list of topics it is one such dict by topic.
        """
        return self._reader.position

    def seek(self, start: Start) -> None:
        """Continues from another place."""
        self._thread.run(self._reader.seek(start))

    def lag(self) -> dict[Any, Any]:
        """How many offsets follow the position, for each partition; of a list of topics, by
        topic."""
        return self._thread.run(self._reader.lag())

    def commit(self, position: Mapping[Any, Any] | None = None, transaction: None = None) -> None:
        """Commits the position under the reader's name, durably: behind everything that was handed
        out, or as given. A later reader of the name continues there. Moving backwards raises
        `Conflict`. Each of several topics is committed separately.
        """
        self._thread.run(self._reader.commit(position, transaction))

    def statistics(self) -> ReaderStatistics:
        """How much was read."""
        return self._reader.statistics()

    def close(self) -> None:
        """Ends the reader, and every call that waits for it: iteration ends, `poll` returns an
        empty batch. Closing again does nothing. Call it from any thread, and from a signal handler.
        """
        if self._reader._open:
            self._reader._stop()
            self._thread.close(self._reader.close(), [self._taking])

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return repr(self._reader)

    def __reduce__(self) -> Any:
        return self._reader.__reduce__()
