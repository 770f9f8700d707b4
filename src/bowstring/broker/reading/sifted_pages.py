"""The few rows of pages that a filter lets pass, taken out when the pages were looked at.

Where one row in a thousand passes, reading every page again for its delivery costs as much as looking
at it. A sifted page has only rows that may be granted, and stands for its page when just those are
delivered. It is made of a page whose entry tells all that matters about the times of its rows.
Sifted pages are bounded in bytes; the oldest go first, and their rows are read from their pages then.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bowstring.core.pages import PageEntry
from bowstring.core.partition import Partition
from bowstring.core.row_set import RowSet
from bowstring.messages import encoding
from bowstring.messages.schema import DUE, EXPIRES
from bowstring.ports.store import Page

SIFTED_SHARE: Final = 4
"""A page is sifted if at most one row of so many passes."""
_OVERHEAD: Final = 1000
"""Bytes of a sifted page in addition to its rows."""


class SiftedPage(Page):
    """Some rows of a page: its header, and the rows as a message of their own."""

    entry: PageEntry
    """Of the whole page."""
    offsets: NDArray[np.int64]
    columns: int
    """Of the rows: those of the page, less columns in which all of them are null."""

    @property
    def size(self) -> int:
        """The bytes that it takes in memory."""
        return len(self.header) + len(self.body) + self.offsets.nbytes + _OVERHEAD


def sift(entry: PageEntry, header: bytes, batch: pa.RecordBatch, offsets: NDArray[np.int64]) -> SiftedPage | None:
    """These rows of a page; None if they are none or many, or have times of their own."""
    if not 0 < len(offsets) <= entry.rows // SIFTED_SHARE or entry.columns & (DUE | EXPIRES) or entry.arrived != entry.arrived_last:
        return None
    taken = encoding.take(batch, offsets - entry.first_offset)
    page = SiftedPage(header, taken.data)
    page.entry, page.offsets, page.columns = entry, offsets, taken.mask
    return page


class SiftedPages:
    """Those of one incarnation."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._pages: OrderedDict[tuple[int, int, int], SiftedPage] = OrderedDict()
        """By topic, partition and the first offset of the page."""
        self._firsts: dict[tuple[int, int], list[int]] = {}
        """The first offsets of a partition's, ascending."""
        self.bytes = 0

    def put(self, partition: Partition, page: SiftedPage) -> None:
        """Keeps a page for its delivery. Another filter may have sifted it before: the latest counts."""
        place = partition.topic, partition.number
        self._drop((*place, page.entry.first_offset))
        self._pages[*place, page.entry.first_offset] = page
        insort(self._firsts.setdefault(place, []), page.entry.first_offset)
        self.bytes += page.size
        while self.bytes > self._bytes_max:
            self._drop(next(iter(self._pages)))

    def _drop(self, key: tuple[int, int, int]) -> None:
        page = self._pages.pop(key, None)
        if page is None:
            return
        self.bytes -= page.size
        firsts = self._firsts[key[:2]]
        del firsts[bisect_left(firsts, key[2])]
        if not firsts:
            del self._firsts[key[:2]]

    def find(self, partition: Partition, rows: RowSet, bytes_max: int) -> list[SiftedPage]:
        """The next pages that have these rows, about so many bytes; none if they do not have the
        first of them.
        """
        place = partition.topic, partition.number
        firsts = self._firsts.get(place)
        if not firsts or not rows or self._page(place, firsts, rows.first) is None:
            return []
        found, offsets, at, size = list[SiftedPage](), rows.offsets(), 0, 0
        while at < len(offsets) and (not found or size < bytes_max):
            page = self._page(place, firsts, int(offsets[at]))
            if page is None or page.entry.end <= partition.retained.first:
                break
            end = int(np.searchsorted(offsets, page.entry.end))
            if not has_all(page, offsets[at:end]):
                break
            found.append(page)
            at, size = end, size + len(page.body)
        return found

    def _page(self, place: tuple[int, int], firsts: list[int], offset: int) -> SiftedPage | None:
        at = bisect_right(firsts, offset) - 1
        page = self._pages[*place, firsts[at]] if at >= 0 else None
        return page if page is not None and offset < page.entry.end else None


def has_all(page: SiftedPage, offsets: NDArray[np.int64]) -> bool:
    """Whether these offsets, which ascend, are among the rows of the page."""
    if len(offsets) == len(page.offsets):
        return bool((offsets == page.offsets).all())
    places = np.minimum(np.searchsorted(page.offsets, offsets), len(page.offsets) - 1)
    return bool((page.offsets[places] == offsets).all())
