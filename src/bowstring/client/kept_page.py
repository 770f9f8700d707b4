"""Turns rows that were read into an Arrow stream and back, for pickling and copying batches and
messages.

A page refers to the bytes of a whole answer from the broker, most of which a single message does
not need. The stream has only the wanted rows and the columns of their reader, plus topic, partition
and offset, which every message knows. Each chunk is a record batch of its own, so that a page has
one topic and one partition again.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bowstring.client.pages import LEASED_COLUMNS, Chunk, FetchedPage, ReaderSelection
from bowstring.messages.columns import integers
from bowstring.wire.generated import bowstring_pb2 as pb

_PLACE: Final = ("topic", "partition", "offset")


class KeptPage(FetchedPage):
    """The rows of a chunk that was kept."""

    def __init__(self, rows: pa.RecordBatch, names: tuple[str, ...]) -> None:
        topic, partition = rows.column("topic")[0].as_py(), rows.column("partition")[0].as_py()
        super().__init__(topic, pb.FetchAnswer(partition=partition, rows=rows.num_rows), None, ReaderSelection(frozenset(names)))
        self._columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        self.size = rows.nbytes

    @cached_property
    def offsets(self) -> npt.NDArray[np.int64]:
        """The rows' offsets."""
        return self._columns["offset"].to_numpy()


def names_of(page: FetchedPage) -> tuple[str, ...]:
    """The columns that the page's reader has asked for."""
    return tuple(name for name in page.known.names if page.has(name))


def keep(chunks: Iterable[Chunk], names: tuple[str, ...]) -> bytes:
    """The rows as an Arrow stream."""
    schema = pa.schema([field for field in LEASED_COLUMNS if field.name in _PLACE or field.name in names])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as stream:
        for chunk in chunks:
            stream.write_batch(pa.RecordBatch.from_arrays([_own(chunk, name) for name in schema.names], schema=schema))
    return sink.getvalue().to_pybytes()


def _own(chunk: Chunk, name: str) -> pa.Array:
    """A column of the chunk's rows alone. A slice would not do: its padding holds bytes of the next
    row.
    """
    column = chunk.page.any_column(name)
    if chunk.rows == chunk.page.rows:
        return column
    return column.take(integers(np.arange(chunk.first, chunk.first + chunk.rows)))


def kept(data: bytes, names: tuple[str, ...], kind: type[KeptPage] = KeptPage) -> list[Chunk]:
    """The rows of such a stream."""
    with pa.ipc.open_stream(data) as stream:
        return [Chunk(kind(rows, names), 0, rows.num_rows) for rows in stream]
