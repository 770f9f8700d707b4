"""What a reader wants of a page: only some rows (`where`), only some columns.

The broker applies both, page by page with Arrow's kernels, so that nothing leaves it that is not meant for the receiver (invariant 13).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bowstring.broker.reading import arrivals
from bowstring.core.pages import PageEntry, PageHeader
from bowstring.messages import encoding, schema
from bowstring.messages.filters import Filter

_MOMENT = pa.timestamp("us", "UTC")


class Selection(NamedTuple):
    """Everything, if nothing is said."""

    where: Filter | None = None
    columns: int | None = None
    """The mask of the columns that are wanted."""

    def wants_all_of(self, columns: int) -> bool:
        """Whether a page with these columns can go out untouched."""
        return self.where is None and self.wants_columns(columns)

    def wants_columns(self, columns: int) -> bool:
        """Whether every one of these columns is wanted."""
        return self.columns is None or not columns & ~self.columns

    def passing(self, entry: PageEntry, header: PageHeader, batch: pa.RecordBatch, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of the offsets that pass the filter."""
        if self.where is None or not len(offsets):
            return offsets
        import pyarrow.compute as pc

        from bowstring.messages.filter_kernels import passing  # loaded with the first filter: it takes longer than a broker's start

        def column_of(name: str) -> pa.Array | None:
            if name == "offset":
                return pa.array(np.arange(entry.first_offset, entry.first_offset + entry.rows, dtype=np.int64))
            if name == "partition":
                return pa.array(np.full(entry.rows, header.partition, np.int64))
            given = batch.column(name) if name in batch.schema.names else None
            if name == "arrived" or (name == "created" and (given is None or given.null_count)):
                arrived = pa.array(arrivals(header, entry)).view(_MOMENT)
                return arrived if given is None else pc.coalesce(given, arrived)
            return given

        return offsets[passing(self.where, column_of, entry.rows)[offsets - entry.first_offset]]

    def taken(self, batch: pa.RecordBatch, rows: NDArray[np.int64]) -> encoding.Encoded | None:
        """These rows of a page as a message of their own, with the columns that are wanted; None if it has none of them."""
        if self.columns is not None:
            batch = batch.select([column.name for column in schema.columns_of(self.columns) if column.name in batch.schema.names])
            if not batch.num_columns:
                return None
        return encoding.rewrite(batch) if len(rows) == batch.num_rows else encoding.take(batch, rows)


EVERYTHING = Selection()
