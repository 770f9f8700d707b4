"""The rules of dead letters in the ledger: which rows are condemned, and who is suspected of a crash."""

from __future__ import annotations

from bowstring.core import granting, settling
from bowstring.core.condemned import EXPIRED
from bowstring.core.granting import GROUPS
from bowstring.core.ledger import Ledger
from bowstring.core.ledger_changes import Subscribe
from bowstring.core.row_set import RowSet
from bowstring.core.settling import OutcomeRows, RowStanding, SettleRequest
from bowstring.core.subscription_settings import SubscriptionSettings
from tests.unit.ledger_queue import ACK, LEASE, NACK, REJECT, RELEASE, Queue, run


def queue_of(deliveries: int, end: int = 101) -> Queue:
    queue = Queue(end=end)
    queue.ledger.settings = SubscriptionSettings(max_deliveries=deliveries)
    return queue


def lane(end: int) -> Queue:
    return Queue(Ledger.of(Subscribe(2, 0, 1, "billing", SubscriptionSettings(), 5, 1, lane=True)), end)


def facts(queue: Queue, rows: RowSet | None = None) -> list[tuple[str, int, str, int, list[int]]]:
    found = queue.ledger.condemned.groups(rows or run(1, queue.end))
    return [(*last, some.offsets().tolist()) for last, some in found]


def crash(queue: Queue) -> None:
    """All leases run out."""
    queue.now += LEASE
    queue.expire()


def test_a_rejected_row_is_condemned_with_its_reason_and_the_facts_of_its_delivery():
    queue = Queue()
    granted, begun = queue.grant(10), queue.now
    queue.now += 5
    queue.requests["ada"] = 1
    queue.send(SettleRequest("ada", 1, [OutcomeRows(granted.number, REJECT, run(3, 2), reason="no such customer")]))
    assert facts(queue) == [("no such customer", begun, "ada", begun + 5, [3, 4])]
    assert queue.retries(1, 5) == [0, 0, 1, 1, 0]
    queue.settle(RELEASE, granted.number)
    assert queue.grant(20, "bob").rows == RowSet.of_runs([(1, 2), (5, 18)])
    assert queue.settle(ACK, granted.number, run(3)).refused[0].standing is RowStanding.SETTLED


def test_a_row_is_condemned_when_it_was_given_back_as_often_as_it_is_delivered():
    queue = queue_of(3)
    for _ in range(2):
        queue.settle(NACK, queue.grant(4).number, run(1, 2))
        queue.settle(RELEASE, queue.ledger.next_grant - 1)
        assert not queue.ledger.condemned
    queue.settle(NACK, queue.grant(4).number)
    assert [group[-1] for group in facts(queue)] == [[1, 2]]
    assert facts(queue)[0][0] == "given back 3 times"
    assert queue.grant(4).rows == run(3, 4)


def test_a_release_never_condemns_and_never_means_never():
    queue = queue_of(1)
    for _ in range(4):
        queue.settle(RELEASE, queue.grant(4).number)
    assert not queue.ledger.condemned
    queue = queue_of(0)
    for _ in range(40):
        queue.settle(NACK, queue.grant(4).number)
    assert not queue.ledger.condemned


def test_ten_thousand_rows_are_condemned_as_one_group():
    queue = queue_of(1, end=10_001)
    queue.settle(NACK, queue.grant(10_000).number)
    assert len(facts(queue)) == 1
    assert len(queue.ledger.condemned) == 10_000
    assert len(queue.ledger.condemned.rest()) == 1


def test_condemned_rows_are_kept_from_retention_until_they_are_buried():
    queue = Queue()
    queue.settle(REJECT, queue.grant(4).number, run(2, 2))
    queue.settle(ACK, queue.ledger.next_grant - 1)
    assert queue.ledger.kept(50) == run(2, 2)
    bury = settling.bury(queue.ledger, run(1, 2))
    assert bury is not None
    queue.apply((bury,))
    assert queue.ledger.kept(50) == run(3)
    assert settling.bury(queue.ledger, run(1, 2)) is None
    queue.apply((settling.bury(queue.ledger, run(3)),))  # type: ignore[arg-type]
    assert queue.ledger.floor == 5


def test_a_seek_back_delivers_condemned_rows_again_and_a_seek_forward_leaves_them():
    queue = Queue()
    queue.settle(REJECT, queue.grant(10).number, run(2, 4))
    queue.apply((settling.reset(queue.ledger, 4),))
    assert queue.ledger.condemned.rows() == run(2, 2)
    assert queue.grant(2).rows == run(4, 2)


