"""What becomes of rows that retention reaches before subscriptions have settled them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bowstring.core import granting, settling, subscribing
from bowstring.core.changes import Append, Change, Floor
from bowstring.core.ledger_changes import Bury, Condemn, Expire, Overtake, SetAsideReason, Settlement
from bowstring.core.machine import NEVER
from bowstring.core.overtaking import KeepLimit, KeepLimits
from bowstring.core.partition import Partition
from bowstring.core.retention import Facts, HeldRows, decide
from bowstring.core.row_set import RowSet
from bowstring.core.settling import GrantRows, OutcomeRows, SettleRequest
from bowstring.core.subscription_settings import SubscriptionSettings

NOW = 500
ROWS = 30


class Queue:
    """A partition of thirty rows with subscriptions."""

    def __init__(self, **unsettled: str) -> None:
        """Each with what it says of unsettled rows: "keep 10" keeps them for a span of 10."""
        self.partition = Partition(1, 0, 0)
        self.partition.replay(Append(1, 0, 1, ROWS, 1000, 2, b"a" * 16, 1, segment=7, length=100), 1)
        self.numbers: dict[str, int] = {}
        self.requests = 0
        for number, (name, what) in enumerate(unsettled.items(), 1):
            fate, _, keep_max = what.partition(" ")
            settings = SubscriptionSettings(unsettled=fate, keep_max=int(keep_max or 0))
            self.numbers[name] = number
            self.apply((subscribing.subscribe(self.partition, number, name, settings, 1, 5),))

    def apply(self, changes: tuple[Change, ...]) -> tuple[Change, ...]:
        for change in changes:
            self.partition.apply(change)
        self.partition.check()
        return changes

    def ledger(self, name: str):
        return self.partition.ledgers[self.numbers[name]]

    def lease(self, name: str, most: int, now: int = 100) -> int:
        granted = granting.grant(self.ledger(name), "ada", most, ROWS + 1, 30, now)
        assert granted is not None
        self.apply(granted.changes)
        return granted.number

    def ack(self, name: str, rows: RowSet) -> None:
        """All of them at once, whoever comes first."""
        number, self.requests = self.lease(name, ROWS), self.requests + 1
        request = SettleRequest(
            "ada", self.requests, [OutcomeRows(number, Settlement.ACK, rows), OutcomeRows(number, Settlement.RELEASE)], self.requests - 1
        )
        self.apply(settling.settle(self.ledger(name), request, 110).changes)

    def retain(self, floor: int, limits: KeepLimits | None = None, due_later: tuple[int, ...] = ()) -> tuple[Change, ...]:
        return self.apply(decide(self.partition, Facts(floor, due_later=np.array(due_later, np.int64), limits=limits or {}), NOW))

    def release(self, rows: RowSet, limits: KeepLimits | None = None) -> tuple[Change, ...]:
        """What a later look finds: these are kept for no due time."""
        facts = Facts(self.partition.retained.floor, due_passed=rows.offsets(), limits=limits or {})
        return self.apply(decide(self.partition, facts, NOW))

    @property
    def kept(self) -> list[int]:
        return self.partition.retained.kept.within(0, ROWS + 1).tolist()


def test_rows_that_go_unsettled_are_counted_for_each_subscription():
    queue = Queue(billing="drop", mailing="drop")
    queue.ack("billing", RowSet(1, 4))
    assert queue.retain(11) == (Overtake(1, 0, 1, 7), Overtake(1, 0, 2, 10), Floor(1, 0, 11))
    assert (queue.ledger("billing").overtaken, queue.ledger("mailing").overtaken) == (7, 10)


def test_rows_that_are_settled_go_without_a_word():
    queue = Queue(billing="dead_letter")
    queue.ack("billing", RowSet(1, 11))
    assert queue.retain(11) == (Floor(1, 0, 11),)


def test_unsettled_rows_are_condemned_and_stay_until_their_letters_are_written():
    queue = Queue(billing="dead_letter", mailing="drop")
    queue.ack("billing", RowSet(3, 5))
    condemned, lost, _ = queue.retain(7)
    assert isinstance(condemned, Condemn)
    assert RowSet.of_spans(condemned.rows) == RowSet.of_runs([(1, 2), (5, 2)])
    assert lost == Overtake(1, 0, 2, 6, (1, 2, 2, 2)), "rows 3 and 4 are needed by nobody, and go"
    assert queue.ledger("mailing").next_rows(ROWS, ROWS + 1).first == 7
    assert queue.kept == [1, 2, 5, 6]
    assert queue.ledger("billing").next_rows(ROWS, ROWS + 1).first == 7, "the queue goes on behind them"
    assert queue.retain(7) == ()
    rows = queue.ledger("billing").condemned.rows()
    bury = settling.bury(queue.ledger("billing"), rows)
    assert isinstance(bury, Bury)
    queue.apply((bury,))
    released = queue.release(rows)
    assert released == (Floor(1, 0, 7, (), ((1, 2), (5, 2))),)
    assert queue.kept == []


def test_rows_under_a_lease_are_condemned_when_it_has_ended():
    queue = Queue(billing="dead_letter")
    queue.lease("billing", 3)
    queue.retain(3)
    assert queue.kept == [1, 2]
    assert not queue.ledger("billing").condemned
    queue.apply((Expire(1, 0, 1, 140),))
    (condemned,) = queue.release(RowSet(1, 3))
    assert isinstance(condemned, Condemn)
    assert queue.ledger("billing").condemned.rows() == RowSet(1, 3)
    assert queue.kept == [1, 2]


def test_rows_that_are_due_later_are_not_delivered_when_the_cursor_passes_them_with_condemned_ones():
    queue = Queue(billing="dead_letter")
    queue.retain(9, due_later=(3, 5))
    ledger = queue.ledger("billing")
    assert ledger.cursor == 9
    assert ledger.next_rows(ROWS, ROWS + 1) == RowSet(9, ROWS + 1)
    ledger.later.come_due(np.array([5], np.int64), RowSet(5, 6))
    assert ledger.next_rows(1, ROWS + 1) == RowSet(5, 6)


def test_rows_are_kept_until_they_are_settled():
    queue = Queue(billing="keep")
    queue.ack("billing", RowSet(2, 4))
    assert queue.retain(6) == (Floor(1, 0, 6, ((1, 1), (4, 2))),)
    assert queue.release(RowSet.of_runs([(1, 1), (4, 2)])) == ()
    queue.ack("billing", RowSet(4, 5))
    assert queue.release(RowSet.of_runs([(1, 1), (4, 2)])) == (Floor(1, 0, 6, (), ((4, 1),)),)
    assert queue.ledger("billing").overtaken == 0


def test_rows_are_kept_for_a_while_only():
    queue = Queue(billing="keep 10", mailing="keep 20")
    limits = {10: KeepLimit(4, RowSet(2, 3)), 20: KeepLimit(3)}
    lost_of_billing, lost_of_mailing, floor = queue.retain(6, limits)
    assert lost_of_billing == Overtake(1, 0, 1, 2, (3, 1)), "row 1 goes, and 3 stays for the other one"
    assert lost_of_mailing == Overtake(1, 0, 2, 2, (2, 1))
    assert floor == Floor(1, 0, 6, ((2, 4),))
    assert queue.kept == [2, 3, 4, 5]


def test_a_limit_that_was_not_looked_at_keeps_everything():
    queue = Queue(billing="keep 10")
    assert queue.retain(4) == (Floor(1, 0, 4, ((1, 3),)),)


@pytest.mark.parametrize("fate", ["drop", "dead_letter", "keep"])
def test_lanes_have_no_part_in_it(fate: str):
    queue = Queue()
    change = subscribing.begin_lane(queue.partition, 1, "billing", SubscriptionSettings(unsettled=fate), 5)
    queue.apply((change,))
    assert queue.retain(9) == (Floor(1, 0, 9),)


def test_granted_rows_that_are_too_old_are_condemned_in_place_of_a_delivery():
    queue = Queue(billing="dead_letter", mailing="drop")
    for name, reason in (("billing", SetAsideReason.OVERTAKEN), ("mailing", SetAsideReason.EXPIRED)):
        number = queue.lease(name, 4)
        aside = settling.set_aside(queue.ledger(name), [GrantRows(number, RowSet(1, 3))], reason, 120)
        assert aside is not None
        queue.apply((aside,))
    assert queue.ledger("billing").condemned.rows() == RowSet(1, 3)
    assert (queue.ledger("billing").overtaken, queue.ledger("mailing").overtaken) == (0, 2)
    (last, _), *_ = queue.ledger("billing").condemned.groups(RowSet(1, 3))
    assert (last.delivered, last.consumer, last.ended) == (0, "", 120)


def test_rows_that_a_subscription_needs_no_more_are_looked_at_again():
    queue, held = Queue(billing="keep"), HeldRows()
    queue.retain(6)
    held.note(queue.partition, {})
    assert not held.ended(queue.partition)
    queue.ack("billing", RowSet(2, 3))
    assert held.ended(queue.partition)
    assert not held.ended(queue.partition, 3, NEVER)


def test_rows_that_are_kept_for_a_while_are_looked_at_again_when_that_is_over():
    queue, held = Queue(billing="keep 10"), HeldRows()
    limits = {10: KeepLimit(2)}
    queue.retain(6, limits)
    held.note(queue.partition, limits)
    assert held.has_limits(queue.partition)
    assert not held.ended(queue.partition, limits=limits)
    assert held.ended(queue.partition, limits={10: KeepLimit(3)})


FATES = st.sampled_from(["drop", "dead_letter", "keep", "keep 10"])
ACKS = st.lists(st.tuples(st.integers(1, ROWS), st.integers(1, 6)), max_size=5)


@given(st.tuples(FATES, FATES), ACKS, ACKS, st.lists(st.integers(1, ROWS + 1), min_size=1, max_size=4), st.integers(1, ROWS))
def test_each_row_goes_settled_or_counted_or_is_still_there(fates, acks, others, floors, limit):
    """Retention comes in steps. Against rows that are looked at one by one."""
    queue = Queue(billing=fates[0], mailing=fates[1])
    for name, some in (("billing", acks), ("mailing", others)):
        for first, rows in some:
            if settled := RowSet(first, min(first + rows, ROWS + 1)) - queue.ledger(name).settled.of(RowSet(1, ROWS + 1)):
                queue.ack(name, settled)
    unsettled = {name: RowSet(1, ROWS + 1) - queue.ledger(name).settled.of(RowSet(1, ROWS + 1)) for name in queue.numbers}
    for floor in sorted(floors):
        queue.retain(floor, {10: KeepLimit(limit)})
    there = RowSet.of_offsets(queue.partition.live(1, ROWS + 1))
    for name, fate in zip(queue.numbers, fates, strict=True):
        ledger, rows = queue.ledger(name), unsettled[name]
        below = rows & RowSet(1, queue.partition.retained.floor)
        young = below - RowSet(0, limit) if fate == "keep 10" else below
        assert ledger.overtaken == len(below) - (0 if fate == "drop" else len(young))
        if fate == "dead_letter":
            assert ledger.condemned.rows() == below
        if fate in ("dead_letter", "keep"):
            assert rows & there == rows
        if fate == "keep 10":
            assert (rows - RowSet(0, limit)) & there == rows - RowSet(0, limit)
