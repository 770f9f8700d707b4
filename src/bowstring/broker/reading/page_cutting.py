"""What goes out of a page to a reader.

A page goes out untouched when the reader may have all its rows. Where some are deleted or outside
the range, the rest is taken into a new message: a slice would carry its neighbours' bytes in its
padding (invariant 13). So it is where the reader wants only some of the rows or of the columns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bowstring.broker.reading.cursor import Cursor, out_of_range
from bowstring.broker.reading.fetched import JOINED_BYTES_MAX, JOINED_ROWS_MAX, NO_RUNS, Fetched, FetchedRuns
from bowstring.broker.reading.page_reader import arrivals
from bowstring.broker.reading.selection import EVERYTHING, Selection
from bowstring.broker.reading.sifted_pages import SiftedPage
from bowstring.broker.reading.visibility import Moments, is_whole, visible
from bowstring.broker.witness import Witness
from bowstring.core.pages import Origin, PageEntry, PageHeader, decode_header
from bowstring.core.partition import Partition
from bowstring.messages import encoding
from bowstring.messages.metadata import is_compressed
from bowstring.ports.store import Page

COLLATED_PAGES_MAX = 16 * 1024 * 1024
"""The pages of which rows become one message have so many bytes in all at most."""
BARE_BYTES = 256
"""What rows of which no column is wanted count, so that a reader that takes none bounds them, too."""


def cut(
    cursor: Cursor, entry: PageEntry, page: Page, moments: Moments, selection: Selection, witness: Witness, topic: str
) -> Fetched | None:
    """The rows of a page that the reader may have; None if there are none yet. Raises OutOfRange."""
    partition = cursor.actor.partition
    first = max(entry.first_offset, cursor.offset)
    end = min(entry.end, cursor.limit, cursor.upto)
    if end <= first:
        return None
    whole = (first, end) == (entry.first_offset, entry.end) and is_whole(partition, entry, moments)
    if whole and selection.takes_untouched(entry):
        cursor.offset = end
        cursor.has_delivered = True
        return whole_page(partition, end, entry, page)
    header = decode_header(page.header)
    batch = encoding.decode(header.columns, page.body)
    seen = visible(partition, entry, header, batch, moments, first, end)
    witness.cut(partition, first, end, len(seen.offsets))
    if cursor.has_delivered and seen.youngest_hidden >= max(cursor.horizon, 0):
        raise out_of_range(topic, partition, first)
    cursor.offset = end
    cursor.has_delivered = cursor.has_delivered or len(seen.offsets) > 0
    offsets = selection.passing(entry, header, batch, seen.offsets)
    if whole and len(offsets) == entry.rows and selection.takes_columns(entry):
        return whole_page(partition, end, entry, page)
    return some_rows(partition, end, entry, header, batch, offsets, selection)


def whole_page(partition: Partition, end: int, entry: PageEntry, page: Page) -> Fetched:
    """A page untouched; the reader goes on at `end`."""
    header = decode_header(page.header)
    one = entry.arrived == entry.arrived_last
    run = (entry.first_offset, entry.rows, entry.arrived)
    runs = np.array((run,), np.int64) if one else _dated(entry, header, np.arange(entry.first_offset, entry.end))
    origins, body = list(header.origins), page.body
    return Fetched(partition.number, end, entry.arrived, header.schema, header.columns, entry.rows, runs, origins, body, len(body))


def some_rows(
    partition: Partition,
    end: int,
    entry: PageEntry,
    header: PageHeader,
    batch: pa.RecordBatch,
    offsets: NDArray[np.int64],
    selection: Selection = EVERYTHING,
) -> Fetched:
    """Rows of a page as a message of their own; the reader goes on at `end`."""
    if not len(offsets):
        return Fetched(partition.number, end, entry.arrived, header.schema, header.columns, 0, NO_RUNS, [], None, 0)
    rows = offsets - entry.first_offset
    runs, origins = _dated(entry, header, offsets), _origins(header.origins, rows)
    taken = selection.taken(batch, rows)
    if taken is None:
        return Fetched(partition.number, end, entry.arrived, header.schema, 0, len(offsets), runs, origins, None, BARE_BYTES)
    data = taken.data
    return Fetched(partition.number, end, entry.arrived, header.schema, taken.mask, taken.rows, runs, origins, data, len(data))


class Collation:
    """Rows of several pages of one partition, in as few messages as their bytes allow. Where rows are scattered
    over many pages, a message for each of them costs many times what its rows do.
    """

    def __init__(self, partition: Partition) -> None:
        self.pieces: list[Fetched] = []
        self.size = 0
        """About how many bytes there are in all."""
        self._partition = partition
        self._group: list[_TakenRows] = []
        """They become one message."""
        self._group_bytes = self._group_rows = self._page_bytes = 0

    def put(self, entry: PageEntry, page: Page, offsets: NDArray[np.int64]) -> None:
        """Some rows of the next page, at least one, which may be delivered."""
        header = decode_header(page.header)
        taken = encoding.taken_rows(encoding.decode(header.columns, page.body), offsets - entry.first_offset)
        size = taken.nbytes if is_compressed(page.body) else entry.length * len(offsets) // entry.rows
        if self._group and not self._fits(header, entry, size, len(offsets)):
            self.finish()
        self._group.append(_TakenRows(entry, header, offsets, taken))
        self._group_bytes += size
        self._group_rows += len(offsets)
        self._page_bytes += entry.length
        self.size += size

    def _fits(self, header: PageHeader, entry: PageEntry, size: int, rows: int) -> bool:
        """Whether rows go into the message that is being made. What they have for their part of a page is an
        estimate, so pages are bounded, too.
        """
        first = self._group[0].header
        are_alike = (first.schema, first.columns) == (header.schema, header.columns)
        is_small = self._group_bytes + size <= JOINED_BYTES_MAX and self._page_bytes + entry.length <= COLLATED_PAGES_MAX
        return are_alike and is_small and self._group_rows + rows <= JOINED_ROWS_MAX

    def add(self, piece: Fetched) -> None:
        """The next page, or some rows of it, as a message already."""
        self.finish()
        self.pieces.append(piece)
        self.size += piece.size

    def finish(self) -> None:
        """Rows that come from here on are another message."""
        if self._group:
            self.pieces.append(_collated(self._partition, self._group))
            self._group, self._group_bytes, self._group_rows, self._page_bytes = [], 0, 0, 0


class _TakenRows(NamedTuple):
    entry: PageEntry
    header: PageHeader
    offsets: NDArray[np.int64]
    batch: pa.RecordBatch


def _collated(partition: Partition, group: list[_TakenRows]) -> Fetched:
    whole = encoding.rewrite_together([taken.batch for taken in group])
    origins = [origin for taken in group for origin in _origins(taken.header.origins, taken.offsets - taken.entry.first_offset)]
    first, end, size = group[0], int(group[-1].offsets[-1]) + 1, len(whole.data)
    return Fetched(
        partition.number,
        end,
        first.entry.arrived,
        first.header.schema,
        whole.mask,
        whole.rows,
        _dated_together(group),
        origins,
        whole.data,
        size,
    )


def _dated_together(group: list[_TakenRows]) -> FetchedRuns:
    """Runs of rows that follow each other and arrived together."""
    offsets = np.concatenate([taken.offsets for taken in group])
    if any(taken.entry.arrived != taken.entry.arrived_last for taken in group):
        arrived = np.concatenate([arrivals(each.header, each.entry)[each.offsets - each.entry.first_offset] for each in group])
    else:
        arrived = np.repeat([taken.entry.arrived for taken in group], [len(taken.offsets) for taken in group])
    return dated(offsets, arrived)


def sifted_rows(partition: Partition, end: int, page: SiftedPage, header: PageHeader, offsets: NDArray[np.int64]) -> Fetched:
    """Rows of a sifted page, of which it has all."""
    entry, columns, data = page.entry, page.columns, page.body
    runs, origins = _dated(entry, header, offsets), _origins(header.origins, offsets - entry.first_offset)
    if len(offsets) < len(page.offsets):
        taken = encoding.take(encoding.decode(columns, data), np.searchsorted(page.offsets, offsets))
        columns, data = taken.mask, taken.data
    return Fetched(partition.number, end, entry.arrived, header.schema, columns, len(offsets), runs, origins, data, len(data))


def _dated(entry: PageEntry, header: PageHeader, offsets: NDArray[np.int64]) -> FetchedRuns:
    """Runs of consecutive offsets that arrived together."""
    is_one = entry.arrived == entry.arrived_last
    return dated(offsets, entry.arrived if is_one else arrivals(header, entry)[offsets - entry.first_offset])


def dated(offsets: NDArray[np.int64], arrived: int | NDArray[np.int64]) -> FetchedRuns:
    """The same of rows that arrived then: all at once, or each at its own moment."""
    begins = np.ones(len(offsets), np.bool_)
    np.not_equal(offsets[1:], offsets[:-1] + 1, out=begins[1:])
    if not isinstance(arrived, int):
        begins[1:] |= arrived[1:] != arrived[:-1]
    starts = begins.nonzero()[0]
    runs = np.empty((len(starts), 3), np.int64)
    runs[:, 0] = offsets[starts]
    runs[:-1, 1] = starts[1:] - starts[:-1]
    runs[-1:, 1] = len(offsets) - starts[-1:]
    runs[:, 2] = arrived if isinstance(arrived, int) else arrived[starts]
    return runs


def _origins(origins: tuple[Origin, ...], rows: NDArray[np.int64]) -> list[Origin]:
    """The origins of the rows that are left."""
    if len(origins) == 1:
        return [origins[0]._replace(rows=len(rows), first_row=origins[0].first_row + int(rows[0]))] if len(rows) else []
    starts = np.cumsum([0, *(origin.rows for origin in origins)])
    borders = np.searchsorted(rows, starts)
    found: list[Origin] = []
    for number in np.flatnonzero(np.diff(borders)).tolist():
        origin, low, high = origins[number], borders[number], borders[number + 1]
        found.append(origin._replace(rows=int(high - low), first_row=origin.first_row + int(rows[low] - starts[number])))
    return found
