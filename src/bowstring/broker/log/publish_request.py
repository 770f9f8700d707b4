"""The request that brings messages: a batch that was checked is decided in the order in which it came, and becomes a page."""

from __future__ import annotations

import pyarrow as pa

from bowstring import errors
from bowstring.broker.log.admission import Admitted
from bowstring.broker.log.published_batch import page_of, page_of_rows
from bowstring.broker.log.requests import Request
from bowstring.core import publishing
from bowstring.core.answers import Answer
from bowstring.core.changes import Append, Change
from bowstring.core.decisions import BatchName, Decided, Decision, Found, Lookup, Publish, Rows
from bowstring.core.partition import Partition
from bowstring.ports.disk import Buffer
from bowstring.ports.failures import Damaged
from bowstring.ports.store import Page


class PublishBatch(Request[Answer]):
    """A batch that was checked, on its way into the log."""

    __slots__ = ("_admitted", "batch", "data", "group", "ids", "publish")

    in_order = True

    def __init__(self, publish: Publish, group: str, batch: pa.RecordBatch | None, data: Buffer, admitted: Admitted) -> None:
        self.publish = publish
        self.ids = publish.ids
        self.group = group
        self.batch = batch
        """Its columns; None if a batch without ids was checked without making them."""
        self.data = data
        self._admitted = admitted

    @property
    def is_settled(self) -> bool:
        return self._admitted.is_settled

    def settle(self, outcome: Answer | Exception) -> None:
        self._admitted.settle(outcome)

    def decide(self, partition: Partition, now: int, found: Found | None) -> Decision[Answer]:
        return publishing.publish(partition, self.publish, now, found)

    def texts(self, rows: Rows) -> pa.Array:
        assert self.batch is not None, "a batch with ids has columns"
        return self.batch.column("id").take(pa.array(rows))

    def page(self, change: Change, decided: Decided[Answer]) -> Page | None:
        """The batch as it came, or its new rows."""
        if not isinstance(change, Append) or not change.rows:
            return None
        if decided.kept is None:
            return page_of(change, self.group, self.publish.columns, self.data)
        assert self.batch is not None, "rows are left out by their ids"
        return page_of_rows(change, self.group, self.batch, decided.kept)

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
