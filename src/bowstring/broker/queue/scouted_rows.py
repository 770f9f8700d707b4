"""Rows that were looked at before they are granted: which of them a filter lets pass, and the hashes
of their keys. Everything is arrays, page by page.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bowstring.broker.queue.granted_pages import PagesFound
from bowstring.broker.reading.selection import Selection
from bowstring.broker.reading.sifted_pages import SiftedPage, sift
from bowstring.core.pages import PageEntry, decode_header
from bowstring.core.row_set import RowSet
from bowstring.core.subscription_settings import KEY_SHARED, SubscriptionSettings
from bowstring.messages import encoding, filters
from bowstring.messages.filters import Filter
from bowstring.messages.hashing import id_hashes
from bowstring.ports.store import Page

Keys = tuple[NDArray[np.uint64], NDArray[np.bool_]]
"""Hashes of keys, and which rows have a key; both are empty if keys are not wanted."""


class ScoutedRows(NamedTuple):
    """What was found in [first, end) of a partition. The arrays go together, row by row."""

    first: int
    end: int
    offsets: NDArray[np.int64]
    """Rows that pass the filter, ascending."""
    hashes: NDArray[np.uint64]
    """Of their keys; empty if keys are not wanted."""
    keyed: NDArray[np.bool_]
    """Which of them have a key; empty likewise."""

    def rows(self, low: int, high: int) -> ScoutedRows:
        """Some of the rows, by their places in the arrays."""
        return self._replace(offsets=self.offsets[low:high], hashes=self.hashes[low:high], keyed=self.keyed[low:high])

    def only(self, wanted: NDArray[np.bool_]) -> ScoutedRows:
        """Those of the rows that are wanted."""
        keys = (self.hashes[wanted], self.keyed[wanted]) if len(self.hashes) else (self.hashes, self.keyed)
        return ScoutedRows(self.first, self.end, self.offsets[wanted], *keys)


_NO_HASHES: Final = np.empty(0, np.uint64)
_NO_FLAGS: Final = np.empty(0, np.bool_)
_NO_OFFSETS: Final = np.empty(0, np.int64)


def nothing(first: int, end: int) -> ScoutedRows:
    """No row of [first, end) can be granted."""
    return ScoutedRows(first, end, _NO_OFFSETS, _NO_HASHES, _NO_FLAGS)


def joined(parts: list[ScoutedRows]) -> ScoutedRows:
    """Parts that follow each other, as one."""
    if len(parts) == 1:
        return parts[0]
    arrays = [np.concatenate(each) for each in zip(*[part[2:] for part in parts], strict=True)]
    return ScoutedRows(parts[0].first, parts[-1].end, *arrays)


class LookedAt(NamedTuple):
    """What was found in a page."""

    rows: ScoutedRows
    sifted: SiftedPage | None = None
    """The rows themselves, if they are few of the page."""


class RowLook:
    """What a subscription wants to know of rows."""

    def __init__(self, where: Filter | None, *, with_keys: bool) -> None:
        self.has_filter = where is not None
        self.looks_at_dues = where is not None and "due" in _columns_of(where)
        self._selection = Selection(where)
        self.with_keys = with_keys
        if where is not None:
            import_module("bowstring.messages.filter_kernels")  # the first look would hold up the loop for it: 30 ms

    def of_page(self, first: int, entry: PageEntry, page: Page, *, filtered: bool = True) -> LookedAt:
        """The rows of a page from the offset on that pass the filter. Dead letters are not filtered:
        they have passed it where they came from.
        """
        if isinstance(page, SiftedPage):
            return self._of_sifted(page)
        header = decode_header(page.header)
        batch = encoding.decode(header.columns, page.body)
        offsets = np.arange(first, entry.end, dtype=np.int64)
        if filtered:
            offsets = self._selection.passing(entry, header, batch, offsets)
        found = ScoutedRows(first, entry.end, offsets, *self._keys(batch, offsets - entry.first_offset))
        return LookedAt(found, sift(entry, page.header, batch, offsets) if filtered and self.has_filter else None)

    def _of_sifted(self, page: SiftedPage) -> LookedAt:
        """The same of rows that passed a filter before, perhaps another one."""
        entry, batch = page.entry._replace(rows=len(page.offsets)), encoding.decode(page.columns, page.body)
        header, rows = decode_header(page.header), np.arange(entry.first_offset, entry.end, dtype=np.int64)
        rows = self._selection.passing(entry, header, batch, rows, page.offsets) - entry.first_offset
        return LookedAt(ScoutedRows(entry.first_offset, page.entry.end, page.offsets[rows], *self._keys(batch, rows)))

    def _keys(self, batch: pa.RecordBatch, rows: NDArray[np.int64]) -> Keys:
        if not self.with_keys or "key" not in batch.schema.names:
            return self._no_keys(len(rows))
        column = batch.column("key")
        are_there = column.is_valid().to_numpy(zero_copy_only=False)[rows] if column.null_count else np.ones(len(rows), np.bool_)
        return id_hashes(column)[rows], are_there

    def _no_keys(self, count: int) -> Keys:
        return (np.zeros(count, np.uint64), np.zeros(count, np.bool_)) if self.with_keys else (_NO_HASHES, _NO_FLAGS)

    def unknown(self, first: int, end: int, offsets: NDArray[np.int64]) -> ScoutedRows:
        """Rows that cannot be looked at: they count as rows that pass, without a key."""
        return ScoutedRows(first, end, offsets, *self._no_keys(len(offsets)))

    def among(self, rows: RowSet, found: PagesFound) -> ScoutedRows:
        """Those of the rows that are in these pages, which need not follow each other, or should be."""
        pages = zip(found.entries, found.pages, strict=True)
        parts = [self.of_page(max(rows.first, entry.first_offset), entry, page, filtered=False).rows for entry, page in pages]
        end = found.damaged.stop if found.damaged else parts[-1].end if parts else rows.stop
        asked = rows.below(end)
        missing = (asked - RowSet.of_runs([(part.first, part.end - part.first) for part in parts])).offsets()
        seen = joined([*parts, self.unknown(rows.first, end, missing)])
        seen = seen.only(np.isin(seen.offsets, asked.offsets(), assume_unique=True))
        order = np.argsort(seen.offsets, kind="stable")
        keys = (seen.hashes[order], seen.keyed[order]) if self.with_keys else (seen.hashes, seen.keyed)
        return ScoutedRows(rows.first, end, seen.offsets[order], *keys)


def look_of(settings: SubscriptionSettings) -> RowLook | None:
    """What a subscription wants to know of rows; None if it grants them unseen."""
    with_keys = settings.mode == KEY_SHARED
    if not settings.where and not with_keys:
        return None
    return RowLook(filters.parse(settings.where, None) if settings.where else None, with_keys=with_keys)


def _columns_of(tree: Filter) -> set[str]:
    """The names of the columns that a filter looks at."""
    if isinstance(tree, filters.Every | filters.Any):
        return set[str]().union(*map(_columns_of, tree.parts))
    if isinstance(tree, filters.Not):
        return _columns_of(tree.part)
    other = tree.other if isinstance(tree, filters.Compare) else None
    return {tree.column.name, other.name} if isinstance(other, filters.ColumnName) else {tree.column.name}
