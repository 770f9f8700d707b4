"""An owner's delete by ids, as the partition machine decides it: no broker, no disk, no clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from bowstring.core import deleting, granting, publishing, subscribing
from bowstring.core.answers import Repeat, Stored
from bowstring.core.changes import Change, Delete, Reason
from bowstring.core.decisions import BatchName, Decided, Decision, Deleted, Found, GivenBack, Ids, Lookup, Publish, SealedBatch, Wait
from bowstring.core.journal import decode, encode
from bowstring.core.ledgers import SubscriptionLease
from bowstring.core.natural_ids import NO_HITS, Hits
from bowstring.core.partition import Partition
from bowstring.core.row_set import RowSet
from bowstring.core.subscription_settings import SubscriptionSettings

SECOND = 1_000_000
WINDOW = 600 * SECOND
NOW = 1_800_000_000 * SECOND
LEASE_NOW = 77 * SECOND
"""Leases run by another clock."""
ADA = b"a" * 16
NOTHING = np.empty(0, np.int64)


class Outcome(NamedTuple):
    """What a delete came to."""

    change: Delete | None
    offsets: np.ndarray
    others: Mapping[int, str]
    leased: Mapping[int, SubscriptionLease]


class Shop:
    """A partition in which Ada's group, the shop, has stored messages with the ids 1, 2, 3, … at the offsets of the same numbers."""

    def __init__(self, rows: int = 5, *, named: bool = True) -> None:
        self.partition = Partition(1, 0, WINDOW)
        self.journal: list[Change] = []
        ids = wanted(*range(1, rows + 1)) if named else None
        self.take(publishing.publish(self.partition, Publish(ADA, 1, 0, NOW, 30 * SECOND, rows, 2, ids), NOW))
        self.groups = dict.fromkeys(range(1, rows + 1), "shop")

    def commit(self) -> Shop:
        for change in self.journal:
            self.partition.committed(change, 1)
        return self

    def found(self, *places: tuple[int, int], arrived: int = NOW) -> Found:
        """What a lookup has found: rows of the request and their offsets."""
        hits = Hits(np.array([row for row, _ in places], np.int64), np.array([offset for _, offset in places], np.int64))
        return Found(self.partition.moves, hits, np.full(len(places), arrived, np.int64), {}, groups=self.groups)

    def lease(self, subscription: str, consumer: str, rows: int, span: int) -> None:
        """A consumer of a new subscription holds the first rows."""
        number = self.partition.ledgers.next_number
        self.apply(subscribing.subscribe(self.partition, number, subscription, SubscriptionSettings(), 1, NOW))
        granted = granting.grant(self.partition.ledgers[number], consumer, rows, self.partition.next_offset, span, LEASE_NOW)
        assert granted is not None
        self.apply(*granted.changes)

    def apply(self, *changes: Change) -> None:
        self.take(Decided(changes, None))

    def delete(self, ids: Ids, found: Found, *, group: str = "shop", now: int = NOW, lease_now: int | None = None) -> Outcome:
        decision = deleting.delete(self.partition, ids, group, now, found, lease_now=lease_now)
        self.take(decision)
        assert isinstance(decision, Decided)
        change = next(iter(decision.changes), None)
        assert change is None or isinstance(change, Delete)
        return Outcome(change, *decision.answer[:3])

    def take(self, decision: Decision[Any]) -> None:
        assert isinstance(decision, Decided)
        self.partition.take(decision)
        self.journal += decision.changes

    def live(self) -> list[int]:
        return self.partition.live(1, self.partition.next_offset).tolist()


def wanted(*hashes: int, given: tuple[GivenBack, ...] = ()) -> Ids:
    return Ids(np.array(hashes, np.uint64), None, given)


def asked(partition: Partition, ids: Ids) -> Decision[Deleted]:
    return deleting.delete(partition, ids, "shop", NOW)


def test_an_id_is_compared_and_its_owner_read_before_anything_is_deleted():
    decision = asked(Shop().commit().partition, wanted(3))
    assert isinstance(decision, Lookup)
    assert decision.hits.offsets.tolist() == [3]
    assert decision.owned is not None