def test_what_retention_reaches_is_condemned_if_no_consumer_holds_it():
    queue = Queue()
    granted = queue.grant(4)
    queue.settle(ACK, granted.number, run(1))
    queue.settle(NACK, granted.number, run(2))
    change = settling.condemn(queue.ledger, run(1, 8), "too old", queue.now)
    assert change is not None
    queue.apply((change,))
    assert queue.ledger.condemned.rows() == RowSet.of_runs([(2, 1), (5, 4)])
    assert queue.grant(3, "bob").rows == run(9, 3)


# Bystanders of a crash


def test_rows_that_expired_twice_are_left_out_and_come_apart_in_ever_smaller_groups():
    queue = queue_of(0, end=1_001)
    for _ in range(2):
        queue.grant(600)
        crash(queue)
    assert queue.grant(1_000, "bob").rows == run(601, 400)
    sizes: list[int] = []
    for size in GROUPS:
        granted = granting.grant_apart(queue.ledger, "eve", 1_000, LEASE, queue.now)
        assert granted is not None
        sizes.append(len(granted.rows))
        assert granted.rows.first == 1
        queue.apply(granted.changes)
        crash(queue)
        assert size == sizes[-1]


def test_a_row_is_condemned_by_expiry_only_after_it_was_alone():
    queue = queue_of(2)
    for _ in range(2):
        queue.grant(3)
        crash(queue)
    assert queue.retries(1, 3) == [2, 2, 2]
    for _ in range(3):
        granted = granting.grant_apart(queue.ledger, "ada", 9, LEASE, queue.now)
        assert granted is not None
        queue.apply(granted.changes)
        crash(queue)
        assert not queue.ledger.condemned
    granted = granting.grant_apart(queue.ledger, "ada", 9, LEASE, queue.now)
    assert granted is not None
    assert granted.rows == run(1)
    queue.apply(granted.changes)
    until = granted.until
    crash(queue)
    assert facts(queue) == [(EXPIRED, until - LEASE, "ada", until, [1])]


def test_a_crash_storm_over_ten_thousand_rows_with_one_poison_row_condemns_that_one_alone():
    """Ten consumers with a thousand rows each. Whoever holds the poison row dies with all it holds;
    the others ack. Suspects go to one consumer at a time, which holds nothing else.
    """
    poison, queue = 5_017, queue_of(10, end=10_001)
    crashes = 0
    while queue.ledger.backlog(queue.end) > len(queue.ledger.condemned):
        held = {name: queue_granted(queue, name) for name in (f"c{number}" for number in range(9))}
        apart = granting.grant_apart(queue.ledger, "apart", 1_000, LEASE, queue.now)
        if apart is not None:
            queue.apply(apart.changes)
            held["apart"] = apart
        for name, granted in held.items():
            if granted is None:
                continue
            if granted.rows & run(poison):
                crashes += 1
            else:
                queue.settle(ACK, granted.number, name=name)
        if len(queue.ledger.leases):
            crash(queue)
        assert crashes < 20
    assert [group[-1] for group in facts(queue)] == [[poison]]
    assert crashes == 10


def queue_granted(queue: Queue, name: str) -> granting.Granted | None:
    granted = granting.grant(queue.ledger, name, 1_000, queue.end, LEASE, queue.now)
    if granted is not None:
        queue.apply(granted.changes)
    return granted


# The lane


def test_rows_of_a_lane_wait_until_they_are_redriven():
    queue = lane(end=11)
    assert queue.ledger.waiting(11) == 0
    assert granting.grant(queue.ledger, "ada", 5, 11, LEASE, queue.now) is None
    change = settling.redrive(queue.ledger, RowSet.of_runs([(2, 2), (8, 1)]))
    assert change is not None
    queue.apply((change,))
    assert queue.ledger.waiting(11) == 3
    assert settling.redrive(queue.ledger, run(2, 2)) is None
    granted = queue.grant(5)
    assert granted.rows == RowSet.of_runs([(2, 2), (8, 1)])
    queue.settle(NACK, granted.number, run(2))
    queue.settle(ACK, granted.number, run(3))
    assert queue.grant(5, "bob").rows == run(2)
    assert settling.redrivable(queue.ledger, run(1, 10)) == RowSet.of_runs([(1, 1), (4, 4), (9, 2)])
    assert queue.ledger.backlog(11) == 9


def test_a_lane_is_loaded_as_it_was():
    queue = lane(end=11)
    queue.apply((settling.redrive(queue.ledger, run(2, 4)),))  # type: ignore[arg-type]
    queue.settle(REJECT, queue.grant(3).number, run(3))
    other = Ledger(2, 0, 1)
    other.restore(queue.ledger.snapshot())
    other.check()
    assert other.state() == queue.ledger.state()
    assert other.waiting(11) == 1
