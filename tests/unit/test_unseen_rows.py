"""Which granted rows were granted without a look."""

from __future__ import annotations

from bowstring.broker.queue.unseen_rows import UnseenRows
from bowstring.core.row_set import NO_ROWS, RowSet


def test_rows_before_the_first_look_are_unseen():
    unseen = UnseenRows(10)
    assert unseen.among(RowSet(5, 15)) == RowSet(5, 10)
    assert unseen.among(RowSet(10, 15)) == NO_ROWS


def test_rows_that_were_missed_are_unseen():
    unseen = UnseenRows(10)
    unseen.miss(RowSet(12, 14), 10)
    assert unseen.among(RowSet(8, 20)).runs() == ((8, 2), (12, 2))
    unseen.miss(RowSet(30, 31), 13)
    assert unseen.among(RowSet(10, 40)).runs() == ((13, 1), (30, 1))


def test_a_look_further_back_sees_more():
    unseen = UnseenRows(10)
    unseen.begin(4)
    unseen.begin(20)
    assert unseen.among(RowSet(1, 30)) == RowSet(1, 4)
