"""A page whose rows have other due times than it says, because their owner has moved them: it is written
anew when it is read. Most pages have no such rows, and are left as they are.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bowstring.core.due_blocks import Dues
from bowstring.core.pages import PageEntry, decode_header
from bowstring.core.partition import Partition
from bowstring.messages import encoding
from bowstring.messages.schema import DUE
from bowstring.ports.store import Page


def with_moved_dues(partition: Partition, entry: PageEntry, page: Page) -> Page:
    """The page with the due times that its rows have now."""
    if not partition.moved_rows.any(entry.first_offset, entry.end):
        return page
    header = decode_header(page.header)
    if not header.columns & DUE:
        return page
    offsets = np.arange(entry.first_offset, entry.end, dtype=np.int64)
    return page._replace(body=encoding.rewrite(with_dues(partition, offsets, encoding.decode(header.columns, page.body))).data)


def with_dues(partition: Partition, offsets: NDArray[np.int64], batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of any pages, in the order of their offsets, with the due times that they have now."""
    if not len(partition.moved_rows) or "due" not in batch.schema.names:
        return batch
    stored = Dues(batch.column("due").cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False), offsets)
    dues = partition.moved_rows.present(stored).moments
    if dues is stored.moments:
        return batch
    place, column = batch.schema.get_field_index("due"), pa.array(dues, pa.timestamp("us", "UTC"), mask=dues == 0)
    return batch.set_column(place, batch.schema.field(place), column)
