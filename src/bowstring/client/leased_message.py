"""A message that a consumer holds. Settling it writes one byte (`lease_marks`)."""

from __future__ import annotations

from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from bowstring import errors
from bowstring.client import arguments, kept_page
from bowstring.client.arguments import Span, SpanOrMoment, shown
from bowstring.client.kept_page import KeptPage
from bowstring.client.lease_marks import ACK, COPIED, GIVING_BACK, LOST, NACK, REJECT
from bowstring.client.message import Message, MessageFields
from bowstring.client.nack_times import check_kept, nack_time
from bowstring.client.pages import LEASED_COLUMNS

if TYPE_CHECKING:
    from bowstring.client.lease_receipts import LeaseReceipt, OneExtension


REASON_MAX = 4096
"""The most characters of a reason."""


class LeasedMessage(Message, eq=False, gc=False):
    """A message that a consumer holds by a lease. Settle it with `ack`, `nack` or `reject`, or use it
    as a context manager: leaving the block acks it, an exception nacks it. A copy made by pickling
    cannot be settled.
    """

    __dataclass_fields__: Any = MessageFields(LEASED_COLUMNS.names)

    @property
    def retry_count(self) -> int:
        """How often it was delivered before, and not acked; 0 the first time."""
        page: Any = self._page
        return page.retry_counts[self._row]

    @property
    def age(self) -> timedelta:
        """How long ago it arrived at the broker."""
        page: Any = self._page
        return page.age(self._row)

    @property
    def lease_end(self) -> datetime:
        """When its lease ends, as far as it is extended by now."""
        page: Any = self._page
        return page.lease_end(self._row)

    def ack(self, transaction: None = None) -> LeaseReceipt:
        """The message is done: it does not come again. Returns at once; the receipt knows when that
        is durable. Raises `LeaseLost` if it is settled otherwise, or known to be lost.
        """
        page: Any = self._page
        row, marks = self._row, page.marks
        if marks[row] or transaction is not None:
            check_transaction(transaction)
            return page.mark_again(row, ACK)
        marks[row] = ACK
        if page.idle:
            page.enlist()
        return page.receipt(page, row)

    def nack(self, delay: Span | None = None, at: datetime | None = None, reason: str | None = None) -> LeaseReceipt:
        """Gives the message back, and its retry count rises by one. It is delivered again after a
        `delay`, or `at` a moment; without either when the subscription's backoff says, or at once,
        before newer ones. Raises `InvalidArgument` for a time at which the topic does not keep the
        message any more. `reason` goes to the dead letter, if the message was delivered as often as
        it may be.
        """
        page: Any = self._page
        row = self._row
        if delay is None and at is None and reason is None and not page.marks[row] and not page.is_keyed:  # the usual one
            page.marks[row] = NACK
            if page.idle:
                page.enlist()
            return page.receipt(page, row)
        check_reason(reason)
        if delay is None and at is None:
            return self._mark(NACK, reason or "")
        if page.marks[row]:
            return page.mark_again(row, NACK)
        time = nack_time(delay, at)
        check_kept(page, np.array([row]), time)
        page.row_times()[row] = time
        return self._mark(NACK, reason or "")

    def reject(self, reason: str) -> LeaseReceipt:
        """The message cannot be processed, now or later: it becomes a dead letter with this reason."""
        check_reason(reason, needed=True)
        return self._mark(REJECT, reason)

    def extend(self, lease: SpanOrMoment | None = None) -> OneExtension:
        """Holds the message for longer: for the consumer's lease from now on, or the given one. The
        receipt's result is the new end. The kit extends leases by itself, so this is for programs
        that need more than that.
        """
        page: Any = self._page
        if page.marks[self._row]:
            raise page.why_not(self._row)
        return page.settlements.extend_one(page, self._row, lease)

    def _mark(self, code: int, reason: str = "") -> LeaseReceipt:
        page: Any = self._page
        row, marks = self._row, page.marks
        if marks[row]:
            return page.mark_again(row, code)
        if reason:
            numbers, number = page.row_reasons(reason)
            numbers[row] = number
        marks[row] = code
        if code in GIVING_BACK and page.is_keyed:
            page.revoke_behind(row)
        if page.idle:
            page.enlist()
        return page.receipt(page, row)

    def __enter__(self) -> LeasedMessage:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        page: Any = self._page
        row, marks = self._row, page.marks
        if not marks[row]:
            if kind is not None and (reason := reason_of(error)):
                numbers, number = page.row_reasons(reason)
                numbers[row] = number
            marks[row] = ACK if kind is None else NACK
            if kind is not None and page.is_keyed:
                page.revoke_behind(row)
            if page.idle:
                page.enlist()
        elif kind is None and marks[row] >= LOST:
            raise page.why_not(row)

    def _finish(self, code: int, reason: str = "") -> None:
        """Settles the message unless it is settled. Raises `LeaseLost` if that is known to be in
        vain.
        """
        page: Any = self._page
        if not page.marks[self._row]:
            self._mark(code, reason)
        elif page.marks[self._row] >= LOST:
            raise page.why_not(self._row)

    async def __aenter__(self) -> LeasedMessage:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.__exit__(kind, error, traceback)

    def __reduce__(self) -> Any:
        return _restored_message, super().__reduce__()[1]


