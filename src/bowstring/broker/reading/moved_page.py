"""A page whose rows have other due times than it says, because their owner has moved them: it is written
anew when it is read. Most pages have no such rows, and are left as they are.
"""

from __future__ import annotations

import pyarrow as pa

from bowstring.core.pages import PageEntry, decode_header
from bowstring.core.partition import Partition
from bowstring.messages import encoding
from bowstring.messages.schema import DUE
from bowstring.ports.store import Page


def with_moved_dues(partition: Partition, entry: PageEntry, page: Page) -> Page:
    """The page with the due times that its rows have now."""
    if not len(partition.moved_rows):
        return page
    offsets, moments = partition.moved_rows.within(entry.first_offset, entry.end)
    header = decode_header(page.header) if len(offsets) else None
    if header is None or not header.columns & DUE:
        return page
    batch = encoding.decode(header.columns, page.body)
    dues = batch.column("due").cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False).copy()
    dues[offsets - entry.first_offset] = moments
    place, column = batch.schema.get_field_index("due"), pa.array(dues, pa.timestamp("us", "UTC"), mask=dues == 0)
    return page._replace(body=encoding.rewrite(batch.set_column(place, batch.schema.field(place), column)).data)
