"""What is retained of a partition, against a plain set of offsets."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bowstring.core import offset_set
from bowstring.core.changes import Floor
from bowstring.core.offset_set import OffsetSet, runs_of
from bowstring.core.retained import Retained

OFFSETS = st.integers(1, 120)
SETS = st.sets(OFFSETS, max_size=60)


@pytest.fixture(autouse=True, scope="module")
def small_chunks():
    """Chunks of 16 offsets, so that borders are common."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(offset_set, "CHUNK_BITS", 4)
        patch.setattr(offset_set, "MANY_RUNS", 5)
        yield


def runs(offsets: set[int]) -> tuple[tuple[int, int], ...]:
    return tuple(runs_of(np.array(sorted(offsets), np.int64)))


class Naive:
    """The same as a set of offsets."""

    def __init__(self) -> None:
        self.floor = 1
        self.kept: set[int] = set()

    def has(self, offset: int) -> bool:
        return offset >= self.floor or offset in self.kept


FLOORS = st.lists(st.tuples(st.integers(0, 30), SETS, SETS), max_size=8)


def raised(floors: list[tuple[int, set[int], set[int]]]) -> tuple[Retained, Naive, list[Floor]]:
    retained, naive, changes = Retained(), Naive(), []
    for rise, kept, released in floors:
        before, floor = naive.floor, naive.floor + rise
        kept = {offset for offset in kept if before <= offset < floor}
        change = Floor(1, 0, floor, runs(kept), runs(released))
        retained.apply(change)
        changes.append(change)
        naive.floor, naive.kept = floor, (naive.kept - released) | kept
    return retained, naive, changes


@given(FLOORS, SETS, OFFSETS, OFFSETS)
def test_whatever_is_kept_and_released_the_same_rows_are_there(floors, asked: set[int], offset: int, other: int):
    retained, naive, _ = raised(floors)
    kept = sorted(naive.kept)
    assert retained.kept.within(0, 1 << 40).tolist() == kept
    assert retained.first == min([*kept, naive.floor])
    assert retained.gone == sum(not naive.has(row) for row in range(retained.first, naive.floor))
    assert retained.lacks(offset) == any(not naive.has(row) for row in range(offset, naive.floor))
    wanted = np.array(sorted(asked), np.int64)
    assert retained.of(wanted).tolist() == [row for row in sorted(asked) if naive.has(row)]
    first, end = min(offset, other), max(offset, other) + 1
    assert retained.any(first, end) == any(naive.has(row) for row in range(first, end))


@given(FLOORS, st.integers(0, 8), st.integers(0, 8))
def test_chunks_that_are_newer_than_their_head_do_no_harm(floors, head_at: int, chunks_at: int):
    """The head is written last, so after a crash its chunks may be of a later flush: replaying from the head comes to the same."""
    live, _, changes = raised(floors)
    head_at = min(head_at, len(changes))
    chunks_at = max(head_at, min(chunks_at, len(changes)))
    writer, loaded, rows, floor = Retained(), Retained(), dict[int, bytes](), 1
    for number, change in enumerate(changes[:chunks_at], start=1):
        writer.apply(change)
        if number in (head_at, chunks_at):
            rows.update({chunk: encode() for chunk, encode in writer.capture().items()})
        if number == head_at:
            floor = writer.floor
    loaded.restore((floor, ()))
    for chunk, data in rows.items():
        if data:
            loaded.load(chunk, data)
    for change in changes[head_at:]:
        loaded.apply(change)
    assert loaded.state() == live.state()
    assert loaded.first == live.first


def test_only_chunks_that_have_changed_are_captured():
    retained = Retained()
    retained.apply(Floor(1, 0, 100, ((3, 2), (40, 1), (70, 5))))
    assert sorted(retained.capture()) == [0, 2, 4]
    retained.apply(Floor(1, 0, 110, (), ((40, 1), (72, 1))))
    captured = retained.capture()
    assert sorted(captured) == [2, 4]
    assert captured[2]() == b""
    retained.mark_changed([2])
    assert sorted(retained.capture()) == [2]


def test_what_was_captured_stays_as_it_was_while_the_set_goes_on():
    retained = Retained()
    retained.apply(Floor(1, 0, 20, ((3, 2),)))
    captured = retained.capture()
    retained.apply(Floor(1, 0, 30, ((5, 1),), ((3, 1),)))
    other = Retained()
    other.load(0, captured[0]())
    assert other.kept.within(0, 100).tolist() == [3, 4]


@given(SETS, SETS)
def test_two_sets_meet_in_what_both_have(one: set[int], other: set[int]):
    first, second = OffsetSet(), OffsetSet()
    first.add(runs(one))
    second.add(runs(other))
    assert first.also_in(second).tolist() == sorted(one & other)


def test_a_page_is_looked_at_quickly_however_much_is_kept(monkeypatch: pytest.MonkeyPatch):
    """100,000 runs took a second for a page of 10,000 rows."""
    monkeypatch.setattr(offset_set, "CHUNK_BITS", 20)
    retained = Retained()
    retained.apply(Floor(1, 0, 1_000_001, tuple((offset, 1) for offset in range(1, 1_000_001, 10))))
    page = np.arange(500_000, 510_000, dtype=np.int64)
    begun = time.process_time()
    for _ in range(10):
        assert len(retained.of(page)) == 1000
        assert retained.lacks(500_000)
        assert retained.gone == 900_000
    assert time.process_time() - begun < 0.2
