"""Takes the data of `send_batch`, and divides it into batches.

A list is a list of values. Everything else is Arrow: record batches and tables of pyarrow, frames
of Polars, pandas and DuckDB, our own batches, all of which hand over their columns by
`__arrow_c_stream__` or `__arrow_c_array__` without copying. Data without columns, for example an
array or a series, is a column of values.

Types are converted once, before anything else is done with the columns (`conversion`). Columns that
the broker assigns (`topic`, `offset`, …) are ignored, so that a batch that was read can be sent.
Its `id` is sent with it: the copy can be repeated, and is stored once.

Rows are divided by partition (of their key, else of their id) and by size, all with vectors:
hashes, one stable sort, one `take` per partition. Within a partition rows keep their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bowstring import errors
from bowstring.client import arguments
from bowstring.client.rows import partition_for
from bowstring.messages import columns, conversion, encoding, hashing, schema
from bowstring.messages.metadata import Unjoined
from bowstring.messages.sizes import size_of

ROWS_MAX: Final = 1 << 20
"""Rows of one batch, however small they are."""
ROW_BYTES: Final = 32
"""The size of a row in addition to its bytes and texts."""
_AT_ONCE_BYTES: Final = 8 * 1024 * 1024
"""How many values of a list are turned into Arrow at once."""
_SAMPLE_ROWS: Final = 64
_ROUTING: Final = {"key", "id"}
_LIKE_GENERATED: Final = "^[0-9a-f]{32}-"
_HINT: Final = "Give a list of bytes or text, or a frame with a column 'value' (and any of key, attributes, id, due, expires, created)."

Numbers = npt.NDArray[np.int64]
Planned = tuple[int | None, "Numbers | range"]
Encoder = Callable[[], "tuple[encoding.Draft, Sequence[Any] | None]"]


class Piece(NamedTuple):
    """Rows that go into one batch."""

    partition: int | None
    rows: Numbers | range
    encode: Encoder


class Frame:
    """The rows of one call."""

    rows: int
    size: int
    """About how many bytes they have."""
    routed: bool
    """Whether keys, ids or the caller decide where rows go."""
    partition: int | None = None
    """The partition that the caller wants for all rows."""

    @staticmethod
    def of(data: object, created: int, compression: str | None) -> Frame:
        """Takes the data, or raises an error that says what is wrong with it."""
        if isinstance(data, list | tuple):
            return _of_values(data, created, compression)
        return _Columns.of_table(_table(data), created, compression)

    def send_to(self, partition: int) -> None:
        """All rows go to this partition."""
        self.partition, self.routed = partition, True

    def check_partition(self, topic: str, partitions: int) -> None:
        """Refuses a partition that the topic does not have."""
        if self.partition is not None and self.partition >= partitions:
            raise arguments.no_partition(topic, self.partition, partitions)

    def pieces(self, partitions: int, target: int, bytes_max: int) -> Iterator[Piece]:
        """The rows in batches of about `target` bytes. A single row may have up to `bytes_max`."""
        raise NotImplementedError


class _Columns(Frame):
    """Columns of Arrow, in batches that are made when their turn comes."""

    def __init__(self, names: Sequence[str], batches: Iterable[pa.RecordBatch], created: int, compression: str | None) -> None:
        self._batches = batches
        self._created = created
        self._compression = compression
        self.routed = not _ROUTING.isdisjoint(names)

    @classmethod
    def of_table(cls, table: pa.Table, created: int, compression: str | None) -> _Columns:
        table = _sent(table)
        batches = [batch for batch in table.to_batches() if batch.num_rows]
        if not conversion.is_canonical(table.schema):
            conversion.canonical(batches[0].slice(0, 0))  # refuses wrong types at once, also while the topic's partitions are not known
        frame = cls(table.schema.names, batches, created, compression)
        frame.rows, frame.size = table.num_rows, size_of(table)
        return frame

    @classmethod
    def of_values(cls, values: Sequence[Any], row_bytes: int, created: int, compression: str | None) -> _Columns:
        """Arrow checks each value anyway, so this loops only over a list that is too long to be
        turned into Arrow at once, because a list with a wrong value is refused as a whole.
        """
        rows = len(values)
        batches: Iterable[pa.RecordBatch]
        if rows * row_bytes <= _AT_ONCE_BYTES:
            batches = _batches_of(values)
        else:
            checked = values if _all_bytes(values) else _binaries(values)
            step = max(1, _AT_ONCE_BYTES // row_bytes)
            batches = chain.from_iterable(_batches_of(checked[first : first + step]) for first in range(0, rows, step))
        frame = cls(("value",), batches, created, compression)
        frame.rows, frame.size = rows, rows * row_bytes
        return frame

    def pieces(self, partitions: int, target: int, bytes_max: int) -> Iterator[Piece]:
        first = 0
        for given in chain.from_iterable(map(conversion.bounded, self._batches)):
            rows = range(first, first + given.num_rows)
            first = rows.stop
            try:
                batch = conversion.canonical(given)
                planned = self._planned(batch, rows.start, partitions, target, bytes_max)
            except errors.Error as error:
                yield Piece(None, rows, partial(_refuse, error))
                continue
            for partition, chosen in planned:
                yield Piece(partition, _from(rows.start, chosen), self._encoder(_taken(batch, chosen)))

    def _planned(self, batch: pa.RecordBatch, first: int, partitions: int, target: int, bytes_max: int) -> Iterable[Planned]:
        """The groups of rows that go together, and their partitions. Refuses wrong rows before the
        first one is sent.
        """
        rows = batch.num_rows
        if not self.routed and size_of(batch) + ROW_BYTES * rows <= target and rows <= ROWS_MAX:
            return [(None, range(rows))]
        sizes = _sizes(batch)
        _check_sizes(sizes, bytes_max, first)
        if not self.routed or partitions == 1 or self.partition is not None:
            home = self.partition if self.partition is not None else 0 if self.routed else None
            return ((home, range(start, end)) for start, end in _cuts(sizes, target))
        return _by_home(_homes(batch, partitions), sizes, target)

    def _encoder(self, batch: pa.RecordBatch) -> Encoder:
        def encode() -> tuple[encoding.Draft, Sequence[Any] | None]:
            encoded = encoding.draft(batch, created=self._created, compression=self._compression)
            return encoded, batch.column("id") if encoded.mask & schema.ID else None

        return encode


def _by_home(homes: Numbers, sizes: Numbers, target: int) -> Iterator[Planned]:
    order = np.argsort(homes, kind="stable")
    bounds = np.flatnonzero(np.diff(homes[order])) + 1
    for members in np.split(order, bounds):
        home = int(homes[members[0]])
        for start, end in _cuts(sizes[members], target):
            yield None if home < 0 else home, members[start:end]


def _taken(batch: pa.RecordBatch, chosen: Numbers | range) -> pa.RecordBatch:
    if isinstance(chosen, range):
        return batch if len(chosen) == batch.num_rows else batch.slice(chosen.start, len(chosen))
    return batch.take(pa.array(chosen))


def _from(first: int, chosen: Numbers | range) -> Numbers | range:
    return range(first + chosen.start, first + chosen.stop) if isinstance(chosen, range) else first + chosen


def _refuse(error: errors.Error) -> NoReturn:
    raise error


class _Values(Frame):
    """A list of values that are not put into columns at all."""

    routed = False

    def __init__(self, values: Sequence[bytes], created: int) -> None:
        self._values = values
        self._created = created
        self._lengths: Numbers = np.fromiter(map(len, values), np.int64, len(values))
        self.rows = len(values)
        self.size = int(self._lengths.sum()) + ROW_BYTES * self.rows

    def pieces(self, partitions: int, target: int, bytes_max: int) -> Iterator[Piece]:
        sizes = self._lengths + ROW_BYTES
        _check_sizes(sizes, bytes_max)
        for first, end in _cuts(sizes, target):
            yield Piece(self.partition, range(first, end), partial(self._encode, first, end))

    def _encode(self, first: int, end: int) -> tuple[encoding.Draft, None]:
        values = Unjoined(self._values[first:end], self._lengths[first:end])
        return encoding.draft_columns(end - first, values=values, created=self._created), None


def _of_values(values: Sequence[Any], created: int, compression: str | None) -> Frame:
    """A list of values. A sample tells how large they are."""
    if not values:
        raise _empty()
    sample = values[:: len(values) // _SAMPLE_ROWS + 1]
    row_bytes = ROW_BYTES + sum(map(_length, sample)) // len(sample)
    if row_bytes > ROW_BYTES + Unjoined.WORTH_WHILE and compression is None and _all_bytes(values):
        return _Values(values, created)
    return _Columns.of_values(values, row_bytes, created, compression)


def _all_bytes(values: Sequence[object]) -> bool:
    return list(map(type, values)).count(bytes) == len(values)


def _batches_of(values: Sequence[Any]) -> list[pa.RecordBatch]:
    try:
        array = pa.array(values, pa.binary())
    except (pa.ArrowException, TypeError, ValueError):
        array = pa.array(_binaries(values), pa.binary())
    return pa.table({"value": array}).to_batches()


def _binaries(values: Sequence[Any]) -> list[bytes | None]:
    return [None if value is None else arguments.binary(value, f"data[{row}]") for row, value in enumerate(values)]


def _length(value: object) -> int:
    return len(value) if isinstance(value, Sized) else 0


def _empty() -> errors.InvalidArgument:
    return errors.InvalidArgument("The batch is empty.", hint="Send at least one row.")


def _table(data: Any) -> pa.Table:
    try:
        if isinstance(data, pa.Table):
            table = data
        elif isinstance(data, pa.RecordBatch):
            table = pa.Table.from_batches([data])
        elif isinstance(data, pa.Array | pa.ChunkedArray) and not pa.types.is_struct(data.type):
            table = pa.table({"value": data})
        elif hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
            table = _streamed(data)
        else:
            raise errors.InvalidArgument(f"A batch cannot be made of {type(data).__name__}.", hint=_HINT)
    except (pa.ArrowException, TypeError, ValueError) as error:
        if isinstance(error, errors.Error):
            raise
        raise errors.InvalidArgument(f"A batch cannot be made of {type(data).__name__}: {error}.", hint=_HINT) from error
    return table


def _streamed(data: Any) -> pa.Table:
    """The columns by name; for data without columns, for example a series, the values."""
    try:
        return pa.table(data)
    except pa.ArrowInvalid:
        if not hasattr(data, "__arrow_c_stream__") or hasattr(data, "columns"):
            raise
        return pa.table({"value": pa.chunked_array(data)})


def _sent(table: pa.Table) -> pa.Table:
    """The columns to send: without those that the broker assigns, without pandas' index, and
    without columns of nulls, which may have any type: some libraries turn them into numbers.
    Refuses any other column.
    """
    names = table.schema.names
    kept = [number for number, name in enumerate(names) if name not in schema.ASSIGNED and not name.startswith("__index_level_")]
    schema.mask_of(names[number] for number in kept)
    rows = table.num_rows
    if not rows:
        raise _empty()
    nulls = {number: table.column(number).null_count for number in kept}
    for number in kept:
        if names[number] == "id" and 0 < nulls[number] < rows:
            raise columns.null_ids(nulls[number])
    filled = [number for number in kept if nulls[number] < rows]
    if not filled:
        return pa.table({"value": pa.nulls(rows)})
    return table if len(filled) == len(names) else table.select(filled)


def _homes(batch: pa.RecordBatch, partitions: int) -> Numbers:
    """The partition of each row; -1 for rows without a key or id."""
    homes = np.full(batch.num_rows, -1, np.int64)
    names = batch.schema.names
    if "key" in names:
        homes = hashing.partitions_of(batch.column("key"), partitions)
    if "id" in names and (homes < 0).any():
        found = batch.column("id").cast(pa.binary())
        by_id = hashing.partitions_of(found, partitions)
        for row in np.flatnonzero(
            pc.match_substring_regex(batch.column("id"), _LIKE_GENERATED).fill_null(False).to_numpy(zero_copy_only=False)
        ):
            by_id[row] = partition_for(None, found[int(row)].as_py().decode(), partitions) or 0
        homes = np.where(homes < 0, by_id, homes)
    return homes


def _sizes(batch: pa.RecordBatch) -> Numbers:
    """About how many bytes each row has: the length of its bytes and texts, an equal share of
    everything else.
    """
    sizes = np.full(batch.num_rows, ROW_BYTES, np.int64)
    for column in batch.columns:
        kind = column.type
        if pa.types.is_binary(kind) or pa.types.is_string(kind):
            sizes += pc.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        else:
            sizes += 1 + size_of(column) // batch.num_rows
    return sizes


def _check_sizes(sizes: Numbers, bytes_max: int, first: int = 0) -> None:
    largest = int(sizes.max())
    if largest > bytes_max + 64:
        raise arguments.too_large(f"value in row {first + int(sizes.argmax())}", largest, bytes_max)


def _cuts(sizes: Numbers, target: int) -> Iterator[tuple[int, int]]:
    """Runs of rows of at most the target in sum, or of one row; about equally large, rather than
    with a small rest.
    """
    ends = np.cumsum(sizes)
    total = int(ends[-1])
    target = min(target, total // -(-total // target) + int(sizes.max()))
    first, rows = 0, len(sizes)
    while first < rows:
        before = int(ends[first - 1]) if first else 0
        end = min(max(first + 1, int(np.searchsorted(ends, before + target, side="right"))), first + ROWS_MAX, rows)
        yield first, end
        first = end
