"""Rows that wait until the number of the topic's partitions is known.

This lasts for the first moments of a producer, or until a broker answers. Each entry keeps when it
was sent and how long it may take, and is routed like any other row once the topic is described.
Until then its receipt refers to a placeholder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from bowstring.client.outcome import Outcome

if TYPE_CHECKING:
    from bowstring.client.open_batches import OpenBatches
    from bowstring.client.receipts import BatchPart, MessageReceipt, RowsReceipt


class Placeholder:
    """Rows that are in no batch: not yet, or never, because they were refused."""

    __slots__ = ("_ids", "outcome", "partition", "rows", "topic")

    def __init__(self, topic: str, rows: int, ids: Sequence[str] | None = None, partition: int = 0) -> None:
        self.topic = topic
        self.rows = rows
        self.partition = partition
        self._ids = ids
        self.outcome = Outcome()

    @property
    def id(self) -> str:
        """Rows in no batch have no id of a batch."""
        return ""

    def ids(self) -> list[str]:
        """The ids of its rows; empty where there are none."""
        return list(self._ids) if self._ids is not None else [""] * self.rows

    def id_of(self, row: int) -> str:
        """The id of a row."""
        return self.ids()[row]

    def row_of(self, stamp: int) -> int:
        """The row of a stamp: a placeholder of a message has one row."""
        return 0


class UnroutedMessage(NamedTuple):
    """A message with a key or an id."""

    started: float
    timeout: float
    size: int
    placeholder: Placeholder
    receipt: MessageReceipt
    row: tuple[Any, ...]

    def route(self, batches: OpenBatches) -> None:
        """Puts the row into a batch, under the lock of `batches`."""
        batches.forward(self.receipt, self.row, self.timeout, self.size)


class UnroutedBatch(NamedTuple):
    """A `send_batch` with keys or ids."""

    started: float
    timeout: float
    size: int
    placeholder: Placeholder
    receipt: RowsReceipt
    divide: Callable[[], list[BatchPart]]

    def route(self, batches: OpenBatches) -> None:
        """Divides the rows into batches, under the lock of `batches`."""
        self.receipt.parts[:] = self.divide()


Unrouted = UnroutedMessage | UnroutedBatch
