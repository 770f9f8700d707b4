"""A sent batch: counted rows on their way to the broker, from the seal to the outcome. The loop
owns it.

It has three states; the methods below are the only transitions:

    QUEUED ── wrote(…) ──> WRITTEN        it is on a stream, and an answer is due
    WRITTEN ── queue() ──> QUEUED         it has to be written once more: the broker lacks a batch before it
    any ── withdraw()  ──> QUEUED         its stream has ended, or its partition has moved: no answer is due
    any ── decide(…)   ──> DECIDED        stored, refused or given up; for good

It may be queued again while answers to earlier writes are due: `writes` counts them, and `answered`
takes them off. The number, the rows and `term.sent` are the same in every write, so the broker
recognises a resend.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from enum import Enum
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from bowstring import errors
from bowstring.client.outcome import Outcome, StoredRows
from bowstring.client.rows import KEYED, PLAIN, ROW_BYTES
from bowstring.messages import encoding, ids
from bowstring.messages.metadata import Unjoined


class Term(msgspec.Struct, frozen=True, gc=False):
    """How long the broker may take to commit a batch."""

    seconds: float
    until: float
    """Monotonic seconds of this process."""
    sent: int
    """When the first row came, by the broker's clock; the same in every resend."""


class GatheredRows(msgspec.Struct, frozen=True, gc=False):
    """Rows of an open batch that are counted and not encoded yet."""

    items: list[Any]
    """May hold rows behind those counted: they belong to other batches."""
    width: int
    rows: int
    size: int
    stamps: Sequence[int]
    given_ids: Sequence[Any] | None

    def draft(self, compression: str | None) -> encoding.Draft:
        """The rows, encoded."""
        items, width, rows = self.items, self.width, self.rows
        if rows == 1 and width == PLAIN and compression is None and type(items[0]) is bytes:
            return encoding.draft_value(items[0], items[1] // 1000)
        end = rows * width
        values: Any = items[0:end:width]
        if rows > 1 and compression is None and self.size >= rows * (ROW_BYTES + Unjoined.WORTH_WHILE):
            with suppress(TypeError):  # nulls have no length
                values = Unjoined(values, np.fromiter(map(len, values), np.int64, rows))
        created = self.stamps[0] // 1000 if rows == 1 else np.fromiter(self.stamps, np.int64, rows) // 1000
        if width == PLAIN:
            return encoding.draft_columns(rows, values=values, created=created, compression=compression)
        keys = items[2:end:width]
        if width == KEYED:
            return encoding.draft_columns(rows, values=values, keys=keys, created=created, compression=compression)
        return encoding.draft_columns(
            rows,
            values=values,
            created=created,
            keys=_some(keys),
            attributes=_some(items[3:end:width]),
            due=_some(items[4:end:width]),
            expires=_some(items[5:end:width]),
            ids=self.given_ids,
            compression=compression,
        )


class Progress(Enum):
    """Where a sent batch is."""

    QUEUED = "queued"
    """It waits to be written: in the inbox, in its lane, or in the queue of a stream."""
    WRITTEN = "written"
    DECIDED = "decided"


class SentBatch:
    """One batch of one producer to one partition."""

    __slots__ = (
        "before",
        "content",
        "cost",
        "first_stream",
        "given_ids",
        "number",
        "outcome",
        "partition",
        "producer",
        "progress",
        "reserved",
        "rows",
        "serial",
        "size",
        "stream",
        "term",
        "writes",
        "written_at",
    )

    def __init__(
        self,
        producer: bytes,
        partition: int,
        number: int,
        term: Term,
        content: GatheredRows | encoding.Draft,
        size: int,
        given_ids: Sequence[Any] | None,
        outcome: Outcome | None = None,
    ) -> None:
        self.producer = producer
        self.partition = partition
        self.number = number
        self.term = term
        self.content: GatheredRows | encoding.Draft | None = content
        """What travels; None once it is decided."""
        self.rows = content.rows
        self.size = size
        self.reserved = size
        """How much of the producer's max_bytes it counts."""
        self.given_ids = given_ids
        self.outcome = outcome or Outcome()

        self.progress = Progress.QUEUED
        self.before = 0
        """The number of the batch before it in its lane; 0 if it is the first."""
        self.serial = 0
        """Its place in the order of first writes; 0 if not written yet."""
        self.first_stream = 0
        """The stream of its first write; 0 if there was none, and then it is certainly not
        stored."""
        self.stream = 0
        """The stream of its last write."""
        self.writes = 0
        """How many writes on its present stream have no answer yet."""
        self.written_at = 0.0
        self.cost = 0
        """How much it takes of the stream's window."""

    @property
    def id(self) -> str:
        """The part that the ids of its rows have in common."""
        return f"{self.producer.hex()}-{self.number:x}"

    def ids(self) -> list[str]:
        """The ids of its rows."""
        if self.given_ids is not None:
            return pa.array(self.given_ids, pa.utf8()).to_pylist()
        return ids.column(self.producer, self.number, self.partition, np.arange(self.rows)).to_pylist()

    def encoded(self, compression: str | None) -> encoding.Draft:
        """The bytes that travel, made once and kept for resends."""
        if isinstance(self.content, GatheredRows):
            self.content = self.content.draft(compression)
        assert self.content is not None
        return self.content

    # ---- transitions

    def queue(self) -> None:
        """It is to be written, once more or for the first time."""
        self.progress = Progress.QUEUED

    def wrote(self, stream: int, now: float) -> None:
        """It is written on this stream."""
        self.progress = Progress.WRITTEN
        self.first_stream = self.first_stream or stream
        self.stream = stream
        self.written_at = now
        self.writes += 1

    def answered(self) -> bool:
        """An answer came; whether it answers the last write."""
        self.writes -= 1
        return not self.writes

    def withdraw(self) -> None:
        """Its stream does not carry it any more, and owes no answer."""
        self.progress = Progress.QUEUED
        self.writes = 0

    def decide(self, result: StoredRows | errors.Error) -> None:
        """Sets the outcome, once and for all, and tells the receipts."""
        self.progress = Progress.DECIDED
        self.content = None
        self.outcome.decide(result)


def _some(column: list[Any]) -> list[Any] | None:
    """The column, or None if no row has an entry in it."""
    return None if column.count(None) == len(column) else column
