"""Receipts of messages, and the answers that they turn into.

Every single message gets a receipt of `send`, so it is as small as possible: the open batch of the
message, and its stamp there. The batch knows the rest when the program asks. The receipt of
`send_batch` knows the parts into which the rows were divided (by partition and by size) and puts
the answers back into the order of the rows.

An error that a receipt has raised counts as seen. `flush` and `close` raise the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bowstring import errors
from bowstring.client.arguments import Span
from bowstring.client.open_batch import OpenBatch
from bowstring.client.outcome import Outcome, StoredRows
from bowstring.client.sent_batch import SentBatch
from bowstring.client.unrouted import Placeholder
from bowstring.messages import columns


class Stored(NamedTuple):
    """A message that is durable: it survives the death of any process and the loss of power."""

    topic: str
    partition: int
    offset: int
    id: str
    duplicate: bool
    """Its id had been published before: this is where the first one is, and nothing was stored
    again.
    """


class Answers:
    """One answer per row of a batch, in the order of the rows."""

    __slots__ = ("duplicates", "offsets", "ok", "partitions", "refused", "topic")

    def __init__(
        self,
        topic: str,
        ok: pa.BooleanArray,
        partitions: pa.Int32Array,
        offsets: pa.Int64Array,
        duplicates: pa.BooleanArray,
        refused: dict[int, errors.Error],
    ) -> None:
        self.topic = topic
        self.ok = ok
        """Whether the row is stored; for a delete or a move, whether its message is deleted or moved; for a settlement,
        whether it is settled, null if the call has left the row alone."""
        self.partitions = partitions
        self.offsets = offsets
        """Null where the row is refused."""
        self.duplicates = duplicates
        """Whether the row's id had been published before: its offset is where the first one is, and
        nothing was stored again.
        """
        self.refused = refused
        """The errors by row."""

    def __len__(self) -> int:
        return len(self.ok)

    def __repr__(self) -> str:
        repeated = self.duplicates.true_count
        return f"Answers(topic={self.topic!r}, rows={len(self)}, duplicates={repeated}, refused={len(self.refused)})"

    def raise_for_refused(self) -> None:
        """Raises `PartlyRefused` if any row was refused."""
        if self.refused:
            raise partly_refused(self)


def partly_refused(answers: Answers) -> errors.PartlyRefused:
    """The error of a batch of which rows were refused, with the first reason in its text."""
    row, first = next(iter(answers.refused.items()))
    many = len(answers.refused)
    what = f"{many} of {len(answers)} messages were refused" if len(answers) > 1 else "the message was refused"
    error = errors.PartlyRefused(
        f"{what}. Row {row}: {type(first).__name__}: {first}", hint="All of them are in .answers.refused.", details={"rows": str(many)}
    )
    error.answers = answers
    error.__cause__ = first
    return error


class MessageReceipt(msgspec.Struct, eq=False, gc=False):
    """What the receipts of one message share, in asyncio and out of it."""

    _batch: OpenBatch | Placeholder
    _stamp: int

    @property
    def id(self) -> str:
        """The message's id. Publishing again with the same id stores nothing twice."""
        return self._batch.id_of(self._batch.row_of(self._stamp))

    @property
    def ids(self) -> list[str]:
        """The ids of all its messages: this one."""
        return [self.id]

    def done(self) -> bool:
        """Whether the outcome of the message is decided."""
        return self._batch.outcome.result is not None

    def moved(self, batch: OpenBatch) -> None:
        """The message is in this batch now."""
        self._batch = batch

    def _result(self) -> Stored:
        batch = self._batch
        row, outcome = batch.row_of(self._stamp), batch.outcome
        if not isinstance(outcome.result, StoredRows):
            outcome.seen.add(row)
            raise raisable(outcome.result)
        offset, duplicate = outcome.result.of(row)
        return Stored(batch.topic, batch.partition, offset, batch.id_of(row), duplicate)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(id={self.id!r}, done={self.done()})"

    def __reduce__(self) -> Any:
        raise TypeError("A receipt belongs to its producer and cannot be pickled. Keep its id.")


class Receipt(MessageReceipt, eq=False, gc=False):
    """The receipt of one message. `await` it to know that the message is durable, or ignore it:
    `flush` raises what failed.
    """

    def result(self, timeout: Span | None = None) -> Stored:
        """Where the message is stored; raises what failed. Only for receipts that are done: `await`
        the others.
        """
        if not self.done():
            raise not_done()
        return self._result()

    def __await__(self) -> Generator[Any, None, Stored]:
        while not self.done():
            yield from settled(self._batch.outcome.when_settled)
        return self._result()


class BatchPart(NamedTuple):
    """Rows of a `send_batch` that travel together."""

    batch: SentBatch | Placeholder
    rows: npt.NDArray[np.int64] | range
    """Which rows of the whole these are, in their order."""


