"""Suspects of a crash in a key-shared subscription: who gets them, and what waits for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa
import pytest

from bowstring.broker.queue.holdings import ConsumerCredit
from bowstring.broker.queue.key_search import KeySearch, standing
from bowstring.client.keys import from_wire
from bowstring.core import settling
from bowstring.core.condemned import EXPIRED
from bowstring.core.granting import GROUPS
from bowstring.core.ledger_changes import Expire, Grant, Settlement
from bowstring.core.row_set import RowSet
from bowstring.core.subscription_settings import SubscriptionSettings
from bowstring.messages.hashing import id_hashes
from bowstring.wire.generated import bowstring_pb2 as pb
from tests.unit.queue_scene import Customer, QueueScene
from tests.unit.test_alarm import SECOND

LEASE = 30 * SECOND
MUCH = ConsumerCredit(1_000, 1 << 40)


def key_shared(partitions: int = 1, deliveries: int = 10) -> QueueScene:
    scene = QueueScene(partitions, lease=LEASE, with_keys=True)
    scene.subscription.share_keys(scene.lease_clock.now, scene.lease_alarm.set)
    for partition in range(partitions):
        ledger = scene.ledger(partition)
        ledger.settings = SubscriptionSettings("key_shared", LEASE, deliveries)
    return scene


def publish(scene: QueueScene, *keys: bytes | None, partition: int = 0) -> None:
    scene.publish(keys=list(keys), partition=partition)
    scene.flusher.settle()


def consumers(scene: QueueScene, *names: str, credit: ConsumerCredit = MUCH) -> list[Customer]:
    found = [scene.customer(name, credit) for name in names]
    scene.flusher.settle()
    return found


def run_out(scene: QueueScene) -> None:
    """All leases end."""
    scene.clock.moment += LEASE
    for actor in scene.actors:
        scene.queue.expire(actor, scene.lease_clock.now())
    scene.flusher.settle()
    scene.check()
    for actor in scene.actors:
        assert scene.subscription.keys is not None
        scene.subscription.keys.partition(actor).keys.check()


def held(scene: QueueScene, name: str, partition: int = 0) -> list[int]:
    ledger = scene.ledger(partition)
    known = ledger.consumers.named(name)
    return sorted(
        offset for lease in (ledger.leases.of_consumer(known.number) if known else ()) for offset in lease.rows.offsets().tolist()
    )


def ack_but(scene: QueueScene, customers: Iterable[Customer], poison: int) -> None:
    """Whoever does not hold the poison row acks all that it holds, and what comes for that."""
    found = True
    while found:
        found = False
        for customer in customers:
            ledger = scene.ledger()
            known = ledger.consumers.named(customer.live.name)
            if known is not None and poison not in held(scene, customer.live.name):
                for grant in sorted({lease.number for lease in ledger.leases.of_consumer(known.number)}):
                    customer.settle(Settlement.ACK, grant)
                    found = True
        scene.flusher.settle()


def changes_of(scene: QueueScene, kind: type, do: Callable[[], object]) -> list[object]:
    """The changes of a kind that it makes."""
    found: list[object] = []
    add = scene.flusher.add

    def noted(change: object, page: object = None) -> None:
        found.append(change)
        add(change, page)  # type: ignore[arg-type]

    scene.flusher.add = noted  # type: ignore[method-assign]
    do()
    scene.flusher.add = add  # type: ignore[method-assign]
    return [change for change in found if isinstance(change, kind)]


async def test_a_suspect_comes_alone_and_the_rows_behind_it_wait():
    scene = key_shared()
    publish(scene, b"a", b"a", b"b", b"a")
    ada, bob = consumers(scene, "ada", "bob")
    for _ in range(2):
        ack_but(scene, [ada, bob], poison=1)
        run_out(scene)
    holders = [name for name in ("ada", "bob") if held(scene, name)]
    assert len(holders) == 1
    assert held(scene, holders[0]) == [1]
    (lease,) = scene.ledger().leases.apart()
    assert (lease.apart, lease.rows.offsets().tolist()) == (1, [1])


async def test_a_row_that_expires_alone_for_the_last_time_is_condemned_and_its_key_goes_on():
    scene = key_shared(deliveries=4)
    publish(scene, b"a", b"a", b"b", b"a")
    ada, bob = consumers(scene, "ada", "bob")
    for _ in range(3):
        ack_but(scene, [ada, bob], poison=1)
        run_out(scene)
        assert not scene.ledger().condemned
    ack_but(scene, [ada, bob], poison=1)
    (expire,) = changes_of(scene, Expire, lambda: run_out(scene))
    assert isinstance(expire, Expire)
    assert (expire.condemned, expire.revoked) == ((1, 1), ())
    ((last, rows),) = scene.ledger().condemned.groups(scene.ledger().condemned.rows())
    assert (last.reason, rows.offsets().tolist()) == (EXPIRED, [1])
    assert sorted(held(scene, "ada") + held(scene, "bob")) == [2]
    assert scene.ledger().retry_counts(RowSet(2, 5)).tolist() == [0, 0, 0]
    ack_but(scene, [ada, bob], poison=1)
    assert scene.ledger().backlog(5) == 1


async def test_revoked_rows_are_no_suspects():
    scene = key_shared()
    publish(scene, b"a", b"a", b"a")
    (ada,) = consumers(scene, "ada")
    for _ in range(3):
        assert held(scene, "ada")[0] == 1
        run_out(scene)
    assert scene.ledger().expiries.of(scene.ledger().suspected(scene.ledger().leases.rows())).tolist() == [3]
    assert scene.ledger().retry_counts(scene.ledger().returned.rows()).tolist() == [0, 0]
    assert ada.live.holdings.rows == 1


async def test_groups_shrink_and_have_one_row_of_a_key():
    scene = key_shared()
    publish(scene, *[f"key-{number % 600}".encode() for number in range(1_200)])
    consumers(scene, "ada", credit=ConsumerCredit(10_000, 1 << 40))
    run_out(scene)
    sizes: list[int] = []
    grants = changes_of(scene, Grant, lambda: [run_out(scene) for _ in range(12)])
    for grant in grants:
        assert isinstance(grant, Grant)
        if grant.apart:
            sizes.append(sum(grant.rows[1::2]))
    assert sizes[0] == GROUPS[0]
    assert set(sizes) >= {*GROUPS}


async def test_a_key_that_was_lost_with_its_consumer_comes_in_smaller_parts():
    """Also if no consumer is connected when its lease ends."""
    scene = key_shared()
    publish(scene, *[b"a"] * 100)
    (ada,) = consumers(scene, "ada")
    assert len(held(scene, "ada")) == 100
    ada.live.close()
    run_out(scene)
    (bob,) = consumers(scene, "bob")
    assert len(held(scene, "bob")) == 100
    bob.live.close()
    run_out(scene)
    (eve,) = consumers(scene, "eve")
    assert held(scene, "eve") == [1]  # a suspect
    for first in (2, 27, 52):
        eve.settle(Settlement.ACK, scene.ledger().next_grant - 1)
        scene.flusher.settle()
        assert held(scene, "eve") == list(range(first, first + 25))
    assert scene.subscription.keys is not None
    assert scene.subscription.keys.partition(scene.actors[0]).keys.waiting == 100 - 76


async def test_one_consumer_gets_other_rows_between_two_suspects():
    scene = key_shared()
    publish(scene, b"a")
    (ada,) = consumers(scene, "ada", credit=ConsumerCredit(4, 1 << 40))
    run_out(scene)
    assert held(scene, "ada") == [1]
    publish(scene, b"a", b"b", b"c")
    run_out(scene)
    assert held(scene, "ada") == [3, 4]  # those of other keys, and the row behind waits
    ack_but(scene, [ada], poison=1)
    assert held(scene, "ada") == [1]
    publish(scene, b"d", None)
    run_out(scene)
    assert held(scene, "ada") == [5, 6]
    ack_but(scene, [ada], poison=1)
    assert held(scene, "ada") == [1]
    run_out(scene)
    assert held(scene, "ada") == [1]  # there is nothing else


async def test_a_consumer_with_a_suspect_holds_nothing_else_in_any_partition():
    scene = key_shared(partitions=2)
    publish(scene, b"a")
    (ada,) = consumers(scene, "ada")
    run_out(scene)
    run_out(scene)
    assert held(scene, "ada") == [1]
    publish(scene, b"b", partition=1)
    assert held(scene, "ada", 1) == []
    ada.settle(Settlement.ACK, scene.ledger().next_grant - 1)
    scene.flusher.settle()
    assert held(scene, "ada", 1) == [1]


async def test_at_most_a_quarter_of_the_consumers_are_occupied():
    scene = key_shared()
    publish(scene, *[f"key-{number}".encode() for number in range(40)])
    customers = consumers(scene, *[f"c{number}" for number in range(9)], credit=ConsumerCredit(1, 1 << 40))
    for _ in range(12):
        run_out(scene)
        assert len({lease.consumer for lease in scene.ledger().leases.apart()}) <= 2
        assert len(scene.subscription.apart) <= 2
    assert len(customers) == 9


async def test_a_suspect_that_is_deleted_or_taken_holds_its_key_back_no_more():
    scene = key_shared()
    publish(scene, b"a", b"a")
    (ada,) = consumers(scene, "ada", credit=ConsumerCredit(1, 1 << 40))
    run_out(scene)
    ada.live.limit(ConsumerCredit(0, 0))
    run_out(scene)
    assert not scene.ledger().leases.rows()
    change = settling.condemn(scene.ledger(), RowSet(1, 2), "too old", scene.lease_clock.now())
    assert change is not None
    scene.actors[0].partition.apply(change)
    scene.queue.taken(scene.actors[0], [change])
    ada.live.limit(MUCH)
    scene.flusher.settle()
    assert held(scene, "ada") == [2]


async def test_a_suspect_that_is_backed_off_comes_alone_when_it_is_due():
    scene = key_shared()
    publish(scene, b"a", b"a")
    (ada,) = consumers(scene, "ada")
    for _ in range(2):
        run_out(scene)
    assert held(scene, "ada") == [1]
    ada.settle(Settlement.NACK, scene.ledger().next_grant - 1, delay=5 * SECOND)
    scene.flusher.settle()
    assert held(scene, "ada") == []
    await scene.clock.move(6)
    scene.flusher.settle()
    assert held(scene, "ada") == [1]
    assert next(iter(scene.ledger().leases.apart())).apart == 1


async def test_it_is_said_that_a_key_waits_for_its_suspect():
    scene = key_shared()
    publish(scene, b"a", b"a")
    (ada,) = consumers(scene, "ada", credit=ConsumerCredit(1, 1 << 40))
    run_out(scene)
    ada.live.limit(ConsumerCredit(0, 0))
    run_out(scene)
    known, key = scene.subscription.keys, int(id_hashes(pa.array([b"a"], pa.binary()))[0])
    assert known is not None
    found = standing(known.partition(scene.actors[0]), scene.ledger(), key, KeySearch(np.empty(0, np.int64), 3, True), "ada")
    assert found is not None
    assert (found.suspect, found.first, found.waiting, found.later) == (1, 1, 2, 0)
    answer = pb.ExplainKeyAnswer(standings=[pb.KeyStanding(**found._asdict())], consumers=1)
    report = from_wire(answer.standings[0], answer, "orders", "billing", b"a")
    alone = "orders/0@1 waits for a consumer that holds nothing else: its leases expired twice."
    assert (report.suspect, report.reason) == (1, f"{alone} The others of its key wait for it.")


@pytest.mark.parametrize("keys", [3, 37, 500])
@pytest.mark.parametrize("workers", [1, 2, 4, 8])
async def test_a_crash_storm_over_keys_condemns_the_poison_row_alone(workers: int, keys: int):
    """Whoever holds the poison row dies with all that it holds; others ack, and get more at once."""
    scene, poison, end = key_shared(), 333, 1_001
    publish(scene, *[None if number % 10 == 0 else f"key-{number % keys}".encode() for number in range(1_000)])
    customers = consumers(scene, *[f"c{number}" for number in range(workers)], credit=ConsumerCredit(100, 1 << 40))
    crashes = 0
    while scene.ledger().backlog(end) > len(scene.ledger().condemned):
        ack_but(scene, customers, poison)
        crashes += any(poison in held(scene, customer.live.name) for customer in customers)
        run_out(scene)
        assert crashes < 20
    assert [rows.offsets().tolist() for _, rows in scene.ledger().condemned.groups(scene.ledger().condemned.rows())] == [[poison]]
    assert scene.ledger().backlog(end) == 1
    assert crashes >= 10
