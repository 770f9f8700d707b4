"""Converts Arrow columns of any library's types to the types of a batch.

Polars sends views, categoricals and enums, and has no map type. pandas sends dictionaries, lists of
pairs and structs. DuckDB sends whatever its columns are. Few of Arrow's kernels know all of these
types, so every column is converted here, once, before any kernel is used. A column that has the
right type already is returned as it is.

    key, value     text or bytes of any kind: plain, large, view, fixed size; a UUID is its 16 bytes
    id             text of any kind; a UUID is its usual text
    times          timestamps with a time zone, of any unit; nanoseconds are cut to microseconds
    attributes     a map of text to text, a list of structs with the fields `key` and `value`, a list of pairs, or a struct whose
                   fields are the attributes, in which a null field is an attribute that the row does not have

Each of these may be dictionary-encoded or run-end-encoded. A column of nulls may have any type.
Everything else is refused: a number could become text in more than one way, and this module does
not guess.

Texts of dictionaries and views share bytes, which a plain column repeats for every row. `bounded`
therefore divides a batch first, by the size that it will have.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bowstring import errors
from bowstring.messages import columns, schema
from bowstring.messages.columns import integers
from bowstring.messages.sizes import size_of

AT_ONCE_BYTES: Final = 64 * 1024 * 1024
"""About how many bytes to convert at once; a single row may have more."""
_MAP: Final = pa.map_(pa.utf8(), pa.utf8())
_MAP_HINT: Final = "It has to be a map of text to text (Arrow map<string, string>), a list of structs with key and value, or a struct."
_VIEW_BYTES: Final = 16
_UUID: Final = "arrow.uuid"
_UUID_BYTES: Final = 16
_UUID_PLACES: Final = [place for place in range(36) if place not in (8, 13, 18, 23)]
_DIGITS: Final = np.frombuffer(b"0123456789abcdef", np.uint8)

Numbers = npt.NDArray[np.int64]


def is_canonical(given: pa.Schema) -> bool:
    """Whether all columns have the types of a batch already."""
    return all(field.type == _TYPES.get(field.name) for field in given)


def canonical(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows, each column in its own type. The columns are those of a batch, each at most
    once.
    """
    if is_canonical(batch.schema):
        return batch
    wanted = [column for column in schema.COLUMNS if column.name in batch.schema.names]
    arrays = [converted(column, batch.column(column.name)) for column in wanted]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([pa.field(column.name, column.type) for column in wanted]))


def bounded(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows in runs that have about `AT_ONCE_BYTES` once they are converted."""
    if is_canonical(batch.schema):
        yield batch
        return
    ends = np.cumsum(sum((_lengths(column) for column in batch.columns), np.zeros(batch.num_rows, np.int64)))
    first = 0
    while first < batch.num_rows:
        before = int(ends[first - 1]) if first else 0
        end = max(first + 1, int(np.searchsorted(ends, before + AT_ONCE_BYTES, side="right")))
        yield batch.slice(first, end - first)
        first = end


def converted(column: schema.Column, array: pa.Array) -> pa.Array:
    """The array as the column's own type. Refuses it if the meaning is ambiguous."""
    kind = array.type
    if kind == column.type:
        return array
    if pa.types.is_null(kind):
        return pa.nulls(len(array), column.type)
    try:
        return _CONVERTERS[column.bit](column, array)
    except pa.ArrowException as error:
        if size_of(array) > columns.DATA_MAX:
            raise columns.too_large(column.name) from error
        raise errors.InvalidArgument(f"{column.name} cannot be turned into {column.type}, it is {kind}: {error}.") from error


# -- keys, values, ids


def _bytes(column: schema.Column, array: pa.Array) -> pa.Array:
    flat = _flat(array)
    if not (_is_text(flat.type) or _is_binary(flat.type)):
        raise _wrong(column.name, array, f"It has to be bytes or text (Arrow {column.type}).")
    return flat.cast(column.type)


def _id(column: schema.Column, array: pa.Array) -> pa.Array:
    flat = _uuid_texts(array) if _is_uuid(array.type) else _flat(array)
    if not _is_text(flat.type):
        raise _wrong(column.name, array, f"It has to be text (Arrow {column.type}).")
    if 0 < flat.null_count < len(flat):
        raise columns.null_ids(flat.null_count)
    return flat.cast(column.type)


def _is_uuid(kind: pa.DataType) -> bool:
    return getattr(kind, "extension_name", "") == _UUID


def _uuid_texts(array: pa.Array) -> pa.Array:
    """UUIDs as text: 32 digits in groups of 8, 4, 4, 4 and 12."""
    rows, storage = len(array), array.storage
    data = np.frombuffer(storage.buffers()[1], np.uint8, _UUID_BYTES * rows, _UUID_BYTES * storage.offset)
    text = np.full((rows, 36), ord("-"), np.uint8)
    text[:, _UUID_PLACES] = _DIGITS[np.stack([data >> 4, data & 15], axis=1)].reshape(rows, 32)
    offsets = np.arange(0, 36 * (rows + 1), 36, dtype=np.int32)
    texts = pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(text))
    return pc.if_else(storage.is_valid(), texts, pa.scalar(None, pa.utf8()))


