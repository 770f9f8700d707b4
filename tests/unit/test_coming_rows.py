"""Rows with due times are taken in the order of (due, offset), each once, however they were added."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bowstring.core.coming_rows import ComingRows
from bowstring.core.due_blocks import Dues
from bowstring.core.machine import NEVER

ROW = st.tuples(st.integers(1, 20), st.integers(1, 40))
STEP = st.one_of(st.lists(ROW, max_size=12), st.integers(1, 20))
"""Rows that are added, or a moment until which they are taken."""


def dues(rows: list[tuple[int, int]]) -> Dues:
    return Dues(np.array([due for due, _ in rows], np.int64), np.array([offset for _, offset in rows], np.int64))


@given(st.lists(STEP, max_size=20))
def test_rows_are_taken_in_the_order_of_due_time_and_offset(steps: list[list[tuple[int, int]] | int]) -> None:
    coming, model = ComingRows(), set[tuple[int, int]]()
    for step in steps:
        if isinstance(step, list):
            coming.add(dues(step))
            model.update(step)
        else:
            due = sorted(row for row in model if row[0] <= step)
            assert coming.take(step).tolist() == [offset for _, offset in due]
            model.difference_update(due)
        assert coming.first() == min((due for due, _ in model), default=NEVER)


@given(st.lists(st.tuples(st.lists(ROW, max_size=12), st.integers(0, 6)), max_size=12))
def test_rows_behind_the_horizon_come_when_it_reaches_them(steps: list[tuple[list[tuple[int, int]], int]]) -> None:
    coming, model, horizon = ComingRows(0), set[tuple[int, int]](), 0
    for rows, further in steps:
        coming.add(dues(rows))
        model.update(rows)
        horizon += further
        coming.reach(horizon)
        due = sorted(row for row in model if row[0] < horizon)
        assert coming.has_far == (len(due) < len(model))
        assert coming.first() == min((due for due, _ in due), default=NEVER)
        assert coming.take(horizon + 10).tolist() == [offset for _, offset in due]
        model.difference_update(due)


def test_what_is_not_kept_does_not_come() -> None:
    coming = ComingRows()
    coming.add(dues([(1, 1), (2, 2), (3, 3)]))
    coming.add(dues([(2, 4)]))
    assert not coming.keep(lambda rows: rows.offsets < 5)
    assert coming.keep(lambda rows: rows.offsets % 2 == 1)
    assert coming.take(9).tolist() == [1, 3]
    assert coming.first() == NEVER


def test_rows_behind_the_horizon_are_forgotten_too() -> None:
    coming = ComingRows(2)
    coming.add(dues([(1, 1), (2, 2), (3, 3)]))
    coming.add(dues([(2, 4)]))
    assert not coming.keep(lambda rows: rows.offsets < 5)
    assert coming.keep(lambda rows: rows.offsets == 3)
    coming.reach(NEVER)
    assert coming.take(9).tolist() == [3]


def test_rows_that_are_far_apart_keep_their_offsets() -> None:
    rows = [(5, 1), (6, 1 << 40), (7, 3)]
    coming = ComingRows(0)
    coming.add(dues(rows))
    coming.reach(6)
    assert coming.take(9).tolist() == [1]
    coming.reach(NEVER)
    assert coming.take(9).tolist() == [1 << 40, 3]


def test_a_row_is_merged_as_often_as_the_number_of_rows_doubles() -> None:
    coming = ComingRows()
    for number in range(1000):
        coming.add(dues([(number * 7919 % 1000 + 1, number + 1)]))
    parts = coming._parts  # pyright: ignore[reportPrivateUsage]
    assert len(parts) <= 10
    assert sum(len(part.moments) for part in parts) == 1000


def test_rows_of_a_span_are_told_and_stay_on_either_side_of_the_horizon() -> None:
    coming = ComingRows(5)
    coming.add(dues([(1, 1), (3, 2), (6, 3), (8, 4)]))
    assert coming.count(3, 8) == 2
    found = coming.between(3, 8)
    assert (found.moments.tolist(), found.offsets.tolist()) == ([3, 6], [2, 3])
    coming.reach(NEVER)
    assert coming.take(9).tolist() == [1, 2, 3, 4]