class KeptLeasedPage(KeptPage):
    """Rows that were pickled, with what was known about their lease then."""

    known: ClassVar[pa.Schema] = LEASED_COLUMNS

    def __init__(self, rows: pa.RecordBatch, names: tuple[str, ...]) -> None:
        super().__init__(rows, names)
        self.marks = bytearray([COPIED]) * self.rows

    def why_not(self, row: int) -> errors.Error:
        """Why the message cannot be settled."""
        place = f"{self.topic}/{self.partition}@{int(self.offsets[row])}"
        return errors.Conflict(f"this is a copy of {place}, made by pickling.", hint="Settle the message that the consumer handed out.")

    def mark_again(self, row: int, code: int) -> Any:
        """Refuses: the original is settled, not the copy."""
        raise self.why_not(row)

    @property
    def retry_counts(self) -> list[int]:
        """How often each was delivered before."""
        return self.entries("retry_count")

    def age(self, row: int) -> timedelta:
        """How old it was."""
        return timedelta(microseconds=self.entries("age")[row])

    def lease_end(self, row: int) -> datetime:
        """When its lease was to end."""
        return self.any_column("lease_end")[row].as_py()


def _restored_message(data: bytes, names: tuple[str, ...]) -> LeasedMessage:
    """A message that was pickled or copied, as an Arrow stream of one row."""
    ((page, row, _),) = kept_page.kept(data, names, KeptLeasedPage)
    return LeasedMessage(page.column("value")[row].as_py() if page.has("value") else None, page, row)


def check_transaction(given: object) -> None:
    """Refuses transactions."""
    if given is not None:
        raise errors.NotSupported("transaction= is not in this version.", hint="Omit transaction=.")


def check_reason(given: object, *, needed: bool = False) -> None:
    """Refuses a reason that is no text, or too long."""
    if (given is not None or needed) and (not isinstance(given, str) or not given):
        raise errors.InvalidArgument(f"reason={shown(given)} is not a reason.", hint="Use text, such as 'no such customer'.")
    if isinstance(given, str):
        if len(given) > REASON_MAX:
            raise errors.InvalidArgument(f"the reason has {len(given)} characters.", hint=f"Use at most {REASON_MAX}.")
        arguments.utf8(given, "reason", "Use reason.encode(errors='backslashreplace').decode().")


def reason_of(error: BaseException | None) -> str:
    """Why a message is given back that an exception has ended the work on; no reason for one that has
    nothing to do with the message, such as Ctrl-C.
    """
    if not isinstance(error, Exception):
        return ""
    name = type(error).__name__
    try:
        return fitted_reason(f"{name}: {error}".removesuffix(": "))
    except Exception:  # an exception that cannot say what it is
        return name


def fitted_reason(given: object) -> str:
    """A reason out of what a handler has raised: text that can be written, and not too long."""
    text = str(given).encode(errors="backslashreplace").decode()
    return text if len(text) <= REASON_MAX else text[: REASON_MAX - 1] + "…"
