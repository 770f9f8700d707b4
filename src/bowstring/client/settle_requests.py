"""Requests that settle rows: their numbers, and what has to be sent again.

Requests of a consumer are numbered upwards in each partition. The broker recognises a repeat by its
number, so a request whose answer is lost is sent again as it was, and never counts twice. It is
kept until its answer comes. Requests are bounded in runs and in the bytes of reasons, so that neither a
mask of every other row nor a traceback for each row makes one that the broker refuses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from bowstring.client import lease_marks
from bowstring.client.lease_marks import TRAVELS_AS, Rows
from bowstring.client.leased_page import LeasedPage
from bowstring.wire.generated import bowstring_pb2 as pb

RUNS_MAX: Final = 2048
"""The most runs of offsets in one request."""
REASON_BYTES_MAX: Final = 256 * 1024
"""About the most bytes of reasons in one request, and in those that travel together."""
TOGETHER_MAX: Final = 16
"""So many settlements of partitions travel together."""


class MarkedPart(NamedTuple):
    """Rows of one page that a request settles alike."""

    page: LeasedPage
    mark: int
    rows: Rows
    time: int = 0
    """When they come again (`lease_marks.GatheredMarks`)."""
    reason: str = ""
    """Why they failed."""


class SentSettlement:
    """A request, until its answer comes."""

    __slots__ = ("message", "parts", "written")

    def __init__(self, message: pb.SettleRows, parts: list[MarkedPart]) -> None:
        self.message = message
        self.parts = parts
        self.written = 0.0
        """When it was written last, in monotonic seconds."""


class RequestLane:
    """The requests of a consumer in one partition."""

    def __init__(self, partition: int, numbers_from: int = 0) -> None:
        self._partition = partition
        self.last = numbers_from
        """The number of the newest request; the next one is above it."""
        self.numbers_from = numbers_from
        """Numbers go on above this, once nothing is unanswered."""
        self.unanswered: dict[int, SentSettlement] = {}
        """By number, upwards."""

    def add(self, parts: Iterable[MarkedPart]) -> list[SentSettlement]:
        """The requests that settle these rows."""
        return [self._request(some) for some in _divided(parts)]

    def _request(self, parts: list[tuple[MarkedPart, list[int], list[int]]]) -> SentSettlement:
        if not self.unanswered:
            self.last = max(self.last, self.numbers_from)
        self.last += 1
        message = pb.SettleRows(partition=self._partition, request=self.last)
        for part, offsets, rows in parts:
            message.grants.append(part.page.lease.grant)
            message.outcomes.append(TRAVELS_AS[part.mark])
            message.runs.append(len(offsets))
            message.offsets.extend(offsets)
            message.rows.extend(rows)
        if any(part.time for part, _, _ in parts):
            message.moments.extend([max(0, part.time) for part, _, _ in parts])
            message.delays.extend([max(0, -part.time) for part, _, _ in parts])
        if any(part.reason for part, _, _ in parts):
            message.reasons.extend([part.reason for part, _, _ in parts])
        request = self.unanswered[self.last] = SentSettlement(message, [part for part, _, _ in parts])
        return request

    def to_write(self, requests: Iterable[SentSettlement], now: float) -> Iterator[pb.SettleRows]:
        """Requests as they are written now, with the newest answer that has come."""
        answered = next(iter(self.unanswered), self.last + 1) - 1
        for request in requests:
            request.message.answered = answered
            request.written = now
            yield request.message


def _divided(parts: Iterable[MarkedPart]) -> Iterator[list[tuple[MarkedPart, list[int], list[int]]]]:
    """The parts with their runs, so many together as one request may have."""
    some: list[tuple[MarkedPart, list[int], list[int]]] = []
    size = reasons = 0
    for part in parts:
        told = len(part.reason.encode())
        for piece, offsets, rows in _pieces(part):
            if some and (size + len(offsets) > RUNS_MAX or reasons + told > REASON_BYTES_MAX):
                yield some
                some, size, reasons = [], 0, 0
            some.append((piece, offsets, rows))
            size, reasons = size + len(offsets), reasons + told
    if some:
        yield some


def packed(settle: Iterable[pb.SettleRows]) -> Iterator[list[pb.SettleRows]]:
    """Those that travel together."""
    some: list[pb.SettleRows] = []
    size = 0
    for each in settle:
        told = each.ByteSize() if each.reasons else 0
        if some and (len(some) == TOGETHER_MAX or size + told > 2 * REASON_BYTES_MAX):
            yield some
            some, size = [], 0
        some.append(each)
        size += told
    if some:
        yield some


def _pieces(part: MarkedPart) -> Iterator[tuple[MarkedPart, list[int], list[int]]]:
    """A part, divided if it alone has too many runs."""
    offsets, rows = lease_marks.runs(part.page, part.rows)
    if len(offsets) <= RUNS_MAX:
        yield part, offsets, rows
        return
    for start in range(0, len(offsets), RUNS_MAX):
        some, counts = offsets[start : start + RUNS_MAX], rows[start : start + RUNS_MAX]
        yield part._replace(rows=lease_marks.rows_at(part.page, some, counts)), some, counts
