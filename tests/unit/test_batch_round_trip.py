"""What is written is accepted, says the same, and is written the same again: all columns, nulls, compressions, slices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from bowstring.messages import layout, limits, schema
from bowstring.messages.encoding import Encoded, decode, encode, encode_columns, take

TEXT = st.text(max_size=12)
MOMENTS = st.integers(0, limits.MOMENT_MAX - 1)
# Often repeated bytes, so that compression has something to do.
BYTES = st.one_of(st.binary(max_size=20), st.integers(0, 400).map(lambda count: b"ab" * count))
NAMES = TEXT.filter(lambda name: not name.startswith(limits.RESERVED_PREFIX))
ENTRIES: dict[str, st.SearchStrategy[Any]] = {
    "key": st.none() | BYTES,
    "value": st.none() | BYTES,
    "attributes": st.none() | st.dictionaries(NAMES, TEXT, max_size=4),
    "created": st.none() | MOMENTS,
    "due": st.none() | MOMENTS,
    "expires": st.none() | MOMENTS,
    "id": st.text(min_size=1, max_size=64),
}
COMPRESSIONS = st.sampled_from([None, "lz4", "zstd"])


@st.composite
def columns(draw: st.DrawFn) -> dict[str, list[Any]]:
    """Some columns with as many rows each, as lists."""
    names = draw(st.lists(st.sampled_from(sorted(ENTRIES)), min_size=1, unique=True))
    rows = draw(st.integers(1, 30))
    return {name: draw(st.lists(ENTRIES[name], min_size=rows, max_size=rows)) for name in names}


def arrow(lists: dict[str, list[Any]]) -> pa.RecordBatch:
    """The same in Arrow, written by pyarrow."""
    arrays = {}
    for column in schema.COLUMNS:
        if column.name in lists:
            entries = lists[column.name]
            if column.bit == schema.ATTRIBUTES:
                entries = [None if each is None else list(each.items()) for each in entries]
            arrays[column.name] = pa.array(entries, column.type)
    return pa.record_batch(arrays)


def expected(batch: pa.RecordBatch) -> pa.RecordBatch:
    """What should arrive: columns without contents are left out."""
    kept = [name for name in batch.schema.names if batch.column(name).null_count < batch.num_rows]
    return batch.select(kept) if kept else pa.record_batch({"value": pa.nulls(batch.num_rows, pa.binary())})


def check(batch: Encoded) -> pa.RecordBatch:
    return layout.check(schema.BYTES_SCHEMA, *batch, bytes_max=2**24)


@given(columns(), COMPRESSIONS)
def test_lists_come_back_and_are_written_the_same_from_arrow(lists: dict[str, list[Any]], compression: str | None):
    rows = len(next(iter(lists.values())))
    renamed = {"value": "values", "key": "keys", "id": "ids"}
    arguments = {renamed.get(name, name): entries for name, entries in lists.items()}
    encoded = encode_columns(rows, **{"values": [None] * rows, **arguments}, compression=compression)
    batch = arrow(lists)
    assert check(encoded).equals(expected(batch))
    assert decode(encoded.mask, encoded.data).equals(expected(batch))
    assert encode(batch, compression=compression) == encoded


@given(columns(), COMPRESSIONS, st.data())
def test_a_slice_is_written_as_if_it_were_alone(lists: dict[str, list[Any]], compression: str | None, data: st.DataObject):
    batch = arrow(lists)
    start = data.draw(st.integers(0, batch.num_rows - 1))
    count = data.draw(st.integers(1, batch.num_rows - start))
    encoded = encode(batch.slice(start, count), compression=compression)
    alone = arrow({name: entries[start : start + count] for name, entries in lists.items()})
    assert encoded == encode(alone, compression=compression)
    assert check(encoded).equals(expected(alone))


@given(columns(), COMPRESSIONS, st.data())
def test_taken_rows_are_written_as_if_they_were_alone(lists: dict[str, list[Any]], compression: str | None, data: st.DataObject):
    stored = encode(arrow(lists), compression=compression)
    rows = data.draw(st.lists(st.integers(0, stored.rows - 1), min_size=1, max_size=40))
    alone = arrow({name: [entries[row] for row in rows] for name, entries in lists.items()})
    assert take(decode(stored.mask, stored.data), np.array(rows)) == encode(alone)


@given(columns())
def test_pyarrows_own_message_is_accepted_when_it_is_canonical(lists: dict[str, list[Any]]):
    """For a fresh batch pyarrow writes just what we write."""
    batch = expected(arrow(lists))
    encoded = encode(batch)
    assert batch.serialize().to_pybytes() == encoded.data
