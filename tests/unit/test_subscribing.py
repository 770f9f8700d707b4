"""Subscriptions of a partition: where they begin, what they are called, and that their numbers never
come again.
"""

from __future__ import annotations

import numpy as np

from bowstring.core import granting, settling, subscribing
from bowstring.core.changes import Append, Change, Delete, Floor, Reason
from bowstring.core.ledger import Ledger
from bowstring.core.ledger_changes import SetAsideReason, Settlement
from bowstring.core.ledgers import NamedSubscription
from bowstring.core.machine import NEVER
from bowstring.core.partition import Partition
from bowstring.core.row_set import RowSet
from bowstring.core.settling import GrantRows, OutcomeRows, SettleRequest
from bowstring.core.subscription_settings import SubscriptionSettings

ADA = b"a" * 16
LEASE = 30
PLAIN = SubscriptionSettings()


def log(rows: int = 20) -> Partition:
    """A partition with so many rows."""
    partition = Partition(1, 0, 600)
    partition.apply(Append(1, 0, 1, rows, 1000, 2, ADA, 1, segment=7, length=100))
    return partition


def subscribed(partition: Partition, offset: int = 1, name: str = "billing", settings: SubscriptionSettings = PLAIN) -> Ledger:
    number = partition.ledgers.next_number
    partition.apply(subscribing.subscribe(partition, number, name, settings, offset, 5))
    return partition.ledgers[number]


def take(partition: Partition, *changes: Change | None) -> None:
    for change in changes:
        assert change is not None
        partition.apply(change)
    partition.check()


def grant(partition: Partition, ledger: Ledger, most: int, name: str = "ada", now: int = 100) -> int:
    granted = granting.grant(ledger, name, most, partition.next_offset, LEASE, now)
    assert granted is not None
    take(partition, *granted.changes)
    return granted.number


def test_a_subscription_has_a_name_settings_and_a_number_of_its_own():
    partition, settings = log(), SubscriptionSettings("shared", 5_000_000)
    first, second = subscribed(partition), subscribed(partition, name="mail", settings=settings)
    assert (first.name, first.settings, first.created, second.settings.lease) == ("billing", PLAIN, 5, 5_000_000)
    assert sorted(partition.ledgers.subscriptions()) == [
        NamedSubscription(1, "billing", PLAIN, 5),
        NamedSubscription(2, "mail", settings, 5),
    ]
    take(partition, subscribing.alter(partition, 1, settings))
    assert first.settings == settings
    take(partition, subscribing.unsubscribe(partition, 2))
    assert partition.ledgers.get(2) is None
    assert subscribed(partition, name="mail").subscription == 3


def test_a_subscription_begins_with_what_the_partition_still_has():
    partition = log()
    take(partition, Delete(1, 0, ((12, 2),), Reason.OWNER), Floor(1, 0, 10, ((4, 1), (7, 2))))
    everything = [4, 7, 8, 10, 11, *range(14, 21)]
    for offset, expected in ((1, everything), (8, everything[2:]), (21, []), (99, [])):
        ledger = subscribed(partition, offset)
        partition.check()
        assert ledger.next_rows(100, partition.next_offset).offsets().tolist() == expected
        assert ledger.backlog(partition.next_offset) == len(expected)


def test_a_subscription_that_begins_with_what_comes_next_gets_just_that():
    partition = log()
    ledger = subscribed(partition, partition.next_offset)
    assert not ledger.waiting(partition.next_offset)
    partition.apply(Append(1, 0, 21, 3, 1000, 2, ADA, 2, segment=7, length=100))
    assert ledger.next_rows(100, partition.next_offset) == RowSet(21, 24)


def test_deletions_and_floors_of_the_log_reach_every_ledger():
    partition = log()
    ledgers = [subscribed(partition), subscribed(partition)]
    for ledger in ledgers:
        grant(partition, ledger, 10)
    take(partition, Delete(1, 0, ((3, 2),), Reason.OWNER), Floor(1, 0, 8, ((6, 1),)))
    for ledger in ledgers:
        assert ledger.leases.rows().offsets().tolist() == [6, 8, 9, 10]
        assert ledger.floor == 6


def test_the_rows_that_a_consumer_holds_are_counted():
    partition = log(100)
    ledger = subscribed(partition)
    first, second = grant(partition, ledger, 10), grant(partition, ledger, 20)
    ada, held = ledger.consumers.named("ada"), ledger.leases.held_by
    assert ada is not None
    assert held(ada.number) == 30
    done = settling.settle(ledger, SettleRequest("ada", 1, [OutcomeRows(first, Settlement.ACK, RowSet(2, 6))]), 100)
    take(partition, *done.changes)
    assert held(ada.number) == 26
    take(partition, *settling.extend(ledger, "ada", [GrantRows(second, RowSet(11, 16))], 500, 100).changes)
    assert held(ada.number) == 26
    take(partition, Delete(1, 0, ((14, 4),), Reason.OWNER))
    assert held(ada.number) == 22
    take(partition, settling.expire(ledger, 200))
    assert held(ada.number) == 3
    take(partition, settling.reset(ledger, 1))
    assert held(ada.number) == held(99) == 0


def test_rows_that_cannot_be_delivered_are_settled_without_a_count():
    partition = log()
    ledger = subscribed(partition)
    first, second = grant(partition, ledger, 5), grant(partition, ledger, 5)
    take(partition, settling.set_aside(ledger, [GrantRows(first, RowSet(2, 4)), GrantRows(second)], SetAsideReason.EXPIRED))
    assert ledger.settled.of(RowSet(1, 21)).offsets().tolist() == [2, 3, *range(6, 11)]
    assert settling.set_aside(ledger, [GrantRows(first, RowSet(2, 4)), GrantRows(second)], SetAsideReason.DAMAGED) is None
    take(partition, settling.expire(ledger, 1000))
    assert ledger.retry_counts(RowSet(1, 11)).tolist() == [1, 0, 0, 1, 1, 0, 0, 0, 0, 0]
    assert np.array_equal(ledger.next_rows(4, 21).offsets(), [1, 4, 5, 11])


def test_what_is_asked_of_all_subscriptions_wakes_none_that_rests():
    live, loaded = log(), Partition(1, 0, 600)
    for name in ("quiet", "busy"):
        subscribed(live, name=name)
    grant(live, live.ledgers[2], 5, now=100)
    loaded.ledgers.restore(live.ledgers.snapshot())
    ledgers = loaded.ledgers
    assert {one.name for one in ledgers.subscriptions()} == {"quiet", "busy"}
    assert (ledgers.next_deadline(), ledgers.moment, len(ledgers)) == (130, 100, 2)
    assert not ledgers._ledgers
    assert ledgers.kept(3) == RowSet(1, 3)
    assert list(ledgers._ledgers) == [2]
    assert ledgers.state() == live.ledgers.state()
    ledgers.apply(subscribing.unsubscribe(loaded, 2))
    assert ledgers.next_deadline() == NEVER
