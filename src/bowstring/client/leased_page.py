"""Rows that a consumer holds by a lease.

A lease is what the broker has granted at once: rows of one partition, which may come in several
pages. A page belongs to one lease. Beside the columns that a reader gets, its rows have a retry
count, an age and the end of their lease.

**Threads.** The program marks rows in any thread; the loop writes states, and the end of the lease.
The program enlists a page with the first mark since the loop has looked, and with no other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bowstring import errors, times
from bowstring.client import key_order
from bowstring.client.lease_marks import COPIED, DONE, ELSEWHERE, FORKED, GIVING_BACK, LOST, OPEN, REVOKED, WORDS, Rows
from bowstring.client.nack_times import NEVER, moments_or
from bowstring.client.pages import LEASED_COLUMNS, FetchedPage
from bowstring.client.receipts import raisable
from bowstring.client.refusals import Refusal
from bowstring.messages.columns import integers
from bowstring.wire import forks
from bowstring.wire.generated import bowstring_pb2 as pb

if TYPE_CHECKING:
    from bowstring.client.lease_receipts import MarkReceipt
    from bowstring.client.settlements import Settlements


class HeldLease:
    """A lease of this consumer, with its pages."""

    __slots__ = ("due", "given_back", "grant", "is_lost", "pages", "partition", "standing", "until")

    def __init__(self, partition: int, grant: int, until: int) -> None:
        self.partition = partition
        self.grant = grant
        self.until = until
        """When it ends, by the broker's lease clock."""
        self.due = until
        """When the kit has to do something about it (`lease_watch`)."""
        self.is_lost = False
        """Whether the broker says that the consumer does not have it any more."""
        self.standing = ""
        """Why, if the broker says so."""
        self.pages: dict[LeasedPage, None] = {}
        """Those with rows that are not settled."""
        self.given_back: dict[bytes, int] = {}
        """Keys of which a message was given back, and the first such: those behind it are revoked
        (`key_order`).
        """


