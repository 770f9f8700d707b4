"""A reader from the beginning is told of rows that were kept when it began, and that retention has taken since."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bowstring import errors
from bowstring.broker.reading.cursor import Cursor
from bowstring.broker.reading.visibility import Moments
from bowstring.core import releases
from bowstring.core.changes import Delete, Floor, Reason
from bowstring.core.due_blocks import NO_DUES, Dues, dues_of
from bowstring.core.partition import Partition
from bowstring.core.releases import Releases
from bowstring.core.retention import Facts, note_releases

ROWS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), max_size=12)


def dues(rows: list[tuple[int, int]]) -> Dues:
    """Of pairs of a due time and an offset."""
    moments, offsets = np.array(sorted(rows), np.int64).reshape(-1, 2).T
    return Dues(moments, offsets)


@given(st.lists(ROWS, max_size=4), st.integers(1, 31), st.integers(1, 31))
def test_what_has_gone_is_told_by_the_few_rows_that_stand_for_all(batches: list[list[tuple[int, int]]], since: int, offset: int):
    known = Releases()
    for batch in batches:
        known.note(dues(batch))
    gone = [row for batch in batches for row in batch]
    assert known.any(since, offset) == any(due >= since and row >= offset for due, row in gone)
    assert known.latest == max((due for due, _ in gone), default=0)


def test_rows_that_go_in_the_wrong_order_are_remembered_boundedly(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(releases, "FRONT_MAX", 8)
    known = Releases()
    for number in range(100):
        known.note(dues([(1000 + number, 500 - number)]))
    assert len(known._moments) <= 8  # pyright: ignore[reportPrivateUsage]
    assert all(known.any(1000 + number, 500 - number) for number in range(100))
    assert not known.any(1100, 1)


class Shelf:
    """A partition with 20 rows below the floor, of which some are kept until they are due."""

    def __init__(self, kept: dict[int, int]) -> None:
        self.partition = Partition(1, 0, 600)
        self.partition.next_offset = self.partition.committed_offset = 21
        self.kept = kept
        self.partition.apply(Floor(1, 0, 21, tuple((offset, 1) for offset in kept), ()))

    def reader(self, horizon: int) -> Cursor:
        """One from the beginning that has got something."""
        actor: Any = SimpleNamespace(partition=self.partition)
        cursor = Cursor(actor, 0, 0, 0, Moments(horizon, horizon))
        cursor.check_overtaken("orders")
        cursor.has_delivered = True
        return cursor

    def release(self, *offsets: int, shed_to: int = 0) -> None:
        """Retention takes rows whose time is over, and all that are too many bytes."""
        gone = np.array(sorted(offsets), np.int64)
        passed = dues_of(np.array([self.kept[offset] for offset in sorted(offsets)], np.int64), gone) if offsets else NO_DUES
        note_releases(self.partition, Facts(21, shed_to, due_passed=gone, passed_dues=passed))
        rows = {*offsets, *(offset for offset in self.kept if offset < shed_to)}
        self.partition.apply(Floor(1, 0, 21, (), tuple((offset, 1) for offset in sorted(rows))))


def test_a_reader_among_kept_rows_is_told_when_one_of_them_goes():
    shelf = Shelf({3: 100, 8: 50, 15: 900})
    reader = shelf.reader(horizon=40)
    shelf.release(8)
    with pytest.raises(errors.OutOfRange):
        reader.check_overtaken("orders")


def test_a_reader_that_has_passed_the_row_goes_on():
    shelf = Shelf({3: 100, 8: 50, 15: 900})
    reader = shelf.reader(horizon=40)
    reader.offset = 9
    shelf.release(8)
    reader.check_overtaken("orders")


def test_rows_that_were_too_old_when_the_reader_began_are_not_missed():
    shelf = Shelf({3: 100, 8: 50, 15: 900})
    reader = shelf.reader(horizon=60)
    shelf.release(8)
    reader.check_overtaken("orders")


def test_rows_that_went_before_the_reader_began_are_not_missed_though_retention_was_made_longer():
    shelf = Shelf({3: 100, 8: 50, 15: 900})
    shelf.release(3, 8)
    reader = shelf.reader(horizon=40)
    reader.check_overtaken("orders")


def test_a_row_that_its_owner_has_deleted_is_not_missed():
    shelf = Shelf({3: 100, 8: 50, 15: 900})
    reader = shelf.reader(horizon=40)
    shelf.partition.apply(Delete(1, 0, ((8, 1),), Reason.OWNER))
    shelf.release(8)
    reader.check_overtaken("orders")


def test_a_reader_that_has_nothing_yet_begins_behind_what_is_gone():
    shelf = Shelf({3: 100, 8: 50, 15: 900})
    reader = shelf.reader(horizon=40)
    reader.has_delivered = False
    shelf.release(3, 8)
    reader.check_overtaken("orders")
    assert reader.offset == 15
    reader.has_delivered = True
    reader.check_overtaken("orders")


def test_kept_rows_that_were_too_many_bytes_are_missed_by_those_that_had_begun():
    shelf = Shelf({3: 100, 8: 50, 15: 900})
    reader = shelf.reader(horizon=40)
    shelf.release(shed_to=10)
    with pytest.raises(errors.OutOfRange):
        reader.check_overtaken("orders")
    shelf.reader(horizon=40).check_overtaken("orders")
