"""Decides which rows of a page may be delivered now: not those that are deleted, too old, or past
their `expires`.

Age counts from the later of arrival and due time. For most pages the entry alone shows that all
rows may be delivered; the others are decoded.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bowstring.broker.reading.page_reader import arrivals
from bowstring.core.pages import PageEntry, PageHeader
from bowstring.core.partition import Partition
from bowstring.messages.schema import DUE, EXPIRES


class Moments(NamedTuple):
    """The time by which rows are delivered."""

    now: int
    horizon: int
    """Rows that arrived before this are too old."""


def is_whole(partition: Partition, entry: PageEntry, moments: Moments) -> bool:
    """Whether every row of the page may be delivered, as far as the entry tells."""
    return entry.arrived >= moments.horizon and not entry.columns & EXPIRES and partition.is_whole(entry.first_offset, entry.end)


class Seen(NamedTuple):
    """The deliverable rows of a page."""

    offsets: NDArray[np.int64]
    """Ascending."""
    youngest_hidden: int
    """The moment from which the youngest row that is too old counts its age; -1 if no row is too
    old.
    """


def visible(
    partition: Partition, entry: PageEntry, header: PageHeader, batch: pa.RecordBatch, moments: Moments, first: int, end: int
) -> Seen:
    """The offsets of [first, end) within the page that may be delivered."""
    offsets = partition.live(first, end)
    rows = offsets - entry.first_offset
    age = arrivals(header, entry)[rows]
    if entry.columns & DUE:
        age = np.maximum(age, moments_of(batch.column("due"))[rows])
    seen = age >= moments.horizon
    current = np.ones(len(rows), bool)
    if entry.columns & EXPIRES:
        expires = moments_of(batch.column("expires"))[rows]
        current = (expires == 0) | (expires > moments.now)
    return Seen(offsets[seen & current], int(age[~seen & current].max(initial=-1)))


def moments_of(column: pa.Array) -> NDArray[np.int64]:
    """Microseconds, 0 for null."""
    if not column.null_count:
        return column.view(pa.int64()).to_numpy()
    import pyarrow.compute as pc

    return pc.fill_null(column.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
