"""What retention decides, against rows that are looked at one by one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bowstring.core.changes import Floor
from bowstring.core.machine import NEVER
from bowstring.core.offset_set import runs_of
from bowstring.core.pages import PageEntry
from bowstring.core.partition import Partition
from bowstring.core.retention import Facts, Outlook, aged, decide, shed

ROWS = 40


class Step(NamedTuple):
    """A look at a partition in which every row may have a due time."""

    horizon: int
    shed_to: int
    readable: int
    deleted: set[int]


STEPS = st.lists(
    st.builds(Step, st.integers(0, 60), st.integers(0, 12), st.integers(1, ROWS + 1), st.sets(st.integers(1, ROWS), max_size=4)), max_size=6
)
DUES = st.lists(st.one_of(st.just(0), st.integers(1, 60)), min_size=ROWS, max_size=ROWS)


def offsets(rows: list[int]) -> np.ndarray:
    return np.array(rows, np.int64)


def partition_of(committed: int) -> Partition:
    """A log that is readable up to there."""
    partition = Partition(1, 0, 0)
    partition.committed_offset = committed
    return partition


@given(STEPS, DUES)
def test_a_row_is_there_as_long_as_its_age_and_its_due_time_allow(steps: list[Step], dues: list[int]):
    """Row n arrives at the moment n. Horizons only rise here, as they do while nobody alters a topic."""
    partition, gone, floor, last = Partition(1, 0, 0), set[int](), 1, 0
    retained, deletions = partition.retained, partition.deletions
    for step in steps:
        horizon, readable = max(step.horizon, last), max(step.readable, floor)
        shed_to = min(floor + step.shed_to, readable) if step.shed_to else 0
        deletions.add(runs_of(offsets(sorted(step.deleted))), freed=False)
        later = [row for row in range(floor, ROWS + 1) if row < horizon and dues[row - 1] >= horizon]
        passed = [row for row in range(1, floor) if last <= dues[row - 1] < horizon]
        facts = Facts(min(max(horizon, floor), ROWS + 1), shed_to, offsets(later), offsets(passed))
        partition.committed_offset = readable
        change = decide(partition, facts)
        if change is not None:
            retained.apply(change)
        floor, last = max(floor, min(max(horizon, shed_to), readable, ROWS + 1)), horizon
        gone |= {row for row in range(1, floor) if dues[row - 1] < horizon or row < shed_to or deletions.is_gone(row)}
        there = [row for row in range(1, ROWS + 1) if row >= floor or row not in gone]
        assert retained.of(np.arange(1, ROWS + 1, dtype=np.int64)).tolist() == there
        assert retained.floor == floor


def test_nothing_to_do_is_no_change():
    assert decide(partition_of(9), Facts(1)) is None


def test_rows_of_which_nobody_can_tell_are_kept():
    change = decide(partition_of(100), Facts(50, unknown=((10, 5), (48, 10))))
    assert change == Floor(1, 0, 50, ((10, 5), (48, 2)))


def test_a_kept_row_that_its_owner_deletes_is_released():
    partition = partition_of(100)
    partition.retained.apply(Floor(1, 0, 20, ((3, 2),)))
    partition.deletions.add(((4, 1),), freed=False)
    assert decide(partition, Facts(20)) == Floor(1, 0, 20, (), ((4, 1),))


def page(first: int, arrived_last: int, length: int = 100) -> PageEntry:
    return PageEntry(first, 10, arrived_last - 5, 1, 0, length, 1, 2, arrived_last)


def test_the_floor_goes_past_pages_whose_last_row_is_too_old():
    pages = [page(1, 50), page(11, 60), page(21, 70)]
    assert aged(pages, 1, 60) == (11, True, 60)
    assert aged(pages, 1, 61) == (21, True, 70)
    assert aged(pages, 1, 71) == (31, False, NEVER)


def test_pages_go_until_they_are_few_enough():
    pages = [page(1, 50), page(11, 60), page(21, 70)]
    assert shed(pages, 1, 150) == ((21, True, NEVER), -50)
    assert shed(pages, 1, 0) == ((1, True, NEVER), 0)
    assert shed(pages, 1, 1000) == ((31, False, NEVER), 700)


def test_the_next_deadline_is_that_of_the_first_thing_that_ends():
    assert Outlook(100, NEVER, NEVER).next_deadline(50) == 150
    assert Outlook(100, 90, NEVER).next_deadline(50) == 140
    assert Outlook(100, 90, 120).next_deadline(50) == 120
