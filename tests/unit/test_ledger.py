"""The rules of the ledger, told one by one."""

from __future__ import annotations

import pytest

from bowstring import errors
from bowstring.core import granting, journal, request_series, settling
from bowstring.core.changes import Delete, Floor, Reason
from bowstring.core.leases import GRANTS_MAX
from bowstring.core.ledger import Ledger
from bowstring.core.ledger_changes import Subscribe, Unsubscribe
from bowstring.core.ledger_consumers import JOINS_BETWEEN, REMEMBERED
from bowstring.core.ledgers import Ledgers
from bowstring.core.machine import NEVER
from bowstring.core.row_set import RowSet
from bowstring.core.settling import GrantRows, OutcomeRows, RowStanding, SettleRequest
from bowstring.core.subscription_settings import SubscriptionSettings
from tests.unit.ledger_queue import ACK, LEASE, NACK, RELEASE, SECOND, Queue, run


def test_rows_are_granted_in_order_each_to_one_consumer():
    queue = Queue()
    assert queue.grant(10).rows == run(1, 10)
    assert queue.grant(5, "bob").rows == run(11, 5)
    assert queue.grant(2000).rows == run(16, 985)
    assert granting.grant(queue.ledger, "bob", 1, queue.end, LEASE, queue.now) is None


def test_what_is_acked_never_comes_again():
    queue = Queue(end=21)
    first, second = queue.grant(10), queue.grant(10)
    assert not queue.settle(ACK, second.number).refused
    assert queue.ledger.floor == 1
    queue.settle(ACK, first.number)
    assert queue.ledger.floor == 21
    assert queue.ledger.backlog(21) == 0
    assert granting.grant(queue.ledger, "ada", 1, 21, LEASE, queue.now) is None


def test_a_nacked_row_returns_to_its_old_place_and_counts():
    queue = Queue()
    granted = queue.grant(10)
    queue.settle(NACK, granted.number, run(3, 2))
    queue.settle(NACK, granted.number, run(7))
    assert queue.grant(5, "bob").rows == RowSet.of_runs([(3, 2), (7, 1), (11, 2)])
    assert queue.retries(1, 12) == [0, 0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0]


def test_a_released_row_comes_again_uncounted():
    queue = Queue()
    granted = queue.grant(10)
    queue.settle(RELEASE, granted.number, run(1, 4))
    done = settling.give_back(queue.ledger, [GrantRows(granted.number, run(5, 2))], queue.now)
    queue.apply(done.changes)
    assert queue.grant(6, "bob").rows == run(1, 6)
    assert queue.retries(1, 10) == [0] * 10


