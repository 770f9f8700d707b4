"""A batch as it came from the wire: how it is checked, what the machine has to know of it, and the page that it becomes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bowstring import errors
from bowstring.core.changes import Append
from bowstring.core.decisions import GivenBack, Ids, Publish, Rows
from bowstring.core.pages import Origin, PageHeader, encode_header
from bowstring.messages import encoding, ids, layout, one_row
from bowstring.messages.hashing import id_hashes
from bowstring.messages.schema import BYTES_SCHEMA, DUE, EXPIRES, ID
from bowstring.ports.disk import Buffer
from bowstring.ports.store import Page

GENERATED = "^[0-9a-f]{32}-[0-9a-f]+-[0-9a-f]+-[0-9a-f]+$"
GENERATED_LENGTH_MIN = 38
TIMEOUT_MAX = 86_400_000_000
NUMBER_MAX = 2**62


class PublishedBatch(NamedTuple):
    """A batch as it came from the wire; moments and spans in microseconds."""

    partition: int
    number: int
    previous: int
    sent: int
    timeout: int
    schema: int
    columns: int
    rows: int
    data: Buffer


def check_numbers(batch: PublishedBatch) -> None:
    """Refuses a batch with a number, a moment or a timeout that cannot be."""
    if not 0 < batch.number < NUMBER_MAX or not 0 <= batch.previous < NUMBER_MAX:
        raise errors.InvalidArgument(f"a batch cannot have number {batch.number} after {batch.previous}.", hint="Numbers rise from 1.")
    if not 0 < batch.timeout <= TIMEOUT_MAX or not 0 <= batch.sent < NUMBER_MAX:
        raise errors.InvalidArgument(
            f"a timeout of {batch.timeout / 1e6:g} s from {batch.sent} is not valid.", hint="Timeouts are above 0 s and up to a day."
        )


def columns_of(batch: PublishedBatch, bytes_max: int) -> pa.RecordBatch | None:
    """The columns of a batch, when they are as they should be; None where no part of the broker
    looks into them.
    """
    data = batch.data
    if batch.rows == 1 and len(data) <= bytes_max and batch.schema == BYTES_SCHEMA and one_row.is_canonical(batch.columns, data):
        return None
    return layout.check(batch.schema, batch.columns, batch.rows, batch.data, bytes_max=bytes_max)


def understood(batch: PublishedBatch, columns: pa.RecordBatch | None, producer: bytes) -> Publish:
    """What the machine decides by."""
    if columns is None:
        return Publish(producer, batch.number, batch.previous, batch.sent, batch.timeout, batch.rows, batch.columns, None)
    return Publish(
        producer=producer,
        number=batch.number,
        previous=batch.previous,
        sent=batch.sent,
        timeout=batch.timeout,
        rows=batch.rows,
        columns=batch.columns,
        ids=_ids(columns.column("id"), batch.partition) if batch.columns & ID else None,
        expires=_expires(columns.column("expires")) if batch.columns & EXPIRES else 0,
        due=_latest(columns.column("due")) if batch.columns & DUE else 0,
    )


def page_of(change: Append, group: str, columns: int, data: Buffer) -> Page:
    """The page of the rows of a batch that are stored."""
    origin = Origin(change.rows, change.producer, change.number, 0, group)
    header = PageHeader(change.topic, change.partition, BYTES_SCHEMA, columns, change.rows, (origin,))
    return Page(encode_header(header), data)


def page_of_rows(change: Append, group: str, batch: pa.RecordBatch, rows: Rows) -> Page:
    """The page of some rows of a batch; the change then says which columns they have."""
    change.columns, _, data = encoding.take(batch, rows)
    return page_of(change, group, change.columns, data)


def _expires(column: pa.Array) -> int:
    """When the last row expires; 0 if one of them does not."""
    return 0 if column.null_count else _latest(column)


def _latest(column: pa.Array) -> int:
    import pyarrow.compute as pc

    return pc.max(column.cast(pa.int64())).as_py()


def _ids(column: pa.Array, partition: int) -> Ids:
    """The hashes of a column of ids, for the machine; loops only over rows with generated ids."""
    hashes, firsts = id_hashes(column), None
    order = np.argsort(hashes)
    ordered = hashes[order]
    if (ordered[1:] == ordered[:-1]).any():  # the same id twice, or nearly so: it has to be looked at closely
        codes = column.dictionary_encode()
        indices = codes.indices.to_numpy(zero_copy_only=False)
        first_rows = np.empty(len(codes.dictionary), np.int64)
        first_rows[indices[::-1]] = np.arange(len(column))[::-1]  # of several rows with the same id the first is written last
        firsts = first_rows[indices]
    rows = _generated(column)
    parsed = [(int(row), ids.parse(column[int(row)].as_py())) for row in rows]
    given = tuple(GivenBack(row, g.producer, g.number, g.row) for row, g in parsed if g is not None and g.partition == partition)
    return Ids(hashes, firsts, given, order)


def _generated(column: pa.Array) -> NDArray[np.int64]:
    """The rows whose ids look like those that a kit generates."""
    import pyarrow.compute as pc

    lengths = pc.binary_length(column).to_numpy(zero_copy_only=False)
    if int(lengths.max(initial=0)) < GENERATED_LENGTH_MIN:
        return np.empty(0, np.int64)
    return np.flatnonzero(pc.match_substring_regex(column, GENERATED).to_numpy(zero_copy_only=False))