class LeasedPage(FetchedPage):
    """The rows of one push."""

    known: ClassVar[pa.Schema] = LEASED_COLUMNS

    def __init__(
        self, topic: str, header: pb.FetchAnswer, data: memoryview | None, told: pb.Lease, lease: HeldLease, settlements: Settlements
    ) -> None:
        super().__init__(told.topic or topic, header, data)
        if told.topic:
            self.partition = told.partition
        self.lease = lease
        self.settlements = settlements
        self.is_keyed = settlements.is_keyed
        """Whether it is of a key-shared subscription."""
        self.receipt: type[MarkReceipt] = settlements.receipt
        """The class of the receipts of its rows."""
        self.marks = bytearray(self.rows)
        self.states = bytearray(self.rows)
        self.state_array: npt.NDArray[np.uint8] = np.frombuffer(self.states, np.uint8)
        """The same bytes."""
        self.times: npt.NDArray[np.int64] | None = None
        """When nacked rows come again (`lease_marks.GatheredMarks`); None if no nack has said it."""
        self.reasons: npt.NDArray[np.int32] | None = None
        """Of each row the number of the reason why it failed; None if none was given."""
        self.reason_texts = [""]
        """Reasons by number; 0 is none."""
        self.idle = True
        """Whether no row was marked since the loop has looked."""
        self.open = self.rows
        """How many rows are neither settled nor lost."""
        self.has_lost = False
        """Whether the consumer does not hold some of its rows any more."""
        self.taken = 0
        """The rows before this one were handed out, or are in hand."""
        self.came = settlements.monotonic()
        """When it came."""
        self.progress: list[tuple[int, float]] = []
        """How many rows were handed out, and when this was seen (`lease_watch`)."""
        self.untils: dict[int, int] = {}
        """The ends of rows that end at another time than their lease."""
        self.refusals: list[tuple[Rows, Refusal]] = []
        """Why rows were refused."""
        self.failure: errors.Error | None = None
        """Why no row can be settled any more."""
        self._waiting: dict[int, list[Callable[[], object]]] = {}
        """Who waits for the answer to a row."""
        self._counts = told.retry_counts, told.retry_rows

    @property
    def mark_array(self) -> npt.NDArray[np.uint8]:
        """The marks, for work on many at once."""
        return np.frombuffer(self.marks, np.uint8)

    # ---- the program's side, in any thread

    def enlist(self) -> None:
        """Rows were marked: the loop is to look at them."""
        self.idle = False
        self.settlements.enlist(self)

    def mark(
        self, first: int, rows: int, code: int, wanted: npt.NDArray[np.bool_] | None = None, time: int = 0, reason: str = ""
    ) -> npt.NDArray[np.bool_]:
        """Marks consecutive rows, or those of them that are wanted, as far as they have no mark.
        Returns which of them have got it. `time`: when nacked rows come again; `reason`: why they
        failed.
        """
        marks = self.mark_array[first : first + rows]
        free = marks == 0
        if wanted is not None:
            free &= wanted
        if time:
            self.row_times()[first : first + rows][free] = time  # before the mark, which the loop sees
        if reason:
            numbers, number = self.row_reasons(reason)
            numbers[first : first + rows][free] = number
        marks[free] = code
        if self.is_keyed and code in GIVING_BACK:
            key_order.revoke_behind(self, np.flatnonzero(free) + first)
        if self.idle:
            self.enlist()
        return free

    def row_times(self) -> npt.NDArray[np.int64]:
        """The times of its rows, to be written."""
        if self.times is None:
            self.times = np.zeros(self.rows, np.int64)
        return self.times

    def row_reasons(self, reason: str) -> tuple[npt.NDArray[np.int32], int]:
        """The numbers of the reasons of its rows, to be written, and that of this one."""
        if self.reasons is None:
            self.reasons = np.zeros(self.rows, np.int32)
        if self.reason_texts[-1] != reason:
            self.reason_texts.append(reason)
        return self.reasons, len(self.reason_texts) - 1

    def kept_until(self) -> npt.NDArray[np.int64]:
        """Of each row until when the topic keeps it, or until it expires."""
        base = super().any_column("arrived").cast(pa.int64()).to_numpy(zero_copy_only=False)
        if self.has("due"):
            base = np.maximum(base, moments_or(super().any_column("due"), 0))
        kept = base + min(self.settlements.retention, NEVER - int(base.max()))
        return np.minimum(kept, moments_or(super().any_column("expires"), NEVER)) if self.has("expires") else kept

    def mark_again(self, row: int, code: int) -> MarkReceipt:
        """Settles a row that has a mark. The same word again gets the same receipt; any other is
        too late.
        """
        if self.marks[row] != code:
            raise self.why_not(row)
        return self.receipt(self, row)

    def why_not(self, row: int) -> errors.Error:
        """Why a row with a mark cannot be settled."""
        code = self.marks[row]
        if code == FORKED:
            return forks.forked()
        place = f"{self.topic}/{self.partition}@{int(self.offsets[row])}"
        if code == COPIED:
            return errors.Conflict(f"this is a copy of {place}, made by pickling.", hint="Settle the message that the consumer handed out.")
        if code == REVOKED:
            what = f"{place} was revoked: an earlier message of its key was given back, or its lease has ended."
            return errors.LeaseLost(what, hint="It comes again behind that one.")
        if code in WORDS:
            return errors.LeaseLost(f"{place} {WORDS[code]}.", hint="A message is settled once.")
        return self.refused(row)

    def refused(self, row: int) -> errors.Error:
        """The error of a row that was refused, or that the consumer does not hold; it counts as
        seen.
        """
        if self.marks[row] == REVOKED:
            return self.why_not(row)
        offset = int(self.offsets[row])
        for rows, refusal in self.refusals:
            if rows is None or row in rows:
                refusal.seen.add(offset)
                return refusal.error(offset)
        if self.failure is not None:
            return raisable(self.failure)
        return self.settlements.lost_refusal(self).error(offset)

    def lose(self, first: int, rows: int) -> None:
        """The consumer does not hold these rows any more, as far as the program has not settled
        them.
        """
        self.has_lost = True
        self.mark(first, rows, LOST)

    def lose_rows(self, rows: npt.NDArray[np.intp], code: int = LOST) -> None:
        """The same for any rows."""
        self.has_lost = True
        wanted = np.zeros(self.rows, np.bool_)
        wanted[rows] = True
        self.mark(0, self.rows, code, wanted)

    def revoke_behind(self, row: int) -> None:
        """A row is given back: the later ones of its key are revoked."""
        key_order.revoke_behind(self, np.array([row]))

    def until(self, row: int) -> int:
        """When the lease of a row ends."""
        return self.untils.get(row, self.lease.until) if self.untils else self.lease.until

    def is_answered(self, row: int) -> bool:
        """Whether it is decided what became of the program's word."""
        return self.states[row] >= DONE

    def when_settled(self, row: int, callback: Callable[[], object]) -> None:
        """Calls back when a row is answered; perhaps at once, perhaps twice. Raises Conflict in a
        forked child.
        """
        if not self.is_answered(row):
            self.settlements.check_process()
        self._waiting.setdefault(row, []).append(callback)
        if self.is_answered(row):
            callback()

    # ---- the loop's side

    def answered(self) -> None:
        """States have changed: calls back."""
        if self._waiting:
            for row in tuple(self._waiting):
                if self.states[row] >= DONE:
                    for callback in self._waiting.pop(row, ()):
                        callback()

    def elsewhere(self, rows: npt.NDArray[np.intp]) -> None:
        """These rows are in another page of the consumer."""
        self.mark_array[rows] = ELSEWHERE
        self.state_array[rows] = DONE
        self.open -= len(rows)

    def extend_rows(self, until: int, rows: npt.NDArray[np.intp]) -> None:
        """These rows last until then, or longer if they do already."""
        for row in rows.tolist():
            self.untils[row] = max(until, self.until(row))

    def extend_lease(self, until: int, rows: npt.NDArray[np.intp] | None) -> None:
        """The lease is about to last until then, for these rows; None for all."""
        if rows is None:
            self.untils = {row: end for row, end in self.untils.items() if end > until}
            return
        left = np.setdiff1d(np.arange(self.rows), rows).tolist()
        self.untils = {row: end for row, end in self.untils.items() if end > until} | {row: self.until(row) for row in left}

    def unsettled(self) -> Rows:
        """The rows without a mark and without an answer."""
        rows = np.flatnonzero((self.state_array == OPEN) & (np.frombuffer(bytes(self.marks), np.uint8) == 0))
        return None if len(rows) == self.rows else rows

    def leave_to_parent(self) -> None:
        """This is a forked child."""
        self.marks = bytearray([FORKED]) * self.rows

    # ---- columns

    def any_column(self, name: str) -> pa.Array:
        """A column that the page knows. Age and lease end change as time goes on."""
        if name == "age":
            now = self.settlements.broker_now()
            arrived = super().any_column("arrived").cast(pa.int64()).to_numpy(zero_copy_only=False)
            return integers(np.maximum(now - arrived, 0)).view(pa.duration("us"))
        if name == "lease_end":
            ends = np.full(self.rows, self.lease.until, np.int64)
            for row, until in self.untils.items():
                ends[row] = until
            return integers(ends).view(LEASED_COLUMNS.field(name).type)
        if name == "retry_count" and name not in self._columns:
            self._columns[name] = integers(self._retry_counts())
        return super().any_column(name)

    def _retry_counts(self) -> npt.NDArray[np.int32]:
        counts, rows = self._counts
        if not counts:
            return np.zeros(self.rows, np.int32)
        return np.repeat(np.array(counts, np.int32), np.array(rows, np.int64))

    @cached_property
    def retry_counts(self) -> Sequence[int]:
        """How often each row was delivered before, as Python's numbers."""
        return self._retry_counts().tolist() if self._counts[0] else bytes(self.rows)

    def entries(self, name: str) -> list[Any]:
        """A column as a list, made once; those that change, each time."""
        if name in ("age", "lease_end"):
            return self.any_column(name).cast(pa.int64()).to_pylist()
        return super().entries(name)

    def lease_end(self, row: int) -> datetime:
        """When the lease of a row ends, for the program."""
        return times.to_datetime(self.until(row))

    def age(self, row: int) -> timedelta:
        """How long ago a row arrived."""
        return timedelta(microseconds=max(0, self.settlements.broker_now() - self.entries("arrived")[row]))