# -- times


def _moments(column: schema.Column, array: pa.Array) -> pa.Array:
    flat = _flat(array)
    kind = flat.type
    if not pa.types.is_timestamp(kind):
        raise _wrong(column.name, array, "Times are timestamps with a time zone.")
    if kind.tz is None:
        hint = "Give it one: .dt.replace_time_zone('UTC') in Polars, .dt.tz_localize('UTC') in pandas, timestamptz in DuckDB."
        raise errors.InvalidArgument(f"{column.name} is {array.type}, which has no time zone.", hint=hint)
    # Nanoseconds are cut to microseconds; from seconds and milliseconds a time may not fit, and
    # that must not wrap around.
    return flat.cast(column.type, safe=kind.unit != "ns")


# -- attributes


def _attributes(column: schema.Column, array: pa.Array) -> pa.Array:
    flat = _flat(array)
    kind = flat.type
    if pa.types.is_struct(kind):
        return _map_of_fields(array, flat)
    if pa.types.is_map(kind):
        flat = _list_of_map(flat)
    elif not _is_list(kind):
        raise _wrong(column.name, array, _MAP_HINT)
    names, values = _pairs(array, _flat(flat.flatten()))
    lengths = pc.list_value_length(flat).fill_null(0).to_numpy(zero_copy_only=False)
    return _map(lengths, flat, names, values)


def _is_list(kind: pa.DataType) -> bool:
    plain = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return plain or pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind)


def _list_of_map(array: pa.Array) -> pa.Array:
    """A map as the list that it is inside: the list kernels do not know maps."""
    entries = array.values
    renamed = pa.StructArray.from_arrays([entries.field(0), entries.field(1)], ["key", "value"], mask=entries.is_null())
    return pa.Array.from_buffers(pa.list_(renamed.type), len(array), array.buffers()[:2], offset=array.offset, children=[renamed])