def test_what_nobody_knows_is_not_found_without_a_lookup():
    decision = asked(Shop().commit().partition, wanted(99))
    assert isinstance(decision, Decided)
    assert decision.changes == ()
    assert decision.answer.offsets.tolist() == [0]


def test_a_delete_of_what_is_not_committed_yet_waits():
    assert isinstance(asked(Shop().partition, wanted(3)), Wait)
    assert isinstance(asked(Shop(named=False).partition, wanted(99, given=(GivenBack(0, ADA, 1, 2),))), Wait)


def test_messages_are_deleted_in_runs_whatever_the_order_of_their_ids():
    shop = Shop().commit()
    decision = shop.delete(wanted(5, 2, 1), shop.found((0, 5), (1, 2), (2, 1)))
    assert decision.change is not None
    assert (decision.change.runs, decision.change.reason) == (((1, 2), (5, 1)), Reason.OWNER)
    assert decision.offsets.tolist() == [5, 2, 1]
    assert shop.live() == [3, 4]
    assert shop.partition.messages == 2


def test_an_id_that_was_asked_for_twice_is_deleted_once():
    shop = Shop().commit()
    decision = shop.delete(wanted(2, 2), shop.found((0, 2), (1, 2)))
    assert decision.change is not None
    assert decision.change.runs == ((2, 1),)
    assert decision.offsets.tolist() == [2, 2]


def test_another_groups_message_is_left_alone():
    shop = Shop().commit()
    decision = shop.delete(wanted(2, 3), shop.found((0, 2), (1, 3)), group="warehouse")
    assert decision.change is None
    assert decision.others == {0: "shop", 1: "shop"}
    assert shop.live() == [1, 2, 3, 4, 5]


def test_a_delete_that_is_repeated_is_answered_alike_and_changes_nothing():
    shop = Shop().commit()
    first = shop.delete(wanted(2), shop.found((0, 2)))
    again = shop.delete(wanted(2), shop.found((0, 2)))
    assert again.offsets.tolist() == first.offsets.tolist() == [2]
    assert again.change is None


def test_the_id_of_a_deleted_message_stays_taken():
    shop = Shop().commit()
    shop.delete(wanted(2), shop.found((0, 2)))
    again = publishing.publish(shop.partition, Publish(ADA, 2, 1, NOW, 30 * SECOND, 1, 2, wanted(2)), NOW, shop.found((0, 2)))
    assert isinstance(again, Decided)
    assert again.answer == Stored(0, 0, (Repeat(0, 1, 2),))


def test_what_was_taken_back_or_is_out_of_the_window_or_behind_retention_is_not_found():
    shop = Shop().commit()
    shop.take(Decided((shop.partition.delete(((1, 1),), Reason.DEADLINE),), None))
    assert shop.delete(wanted(1), shop.found((0, 1))).offsets.tolist() == [0]
    assert shop.delete(wanted(2), shop.found((0, 2)), now=NOW + WINDOW + SECOND).offsets.tolist() == [0]
    shop.take(Decided((shop.partition.raise_floor(4, ((2, 1),)),), None))
    assert shop.delete(wanted(3), shop.found((0, 3))).offsets.tolist() == [0]
    assert shop.delete(wanted(2), shop.found((0, 2))).offsets.tolist() == [2]


def test_a_generated_id_names_a_row_of_its_batch():
    shop = Shop(named=False).commit()
    ids = wanted(99, given=(GivenBack(0, ADA, 1, 2),))
    lookup = asked(shop.partition, ids)
    assert isinstance(lookup, Lookup)
    assert lookup.owned is not None
    assert lookup.owned.tolist() == [3]
    assert shop.delete(ids, shop.found()).offsets.tolist() == [3]
    assert shop.live() == [1, 2, 4, 5]


def test_a_generated_id_of_a_sealed_batch_is_looked_for_in_the_sections():
    shop = Shop(named=False).commit()
    shop.partition.sealed(6, 100)
    ids = wanted(99, 98, given=(GivenBack(0, ADA, 1, 4), GivenBack(1, ADA, 1, 5)))
    lookup = asked(shop.partition, ids)
    assert isinstance(lookup, Lookup)
    assert lookup.batches == (BatchName(ADA, 1),)
    batches = {BatchName(ADA, 1): SealedBatch(1, 5, "shop")}
    found = Found(shop.partition.moves, NO_HITS, NOTHING, batches, groups={})
    assert shop.delete(ids, found, group="warehouse").others == {0: "shop"}
    assert shop.delete(ids, found).offsets.tolist() == [5, 0]