def test_the_retry_count_goes_on_beyond_eight():
    queue = Queue(end=4)
    queue.ledger.settings = SubscriptionSettings(max_deliveries=0)
    for delivery in range(20):
        granted = queue.grant(3)
        assert queue.retries(1, 3) == [delivery, delivery // 2, delivery]
        queue.settle(NACK, granted.number, RowSet.of_runs([(1, 1), (3, 1)]))
        queue.settle(NACK if delivery % 2 else RELEASE, granted.number)


def test_a_million_rows_count_as_quickly_as_one_and_forget_when_they_are_acked():
    queue = Queue(end=1_000_001)
    for _ in range(3):
        queue.settle(NACK, queue.grant(1_000_000).number)
    assert queue.retries(1)[0] == queue.retries(1_000_000)[0] == 3
    queue.settle(ACK, queue.grant(1_000_000).number)
    assert not queue.ledger.counts.rows()


def test_an_expired_lease_gives_its_rows_back_and_counts_them():
    queue = Queue()
    granted = queue.grant(10)
    queue.settle(ACK, granted.number, run(1, 5))
    assert queue.ledger.next_deadline() == granted.until
    queue.now = granted.until - 1
    assert settling.expire(queue.ledger, queue.now) is None
    queue.now = granted.until
    queue.expire()
    assert queue.ledger.next_deadline() == NEVER
    assert queue.grant(6, "bob").rows == run(6, 6)
    assert queue.retries(1, 11) == [0] * 5 + [1] * 5 + [0]


def test_an_expiry_names_a_moment_and_replay_asks_no_clock():
    queue = Queue()
    queue.grant(10, lease=LEASE)
    queue.grant(10, "bob", lease=2 * LEASE)
    queue.now += LEASE + 5
    change = settling.expire(queue.ledger, queue.now)
    assert change is not None
    assert len(journal.encode([change])) - 2 < 20
    queue.apply((change,))
    assert len(queue.ledger.leases) == 1


def test_a_late_ack_is_refused_and_names_who_holds_the_row_now():
    queue = Queue()
    granted = queue.grant(4)
    queue.now += LEASE
    queue.expire()
    bob = queue.grant(2, "bob")
    refused = queue.settle(ACK, granted.number, run(1, 4)).refused
    assert [(lost.rows, lost.standing, lost.holder, lost.until) for lost in refused] == [
        (run(1, 2), RowStanding.LEASED, "bob", bob.until),
        (run(3, 2), RowStanding.WAITING, "", 0),
    ]
    assert queue.settle(ACK, granted.number).refused[0].rows is None


def test_an_ack_after_the_end_is_refused_also_before_the_ledger_has_expired_it():
    queue = Queue()
    granted = queue.grant(4)
    queue.now = granted.until
    assert len(queue.settle(ACK, granted.number, run(1, 4)).refused) == 1
    assert settling.extend(queue.ledger, "ada", [GrantRows(granted.number)], queue.now + LEASE, queue.now).refused
    assert not settling.give_back(queue.ledger, [GrantRows(granted.number)], queue.now).changes
    queue.expire()
    assert queue.retries(1, 4) == [1] * 4


def test_rows_of_another_grant_consumer_or_time_are_refused_and_the_others_are_done():
    queue = Queue()
    granted, other = queue.grant(4), queue.grant(4, "bob")
    refused = queue.settle(ACK, granted.number, RowSet.of_runs([(2, 1), (6, 1), (500, 1)])).refused
    assert [(lost.rows, lost.standing) for lost in refused] == [(run(6), RowStanding.LEASED), (run(500), RowStanding.NEVER)]
    assert queue.settle(ACK, other.number, run(5)).refused[0].holder == "bob"
    assert queue.settle(ACK, granted.number, run(2)).refused[0].standing is RowStanding.SETTLED
    assert queue.settle(ACK, granted.number, run(1), name="eve").refused[0].holder == "ada"
    assert queue.ledger.settled.of(run(1, 10)) == run(2)


def test_a_row_that_a_request_names_twice_counts_once():
    queue = Queue()
    granted = queue.grant(4)
    parts = [OutcomeRows(granted.number, NACK, run(1, 2)), OutcomeRows(granted.number, ACK, run(2, 2)), OutcomeRows(granted.number, ACK)]
    done = queue.send(SettleRequest("ada", 1, parts))
    assert [lost.rows for lost in done.refused] == [run(2)]
    assert queue.retries(1, 4) == [1, 1, 0, 0]
    assert queue.ledger.settled.of(run(1, 4)) == run(3, 2)


def test_a_repeated_nack_changes_nothing_and_gets_the_same_answer():
    queue = Queue()
    granted = queue.grant(4)
    queue.settle(NACK, granted.number, RowSet.of_runs([(1, 2), (9, 1)]))
    assert queue.last is not None
    queue.grant(2, "bob")
    again = queue.send(queue.last)
    assert again.repeated
    assert not again.changes
    assert [lost.rows for lost in again.refused] == [run(9)]
    assert queue.retries(1, 4) == [1, 1, 0, 0]


def test_a_repeated_ack_is_done_also_after_the_lease_has_ended_and_after_a_restart():
    queue = Queue()
    granted = queue.grant(4)
    queue.settle(ACK, granted.number, run(1, 2))
    request = queue.last
    assert request is not None
    queue.now += LEASE
    queue.expire()
    loaded = Ledger(1, 0, 7)
    loaded.restore(queue.ledger.snapshot())
    for ledger in (queue.ledger, loaded):
        assert settling.settle(ledger, request, queue.now) == settling.RowsDone((), (), repeated=True)


def test_a_request_of_an_older_series_is_refused_and_not_taken_for_a_repeat():
    """It never came, and another program has settled under the name since."""
    queue = Queue()
    first, second = queue.grant(2), queue.grant(2)
    older, newer = request_series.begun(4), request_series.begun(5)
    queue.send(SettleRequest("ada", newer + 1, [OutcomeRows(first.number, ACK)], newer))
    late = SettleRequest("ada", older + 9, [OutcomeRows(second.number, ACK, run(3, 2))], older + 8)
    loaded = Ledger(1, 0, 7)
    loaded.restore(queue.ledger.snapshot())
    for ledger in (queue.ledger, loaded):
        done = settling.settle(ledger, late, queue.now)
        assert (done.changes, done.repeated) == ((), False)
        assert [lost.rows for lost in done.refused] == [run(3, 2)]
    assert queue.send(SettleRequest("ada", newer + 2, [OutcomeRows(second.number, ACK)], newer + 1)).refused == ()


def test_series_rise_with_every_opening_and_with_the_time():
    assert request_series.next_series(80 * SECOND, 0, 0) == 640
    assert request_series.next_series(80 * SECOND, 640, 0) == 641
    ahead = request_series.begun(900) + 3
    assert request_series.next_series(80 * SECOND, 641, ahead) == 901
    assert request_series.series_of(request_series.begun(901)) == 901
    assert request_series.series_of(request_series.begun(901) + request_series.REQUESTS - 1) == 901


def test_refusals_are_remembered_until_the_consumer_has_the_answer():
    queue = Queue()
    granted = queue.grant(4)
    for number in (1, 2):
        queue.send(SettleRequest("ada", number, [OutcomeRows(granted.number + 9, ACK)]))
    consumer = queue.ledger.consumers.named("ada")
    assert consumer is not None
    assert sorted(consumer.refused) == [1, 2]
    queue.send(SettleRequest("ada", 3, [OutcomeRows(granted.number, ACK)], answered=1))
    assert sorted(consumer.refused) == [2]


@pytest.mark.parametrize(
    ("number", "answered", "error"), [(0, 0, errors.InvalidArgument), (3, 3, errors.InvalidArgument), (2000, 5, errors.OutOfRange)]
)
def test_numbers_that_cannot_be_are_refused(number: int, answered: int, error: type[errors.Error]):
    with pytest.raises(error):
        settling.settle(Ledger(1, 0, 7), SettleRequest("ada", number, [], answered), 0)


def test_an_extended_lease_does_not_end_when_it_would_have():
    queue = Queue()
    granted = queue.grant(4)
    until = granted.until + 10 * SECOND
    queue.apply(settling.extend(queue.ledger, "ada", [GrantRows(granted.number)], until, queue.now).changes)
    assert queue.ledger.next_deadline() == until
    queue.now = granted.until
    assert settling.expire(queue.ledger, queue.now) is None
    assert not queue.settle(ACK, granted.number).refused


def test_rows_that_are_not_extended_end_at_their_time():
    queue = Queue()
    granted = queue.grant(4)
    until = granted.until + 10 * SECOND
    queue.apply(settling.extend(queue.ledger, "ada", [GrantRows(granted.number, run(2, 2))], until, queue.now).changes)
    queue.now = granted.until
    queue.expire()
    assert queue.grant(3, "bob").rows == RowSet.of_runs([(1, 1), (4, 2)])
    assert not queue.settle(ACK, granted.number, run(2, 2)).refused


def test_rows_that_end_together_again_are_one_lease():
    queue = Queue()
    granted = queue.grant(4)
    for seconds, rows in ((40, run(2)), (50, run(3)), (60, None)):
        parts = [GrantRows(granted.number, rows)]
        queue.apply(settling.extend(queue.ledger, "ada", parts, queue.now + seconds * SECOND, queue.now).changes)
    assert [lease.rows for lease in queue.ledger.leases] == [run(1, 4)]


def test_an_extension_never_shortens_and_never_goes_into_the_past():
    queue = Queue()
    granted = queue.grant(4)
    queue.apply(settling.extend(queue.ledger, "ada", [GrantRows(granted.number)], queue.now + 1, queue.now).changes)
    assert queue.ledger.next_deadline() == granted.until
    with pytest.raises(errors.InvalidArgument):
        settling.extend(queue.ledger, "ada", [GrantRows(granted.number)], queue.now, queue.now)


def test_a_consumer_has_at_most_so_many_grants():
    queue = Queue(end=2_000)
    first = queue.grant(1)
    for _ in range(GRANTS_MAX - 1):
        queue.ledger.apply(granting.grant(queue.ledger, "ada", 1, queue.end, LEASE, queue.now).changes[-1])  # type: ignore[union-attr]
    assert granting.grant(queue.ledger, "ada", 1, queue.end, LEASE, queue.now) is None
    queue.grant(1, "bob")
    queue.settle(ACK, first.number)
    queue.grant(1)


def test_deleted_rows_are_not_granted_and_the_floor_passes_them():
    queue = Queue()
    queue.ledger.apply(Delete(1, 0, ((1, 3), (6, 2)), Reason.OWNER))
    assert queue.ledger.floor == 4
    granted = queue.grant(4)
    assert granted.rows == RowSet.of_runs([(4, 2), (8, 2)])
    queue.settle(ACK, granted.number)
    assert queue.ledger.floor == 10


def test_a_publish_that_is_taken_back_takes_its_grant_with_it():
    queue = Queue()
    granted, whole = queue.grant(4), queue.grant(2)
    queue.ledger.apply(Delete(1, 0, ((3, 4),), Reason.DEADLINE))
    queue.ledger.check()
    assert [lease.rows for lease in queue.ledger.leases] == [run(1, 2)]
    assert queue.settle(ACK, whole.number).refused
    assert not queue.settle(ACK, granted.number).refused
    assert queue.ledger.floor == 7


def test_an_active_lease_keeps_its_rows_over_several_floors():
    queue = Queue()
    granted = queue.grant(10)
    queue.settle(ACK, granted.number, run(1, 5))
    assert queue.ledger.kept(8) == run(6, 2)
    queue.ledger.apply(Floor(1, 0, 8, ((6, 2),)))
    queue.ledger.apply(Floor(1, 0, 50, ((8, 3),)))
    queue.ledger.check()
    assert [lease.rows for lease in queue.ledger.leases] == [run(6, 5)]
    queue.ledger.apply(Floor(1, 0, 60, (), ((6, 1),)))
    assert [lease.rows for lease in queue.ledger.leases] == [run(7, 4)]
    assert not queue.settle(ACK, granted.number).refused
    assert queue.ledger.floor == 60


def test_retention_passes_a_subscription_that_nobody_consumes():
    queue = Queue()
    queue.ledger.apply(Floor(1, 0, 500))
    assert queue.ledger.backlog(queue.end) == queue.ledger.waiting(queue.end) == 501
    assert queue.grant(10).rows == run(500, 10)


def test_a_seek_ends_leases_and_rows_come_again():
    queue = Queue()
    granted = queue.grant(10)
    queue.settle(NACK, granted.number, run(2))
    queue.settle(ACK, granted.number, run(5))
    queue.apply((settling.reset(queue.ledger, 2, run(4)),))
    assert queue.settle(ACK, granted.number, run(2)).refused[0].standing is RowStanding.SOUGHT
    again = queue.grant(4)
    assert again.number > granted.number
    assert again.rows == RowSet.of_runs([(2, 2), (5, 2)])
    assert queue.retries(2) == [1]


def test_a_reconnecting_consumer_finds_the_leases_of_its_name():
    queue = Queue()
    first, _, third = queue.grant(3), queue.grant(3, "bob"), queue.grant(3)
    queue.settle(ACK, first.number, run(2))
    ada = queue.ledger.consumers.named("ada")
    assert ada is not None
    held = [(lease.number, lease.rows.runs()) for lease in queue.ledger.leases.of_consumer(ada.number)]
    assert held == [(first.number, ((1, 1), (3, 1))), (third.number, ((7, 3),))]


def test_consumers_that_hold_nothing_are_forgotten_in_time():
    queue = Queue(end=1 << 20)
    kept, gone = queue.grant(1, "kept", lease=3 * REMEMBERED), queue.grant(1, "gone")
    queue.settle(ACK, gone.number, name="gone")
    queue.now += REMEMBERED + 2
    for number in range(JOINS_BETWEEN):
        queue.settle(ACK, queue.grant(1, f"c{number}").number, name=f"c{number}")
    assert queue.ledger.consumers.named("gone") is None
    assert not queue.settle(ACK, kept.number, name="kept").refused
    other = Ledger(1, 0, 7)
    other.restore(queue.ledger.snapshot())
    assert other.state() == queue.ledger.state()


def test_an_owner_learns_of_the_leases_of_every_subscription():
    ledgers = Ledgers(1, 0)
    for subscription in (7, 8):
        ledgers.apply(Subscribe(1, 0, subscription, f"s{subscription}", SubscriptionSettings(), 5, 1))
    second = ledgers.get(8)
    assert second is not None
    granted = Queue(second).grant(10)
    found = list(ledgers.leased(RowSet.of_runs([(2, 2), (500, 1)]), 0))
    assert [(one.subscription, one.leased.rows, one.leased.until) for one in found] == [(8, run(2, 2), granted.until)]
    assert not list(ledgers.leased(run(2, 2), granted.until))
    assert ledgers.kept(4) == run(1, 3)
    assert ledgers.next_deadline() == granted.until
    ledgers.apply(Unsubscribe(1, 0, 8))
    assert len(ledgers) == 1
    assert ledgers.next_deadline() == NEVER


def test_a_subscription_starts_where_it_was_told_and_knows_what_is_gone():
    ledgers = Ledgers(1, 0)
    ledgers.apply(Subscribe(1, 0, 7, "late", SubscriptionSettings(), 5, 10, 50, RowSet.of_runs([(11, 9), (21, 29)]).spans()))
    ledger = ledgers.get(7)
    assert ledger is not None
    ledgers.apply(Floor(1, 0, 60))
    assert Queue(ledger).grant(3).rows == RowSet.of_runs([(10, 1), (20, 1), (60, 1)])