class RowsReceipt:
    """What the receipts of a `send_batch` share, in asyncio and out of it."""

    __slots__ = ("_placeholder", "_rows", "_topic", "parts")

    def __init__(self, topic: str, rows: int, parts: list[BatchPart], placeholder: Placeholder | None = None) -> None:
        self._topic = topic
        self._rows = rows
        self.parts = parts
        """The batches in which the rows travel. None as long as it is not known how many partitions
        there are.
        """
        self._placeholder = placeholder

    @property
    def id(self) -> str:
        """The id of the (first) batch in which the rows travel."""
        return self._known()[0].batch.id

    @property
    def ids(self) -> list[str]:
        """The ids of all rows, in their order."""
        found = [""] * self._rows
        for batch, rows in self._known():
            for row, text in zip(rows, batch.ids(), strict=True):
                found[row] = text
        return found

    def done(self) -> bool:
        """Whether the outcome of every row is decided."""
        return self._undecided() is None

    def _known(self) -> list[BatchPart]:
        if not self.parts:
            raise errors.Conflict(
                "the topic's partitions are not known yet, so these rows have no ids.", hint="await producer.ready() first."
            )
        return self.parts

    def _undecided(self) -> Outcome | None:
        """An outcome for which this receipt still waits."""
        if not self.parts and self._placeholder is not None:
            return self._placeholder.outcome if self._placeholder.outcome.result is None else None
        return next((part.batch.outcome for part in self.parts if part.batch.outcome.result is None), None)

    def _result(self) -> Answers:
        if not self.parts and self._placeholder is not None:
            self._placeholder.outcome.seen.update(range(self._rows))
            return answers(self._topic, self._rows, [BatchPart(self._placeholder, range(self._rows))])
        for part in self.parts:
            if not isinstance(part.batch.outcome.result, StoredRows):
                part.batch.outcome.seen.update(range(part.batch.rows))
        return answers(self._topic, self._rows, self.parts)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(rows={self._rows}, done={self.done()})"

    def __reduce__(self) -> Any:
        raise TypeError("A receipt belongs to its producer and cannot be pickled. Keep its ids.")


class BatchReceipt(RowsReceipt):
    """The receipt of a `send_batch`. `await` it to get `Answers`, one per row."""

    __slots__ = ()

    def result(self, timeout: Span | None = None) -> Answers:
        """One answer per row. Only for receipts that are done: `await` the others."""
        if not self.done():
            raise not_done()
        return self._result()

    def __await__(self) -> Generator[Any, None, Answers]:
        while (outcome := self._undecided()) is not None:
            yield from settled(outcome.when_settled)
        return self._result()


def answers(topic: str, rows: int, parts: Iterable[BatchPart]) -> Answers:
    """The outcomes of parts, put back into the order of the rows."""
    ok = np.zeros(rows, np.bool_)
    partitions = np.zeros(rows, np.int32)
    offsets = np.zeros(rows, np.int64)
    duplicates = np.zeros(rows, np.bool_)
    refused: dict[int, errors.Error] = {}
    for batch, numbers in parts:
        where: Any = slice(numbers.start, numbers.stop) if isinstance(numbers, range) else numbers
        partitions[where] = batch.partition
        result = batch.outcome.result
        if isinstance(result, StoredRows):
            ok[where] = True
            offsets[where] = result.offsets(batch.rows)
            duplicates[where] = result.repeated(batch.rows)
        else:
            refused.update(dict.fromkeys(map(int, numbers), raisable(result)))
    places = columns.integers(partitions), columns.integers(offsets, ok), columns.booleans(duplicates)
    return Answers(topic, columns.booleans(ok), *places, dict(sorted(refused.items())))


def unseen(topic: str, failed: Sequence[SentBatch | Placeholder]) -> errors.Error | None:
    """What `flush` raises for batches that failed: the error itself for a single message, else
    `PartlyRefused` over all that failed.
    """
    left = [(batch, raisable(batch.outcome.result), batch.rows - len(batch.outcome.seen)) for batch in failed]
    left = [(batch, error, rows) for batch, error, rows in left if rows > 0]
    for batch, _, _ in left:
        batch.outcome.seen.update(range(batch.rows))
    total = sum(rows for _, _, rows in left)
    if total <= 1:
        return left[0][1] if left else None
    partitions = columns.integers(np.repeat(np.array([batch.partition for batch, _, _ in left], np.int32), [rows for _, _, rows in left]))
    refused = dict(enumerate(error for _, error, rows in left for _ in range(rows)))
    none = columns.booleans(np.zeros(total, np.bool_))
    return partly_refused(Answers(topic, none, partitions, pa.nulls(total, pa.int64()), none, refused))


def raisable(result: StoredRows | errors.Error | None) -> errors.Error:
    """The error of a batch for one of its rows: a new one each time, because raising writes into
    it.
    """
    assert isinstance(result, errors.Error)
    error = type(result)(result.message, hint=result.hint, details=result.details)
    error.__cause__ = result.__cause__
    return error


def not_done() -> errors.Conflict:
    """The error for asking a receipt too early."""
    return errors.Conflict("this receipt is not done yet.", hint="In asyncio use `await receipt`.")


def settled(when_settled: Callable[[Callable[[], object]], object]) -> asyncio.Future[None]:
    """Done when the outcome is decided whose `when_settled` this is, or when its rows were moved to
    other batches.
    """
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    when_settled(lambda: None if future.done() else future.set_result(None))
    return future
