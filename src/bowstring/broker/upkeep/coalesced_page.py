"""Small pages that lie next to each other in the log become one, when they are sealed.

A page of one message is mostly frame and metadata, and costs a reader as much as a page of a
thousand. What a page has to tell of each of its batches (whose it is, when it arrived) goes on as
origins.

All pages that are inlined in the journal have to be written to a segment anyway. Those that are in
one already are copied if they are small: a flush for a hundred partitions leaves a hundred of a few
KiB, and a reader of one partition would have to read them one by one a week later, each from
another place. Their bytes are written twice, those of large pages never.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import pyarrow as pa

from bowstring.core.pages import Origin, PageEntry, PageHeader, decode_header, encode_header
from bowstring.messages import encoding
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


def coalesce(entries: Sequence[PageEntry], pages: Sequence[Page]) -> list[Sealable]:
    """One page of all these, or if they are too large unpacked, or do not have the same columns
    after all, each for itself.
    """
    headers = [decode_header(page.header) for page in pages]
    if len(pages) > 1 and len({header.columns for header in headers}) == 1:
        batches = [encoding.decode(header.columns, page.body) for header, page in zip(headers, pages, strict=True)]
        if sum(batch.nbytes for batch in batches) <= UNPACKED_BYTES_MAX:
            return [_joined(entries, headers, batches)]
    return [Sealable(entry, None if entry.segment else page) for entry, page in zip(entries, pages, strict=True)]


def _joined(entries: Sequence[PageEntry], headers: list[PageHeader], batches: list[pa.RecordBatch]) -> Sealable:
    encoded = encoding.rewrite_together(batches)
    origins = tuple(origin for entry, header in zip(entries, headers, strict=True) for origin in _dated(header, entry))
    first, last = entries[0], entries[-1]
    header = PageHeader(headers[0].topic, headers[0].partition, headers[0].schema, encoded.mask, encoded.rows, origins)
    entry = first._replace(
        rows=encoded.rows,
        arrived_last=last.arrived_last,
        columns=encoded.mask,
        expires=0 if any(not entry.expires for entry in entries) else max(entry.expires for entry in entries),
        due=max(entry.due for entry in entries),
        visible=last.visible,
    )
    return Sealable(entry, Page(encode_header(header), encoded.data))


def _dated(header: PageHeader, entry: PageEntry) -> list[Origin]:
    return [origin if origin.arrived else origin._replace(arrived=entry.arrived) for origin in header.origins]
