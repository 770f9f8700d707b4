"""The request that brings messages: a batch that was checked is decided in the order in which it came, and becomes a page."""

from __future__ import annotations

import asyncio

import pyarrow as pa

from bowstring import errors
from bowstring.broker.log.published_batch import page_of
from bowstring.broker.log.requests import Request
from bowstring.core import publishing
from bowstring.core.answers import Answer
from bowstring.core.changes import Append, Change
from bowstring.core.decisions import BatchName, Decided, Decision, Found, Lookup, Publish, Rows
from bowstring.core.partition import Partition
from bowstring.messages import encoding
from bowstring.ports.disk import Buffer
from bowstring.ports.failures import Damaged
from bowstring.ports.store import Page


class PublishBatch(Request[Answer]):
    """A batch that was checked, on its way into the log."""

    __slots__ = ("batch", "data", "group", "ids", "publish")

    in_order = True

    def __init__(self, publish: Publish, group: str, batch: pa.RecordBatch, data: Buffer, answer: asyncio.Future[Answer]) -> None:
        self.publish = publish
        self.ids = publish.ids
        self.group = group
        self.batch = batch
        self.data = data
        self.answer = answer

    def decide(self, partition: Partition, now: int, found: Found | None) -> Decision[Answer]:
        return publishing.publish(partition, self.publish, now, found)

    def texts(self, rows: Rows) -> pa.Array:
        return self.batch.column("id").take(pa.array(rows))

    def page(self, change: Change, decided: Decided[Answer]) -> Page | None:
        """The batch as it came, or its new rows."""
        if not isinstance(change, Append) or not change.rows:
            return None
        columns, data = self.publish.columns, self.data
        if decided.kept is not None:
            columns, _, data = encoding.take(self.batch, decided.kept)
            change.columns = columns
        return page_of(change, self.group, columns, data)

    @property
    def name(self) -> BatchName:  # type: ignore[override]
        return BatchName(self.publish.producer, self.publish.number)

    def not_compared(self, partition: Partition, lookup: Lookup, error: Damaged) -> errors.Error:
        """The damaged page may hold this very batch, if it came before: then it may well be stored."""
        if self.name in lookup.batches:
            return errors.OutcomeUnknown(f"the batch came before, and whether it is stored cannot be read: {error}")
        return errors.Corrupt(f"an id could not be compared with the stored one: {error}")

    @property
    def deadline(self) -> int:  # type: ignore[override]
        return self.publish.sent + self.publish.timeout + 1

    def late(self, now: int) -> int:
        """By how much it has missed its deadline, in microseconds."""
        return now - self.publish.sent - self.publish.timeout


Unanswered = tuple[PublishBatch, Answer]
"""An accepted batch, with the answer for a commit in time."""
