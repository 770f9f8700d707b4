"""What goes out of a page to a consumer: the rows that it holds, and no byte of any other (invariant
13). A page goes out untouched when the consumer holds all its rows and all may be delivered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bowstring.broker.reading import gathered_cutting
from bowstring.broker.reading.fetched import Fetched, FetchedRuns, joined
from bowstring.broker.reading.gathered_rows import GatheredPage
from bowstring.broker.reading.page_cutting import Collation, sifted_rows, some_rows, whole_page
from bowstring.broker.reading.sifted_pages import SiftedPage
from bowstring.broker.reading.visibility import Moments, is_whole, visible
from bowstring.core.pages import Origin, PageEntry, decode_header
from bowstring.core.partition import Partition
from bowstring.core.row_set import RowSet
from bowstring.messages import encoding
from bowstring.messages.schema import DUE, EXPIRES
from bowstring.ports.store import Page

FIXED_BYTES = 16
"""What a row takes beside its values, at most: its places in the columns."""
HEAD_BYTES = 1024
"""What a batch takes beside its rows, at most."""


class LeasedRowsCut(NamedTuple):
    """What some pages come to for a consumer."""

    pieces: list[Fetched]
    expired: RowSet
    """Rows that have expired by a time of their own: no consumer gets them."""
    too_old: RowSet
    """Rows that retention takes: no consumer gets them either. Of a page with both kinds all are here."""
    end: int
    """Where the last page ends that was cut."""


def cut(
    partition: Partition,
    rows: RowSet,
    entries: Sequence[PageEntry],
    pages: Sequence[Page],
    moments: Moments | None,
    bytes_max: int | None = None,
) -> LeasedRowsCut:
    """These rows out of pages, less those that have expired or are too old; a consumer that was sent
    them before (`moments` is None) gets them all the same. It ends with the page with which so many bytes are
    reached.
    """
    collation = Collation(partition)
    expired: list[RowSet] = []
    too_old: list[RowSet] = []
    end = 0
    scattered = None if rows.is_run or len(entries) == 1 else rows.offsets()
    borders = [] if scattered is None else np.searchsorted(scattered, [(entry.first_offset, entry.end) for entry in entries]).tolist()
    for at, (entry, page) in enumerate(zip(entries, pages, strict=True)):
        if bytes_max is not None and collation.size >= bytes_max:
            break
        end = entry.end
        if scattered is not None:
            low, high = borders[at]
            if _are_some(entry, page, high - low, moments):
                collation.put(entry, page, scattered[low:high])
                continue
            wanted = RowSet.of_offsets(scattered[low:high])
        else:
            wanted = rows & RowSet(entry.first_offset, end)
        if not wanted:
            continue
        if isinstance(page, GatheredPage):
            taken = gathered_cutting.take(partition, page, wanted, moments)
            expired.append(taken.expired)
            too_old.append(taken.too_old)
            if taken.piece is not None:
                collation.add(taken.piece)
            continue
        if moments is not None and _are_all_gone(entry, moments):
            too_old.append(wanted)
            continue
        piece = _rows_of(partition, entry, page, wanted, moments)
        if moments is not None and piece.rows < len(wanted):
            (expired if entry.arrived >= moments.horizon else too_old).append(wanted - offsets_of(piece))
        if piece.rows:
            collation.add(piece)
    collation.finish()
    return LeasedRowsCut(joined(collation.pieces), RowSet.union(expired), RowSet.union(too_old), end)


def _are_some(entry: PageEntry, page: Page, rows: int, moments: Moments | None) -> bool:
    """Whether so many rows of a page are not all of them, and the entry tells that they can be delivered."""
    is_whole_page = not isinstance(page, SiftedPage | GatheredPage)
    return 0 < rows < entry.rows and is_whole_page and (moments is None or _are_current(entry, moments))


def expired_rows(partition: Partition, rows: RowSet, entries: Sequence[PageEntry], pages: Sequence[Page], now: int) -> RowSet:
    """Those of the rows in these pages that have expired by a time of their own."""
    dated = [(entry, page) for entry, page in zip(entries, pages, strict=True) if entry.columns & EXPIRES]
    return cut(partition, rows, [entry for entry, _ in dated], [page for _, page in dated], Moments(now, 0)).expired


def _rows_of(partition: Partition, entry: PageEntry, page: Page, rows: RowSet, moments: Moments | None) -> Fetched:
    if len(rows) == entry.rows and (moments is None or is_whole(partition, entry, moments)):
        return whole_page(partition, entry.end, entry, page)
    header = decode_header(page.header)
    offsets = rows.offsets()
    if isinstance(page, SiftedPage):
        return sifted_rows(partition, rows.stop, page, header, offsets)
    batch = encoding.decode(header.columns, page.body)
    if moments is not None and not _are_current(entry, moments):
        seen = visible(partition, entry, header, batch, moments, rows.first, rows.stop)
        offsets = np.intersect1d(seen.offsets, offsets, assume_unique=True)
    if len(offsets) == entry.rows:
        return whole_page(partition, entry.end, entry, page)
    return some_rows(partition, rows.stop, entry, header, batch, offsets)


def _are_all_gone(entry: PageEntry, moments: Moments) -> bool:
    """Whether the entry alone tells that every row of the page is too old."""
    return entry.arrived_last < moments.horizon and not entry.columns & DUE


def _are_current(entry: PageEntry, moments: Moments) -> bool:
    """Whether the entry alone tells that no row of the page has expired or is too old."""
    return entry.arrived >= moments.horizon and not entry.columns & EXPIRES


def offsets_of(fetched: Fetched) -> RowSet:
    """The rows that were taken out of a page."""
    if len(fetched.runs) == 1:
        first, rows, _ = fetched.runs[0].tolist()
        return RowSet(first, first + rows)
    return RowSet.of_lengths(fetched.runs[:, 0], fetched.runs[:, 1])


def end_of(runs: FetchedRuns) -> int:
    """The offset behind the last row."""
    return int(runs[-1, 0] + runs[-1, 1])


def run_lengths(counts: NDArray[np.int32]) -> tuple[list[int], list[int]]:
    """Values that stand next to each other, and how often each comes; nothing if all are 0."""
    if not counts.any():
        return [], []
    starts = np.concatenate(([0], np.flatnonzero(np.diff(counts)) + 1))
    lengths = np.diff(np.concatenate((starts, [len(counts)])))
    return counts[starts].tolist(), lengths.tolist()


# Pieces that have more bytes than the consumer has room for


def fitting(piece: Fetched, bytes_max: int) -> Fetched | None:
    """The first rows of a piece, so many that they have at most these bytes; None if none has."""
    batch = _batch(piece)
    sizes = np.full(piece.rows, FIXED_BYTES, np.int64)
    for column in batch.columns:
        sizes += _sizes(column)
    count = int(np.searchsorted(np.cumsum(sizes), bytes_max - HEAD_BYTES, side="right"))
    while count:
        found = first_rows(piece, count)
        if found.size <= bytes_max:
            return found
        count //= 2
    return None


def first_rows(piece: Fetched, count: int) -> Fetched:
    """So many rows of a piece, as a message of their own."""
    if count >= piece.rows:
        return piece
    taken = encoding.take(_batch(piece), np.arange(count, dtype=np.int64))
    ends = piece.runs[:, 1].cumsum()
    last = int(ends.searchsorted(count))
    runs = piece.runs[: last + 1].copy()
    runs[last, 1] -= ends[last] - count
    origins, left = list[Origin](), count
    for origin in piece.origins:
        if left:
            origins.append(origin._replace(rows=min(origin.rows, left)))
            left -= origins[-1].rows
    return piece._replace(
        next_offset=end_of(runs), columns=taken.mask, rows=count, runs=runs, origins=origins, data=taken.data, size=len(taken.data)
    )


def _batch(piece: Fetched) -> pa.RecordBatch:
    assert piece.data is not None, "leased rows have a batch"
    return encoding.decode(piece.columns, piece.data)


def _sizes(column: pa.Array) -> NDArray[np.int64]:
    """About how many bytes each row has."""
    if pa.types.is_binary(column.type) or pa.types.is_string(column.type):
        offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
        return np.diff(offsets).astype(np.int64)
    return np.full(len(column), -(-column.nbytes // len(column)), np.int64)
