"""The part of a page that a reader wants: only some rows (`where`), only some columns.

The broker applies both, page by page with Arrow's kernels, so that nothing leaves it that is not
meant for the receiver (invariant 13).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bowstring.broker.reading.page_reader import arrivals
from bowstring.core.pages import PageEntry, PageHeader
from bowstring.messages import encoding, schema
from bowstring.messages.columns import integers
from bowstring.messages.filters import Filter

MOMENT_BYTES = 8
SMALL_PART = 10
"""Unwanted times go along up to a tenth of a page: with values of 100 bytes sending them costs as
much as leaving them out, and less with larger values or smaller pages.
"""
_MOMENT = pa.timestamp("us", "UTC")


class Selection(NamedTuple):
    """Everything by default."""

    where: Filter | None = None
    columns: int | None = None
    """The mask of the columns that are wanted."""

    def takes_untouched(self, entry: PageEntry) -> bool:
        """Whether a page whose rows may all be seen can go out as it is stored."""
        return self.where is None and self.takes_columns(entry)

    def takes_columns(self, entry: PageEntry) -> bool:
        """Whether the page has no column that is better left out. Times that are a small part of it
        go along: sending them is cheaper than writing the page anew without them.
        """
        unwanted = 0 if self.columns is None else entry.columns & ~self.columns
        if not unwanted:
            return True
        if unwanted == entry.columns or unwanted & ~schema.TIMES:
            return False
        return unwanted.bit_count() * MOMENT_BYTES * entry.rows * SMALL_PART <= entry.length

    def passing(
        self,
        entry: PageEntry,
        header: PageHeader,
        batch: pa.RecordBatch,
        offsets: NDArray[np.int64],
        numbers: NDArray[np.int64] | None = None,
    ) -> NDArray[np.int64]:
        """Those of the offsets that pass the filter. `numbers` are the offsets that the rows of the batch
        have in truth, if they do not follow each other.
        """
        if self.where is None or not len(offsets):
            return offsets
        import pyarrow.compute as pc

        from bowstring.messages.filter_kernels import passing  # loaded with the first filter: it takes longer than a broker's start

        def column_of(name: str) -> pa.Array | None:
            if name == "offset":
                return integers(np.arange(entry.first_offset, entry.end, dtype=np.int64) if numbers is None else numbers)
            if name == "partition":
                return integers(np.full(entry.rows, header.partition, np.int64))
            given = batch.column(name) if name in batch.schema.names else None
            if name == "arrived" or (name == "created" and (given is None or given.null_count)):
                arrived = integers(arrivals(header, entry)).view(_MOMENT)
                return arrived if given is None else pc.coalesce(given, arrived)
            return given

        found = passing(self.where, column_of, entry.rows)
        if len(offsets) == entry.rows:
            return np.flatnonzero(found) + entry.first_offset
        return offsets[found[offsets - entry.first_offset]]

    def taken(self, batch: pa.RecordBatch, rows: NDArray[np.int64]) -> encoding.Encoded | None:
        """These rows of a page as a message of their own, with the columns that are wanted; None if
        it has none of them.
        """
        if self.columns is not None:
            batch = batch.select([column.name for column in schema.columns_of(self.columns) if column.name in batch.schema.names])
            if not batch.num_columns:
                return None
        return encoding.rewrite(batch) if len(rows) == batch.num_rows else encoding.take(batch, rows)


EVERYTHING = Selection()
