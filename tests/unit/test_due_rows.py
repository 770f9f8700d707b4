"""Due rows come in the order in which they are told while they are few, else in waves, by offset."""

from __future__ import annotations

import numpy as np
import pytest

from bowstring.core import due_rows
from bowstring.core.due_rows import DueRows
from bowstring.core.row_set import RowSet


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(due_rows, "ORDERED_ROWS_MAX", 4)


def put(rows: DueRows, *offsets: int) -> None:
    rows.put(np.array(offsets, np.int64), RowSet.of_offsets(np.array(offsets, np.int64)))


def granted(rows: DueRows, most: int) -> list[int]:
    """The next rows, which leave."""
    found = rows.first(most)
    rows.take_out(found)
    return found.offsets().tolist()


def test_a_few_rows_come_in_the_order_in_which_they_are_told():
    rows = DueRows()
    put(rows, 9, 3)
    put(rows, 1, 7)
    assert [granted(rows, 1) for _ in range(5)] == [[9], [3], [1], [7], []]
    assert rows.is_empty


def test_many_rows_come_by_offset():
    rows = DueRows()
    put(rows, 9, 3)
    put(rows, 8, 1, 7)
    assert [granted(rows, 2) for _ in range(3)] == [[1, 3], [7, 8], [9]]


def test_a_wave_that_is_granted_takes_no_more_rows():
    rows = DueRows()
    put(rows, 9, 8, 7, 6, 5)
    assert granted(rows, 1) == [5]
    put(rows, 2)
    put(rows, 1)
    assert len(rows) == 6
    assert granted(rows, 3) == [6, 7, 8]
    put(rows, 4)
    assert granted(rows, 2) == [2, 9]
    assert granted(rows, 1) == [1]
    assert granted(rows, 4) == [4]


def test_a_wave_takes_all_that_is_due_until_its_first_row_is_granted():
    """A consumer that has paused finds whole pages, and not the first few thousand rows apart from the rest."""
    rows = DueRows()
    put(rows, 9, 8, 7, 6, 5)
    put(rows, 2)
    put(rows, 1)
    assert granted(rows, 4) == [1, 2, 5, 6]
    put(rows, 3)
    assert [granted(rows, 2) for _ in range(2)] == [[7, 8], [3, 9]]


def test_a_row_that_is_told_again_stays_where_it_is():
    rows = DueRows()
    put(rows, 5, 4)
    put(rows, 3, 5)
    assert [granted(rows, 1) for _ in range(3)] == [[5], [4], [3]]


def test_a_row_that_has_left_and_is_told_anew_comes_last():
    rows = DueRows()
    put(rows, 5, 4)
    put(rows, 3)
    rows.take_out(rows.first(1))
    put(rows, 5)
    assert [granted(rows, 1) for _ in range(3)] == [[4], [3], [5]]
