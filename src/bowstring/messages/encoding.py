"""Writes batches, and reads back checked ones.

The kit writes the messages of a program, the broker rewrites batches that it may not pass on whole.
Both write canonically (see `metadata`), and both keep the promise that no row's bytes travel in
another's message: they cut a column that is a slice of a larger one to its own bytes, drop bytes
under nulls, and pad with zeros, never with uninitialised memory. pyarrow's own writer does not do
this: its padding and its bitmaps hold what its input held.

There are three ways in. `draft_columns` takes Python lists, which is what `send()` gathers; a
single message, the most frequent batch of a quiet producer, is packed by hand in about 3 µs instead
of pyarrow's 8 to 21, and in less than 1 µs if it is a value alone (`draft_value`). `encode` takes a
record batch from any library, so it converts (`conversion`), compacts and checks; `columns` serves
both. `take` takes rows of a batch that was checked before.

A null `value` with other columns is a message without payload. Columns in which all rows are null
are left out.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bowstring import errors
from bowstring.messages import columns, contents, limits, schema
from bowstring.messages.columns import Attributes, Moments, Part
from bowstring.messages.metadata import CODECS, ZEROS, Bytes, Form, Unjoined, form

_RAW = (-1).to_bytes(8, "little", signed=True)  # in place of the size: this buffer was left uncompressed
_VALUE_AND_CREATED = schema.VALUE | schema.CREATED
_SMALLEST_COMPRESSED = 64  # bytes; for anything smaller the compressor's own frame is larger than what it saves


class Encoded(NamedTuple):
    """A batch as it travels: which columns, how many rows, the record-batch message."""

    mask: int
    rows: int
    data: bytes


class Draft(NamedTuple):
    """The same as pieces, before the last copy: the kit joins them right behind the header of a
    request.
    """

    mask: int
    rows: int
    pieces: Sequence[Bytes]
    size: int

    def encoded(self) -> Encoded:
        """The batch, as a message of its own."""
        return Encoded(self.mask, self.rows, b"".join(self.pieces))


def decode(mask: int, data: bytes | memoryview | pa.Buffer) -> pa.RecordBatch:
    """A batch that was checked before, over the same bytes where they are not compressed."""
    return pa.ipc.read_record_batch(pa.py_buffer(data), schema.arrow_schema(mask))


def encode(batch: pa.RecordBatch, *, compression: str | None = None, reserved_ok: bool = False) -> Encoded:
    """A record batch with some of our columns, in any order and of any types that can become
    theirs.
    """
    from bowstring.messages import conversion  # a broker starts without the kernels that this needs

    schema.mask_of(batch.schema.names)
    return draft(conversion.canonical(batch), compression=compression, reserved_ok=reserved_ok).encoded()


def draft(batch: pa.RecordBatch, *, created: int | None = None, compression: str | None = None, reserved_ok: bool = False) -> Draft:
    """The same in pieces, for columns that have their own types already (`conversion`). `created`
    is used if the batch has no such column.
    """
    parts = [(column.bit, columns.part(column, array)) for column, array in _ordered(batch)]
    if created is not None and "created" not in batch.schema.names:
        parts.append((schema.CREATED, columns.moments("created", batch.num_rows, created)))
        parts.sort(key=itemgetter(0))
    return _write(parts, batch.num_rows, compression, checked=True, reserved_ok=reserved_ok)


def encode_values(values: Sequence[bytes | str | None], *, compression: str | None = None) -> Encoded:
    """Values alone."""
    return encode_columns(len(values), values=values, compression=compression)


def encode_columns(rows: int, **given: Any) -> Encoded:
    """Python lists with one entry a row, as `draft_columns` takes them."""
    return draft_columns(rows, **given).encoded()


def draft_columns(
    rows: int,
    *,
    values: Sequence[bytes | str | None] | Unjoined,
    keys: Sequence[bytes | str | None] | None = None,
    attributes: Sequence[Attributes | None] | None = None,
    created: Moments | None = None,
    due: Moments | None = None,
    expires: Moments | None = None,
    ids: Sequence[str] | None = None,
    compression: str | None = None,
    reserved_ok: bool = False,
) -> Draft:
    """Python lists with one entry a row. Values and keys are bytes, or text that becomes UTF-8;
    times are µs since 1970, one for all rows or one for each.
    """
    single = rows == 1
    text, moment = (columns.text_of_one, columns.moment_of_one) if single else (columns.texts, columns.moments)
    parts: list[tuple[int, Part]] = []
    if keys is not None:
        parts.append((schema.KEY, text("key", rows, keys)))
    if isinstance(values, Unjoined):
        parts.append((schema.VALUE, columns.unjoined(rows, values)))
    else:
        parts.append((schema.VALUE, text("value", rows, values)))
    if attributes is not None:
        parts.append((schema.ATTRIBUTES, (columns.attributes_of_one if single else columns.attributes)(rows, attributes)))
    if created is not None:
        parts.append((schema.CREATED, moment("created", rows, created)))
    if due is not None:
        parts.append((schema.DUE, moment("due", rows, due)))
    if expires is not None:
        parts.append((schema.EXPIRES, moment("expires", rows, expires)))
    if ids is not None:
        parts.append((schema.ID, columns.ids(rows, ids)))
    return _write(parts, rows, compression, checked=True, reserved_ok=reserved_ok)


def draft_value(value: bytes, created: int) -> Draft:
    """One row with a value and the time at which it was made: the same as `draft_columns`, at a
    fifth of its cost. For a given length all but the bytes of these two is the same.
    """
    length = len(value)
    if length > columns.DATA_MAX or not 0 <= created < limits.MOMENT_MAX:
        return draft_columns(1, values=(value,), created=created)
    head = _head_of_value(length)
    pieces = (head, value, ZEROS[-length & 7], created.to_bytes(8, "little"))
    return Draft(_VALUE_AND_CREATED, 1, pieces, len(head) + (length + 7 & -8) + 8)


@lru_cache(1024)
def _head_of_value(length: int) -> bytes:
    """The head of a batch of one value of this length and its `created`, and the value's
    offsets."""
    return form(_VALUE_AND_CREATED).write(1, (0, 8, length, 0, 8), (1, 0, 1, 0)) + struct.pack("<ii", 0, length)


def take(batch: pa.RecordBatch, rows: npt.NDArray[np.int64] | pa.Array, *, compression: str | None = None) -> Encoded:
    """The given rows of a checked batch as a message of their own, with no byte of any other row in
    it.
    """
    taken = taken_rows(batch, rows)
    parts = [(column.bit, columns.part(column, array)) for column, array in _ordered(taken)]
    return _write(parts, taken.num_rows, compression, checked=False).encoded()


def taken_rows(batch: pa.RecordBatch, rows: npt.NDArray[np.int64] | pa.Array) -> pa.RecordBatch:
    """The given rows of a checked batch. Bytes of others are cut off when they are written."""
    if isinstance(rows, pa.Array):
        return batch.take(rows)
    if _are_consecutive(rows) and rows[0] >= 0 and rows[-1] < batch.num_rows:
        return batch.slice(int(rows[0]), len(rows))
    return batch.take(columns.integers(np.asarray(rows, np.int64)))


def _are_consecutive(rows: npt.NDArray[np.int64]) -> bool:
    count = len(rows)
    return count > 0 and int(rows[-1]) - int(rows[0]) == count - 1 and (count < 3 or bool((np.diff(rows) == 1).all()))


def rewrite(batch: pa.RecordBatch) -> Encoded:
    """All rows of a checked batch, or of some of its columns, as a message of their own."""
    parts = [(column.bit, columns.part(column, array)) for column, array in _ordered(batch)]
    return _write(parts, batch.num_rows, None, checked=False).encoded()


def rewrite_together(batches: list[pa.RecordBatch]) -> Encoded:
    """The rows of checked batches with the same columns, one behind the other, as one message."""
    return rewrite(together(batches))


def together(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """The rows of checked batches with the same columns, one behind the other."""
    return _concatenated(batches)


def _concatenated_by_column(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """The same as `pyarrow.concat_batches`, which pyarrow has since 19."""
    arrays = [pa.concat_arrays([batch.column(at) for batch in batches]) for at in range(batches[0].num_columns)]
    return pa.RecordBatch.from_arrays(arrays, schema=batches[0].schema)


_concatenated: Callable[[list[pa.RecordBatch]], pa.RecordBatch] = getattr(pa, "concat_batches", _concatenated_by_column)


def _ordered(batch: pa.RecordBatch) -> list[tuple[schema.Column, pa.Array]]:
    """The columns of a batch in our order; every one of them is ours and there once, and there are
    rows.
    """
    if batch.num_rows == 0:
        raise errors.InvalidArgument("The batch is empty.", hint="Send at least one row.")
    schema.mask_of(batch.schema.names)
    return [(column, batch.column(column.name)) for column in schema.COLUMNS if column.name in batch.schema.names]


def _write(parts: list[tuple[int, Part]], rows: int, compression: str | None, *, checked: bool, reserved_ok: bool = False) -> Draft:
    """The parts in their order, without those of nothing but nulls. If no part is left, a `value`
    of nulls stands for them.
    """
    mask = 0
    buffers: list[Any] = []
    nodes: list[int] = []
    for bit, part in parts:
        if part.nodes[1] < rows:
            mask |= bit
            buffers += part.buffers
            nodes += part.nodes
    if mask == 0:
        return _write_nulls(rows)
    wanted = form(mask)
    if checked and mask & contents.CHECKED:
        contents.check(wanted, rows, buffers, reserved_ok=reserved_ok)
    if compression is not None:
        wanted, buffers = _compressed(mask, buffers, compression)
    return _drafted(wanted, rows, buffers, nodes)


def _write_nulls(rows: int) -> Draft:
    buffers = (bytes((rows + 7) // 8), bytes(4 * rows + 4), b"")
    return _drafted(form(schema.VALUE), rows, buffers, (rows, rows))


def _drafted(wanted: Form, rows: int, buffers: Sequence[Bytes], nodes: Sequence[int]) -> Draft:
    return Draft(wanted.mask, rows, *wanted.pieces(rows, buffers, nodes))


def _compressed(mask: int, buffers: list[Bytes], compression: str) -> tuple[Form, list[Bytes]]:
    """Every buffer compressed behind its size, or left raw where that is smaller; not at all when
    nothing is saved.
    """
    if compression not in CODECS:
        raise errors.InvalidArgument(f"compression={compression!r} is not known.", hint="Use None, 'lz4' or 'zstd'.")
    packed: list[Bytes] = []
    for buffer in buffers:
        small = _codec(compression).compress(buffer, asbytes=True) if len(buffer) >= _SMALLEST_COMPRESSED else buffer
        if len(small) < len(buffer):
            packed.append(len(buffer).to_bytes(8, "little") + small)
        else:
            packed.append(_RAW + buffer if len(buffer) else b"")
    if sum(map(len, packed)) < sum(map(len, buffers)):
        return form(mask, compression), packed
    return form(mask), buffers


@cache
def _codec(compression: str) -> pa.Codec:
    return pa.Codec(compression)
