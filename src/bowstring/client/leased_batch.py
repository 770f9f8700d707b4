"""Messages that a consumer holds, as Arrow columns. Masks settle some of them, or all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bowstring import errors
from bowstring.client import kept_page
from bowstring.client.arguments import Span, SpanOrMoment
from bowstring.client.batch import Batch
from bowstring.client.lease_marks import ACK, LOST, NACK, REJECT, REVOKED
from bowstring.client.lease_receipts import MarkedRows, MarksReceipt
from bowstring.client.leased_message import KeptLeasedPage, LeasedMessage, check_reason, check_transaction
from bowstring.client.leased_page import LeasedPage
from bowstring.client.masks import chosen
from bowstring.client.message import Message
from bowstring.client.nack_times import check_kept, nack_time
from bowstring.client.pages import LEASED_COLUMNS, Chunk

if TYPE_CHECKING:
    from bowstring.client.lease_receipts import LeaseBatchReceipt


NOTHING_REFUSED: Final[Mapping[str, errors.Error]] = {}


class LeasedBatch(Batch):
    """Messages that a consumer holds, in the order in which they came. `ack`, `nack` and `reject`
    settle the rows of a mask: booleans, one for each row, or the numbers of rows; a list, or a column
    of NumPy, Arrow, Polars or pandas. A row is settled once: later masks leave it alone.
    """

    __slots__ = ("refused",)

    _known: ClassVar[pa.Schema] = LEASED_COLUMNS
    _message: ClassVar[type[Message]] = LeasedMessage

    def __init__(
        self, chunks: Sequence[Chunk], names: tuple[str, ...] | None = None, refused: Mapping[str, errors.Error] = NOTHING_REFUSED
    ) -> None:
        super().__init__(chunks, names)
        self.refused: Mapping[str, errors.Error] = refused
        """By id, why messages that were asked for are not in the batch (`consumer.lease`)."""

    if TYPE_CHECKING:

        def __iter__(self) -> Iterator[LeasedMessage]: ...
        def __getitem__(self, index: Any) -> Any: ...

    def ack(self, mask: Any = None, transaction: None = None) -> LeaseBatchReceipt:
        """The messages are done: they do not come again. Returns at once; the receipt turns into
        `Answers`, one per row.
        """
        check_transaction(transaction)
        return self._settle(mask, ACK)

    def nack(self, mask: Any = None, delay: Span | None = None, at: datetime | None = None, reason: str | None = None) -> LeaseBatchReceipt:
        """Gives messages back, and their retry count rises by one. They are delivered again after a
        `delay`, or `at` a moment; without either when the subscription's backoff says, or at once.
        Raises `InvalidArgument`, and settles none, if the topic does not keep one of them until
        then. `reason` goes to the dead letter of a message that was delivered as often as it may be.
        """
        check_reason(reason)
        return self._settle(mask, NACK, nack_time(delay, at), reason or "")

    def reject(self, mask: Any, reason: str) -> LeaseBatchReceipt:
        """The messages cannot be processed, now or later: they become dead letters with this reason.
        A mask of None means all of them.
        """
        check_reason(reason, needed=True)
        return self._settle(mask, REJECT, reason=reason)

    def extend(self, mask: Any = None, lease: SpanOrMoment | None = None) -> LeaseBatchReceipt:
        """Holds messages for longer: for the consumer's lease from now on, or the given one. Rows that
        are settled are left alone.
        """
        wanted = chosen(mask, self._rows)
        parts: list[tuple[LeasedPage, npt.NDArray[np.intp], int]] = []
        for page, first, rows, at in self._pieces():
            free = page.mark_array[first : first + rows] == 0
            meant = np.flatnonzero(free if wanted is None else free & wanted[at : at + rows])
            if len(meant):
                parts.append((page, meant + first, at - first))
        if not parts:
            return self._receipt([])
        settlements = parts[0][0].settlements
        extended = settlements.extend_many([(page, rows) for page, rows, _ in parts], lease)
        return self._receipt([MarkedRows(parts[part][0], rows, rows + parts[part][2], extension) for part, rows, extension in extended])

    def _settle(self, mask: Any, code: int, time: int = 0, reason: str = "") -> LeaseBatchReceipt:
        wanted = chosen(mask, self._rows)
        parts: list[MarkedRows] = []
        for page, first, rows, at in self._pieces() if time else ():
            free = page.mark_array[first : first + rows] == 0
            check_kept(page, first + np.flatnonzero(free if wanted is None else free & wanted[at : at + rows]), time)
        for page, first, rows, at in self._pieces():
            some = None if wanted is None else wanted[at : at + rows]
            meant = page.mark(first, rows, code, some, time, reason)
            if page.has_lost:  # these are refused
                marks = page.mark_array[first : first + rows]
                lost = (marks == LOST) | (marks == REVOKED)
                meant |= lost if some is None else lost & some
            marked = np.flatnonzero(meant)
            if len(marked):
                parts.append(MarkedRows(page, marked + first, marked + at))
        return self._receipt(parts)

    def _pieces(self) -> Iterator[tuple[LeasedPage, int, int, int]]:
        """The consecutive rows of pages, and where they begin in the batch. Raises Conflict for a
        copy, and in a forked child.
        """
        at = 0
        for chunk in self._chunks:
            page = cast("LeasedPage", chunk.page)
            if isinstance(chunk.page, KeptLeasedPage):
                raise chunk.page.why_not(chunk.first)
            page.settlements.check_process()
            yield page, chunk.first, chunk.rows, at
            at += chunk.rows

    def _receipt(self, parts: list[MarkedRows]) -> LeaseBatchReceipt:
        kind = parts[0].page.settlements.batch_receipt if parts else self._receipt_kind()
        topic = self._chunks[0].page.topic if self._chunks else ""
        return cast("LeaseBatchReceipt", kind(topic, self._rows, parts))

    def _receipt_kind(self) -> type[MarksReceipt]:
        return cast("LeasedPage", self._chunks[0].page).settlements.batch_receipt if self._chunks else MarksReceipt

    def __reduce__(self) -> Any:
        return _restored_batch, super().__reduce__()[1]


def _restored_batch(data: bytes, names: tuple[str, ...]) -> LeasedBatch:
    """A batch that was pickled or copied, as an Arrow stream."""
    return LeasedBatch(kept_page.kept(data, names, KeptLeasedPage), names)