def test_what_has_moved_since_it_was_found_is_looked_for_again():
    shop = Shop().commit()
    found = shop.found((0, 2))
    shop.partition.moved(0)
    assert isinstance(deleting.delete(shop.partition, wanted(2), "shop", NOW, found), Lookup)


def test_what_was_published_while_a_lookup_went_on_is_not_found_by_it():
    shop = Shop(named=False).commit()
    found = shop.found()
    shop.take(publishing.publish(shop.partition, Publish(ADA, 2, 1, NOW, 30 * SECOND, 1, 2, None), NOW))
    assert shop.delete(wanted(99, given=(GivenBack(0, ADA, 2, 0),)), found).offsets.tolist() == [0]


def test_readers_before_a_deletion_wait_until_it_is_committed_and_those_behind_it_go_on():
    shop = Shop(rows=9).commit()
    decision = shop.delete(wanted(2, 3, 7), shop.found((0, 2), (1, 3), (2, 7)))
    assert [shop.partition.readable_upto(offset) for offset in (1, 2, 3, 4, 7, 8, 10)] == [2, 2, 3, 7, 7, 10, 10]
    assert shop.partition.readable_offset == 10
    assert decision.change is not None
    shop.partition.committed(decision.change, 2)
    assert shop.partition.readable_upto(1) == 10


def test_deletions_are_loaded_as_they_are():
    shop = Shop().commit()
    shop.delete(wanted(5, 2), shop.found((0, 5), (1, 2)))
    loaded = Partition(1, 0, WINDOW)
    for sequence, change in enumerate(decode(encode(shop.journal)), start=1):
        loaded.replay(change, sequence)
    assert loaded.deletions.state() == shop.partition.deletions.state()
    assert loaded.live(1, 6).tolist() == [1, 3, 4]


def test_a_message_that_a_consumer_of_any_subscription_holds_is_not_deleted():
    shop = Shop().commit()
    shop.lease("mail", "ada", 2, 10 * SECOND)
    shop.lease("billing", "bob", 3, 30 * SECOND)
    asked, found = wanted(2, 3, 4), shop.found((0, 2), (1, 3), (2, 4))
    outcome = shop.delete(asked, found, lease_now=LEASE_NOW)
    assert outcome.offsets.tolist() == [0, 0, 4]
    assert outcome.change == Delete(1, 0, ((4, 1),), Reason.OWNER)
    held = {row: (lease.name, lease.leased.consumer, lease.leased.until) for row, lease in outcome.leased.items()}
    assert held == dict.fromkeys((0, 1), ("billing", "bob", LEASE_NOW + 30 * SECOND))
    assert not shop.partition.is_gone(2)


def test_a_lease_that_has_ended_by_its_clock_keeps_nothing_from_being_deleted():
    shop = Shop().commit()
    shop.lease("mail", "ada", 2, 10 * SECOND)
    asked, found = wanted(2), shop.found((0, 2))
    assert shop.delete(asked, found).leased
    assert shop.delete(asked, found, lease_now=LEASE_NOW + 10 * SECOND - 1).leased
    outcome = shop.delete(asked, found, lease_now=LEASE_NOW + 10 * SECOND)
    assert (outcome.offsets.tolist(), outcome.leased) == ([2], {})
    assert not shop.partition.ledgers[1].settled.of(RowSet(1, 2))
    assert shop.partition.ledgers[1].leases.rows() == RowSet(1, 2)


def test_a_delete_is_repeated_also_when_another_message_is_leased():
    shop = Shop().commit()
    asked, found = wanted(1, 2), shop.found((0, 1), (1, 2))
    assert shop.delete(asked, found).offsets.tolist() == [1, 2]
    shop.lease("mail", "ada", 3, 10 * SECOND)
    outcome = shop.delete(asked, found, lease_now=LEASE_NOW)
    assert (outcome.change, outcome.offsets.tolist(), outcome.leased) == (None, [1, 2], {})
