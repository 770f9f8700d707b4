"""An open batch: rows of one partition that the program's threads gather.

It has three states. Both transitions happen under the lock of `open_batches`:

    empty ── begin(…) ──> gathering ── seal() ──> sealed

- **empty**: no number, no row; `send` takes the way through the lock.
- **gathering**: the batch has its number, so ids are known at once:
  `<producer>-<number>-<partition>-<row>`. Threads append rows without a lock (see `sender`).
- **sealed**: the rows are counted. `seal` returns a `SentBatch` with these rows. Only that one goes
  to the loop, so the loop never sees a batch whose rows are still being counted.

**Rows** lie in one flat list, `width` entries each: value and stamp; then the key; then attributes,
due, expires and id. One list, because `list += tuple` is one step under the interpreter's lock:
threads append side by side without a lock of ours. The stamp is the time in nanoseconds. As an
object it is also the row's identity: a receipt keeps its stamp, and the row is searched only when a
caller asks for it. Nothing here refers to receipts, so a receipt that the program ignores is freed
at once.
"""

from __future__ import annotations

from typing import Any

from bowstring.client.outcome import Outcome
from bowstring.client.rows import FULL, PLAIN
from bowstring.client.sent_batch import GatheredRows, SentBatch, Term
from bowstring.messages import ids

CLOSED = -1
"""A limit below every size: each row takes the way through the lock."""


class OpenBatch:
    """Rows of one producer for one partition."""

    __slots__ = (
        "_index",
        "aged",
        "barrier",
        "given_ids",
        "has_ids",
        "items",
        "keyed_limit",
        "limit",
        "number",
        "outcome",
        "partition",
        "producer",
        "reserved",
        "sealed",
        "size",
        "stamps",
        "term",
        "topic",
        "wide_limit",
        "width",
    )

    def __init__(self, topic: str, producer: bytes, partition: int) -> None:
        self.topic = topic
        self.producer = producer
        self.partition = partition
        self.number = 0
        """The producer's running number; 0 while the batch is empty."""
        self.items: list[Any] = []
        self.width = PLAIN
        self.has_ids = False
        """Whether its rows have natural ids: all of them, or none."""
        self.size = 0
        self.limit = self.keyed_limit = self.wide_limit = CLOSED
        """Up to which size `send` may append without the lock: rows of a value, rows with a key,
        rows with attributes."""
        self.sealed = False
        self.stamps: list[int] | None = None
        """The rows' stamps, once it is sealed."""
        self.given_ids: list[str] | None = None
        """The rows' natural ids, once it is sealed, if they have any."""
        self._index: dict[int, int] | None = None
        """The rows by the identity of their stamps, made at the first question."""
        self.reserved = 0
        """How much of the producer's max_bytes it counts."""
        self.term = Term(0.0, 0.0, 0)
        self.barrier = 0
        """How many batches the loop had written when the first row came. When these are answered,
        it is due."""
        self.aged = 0.0
        """Monotonic seconds: from then on it is sealed even if it cannot be written, so that its
        rows are about equally old."""
        self.outcome = Outcome()

    def begin(self, number: int, width: int, has_ids: bool, term: Term) -> None:
        """The first row is about to come."""
        self.number, self.width, self.has_ids, self.term = number, width, has_ids, term

    def seal(self) -> SentBatch:
        """Ends the gathering. It says so before it counts: a thread that appends later sees
        `sealed`, and `sender` puts that row into another batch."""
        self.sealed = True
        self.limit = self.keyed_limit = self.wide_limit = CLOSED
        rows = len(self.items) // self.width
        self.stamps = self.items[1 : rows * self.width : self.width]
        if self.has_ids:
            self.given_ids = self.items[6 : rows * FULL : FULL]
        content = GatheredRows(self.items, self.width, rows, self.size, self.stamps, self.given_ids)
        self.items = []
        return SentBatch(self.producer, self.partition, self.number, self.term, content, self.size, self.given_ids, self.outcome)

    def row_of(self, stamp: int) -> int:
        """The row with this very stamp. While it gathers, the last rows are found first."""
        items, width = self.items, self.width  # before `stamps`: `seal` sets these before it takes the items away
        if self.stamps is None:
            for place in range(len(items) - width + 1, 0, -width):
                if items[place] is stamp:
                    return place // width
        if self.stamps is not None and len(self.stamps) == 1:
            return 0
        if self._index is None:
            self._index = {id(other): row for row, other in enumerate(self.stamps or ())}
        return self._index[id(stamp)]

    def holds(self, stamp: int) -> bool:
        """Whether the row with this stamp was counted when the batch was sealed."""
        return any(other is stamp for other in reversed(self.stamps or ()))

    def id_of(self, row: int) -> str:
        """The id of a row, known from the start."""
        if self.has_ids:
            items, given = self.items, self.given_ids  # in this order: `seal` sets the ids before it takes the items away
            return items[row * FULL + 6] if given is None else given[row]
        return ids.generated(self.producer, self.number, self.partition, row)
