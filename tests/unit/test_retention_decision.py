"""What retention decides, against rows that are looked at one by one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bowstring.core import granting, subscribing
from bowstring.core.changes import Append, Change, Floor, Reason
from bowstring.core.ledger_changes import Expire, Overtake
from bowstring.core.machine import NEVER
from bowstring.core.offset_set import runs_of
from bowstring.core.pages import PageEntry
from bowstring.core.partition import Partition
from bowstring.core.retention import Facts, Outlook, aged, decide, shed
from bowstring.core.row_set import RowSet
from bowstring.core.subscription_settings import SubscriptionSettings

ROWS = 40
NOW = 77


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


def decided(partition: Partition, facts: Facts) -> tuple[Change, ...]:
    return decide(partition, facts, NOW)


def floor_of(partition: Partition, facts: Facts) -> Change:
    """The one change that follows."""
    (change,) = [change for change in decided(partition, facts) if not isinstance(change, Overtake)]
    return change


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
        for change in decided(partition, facts):
            assert isinstance(change, Floor)
            retained.apply(change)
        floor, last = max(floor, min(max(horizon, shed_to), readable, ROWS + 1)), horizon
        gone |= {row for row in range(1, floor) if dues[row - 1] < horizon or row < shed_to or deletions.is_gone(row)}
        there = [row for row in range(1, ROWS + 1) if row >= floor or row not in gone]
        assert retained.of(np.arange(1, ROWS + 1, dtype=np.int64)).tolist() == there
        assert retained.floor == floor


def test_nothing_to_do_is_no_change():
    assert decided(partition_of(9), Facts(1)) == ()


def test_rows_of_which_nobody_can_tell_are_kept():
    (change,) = decided(partition_of(100), Facts(50, unknown=((10, 5), (48, 10))))
    assert change == Floor(1, 0, 50, ((10, 5), (48, 2)))


def test_a_kept_row_that_its_owner_deletes_is_released():
    partition = partition_of(100)
    partition.retained.apply(Floor(1, 0, 20, ((3, 2),)))
    partition.deletions.add(((4, 1),), freed=False)
    assert decided(partition, Facts(20)) == (Floor(1, 0, 20, (), ((4, 1),)),)


def leased(partition: Partition, most: int, now: int = 100) -> None:
    """A consumer of the first subscription holds the next rows until 30 later."""
    if not len(partition.ledgers):
        partition.apply(subscribing.subscribe(partition, 1, "billing", SubscriptionSettings(), 1, 5))
    granted = granting.grant(partition.ledgers[1], "ada", most, partition.committed_offset, 30, now)
    for change in granted.changes if granted is not None else ():
        partition.apply(change)


def queue_of(rows: int) -> Partition:
    partition = Partition(1, 0, 0)
    partition.replay(Append(1, 0, 1, rows, 1000, 2, b"a" * 16, 1, segment=7, length=100), 1)
    return partition


def test_rows_under_a_lease_are_kept_whatever_takes_them():
    """Rows 1 to 5 are held, 3 and 20 are due later; the first 10 are too many bytes."""
    partition = queue_of(100)
    leased(partition, 5)
    facts = Facts(30, 10, offsets([3, 20]), unknown=((4, 4), (25, 2)))
    change = floor_of(partition, facts)
    assert change == Floor(1, 0, 30, ((1, 5), (20, 1), (25, 2)))
    partition.apply(change)
    assert partition.ledgers[1].leases.rows() == RowSet(1, 6)
    assert partition.ledgers[1].floor == 1


def test_rows_are_released_when_no_lease_is_on_them_any_more_and_stay_if_they_are_due_later():
    """Rows 1 to 8 were held when the floor passed them; 2 is due later."""
    partition = queue_of(100)
    leased(partition, 4)
    leased(partition, 4, now=110)
    first = floor_of(partition, Facts(20, due_later=offsets([2])))
    assert first == Floor(1, 0, 20, ((1, 8),))
    partition.apply(first)
    looked_at = Facts(20, due_passed=offsets([1, 3, 4, 5, 6, 7, 8]))
    assert decided(partition, looked_at) == ()
    partition.apply(Expire(1, 0, 1, 130))
    change = floor_of(partition, looked_at)
    assert change == Floor(1, 0, 20, (), ((1, 1), (3, 2)))
    partition.apply(change)
    partition.apply(Expire(1, 0, 1, 140))
    assert floor_of(partition, looked_at) == Floor(1, 0, 20, (), ((5, 4),))
    partition.check()


LEASE_STEPS = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 8), st.booleans(), st.sets(st.integers(1, ROWS), max_size=3)), max_size=12
)


@given(LEASE_STEPS, DUES)
def test_a_row_that_somebody_holds_is_always_there(steps: list[tuple[int, int, bool, set[int]]], dues: list[int]):
    """Each step grants rows, ends the leases that are old, deletes some rows that are free, and raises the floor."""
    partition, floor = queue_of(ROWS), 1
    for moment, (most, raised, expires, deleted) in enumerate(steps):
        now = 100 + moment * 10
        if most:
            leased(partition, most, now)
        if expires and partition.ledgers.next_deadline() <= now:
            partition.apply(Expire(1, 0, 1, now))
        held = set(partition.ledgers.kept(ROWS + 1).offsets().tolist())
        if free := {row for row in deleted - held if not partition.is_gone(row)}:
            partition.apply(partition.delete(tuple(runs_of(offsets(sorted(free)))), Reason.OWNER))
        floor, horizon = min(floor + raised, ROWS + 1), moment * 5
        later = [row for row in range(1, ROWS + 1) if dues[row - 1] >= horizon > 0]
        passed = [row for row in range(1, ROWS + 1) if row not in later]
        for change in decided(partition, Facts(floor, 0, offsets(later), offsets(passed))):
            partition.apply(change)
        there = set(partition.live(1, ROWS + 1).tolist())
        assert held <= there
        kept = set(partition.retained.kept.within(1, floor).tolist())
        assert all(row in held or row in later for row in kept)
        partition.check()


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
