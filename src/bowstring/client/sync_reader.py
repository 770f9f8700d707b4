"""A reader for programs without asyncio (`sync_hand`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bowstring.client import reader as asynchronous_reader
from bowstring.client.batch import Batch
from bowstring.client.message import Message
from bowstring.client.ranges import Start
from bowstring.client.receipts import Span
from bowstring.client.statistics import ReaderStatistics
from bowstring.client.sync_hand import SyncHand
from bowstring.wire.loops import LoopThread

# The two faces are one thing in two files.
# pyright: reportPrivateUsage=false


class Reader(SyncHand[Message, Batch]):
    """Reads topics from a place on. `for message in reader`, or `batches()`, or `poll()`."""

    def __init__(self, reader: asynchronous_reader.Reader, thread: LoopThread) -> None:
        super().__init__(reader, thread)
        self.topic = reader.topic
        self.name = reader.name
        self._reader = reader

    def batches(self, max_rows: int = 65536, max_wait: Span = 0.05) -> Iterator[Batch]:
        """Batches of up to `max_rows`, or of about a MiB; one that is not full waits `max_wait` for
        more rows.
        """
        return self._batches(max_rows, max_wait)

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
