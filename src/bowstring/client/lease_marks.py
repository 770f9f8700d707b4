"""What a program says about the rows of a page, and how it becomes a request.

Each row of a leased page has two bytes. Its **mark** is the program's word: ack, nack, reject,
release. Settling a message writes this one byte, in any thread. Its **state** is the loop's: nothing
was sent, a request is under way, it is done, it was refused. The loop compares the two, all rows of
a page at once, and makes runs of offsets of the rows that were marked since it looked last. So
settling a thousand messages costs a thousand bytes and a few operations on arrays.

A row is marked once. Two threads that settle the same message at the same time may both write its
mark; the loop takes the one that it sees first, and no other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from bowstring.client.leased_page import LeasedPage

ACK: Final = 1
NACK: Final = 2
REJECT: Final = 3
RELEASE: Final = 4
ABANDONED: Final = 5
"""The program had the row and has not settled it when the consumer was closed."""
LOST: Final = 0x80
"""The consumer does not hold the row any more."""
FORKED: Final = 0x81
"""This is a forked child: the row is its parent's."""
COPIED: Final = 0x82
"""This is a copy of a message, from a pickle: the original is settled, not the copy."""
ELSEWHERE: Final = 0x83
"""The row came again in this page; the consumer has it in another one."""
REVOKED: Final = 0x84
"""An earlier message of its key was given back: the row comes again behind that one."""

TRAVELS_AS: Final = {ACK: 1, NACK: 2, REJECT: 3, RELEASE: 4, ABANDONED: 2}
"""The marks that are outcomes, as the schema numbers these."""
WORDS: Final = {
    ACK: "was acked before",
    NACK: "was nacked before",
    REJECT: "was rejected before",
    RELEASE: "was given back before",
    ABANDONED: "was given back when its consumer was closed",
}

GIVING_BACK: Final = frozenset((NACK, RELEASE, ABANDONED))
"""The marks after which the row comes again."""

OPEN: Final = 0
UNDER_WAY: Final = 1
DONE: Final = 2
REFUSED: Final = 3

Rows = npt.NDArray[np.intp] | None
"""Numbers of rows in a page; None for all."""


class GatheredMarks(NamedTuple):
    """Rows of a page that have the same mark, and come again at the same time."""

    mark: int
    rows: Rows
    time: int = 0
    """A moment of the broker's clock; if it is negative, a span; 0: none was given."""
    reason: str = ""
    """Why they failed."""


def gathered(page: LeasedPage) -> list[GatheredMarks]:
    """Takes the rows of a page that were marked since the last time, by their marks. The page says
    that it has nothing new *before* its marks are read: a mark that is set afterwards enlists the
    page again.
    """
    found = _marked(page)
    if page.times is not None:
        found = [part for each in found for part in _by_time(page, each, page.times)]
    if page.reasons is not None:
        found = [part for each in found for part in _by_reason(page, each, page.reasons)]
    return found


def _by_reason(page: LeasedPage, part: GatheredMarks, numbers: npt.NDArray[np.int32]) -> list[GatheredMarks]:
    """The rows of a nack or reject by the reason that the program has given."""
    if part.mark not in (NACK, REJECT):
        return [part]
    rows = np.arange(page.rows) if part.rows is None else part.rows
    given = numbers[rows]
    different = np.unique(given).tolist()
    if len(different) == 1:
        return [part._replace(reason=page.reason_texts[different[0]])]
    return [part._replace(rows=rows[given == number], reason=page.reason_texts[number]) for number in different]


def _by_time(page: LeasedPage, part: GatheredMarks, times: npt.NDArray[np.int64]) -> list[GatheredMarks]:
    if part.mark != NACK:
        return [part]
    rows = np.arange(page.rows) if part.rows is None else part.rows
    given = times[rows]
    different = np.unique(given).tolist()
    if len(different) == 1:
        return [part._replace(time=different[0])]
    return [GatheredMarks(NACK, rows[given == time], time) for time in different]


def _marked(page: LeasedPage) -> list[GatheredMarks]:
    page.idle = True
    if page.rows == 1:
        return _one(page)
    marks = np.frombuffer(bytes(page.marks), np.uint8)
    fresh = (page.state_array == OPEN) & (marks != 0)
    rows = np.flatnonzero(fresh)
    if not len(rows):
        return []
    page.state_array[fresh] = UNDER_WAY
    codes = marks[rows]
    lowest, highest = int(codes.min()), int(codes.max())
    if lowest == highest:
        return [GatheredMarks(lowest, None if len(rows) == page.rows else rows)]
    return [GatheredMarks(code, rows[codes == code]) for code in np.flatnonzero(np.bincount(codes)).tolist()]


def _one(page: LeasedPage) -> list[GatheredMarks]:
    """The same for a page of one row: arrays would cost more than all the rest."""
    code = page.marks[0]
    if not code or page.states[0] != OPEN:
        return []
    page.states[0] = UNDER_WAY
    return [GatheredMarks(code, None)]


def count(page: LeasedPage, rows: Rows) -> int:
    """How many rows these are."""
    return page.rows if rows is None else len(rows)


def runs(page: LeasedPage, rows: Rows) -> tuple[list[int], list[int]]:
    """Rows of a page as runs of offsets: the first of each, and how many."""
    told = page.header.runs
    if rows is None and page.scattered is not None:
        return page.scattered.firsts.tolist(), page.scattered.rows.tolist()
    if rows is None:
        return [run.offset for run in told], [run.rows for run in told]
    offsets = rows + told[0].offset if len(told) == 1 else page.offsets[rows]
    starts = np.concatenate(([0], np.flatnonzero(np.diff(offsets) != 1) + 1))
    return offsets[starts].tolist(), np.diff(np.append(starts, len(offsets))).tolist()


def rows_at(page: LeasedPage, offsets: list[int], counts: list[int]) -> npt.NDArray[np.intp]:
    """The rows of a page that lie in these runs of offsets."""
    firsts = np.array(offsets, np.int64)
    lows, highs = np.searchsorted(page.offsets, (firsts, firsts + np.array(counts, np.int64)))
    borders = np.zeros(page.rows + 1, np.int64)
    np.add.at(borders, lows, 1)
    np.add.at(borders, highs, -1)
    return np.flatnonzero(borders.cumsum()[:-1])
