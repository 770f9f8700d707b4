"""Small pages that are read together are sent as one: the same rows, offsets, arrivals and producers, in the same order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bowstring.broker.reading.fetched import JOINED_BYTES_MAX, NO_RUNS, SMALL_BYTES, Fetched, joined
from bowstring.core.pages import Origin
from bowstring.messages import encoding
from bowstring.messages.metadata import is_compressed


def piece(first: int, values: list[bytes], *, key: bytes | None = None, compression: str | None = None) -> Fetched:
    """Rows from this offset on, which arrived at ten times the offset."""
    keys = None if key is None else [key] * len(values)
    batch = encoding.encode_columns(len(values), values=values, keys=keys, created=7, compression=compression)
    origin = Origin(rows=len(values), producer=b"p" * 16, number=first, first_row=0, group="shop", arrived=first * 10)
    run = (first, len(values), first * 10)
    return Fetched(0, first + len(values), first * 10, 0, batch.mask, batch.rows, np.array([run]), [origin], batch.data, len(batch.data))


def passed_over(first: int, end: int) -> Fetched:
    return Fetched(0, end, 0, 0, 0, 0, NO_RUNS, [], None, 0)


def rows_of(pieces: list[Fetched]) -> list[tuple[int, int, int, bytes, bytes | None]]:
    """Each row as a reader sees it: offset, arrival, number of its batch, value, key."""
    found = []
    for each in pieces:
        if each.data is None:
            continue
        batch = encoding.decode(each.columns, each.data)
        offsets = [(offset, arrived) for first, rows, arrived in each.runs.tolist() for offset in range(first, first + rows)]
        numbers = [origin.number for origin in each.origins for _ in range(origin.rows)]
        keys = batch.column("key").to_pylist() if "key" in batch.schema.names else [None] * each.rows
        columns = zip(offsets, numbers, batch.column("value").to_pylist(), keys, strict=True)
        found += [(offset, arrived, number, value, key) for (offset, arrived), number, value, key in columns]
    return found


def test_small_neighbours_become_one():
    pieces = [piece(1, [b"a", b"b"]), piece(3, [b"c"]), piece(4, [b"d"])]
    (one,) = joined(pieces)
    assert rows_of([one]) == rows_of(pieces)
    assert one.next_offset == 5
    assert one.rows == 4
    assert one.size == sum(each.size for each in pieces)


def test_one_alone_is_sent_as_it_is_stored():
    alone = piece(1, [b"a"])
    assert joined([alone])[0] is alone


def test_large_and_compressed_ones_are_not_touched():
    large, packed = piece(2, [b"x" * SMALL_BYTES]), piece(3, [b"y" * 1000], compression="zstd")
    pieces = [piece(1, [b"a"]), large, packed, piece(4, [b"b"]), piece(5, [b"c"])]
    found = joined(pieces)
    assert [each.rows for each in found] == [1, 1, 1, 2]
    assert found[1] is large
    assert found[2] is packed
    assert rows_of(found) == rows_of(pieces)


def test_what_was_passed_over_stays_between_what_is_there():
    pieces = [piece(1, [b"a"]), passed_over(2, 9), piece(9, [b"b"])]
    assert joined(pieces) == pieces


def test_batches_with_other_columns_are_others():
    assert [each.rows for each in joined([piece(1, [b"a"]), piece(2, [b"b"], key=b"k"), piece(3, [b"c"], key=b"k")])] == [1, 2]


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_compressed_batch_is_told_by_its_head(compression: str):
    keys, values = [b"k" * 100] * 9, [b"v" * 100] * 9
    assert not is_compressed(encoding.encode_columns(9, values=values, keys=keys).data)
    assert is_compressed(encoding.encode_columns(9, values=values, keys=keys, compression=compression).data)


@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from([b"", b"a", b"x" * 300, b"y" * 40_000]), min_size=1, max_size=4),
            st.sampled_from([None, b"k"]),
            st.sampled_from([None, None, "lz4"]),
        ),
        max_size=40,
    )
)
def test_readers_see_no_difference(drawn: list[tuple[list[bytes], bytes | None, str | None]]):
    pieces, first = [], 1
    for values, key, compression in drawn:
        pieces.append(piece(first, values, key=key, compression=compression))
        first += len(values)
    found = joined(pieces)
    assert rows_of(found) == rows_of(pieces)
    assert sum(each.size for each in found) == sum(each.size for each in pieces)
    assert all(len(each.runs) == 1 or each.size <= JOINED_BYTES_MAX for each in found)
