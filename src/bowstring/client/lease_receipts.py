"""Receipts of what a program says about messages that it holds.

A receipt of one message is its page and its row, and of a batch its rows: the pages know what
became of them. All receipts of a request so share its outcome, and a receipt costs no more than two
references. An error that a receipt has raised counts as seen; `flush` and `close` raise the others.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from bowstring import errors
from bowstring.client.arguments import Span
from bowstring.client.lease_marks import DONE, REFUSED
from bowstring.client.receipts import Answers, not_done, settled
from bowstring.messages import columns

if TYPE_CHECKING:
    from bowstring.client.lease_extension import Extension
    from bowstring.client.leased_page import LeasedPage

Callback = Callable[[], object]


class MarkReceipt(msgspec.Struct, eq=False, gc=False):
    """What the receipts of one message share, in asyncio and out of it."""

    _page: LeasedPage
    _row: int

    @property
    def id(self) -> str:
        """The message's id."""
        return self._page.entries("id")[self._row]

    @property
    def ids(self) -> list[str]:
        """The ids of all its messages: this one."""
        return [self.id]

    def done(self) -> bool:
        """Whether the broker has answered."""
        return self._page.states[self._row] >= DONE

    def _when_settled(self, callback: Callback) -> None:
        self._page.when_settled(self._row, callback)

    def _result(self) -> None:
        page, row = self._page, self._row
        if page.states[row] == REFUSED:
            raise page.refused(row)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(id={self.id!r}, done={self.done()})"

    def __reduce__(self) -> Any:
        raise TypeError("A receipt belongs to its consumer and cannot be pickled. Keep its id.")


class LeaseReceipt(MarkReceipt, eq=False, gc=False):
    """The receipt of an ack, a nack or a reject. `await` it to know that it is durable, or ignore
    it: `flush` raises what was refused.
    """

    def result(self, timeout: Span | None = None) -> None:
        """Raises `LeaseLost` if the consumer did not hold the message any more. Only for receipts
        that are done: `await` the others.
        """
        if not self.done():
            raise not_done()
        self._result()

    def __await__(self) -> Generator[Any, None, None]:
        while not self.done():
            yield from settled(self._when_settled)
        self._result()


class MarkedRows(NamedTuple):
    """Rows of one page in a batch that a call has settled, or whose lease it extends."""

    page: LeasedPage
    rows: npt.NDArray[np.intp]
    """In the page."""
    at: npt.NDArray[np.intp]
    """In the batch."""
    extension: Extension | None = None
    """None if they are settled."""

    def is_answered(self) -> bool:
        """Whether the broker has answered for all of them."""
        if self.extension is not None:
            return self.extension.is_answered
        return bool((self.page.state_array[self.rows] >= DONE).all())

    def when_settled(self, callback: Callback) -> None:
        """Calls back when some are answered, perhaps not all."""
        if self.extension is not None:
            self.extension.when_settled(callback)
            return
        left = self.rows[self.page.state_array[self.rows] < DONE]
        if len(left):
            self.page.when_settled(int(left[-1]), callback)
        else:
            callback()

    def refused(self) -> dict[int, errors.Error]:
        """The errors of refused rows, by their number in the batch."""
        if self.extension is not None:
            self.extension.raise_failure()
            lost = np.isin(self.rows, self.extension.refused_rows(self.page))
        else:
            lost = self.page.state_array[self.rows] == REFUSED
        return {int(self.at[place]): self.page.refused(int(self.rows[place])) for place in np.flatnonzero(lost)}


class MarksReceipt:
    """What the receipts of a batch share, in asyncio and out of it."""

    __slots__ = ("_parts", "_rows", "_topic")

    def __init__(self, topic: str, rows: int, parts: list[MarkedRows]) -> None:
        self._topic = topic
        self._rows = rows
        """How many rows the batch has."""
        self._parts = parts

    @property
    def id(self) -> str:
        """The id of the first message that the call was about."""
        return self.ids[0]

    @property
    def ids(self) -> list[str]:
        """The ids of the messages that the call was about, in the order of the batch."""
        found = [(at, part.page.entries("id")[row]) for part in self._parts for row, at in zip(part.rows, part.at, strict=True)]
        return [text for _, text in sorted(found)]

    def done(self) -> bool:
        """Whether the broker has answered for every row."""
        return all(part.is_answered() for part in self._parts)

    def _when_settled(self, callback: Callback) -> None:
        for part in self._parts:
            if not part.is_answered():
                return part.when_settled(callback)
        callback()
        return None

    def _result(self) -> Answers:
        ok, known = np.zeros(self._rows, np.bool_), np.zeros(self._rows, np.bool_)
        partitions, offsets = np.zeros(self._rows, np.int32), np.zeros(self._rows, np.int64)
        found: dict[int, errors.Error] = {}
        for part in self._parts:
            known[part.at] = ok[part.at] = True
            partitions[part.at] = part.page.partition
            offsets[part.at] = part.page.offsets[part.rows]
            found |= part.refused()
        ok[list(found)] = False
        places = columns.integers(partitions, known), columns.integers(offsets, known)
        none = columns.booleans(np.zeros(self._rows, np.bool_))
        return Answers(self._topic, columns.booleans(ok, known), *places, none, dict(sorted(found.items())))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(rows={sum(len(part.rows) for part in self._parts)} of {self._rows}, done={self.done()})"

    def __reduce__(self) -> Any:
        raise TypeError("A receipt belongs to its consumer and cannot be pickled. Keep its ids.")


class LeaseBatchReceipt(MarksReceipt):
    """The receipt of a call about a batch. `await` it to get `Answers`, one per row of the batch; rows
    that the call has left alone have none.
    """

    __slots__ = ()

    def result(self, timeout: Span | None = None) -> Answers:
        """One answer per row. Only for receipts that are done: `await` the others."""
        if not self.done():
            raise not_done()
        return self._result()

    def __await__(self) -> Generator[Any, None, Answers]:
        while not self.done():
            yield from settled(self._when_settled)
        return self._result()


class OneExtension:
    """What the receipts of an extended message share, in asyncio and out of it."""

    __slots__ = ("_extension", "_page", "_row")

    def __init__(self, page: LeasedPage, row: int, extension: Extension) -> None:
        self._page = page
        self._row = row
        self._extension = extension

    @property
    def id(self) -> str:
        """The message's id."""
        return self._page.entries("id")[self._row]

    @property
    def ids(self) -> list[str]:
        """The ids of all its messages: this one."""
        return [self.id]

    def done(self) -> bool:
        """Whether the broker has answered."""
        return self._extension.is_answered

    def _result(self) -> datetime:
        self._extension.raise_failure()
        if self._row in self._extension.refused_rows(self._page):
            raise self._page.refused(self._row)
        return self._page.lease_end(self._row)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(id={self.id!r}, done={self.done()})"

    def __reduce__(self) -> Any:
        raise TypeError("A receipt belongs to its consumer and cannot be pickled. Keep its id.")


class ExtendReceipt(OneExtension):
    """The receipt of an `extend`. `await` it to get the new end of the lease."""

    __slots__ = ()

    def result(self, timeout: Span | None = None) -> datetime:
        """The new end of the lease; raises `LeaseLost`. Only for receipts that are done: `await` the
        others.
        """
        if not self.done():
            raise not_done()
        return self._result()

    def __await__(self) -> Generator[Any, None, datetime]:
        while not self.done():
            yield from settled(self._extension.when_settled)
        return self._result()
