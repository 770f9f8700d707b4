"""Rows that were moved to another due time: what is kept, and for how long."""

from __future__ import annotations

import random

import numpy as np
import pytest

from bowstring.core.changes import Append, Delete, Floor, Reason, Reschedule
from bowstring.core.decisions import Decided
from bowstring.core.due_blocks import Dues, dues_of
from bowstring.core.machine import NEVER
from bowstring.core.moved_rows import MOVED_CHUNK_BITS, MovedRows
from bowstring.core.partition import Partition

CHUNK = 1 << MOVED_CHUNK_BITS


def rows_of(moved: MovedRows) -> dict[int, int]:
    offsets, moments = moved.within(0, NEVER)
    return dict(zip(offsets.tolist(), moments.tolist(), strict=True))


def as_dict(dues: Dues) -> dict[int, int]:
    return dict(zip(dues.offsets.tolist(), dues.moments.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(20))
def test_they_are_as_a_dictionary_would_have_them(seed: int):
    chance, moved, model = random.Random(seed), MovedRows(), dict[int, int]()
    for _ in range(60):
        first = chance.choice([1, CHUNK - 5, 3 * CHUNK]) + chance.randrange(20)
        runs = ((first, chance.randrange(1, 9)),)
        offsets = range(first, first + runs[0][1])
        if chance.random() < 0.7:
            due = chance.randrange(1, 100)
            moved.apply(Reschedule(1, 0, runs, due))
            model |= dict.fromkeys(offsets, due)
        elif chance.random() < 0.8:
            moved.remove(runs)
            model = {offset: due for offset, due in model.items() if offset not in offsets}
        else:
            moved.retain(first, lambda asked, floor=first: asked[(asked >= floor) | (asked % 3 == 0)])
            model = {offset: due for offset, due in model.items() if offset >= first or offset % 3 == 0}
        loaded = MovedRows()
        loaded.restore(moved.snapshot())
        moved.check()
        assert loaded.state() == moved.state()
        assert rows_of(moved) == model
        assert len(moved) == len(model)
    stored = dues_of(np.full(60, 50, np.int64), np.arange(CHUNK - 30, CHUNK + 30, dtype=np.int64))
    inside = {offset: due for offset, due in rows_of(moved).items() if CHUNK - 30 <= offset < CHUNK + 30}
    assert as_dict(moved.present(stored)) == dict.fromkeys(range(CHUNK - 30, CHUNK + 30), 50) | inside
    assert as_dict(moved.unmoved(stored)) == {offset: 50 for offset in range(CHUNK - 30, CHUNK + 30) if offset not in inside}
    soon = moved.due_between(20, 60)
    assert as_dict(soon) == {offset: due for offset, due in rows_of(moved).items() if 20 <= due < 60}
    order = list(zip(soon.moments.tolist(), soon.offsets.tolist(), strict=True))
    assert order == sorted(order)


def test_only_chunks_that_changed_are_captured():
    moved = MovedRows()
    moved.apply(Reschedule(1, 0, ((1, 2), (CHUNK, 1)), 5))
    assert sorted(moved.capture()) == [0, 1]
    moved.remove(((CHUNK, 1),))
    captured = moved.capture()
    assert {number: encode() for number, encode in captured.items()} == {1: b""}
    moved.mark_changed([1])
    assert sorted(moved.capture()) == [1]


def test_a_row_stays_until_it_is_gone():
    partition = Partition(1, 0, 600)
    partition.apply(Append(1, 0, 1, 9, 5, 2, b"a" * 16, 1, due=50))
    partition.apply(Reschedule(1, 0, ((1, 6),), 80))
    partition.apply(Delete(1, 0, ((2, 1),), Reason.OWNER))
    partition.apply(Floor(1, 0, 5, kept=((3, 1),)))
    assert rows_of(partition.moved_rows) == {3: 80, 5: 80, 6: 80}
    partition.apply(Floor(1, 0, 6, released=((3, 1),)))
    assert rows_of(partition.moved_rows) == {6: 80}


def test_readers_wait_for_the_commit_of_a_move():
    partition = Partition(1, 0, 600)
    append = Append(1, 0, 1, 9, 5, 2, b"a" * 16, 1, due=50, length=1)
    partition.apply(append)
    partition.committed(append, 1)
    change = partition.reschedule(((4, 2),), 80)
    partition.take(Decided((change,), None))
    assert partition.readable_upto(1) == 4
    assert partition.readable_upto(5) == 5
    assert partition.readable_upto(6) == 10
    partition.committed(change, 2)
    assert partition.readable_upto(1) == 10
