"""A batch on its way out, from its first row to its answer.

It is open while rows are gathered into it, then sealed, written (perhaps several times, on several streams), and in the end it has an
outcome. Its number is given with its first row, so that ids are known at once: `<producer>-<number>-<partition>-<row>`.

**Rows** stand in one flat list, `width` entries each: value and stamp; with keys a third one; with anything else seven. One list, because
`list += tuple` is one step under the interpreter's lock, so threads can gather side by side without a lock of ours (see `sending`).
The stamp is the time in nanoseconds, and as an object it is the row's identity: a receipt knows its stamp, and the row is looked for only
when somebody asks. Nothing here refers to receipts: those that are ignored are freed at once.

The **outcome** is where the rows were placed, or an error. Whoever waits leaves a callback. Setting the outcome comes before running
the callbacks, and leaving one comes before looking at the outcome, so none is missed whatever the threads; one may run twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from bowstring import errors
from bowstring.client.rows import ROW_BYTES
from bowstring.messages import encoding, ids
from bowstring.messages.metadata import Unjoined

PLAIN: Final = 2
"""Entries of a row: value, stamp."""
KEYED: Final = 3
"""… and key."""
FULL: Final = 7
"""… and attributes, due, expires, id."""

Offsets = npt.NDArray[np.int64]
Repeated = npt.NDArray[np.bool_]


class Placed(NamedTuple):
    """Where the rows of a batch are: in the order of the batch from `first_offset` on, but for repeats, which were there already."""

    first_offset: int
    repeats: tuple[tuple[int, int, int], ...] = ()
    """Runs as (row, rows, offset)."""

    def of(self, row: int) -> tuple[int, bool]:
        """The offset of a row, and whether it was there already."""
        skipped = 0
        for first, rows, offset in self.repeats:
            if row < first:
                break
            if row < first + rows:
                return offset + row - first, True
            skipped += rows
        return self.first_offset + row - skipped, False

    def repeated(self, rows: int) -> Repeated:
        """Which rows were there already."""
        repeated = np.zeros(rows, np.bool_)
        for first, count, _ in self.repeats:
            repeated[first : first + count] = True
        return repeated

    def offsets(self, rows: int) -> Offsets:
        """The offsets of all rows."""
        if not self.repeats:
            return np.arange(self.first_offset, self.first_offset + rows, dtype=np.int64)
        offsets = np.zeros(rows, np.int64)
        for first, count, offset in self.repeats:
            offsets[first : first + count] = np.arange(offset, offset + count)
        fresh = np.flatnonzero(~self.repeated(rows))
        offsets[fresh] = np.arange(self.first_offset, self.first_offset + len(fresh))
        return offsets


class Outgoing:
    """One batch of one producer to one partition."""

    __slots__ = (
        "barrier",
        "callbacks",
        "cost",
        "deadline",
        "empty",
        "encoded",
        "first_stream",
        "given_ids",
        "has_ids",
        "index",
        "items",
        "keyed_limit",
        "limit",
        "number",
        "outcome",
        "partition",
        "producer",
        "queued",
        "reserved",
        "rows",
        "sealed",
        "seen",
        "sent",
        "serial",
        "size",
        "stamps",
        "stream",
        "timeout",
        "timer",
        "topic",
        "wide_limit",
        "width",
        "writes",
        "written_at",
    )

    def __init__(self, topic: str, producer: bytes, partition: int) -> None:
        self.topic = topic
        self.producer = producer
        self.partition = partition
        self.number = 0
        """The producer's running number; 0 as long as there is no row."""

        # While it is gathered. `limit` is the size from which on `send` has to look closer, for rows of a value alone, for rows with
        # a key, and for those with attributes: below zero there is always a reason to.
        self.items: list[Any] = []
        self.width = PLAIN
        self.has_ids = False
        self.size = 0
        self.limit = -1
        self.keyed_limit = -1
        self.wide_limit = -1
        self.sealed = False
        self.rows = 0
        """How many rows there are, once it is sealed; told last, and from then on the loop may take it, whoever is still sealing."""
        self.stamps: list[int] | None = None
        """The rows' stamps, once it is sealed."""
        self.index: dict[int, int] | None = None
        """The rows by the identity of their stamps, made when somebody asks."""
        self.reserved = 0
        """What it counts of the producer's max_bytes."""
        self.given_ids: Sequence[Any] | None = None

        self.timeout = 0.0
        self.deadline = 0.0
        """Monotonic seconds: it may be committed until then."""
        self.sent = 0
        """When the first row came, by the broker's clock; the same in every resend."""

        # While it is under way; the loop's own.
        self.encoded: encoding.Draft | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.barrier = -1
        self.serial = 0
        """The how manieth batch it was to be written first; 0 for not yet."""
        self.first_stream = 0
        """The stream on which it was written first; 0 for none, and then it is certainly not stored."""
        self.stream = 0
        """The stream on which it was written last."""
        self.writes = 0
        """How often it was written on that stream without an answer so far."""
        self.written_at = 0.0
        self.cost = 0
        """What it takes of the window while it is written and not answered."""
        self.queued = False

        self.outcome: Placed | errors.Error | None = None
        self.callbacks: list[Callable[[], object]] = []
        self.empty = False
        """Its rows were moved to other batches."""
        self.seen: set[int] = set()
        """Rows whose error was raised to somebody."""

    # ---- rows

    def seal(self) -> None:
        """Nothing is gathered any more; what is added behind the rows counted here is not part of it (`sending` moves such rows)."""
        self.sealed = True
        self.limit = self.keyed_limit = self.wide_limit = -1
        rows = len(self.items) // self.width
        self.stamps = self.items[1 : rows * self.width : self.width]
        if self.has_ids:
            self.given_ids = self.items[6 : rows * FULL : FULL]
        self.rows = rows

    def encode(self, compression: str | None) -> encoding.Draft:
        """The bytes that travel, written once and kept for resends until there is an outcome."""
        if self.encoded is None:
            self.encoded = self._encode(compression)
            self.items = []
        return self.encoded

    def _encode(self, compression: str | None) -> encoding.Draft:
        items, width, rows = self.items, self.width, self.rows
        end = rows * width
        values: Any = items[0:end:width]
        if rows > 1 and compression is None and self.size >= rows * (ROW_BYTES + Unjoined.WORTH_WHILE):
            with suppress(TypeError):  # for nulls, which have no length
                values = Unjoined(values, np.fromiter(map(len, values), np.int64, rows))
        stamps = self.stamps or []
        created = stamps[0] // 1000 if rows == 1 else np.fromiter(stamps, np.int64, rows) // 1000
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

    def row_of(self, stamp: int) -> int:
        """The row with this very stamp. The last ones are found at once while it is open, all of them once it is sealed."""
        items, width = self.items, self.width
        if self.stamps is None:
            for place in range(len(items) - width + 1, 0, -width):
                if items[place] is stamp:
                    return place // width
        if self.index is None:
            self.index = {id(other): row for row, other in enumerate(self.stamps or ())}
        return self.index[id(stamp)]

    def holds(self, stamp: int) -> bool:
        """Whether the row with this stamp was counted when the batch was sealed."""
        return any(other is stamp for other in reversed(self.stamps or ()))

    def id_of(self, row: int) -> str:
        """The id of a row, known from the start."""
        if not self.has_ids:
            return ids.generated(self.producer, self.number, self.partition, row)
        if self.given_ids is not None:
            return str(self.given_ids[row])
        return self.items[row * FULL + 6]

    # ---- outcome

    def resolve(self, outcome: Placed | errors.Error) -> None:
        """Sets what became of it, once and for all, and tells those who wait."""
        self.outcome = outcome
        self.encoded = None
        self.items = []
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        self._call_back()

    def moved(self) -> None:
        """Its rows are in other batches now: those who wait look there."""
        self.empty = True
        self._call_back()

    def _call_back(self) -> None:
        callbacks, self.callbacks = self.callbacks, []
        for callback in callbacks:
            callback()

    def when_done(self, callback: Callable[[], object]) -> None:
        """Calls it when there is an outcome, or the rows were moved; perhaps at once, perhaps twice."""
        self.callbacks.append(callback)
        if self.outcome is not None or self.empty:
            callback()


def _some(column: list[Any]) -> list[Any] | None:
    """The column, or None where no row has anything in it."""
    return None if column.count(None) == len(column) else column
