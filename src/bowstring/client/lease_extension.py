"""One request that extends leases: its rows, and what became of it.

An extension needs no number that outlives its stream, because sending it again does no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from bowstring import errors
from bowstring.client import lease_marks
from bowstring.client.lease_marks import Rows
from bowstring.client.leased_page import HeldLease, LeasedPage
from bowstring.client.receipts import raisable
from bowstring.wire import forks
from bowstring.wire.generated import bowstring_pb2 as pb


class Extension:
    """Rows of one partition whose leases are extended together."""

    __slots__ = ("_callbacks", "_failure", "_generation", "_refused", "is_answered", "leases", "partition", "parts", "span", "written")

    def __init__(self, partition: int, parts: list[tuple[LeasedPage, Rows]], span: int = 0, leases: tuple[HeldLease, ...] = ()) -> None:
        self.partition = partition
        self.parts = parts
        """The rows; if there are none, everything that the leases still have."""
        self.leases = leases
        """The leases that the kit extends by itself, with the rows of all their parts."""
        self.span = span
        """In microseconds; 0 for the consumer's own."""
        self.is_answered = False
        self.written = 0.0
        self._failure: errors.Error | None = None
        self._refused: dict[LeasedPage, npt.NDArray[np.intp]] = {}
        self._callbacks: list[Callable[[], object]] = []
        self._generation = forks.generation()

    def message(self, number: int) -> pb.ExtendRows:
        """The request."""
        message = pb.ExtendRows(partition=self.partition, number=number, lease=self.span)
        for page, rows in self.parts:
            offsets, counts = lease_marks.runs(page, rows)
            message.grants.append(page.lease.grant)
            message.runs.append(len(offsets))
            message.offsets.extend(offsets)
            message.rows.extend(counts)
        if not self.parts:
            message.grants.extend(lease.grant for lease in self.leases)
            message.runs.extend([0] * len(self.leases))
        return message

    def extend(self, until: int) -> None:
        """The broker has extended all rows but the refused ones. An extension never shortens."""
        included = {page: np.arange(page.rows) if rows is None else rows for page, rows in self.parts}
        for lease in self.leases:
            for page in lease.pages:
                page.extend_lease(max(until, lease.until), included.get(page) if self.parts else None)
            lease.until = max(until, lease.until)
        if not self.leases:
            for page, rows in included.items():
                page.extend_rows(until, np.setdiff1d(rows, self.refused_rows(page)))

    def refuse(self, page: LeasedPage, rows: npt.NDArray[np.intp]) -> None:
        """The broker has refused these rows."""
        known = self._refused.get(page)
        self._refused[page] = rows if known is None else np.union1d(known, rows)

    def refused_rows(self, page: LeasedPage) -> npt.NDArray[np.intp]:
        """The refused rows of a page."""
        return self._refused.get(page, np.zeros(0, np.intp))

    def decide(self, failure: errors.Error | None = None) -> None:
        """It is answered, or never will be."""
        self._failure = failure
        self.is_answered = True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def raise_failure(self) -> None:
        """Raises why no broker can answer any more."""
        if self._failure is not None:
            raise raisable(self._failure)

    def when_settled(self, callback: Callable[[], object]) -> None:
        """Calls back when it is answered; perhaps at once, perhaps twice. Raises Conflict in a
        forked child.
        """
        if not self.is_answered:
            forks.check(self._generation)
        self._callbacks.append(callback)
        if self.is_answered:
            callback()


def divided(parts: list[tuple[LeasedPage, npt.NDArray[np.intp]]], runs_max: int) -> Iterator[list[tuple[int, npt.NDArray[np.intp]]]]:
    """Rows of pages, so many together as one request may have, all of one partition: the numbers of
    the parts, and their rows.
    """
    some: list[tuple[int, npt.NDArray[np.intp]]] = []
    size = 0
    for number in sorted(range(len(parts)), key=lambda each: parts[each][0].lease.partition):
        page, rows = parts[number]
        edges = np.flatnonzero(np.diff(page.offsets[rows]) != 1) + 1
        for piece in np.split(rows, edges[runs_max - 1 :: runs_max]):
            runs = int(np.count_nonzero(np.diff(page.offsets[piece]) != 1)) + 1
            if some and (size + runs > runs_max or parts[some[0][0]][0].lease.partition != page.lease.partition):
                yield some
                some, size = [], 0
            some.append((number, piece))
            size += runs
    if some:
        yield some
