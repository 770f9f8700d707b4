"""Small pages that lie next to each other in the log become one, when they are sealed.

A page of one message is mostly frame and metadata, and costs a reader as much as a page of a
thousand. What a page has to tell of each of its batches (whose it is, when it arrived) goes on as
origins.

All pages that are inlined in the journal have to be written to a segment anyway. Those that are in one already are copied if they are
small: a flush for a hundred partitions leaves a hundred of a few KiB, and whoever reads one partition a week later would have to read them
one by one, each from another place. Their bytes are written twice, those of large pages never, unless they are cut: rows that are due after
the rest of their page is gone get pages of their own (`page_cut`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bowstring.broker.reading.page_reader import arrivals
from bowstring.broker.reading.visibility import moments_of
from bowstring.core.due_blocks import NO_DUES, Dues, dues_of
from bowstring.core.page_cut import cut_origins, pieces
from bowstring.core.pages import Origin, PageEntry, PageHeader, decode_header, encode_header
from bowstring.messages import encoding
from bowstring.messages.schema import DUE, EXPIRES
from bowstring.ports.store import Page

BYTES_MAX = 128 * 1024
ROWS_MAX = 16_384
UNPACKED_BYTES_MAX = 1024 * 1024
"""The largest coalesced page when decompressed: compressed pages may be larger than they look."""


class Sealable(NamedTuple):
    """A page that is to be written to a segment: its entry, but for the place, and its bytes."""

    entry: PageEntry
    page: Page | None
    """None for one that stays where it is, or is lost."""
    dues: Dues = NO_DUES
    """The rows that have a due time."""
    is_guess: bool = False
    """It could not be read, so its due times are a guess."""


def runs(entries: Iterable[PageEntry], *, small_bytes: int) -> Iterator[list[PageEntry]]:
    """The pages in order: those that are to become one together, others alone. Pages in segments
    are copied if they are shorter than `small_bytes`; in a hurry that is 0.
    """
    for copied, run in groupby(entries, lambda entry: not entry.segment or entry.length < small_bytes):
        if copied:
            yield from _groups(run)
        else:
            yield from ([entry] for entry in run)


def _groups(entries: Iterable[PageEntry]) -> Iterator[list[PageEntry]]:
    """Neighbours that fit together: the same columns, and not too much in all."""
    group: list[PageEntry] = []
    size = rows = 0
    for entry in entries:
        fits = not group or (group[-1].end == entry.first_offset and group[-1].columns == entry.columns)
        if not fits or size + entry.length > BYTES_MAX or rows + entry.rows > ROWS_MAX:
            if group:
                yield group
            group, size, rows = [], 0, 0
        group.append(entry)
        size += entry.length
        rows += entry.rows
    if group:
        yield group


class Cutting(NamedTuple):
    """Which pages are cut, if that pays."""

    reach: int
    """The topic's retention: a row that is due later than this after it has arrived outlives the others of its page."""
    bytes_min: int


def coalesce(entries: Sequence[PageEntry], pages: Sequence[Page], cutting: Cutting | None) -> list[Sealable]:
    """One page of all these, or if they are too large unpacked, or do not have the same columns after all, each for itself; some of
    them cut."""
    if len(entries) == 1 and not entries[0].due:
        return [Sealable(entries[0], None if entries[0].segment else pages[0])]
    opened = [_opened(entry, page) for entry, page in zip(entries, pages, strict=True)]
    same = len(opened) > 1 and len({page.header.columns for page in opened}) == 1
    if same and sum(page.batch.nbytes for page in opened) <= UNPACKED_BYTES_MAX:
        opened = [_joined(opened)]
    return [sealable for page in opened for sealable in _sealed(page, cutting)]


class _Opened(NamedTuple):
    """A page that was read."""

    entry: PageEntry
    header: PageHeader
    batch: pa.RecordBatch
    page: Page | None
    """Its bytes, if they are to be written; None if they are where they stay."""

    def moments(self, name: str, bit: int) -> NDArray[np.int64]:
        """The moments of a column, 0 where there is none."""
        return moments_of(self.batch.column(name)) if self.header.columns & bit else np.zeros(self.entry.rows, np.int64)


def _opened(entry: PageEntry, page: Page) -> _Opened:
    header = decode_header(page.header)
    return _Opened(entry, header, encoding.decode(header.columns, page.body), None if entry.segment else page)


def _joined(opened: list[_Opened]) -> _Opened:
    batch = encoding.together([page.batch for page in opened])
    encoded = encoding.rewrite(batch)
    origins = tuple(origin for page in opened for origin in _dated(page.header, page.entry))
    first, last, entries = opened[0], opened[-1], [page.entry for page in opened]
    header = PageHeader(first.header.topic, first.header.partition, first.header.schema, encoded.mask, encoded.rows, origins)
    entry = first.entry._replace(
        rows=encoded.rows,
        arrived_last=last.entry.arrived_last,
        length=len(encoded.data),
        columns=encoded.mask,
        expires=0 if any(not entry.expires for entry in entries) else max(entry.expires for entry in entries),
        due=max(entry.due for entry in entries),
        visible=last.entry.visible,
    )
    return _Opened(entry, header, batch, Page(encode_header(header), encoded.data))


def _dated(header: PageHeader, entry: PageEntry) -> list[Origin]:
    return [origin if origin.arrived else origin._replace(arrived=entry.arrived) for origin in header.origins]


def _sealed(opened: _Opened, cutting: Cutting | None) -> list[Sealable]:
    """The page with its due times; in pieces, if that pays."""
    entry = opened.entry
    if not entry.due:
        return [Sealable(entry, opened.page)]
    moments = opened.moments("due", DUE)
    if cutting is not None and opened.batch.nbytes <= 2 * entry.length:  # in pieces, what was compressed is not
        cuts = pieces(moments > entry.arrived_last + cutting.reach, entry.length, cutting.bytes_min)
        if cuts:
            return [_piece(opened, moments, first, end) for first, end in cuts]
    return [Sealable(entry._replace(due=int(moments.max())), opened.page, _dues(entry, moments))]


def _dues(entry: PageEntry, moments: NDArray[np.int64]) -> Dues:
    return dues_of(moments, np.arange(entry.first_offset, entry.first_offset + len(moments), dtype=np.int64))


def _piece(opened: _Opened, moments: NDArray[np.int64], first: int, end: int) -> Sealable:
    """The rows [first, end) of a page, as a page of their own."""
    arrived = arrivals(opened.header, opened.entry)
    expires = opened.moments("expires", EXPIRES)[first:end]
    encoded = encoding.rewrite(opened.batch.slice(first, end - first))
    header = PageHeader(
        topic=opened.header.topic,
        partition=opened.header.partition,
        schema=opened.header.schema,
        columns=encoded.mask,
        rows=encoded.rows,
        origins=cut_origins(opened.header.origins, first, end),
    )
    entry = opened.entry._replace(
        first_offset=opened.entry.first_offset + first,
        rows=encoded.rows,
        arrived=int(arrived[first]),
        arrived_last=int(arrived[end - 1]),
        length=len(encoded.data),
        columns=encoded.mask,
        expires=int(expires.max()) if expires.all() else 0,
        due=int(moments[first:end].max()),
    )
    return Sealable(entry, Page(encode_header(header), encoded.data), _dues(entry, moments[first:end]))