def _pairs(array: pa.Array, entries: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Names and values of entries, which are structs with the fields `key` and `value`, or lists of
    two.
    """
    kind = entries.type
    if pa.types.is_struct(kind) and sorted(field.name for field in kind) == ["key", "value"]:
        if entries.null_count:
            raise columns.not_text("one of them is null")
        names, values = entries.field(kind.get_field_index("key")), entries.field(kind.get_field_index("value"))
    elif _is_list(kind):
        if len(entries) and not pc.all(pc.equal(pc.list_value_length(entries), 2).fill_null(False)).as_py():
            raise columns.not_text("one of them is a list, and not of two texts")
        flat = _text(array, entries.flatten())
        evens = integers(np.arange(0, len(flat), 2))
        names, values = flat.take(evens), flat.take(pc.add(evens, 1))
    elif pa.types.is_null(kind) and not len(entries):
        names = values = pa.array([], pa.utf8())
    else:
        raise _wrong("attributes", array, _MAP_HINT)
    names, values = _text(array, names), _text(array, values)
    if names.null_count or values.null_count:
        raise columns.not_text("one of them is null")
    return names, values


def _map_of_fields(array: pa.Array, flat: pa.Array) -> pa.Array:
    """A struct as a map: the fields that are not null, in their order."""
    rows, names = len(flat), [field.name for field in flat.type]
    fields = [_text(array, field) for field in flat.flatten()]
    present = np.array([field.is_valid().to_numpy(zero_copy_only=False) for field in fields], np.bool_).reshape(len(fields), rows)
    in_row, in_field = np.nonzero(present.T)
    texts = pa.concat_arrays(fields) if fields else pa.array([], pa.utf8())
    chosen_names = pa.array(names, pa.utf8()).take(integers(in_field))
    return _map(present.sum(axis=0), flat, chosen_names, texts.take(integers(in_field * rows + in_row)))


def _text(array: pa.Array, part: pa.Array) -> pa.Array:
    flat = _flat(part)
    if not (_is_text(flat.type) or pa.types.is_null(flat.type)):
        raise _wrong("attributes", array, columns.TEXT_HINT)
    return flat.cast(pa.utf8())


def _map(lengths: npt.NDArray[Any], rows: pa.Array, names: pa.Array, values: pa.Array) -> pa.Array:
    if len(names) > columns.DATA_MAX:
        raise columns.too_large("attributes")
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    mask = rows.is_null() if rows.null_count else None
    return pa.MapArray.from_arrays(integers(offsets), names, values, type=_MAP, mask=mask)


# -- of any column


def _flat(array: pa.Array) -> pa.Array:
    """The array without extension type, dictionary or runs around it, and without views."""
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        return _flat(array.storage)
    if pa.types.is_dictionary(kind):
        return _flat(array.dictionary).take(array.indices)
    if pa.types.is_run_end_encoded(kind):
        return _flat(pc.run_end_decode(array))
    if pa.types.is_string_view(kind):
        return array.cast(pa.large_utf8() if size_of(array) > columns.DATA_MAX else pa.utf8())
    if pa.types.is_binary_view(kind):
        return array.cast(pa.large_binary() if size_of(array) > columns.DATA_MAX else pa.binary())
    return array


def _lengths(array: pa.Array) -> Numbers:
    """About how many bytes each row will have: exact for texts and bytes, an equal share for
    everything else.
    """
    kind, rows = array.type, len(array)
    if isinstance(array, pa.ExtensionArray):
        return _lengths(array.storage)
    if pa.types.is_dictionary(kind):
        return np.append(_lengths(array.dictionary), 0)[array.indices.fill_null(len(array.dictionary)).to_numpy(zero_copy_only=False)]
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        views = np.frombuffer(array.buffers()[1] or b"", np.int32, 4 * rows, _VIEW_BYTES * array.offset)
        return np.where(array.is_valid().to_numpy(zero_copy_only=False), views[::4], 0).astype(np.int64)
    if _is_text(kind) or _is_binary(kind):
        return pc.binary_length(array).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return np.full(rows, size_of(array) // max(rows, 1), np.int64)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _is_binary(kind: pa.DataType) -> bool:
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)


def _wrong(name: str, array: pa.Array, hint: str) -> errors.InvalidArgument:
    return errors.InvalidArgument(f"{name} is {array.type}.", hint=hint)


_TYPES: Final = {column.name: column.type for column in schema.COLUMNS}
_CONVERTERS: Final = {
    schema.KEY: _bytes,
    schema.VALUE: _bytes,
    schema.ATTRIBUTES: _attributes,
    schema.CREATED: _moments,
    schema.DUE: _moments,
    schema.EXPIRES: _moments,
    schema.ID: _id,
}
