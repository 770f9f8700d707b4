"""Sets of rows against plain sets of offsets."""

from __future__ import annotations

import tracemalloc

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bowstring.core import offset_set, row_set
from bowstring.core.machine import NEVER
from bowstring.core.row_set import NO_ROWS, RowPool, RowSet
from bowstring.core.settled_rows import SettledRows

OFFSETS = st.integers(1, 100)
RUNS = st.builds(lambda first, rows: set(range(first, first + rows)), OFFSETS, st.integers(0, 50))
SETS = st.sets(OFFSETS, max_size=60) | RUNS


@pytest.fixture(autouse=True, scope="module", params=[2, 1_000], ids=["arrays", "one by one"])
def small_chunks(request: pytest.FixtureRequest):
    """Chunks of 16 offsets, so that borders are common; both ways to read spans."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(offset_set, "CHUNK_BITS", 4)
        patch.setattr(offset_set, "MANY_RUNS", 5)
        patch.setattr(row_set, "FEW_SPANS", request.param)
        yield


def rows(offsets: set[int]) -> RowSet:
    return RowSet.of_offsets(np.array(sorted(offsets, reverse=True), np.int64))


def pool(offsets: set[int]) -> RowPool:
    made = RowPool()
    made.put(rows(offsets))
    return made


def plain(found: RowSet) -> set[int]:
    offsets = found.offsets().tolist()
    assert offsets == sorted(set(offsets))
    assert len(found) == len(offsets)
    assert bool(found) == bool(offsets)
    assert found.is_run == (not offsets or offsets[-1] - offsets[0] + 1 == len(offsets))
    if offsets:
        assert (found.first, found.stop) == (offsets[0], offsets[-1] + 1)
    return set(offsets)


@given(SETS, SETS, OFFSETS)
def test_values_meet_differ_and_join_as_sets_do(one: set[int], other: set[int], offset: int):
    first, second = rows(one), rows(other)
    assert plain(first & second) == one & other
    assert plain(first - second) == one - other
    assert plain(RowSet.union((first, second))) == one | other
    assert plain(first.below(offset)) == {row for row in one if row < offset}
    assert (first == second) == (one == other)
    assert plain(first) == one


@given(SETS)
def test_spans_and_runs_come_back(one: set[int]):
    found = rows(one)
    assert plain(RowSet.of_spans(found.spans())) == one
    assert plain(RowSet.of_runs(reversed(found.runs()))) == one
    assert all(span > 0 for span in found.spans()[1:])


@given(SETS, SETS.filter(bool), st.sampled_from([1, 1_000]))
def test_members_are_found_in_a_field_as_one_by_one(some: set[int], members: set[int], spread: int):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(offset_set, "SPREAD", spread)
        given, there = (np.array(sorted(offsets), np.int64) for offsets in (some, members))
        assert offset_set.are_among(given, there).tolist() == [offset in members for offset in sorted(some)]


@given(st.lists(SETS, max_size=6))
def test_many_sets_join(several: list[set[int]]):
    assert plain(RowSet.union(map(rows, several))) == set[int]().union(*several)


@given(SETS, SETS, st.integers(0, 80), OFFSETS)
def test_a_pool_changes_by_values(one: set[int], other: set[int], most: int, offset: int):
    grown, shrunk = pool(one), pool(one)
    grown.put(rows(other))
    shrunk.take_out(rows(other))
    assert plain(grown.rows()) == one | other
    assert plain(shrunk.rows()) == one - other
    assert shrunk.is_empty == (not one - other)
    assert plain(pool(one).among(rows(other))) == one & other
    assert plain(pool(one).smallest(most)) == set(sorted(one)[:most])
    assert pool(one).first_missing(offset) == next(row for row in range(offset, 300) if row not in one)


def test_a_value_stays_as_it_is_while_a_pool_goes_on():
    value = rows({1, 3, 20})
    changing = RowPool()
    changing.put(value)
    changing.put(rows({5}))
    changing.take_out(rows({1}))
    assert plain(value) == {1, 3, 20}
    assert not NO_ROWS


@given(st.lists(SETS, max_size=6), OFFSETS, OFFSETS, st.integers(1, 40))
def test_settled_rows_are_a_floor_and_what_is_above(several: list[set[int]], first: int, end: int, most: int):
    settled, naive = SettledRows(1), set[int]()
    for one in several:
        settled.add(rows(one))
        naive |= one
    assert settled.floor == next(row for row in range(1, 300) if row not in naive)
    assert plain(settled.of(RowSet(1, 200))) == naive
    left = [row for row in range(first, end) if row not in naive]
    assert plain(settled.unsettled(first, end, most)) == set(left[:most])


def test_runs_may_come_as_arrays_in_any_order() -> None:
    firsts, lengths = np.array([5, 9, 1 << 20], np.int64), np.array([2, 1, 3], np.int64)
    expected = RowSet.of_runs([(5, 2), (9, 1), (1 << 20, 3)])
    assert RowSet.of_lengths(firsts, lengths) == expected
    assert RowSet.of_lengths(firsts[::-1], lengths[::-1]) == expected
    assert RowSet.of_lengths(np.array([1, 2], np.int64), np.array([2, 2], np.int64)) == RowSet(1, 4)


def test_rows_to_the_end_of_time_meet_others_at_once() -> None:
    """A run that has no end in sight has too many chunks to make them all."""
    some, endless = rows({3, 9, 10}), RowSet(0, NEVER)
    assert some & endless == endless & some == some
    assert not some - endless


def test_the_spans_of_a_set_know_the_set_that_they_are_of() -> None:
    scattered = RowSet.of_offsets(np.array([1, 3, 4, 9]))
    spans = scattered.spans()
    assert RowSet.of_spans(spans) is scattered
    assert RowSet.of_spans(tuple(spans)) == scattered
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(spans)) == [1, 1, 1, 2, 4, 1]


def test_the_spans_of_millions_of_rows_do_not_list_them():
    """A cursor passes by twenty million rows that are not due, of which some are due already."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(offset_set, "CHUNK_BITS", 20)
        everything = RowSet(1, 20_000_001)
        found = everything - rows({7, 1 << 20, (1 << 20) + 1, 12_345_678})
        tracemalloc.start()
        try:
            assert found.spans() == (1, 6, 1, (1 << 20) - 8, 2, 12_345_678 - (1 << 20) - 2, 1, 20_000_000 - 12_345_678)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < 1_000_000
