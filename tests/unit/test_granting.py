"""Who gets what when a flush is taken: fairness, credit, and what goes along with a flush."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from bowstring import errors
from bowstring.broker.queue.granter import PARTITIONS_AT_ONCE
from bowstring.broker.queue.holdings import ConsumerCredit
from bowstring.core.changes import Append
from bowstring.core.leases import GRANTS_MAX
from bowstring.core.ledger_changes import Grant, Join, Settlement
from tests.unit.queue_scene import QueueScene
from tests.unit.test_alarm import SECOND


def few(messages: int, size: int = 1 << 40) -> ConsumerCredit:
    return ConsumerCredit(messages, size)


async def test_a_message_is_leased_by_the_flush_that_stores_it():
    scene = QueueScene()
    ada = scene.customer()
    scene.publish(b"a", b"b")
    assert [type(change) for change in scene.flusher.take()] == [Append, Join, Grant]
    assert not ada.pushed
    scene.flusher.commit()
    assert (ada.offsets, ada.values) == ([1, 2], [b"a", b"b"])


async def test_nothing_is_pushed_before_its_grant_is_committed():
    scene = QueueScene()
    scene.publish(b"a")
    scene.flusher.settle()
    ada = scene.customer()
    assert scene.flusher.requested
    scene.flusher.take()
    assert scene.ledger().leases.rows().runs() == ((1, 1),)
    assert not ada.pushed
    scene.flusher.commit()
    assert ada.offsets == [1]


async def test_without_anything_to_grant_there_is_no_flush():
    scene = QueueScene()
    scene.customer()
    assert scene.flusher.take() == []


async def test_a_publish_that_misses_its_deadline_takes_its_grant_with_it():
    scene = QueueScene()
    ada = scene.customer()
    scene.publish(b"late", timeout=SECOND)
    scene.publish(b"in time")
    scene.flusher.take()
    assert len(scene.ledger().leases.rows()) == 2
    await scene.clock.move(5)
    scene.flusher.commit()
    assert ada.values == [b"in time"]
    assert scene.ledger().leases.rows().runs() == ((2, 1),)
    scene.flusher.settle()
    assert isinstance(scene.published[-1], errors.DeadlinePassed)
    ada.settle(Settlement.ACK, 1)
    scene.flusher.settle()
    assert scene.ledger().floor == 3
    scene.check()


async def test_consumers_share_evenly():
    scene = QueueScene()
    customers = [scene.customer(f"c{number}") for number in range(5)]
    scene.publish(*[b"x"] * 1000)
    scene.flusher.settle()
    assert [len(customer.offsets) for customer in customers] == [200] * 5
    assert sorted(offset for customer in customers for offset in customer.offsets) == list(range(1, 1001))


async def test_a_few_rows_at_a_time_go_round_among_many_consumers():
    scene, rng = QueueScene(), random.Random(1)
    customers = [scene.customer(f"c{number}", few(20)) for number in range(50)]
    got: Counter[int] = Counter()
    for _ in range(300):
        scene.publish(*[b"x"] * rng.randint(20, 60))
        scene.flusher.settle()
        for at, customer in enumerate(customers):
            got[at] += len(customer.offsets)
            for grant in customer.grants:
                customer.settle(Settlement.ACK, grant)
            customer.pushed.clear()
        scene.flusher.settle()
    mean = got.total() / 50
    assert 0.8 * mean <= min(got.values()) <= max(got.values()) <= 1.2 * mean
    scene.check()


async def test_partitions_take_turns():
    scene = QueueScene(partitions=4)
    ada = scene.customer(credit=few(10))
    for partition in range(4):
        scene.publish(*[b"x"] * 100, partition=partition)
    seen: Counter[int] = Counter()
    for _ in range(20):
        scene.flusher.settle()
        for pushed in ada.pushed:
            seen[pushed.fetched.partition] += pushed.fetched.rows
            ada.settle(Settlement.ACK, pushed.lease.grant, partition=pushed.fetched.partition)
        ada.pushed.clear()
    assert all(count >= 40 for count in seen.values())
    assert len(seen) == 4


async def test_one_grant_per_consumer_partition_and_flush():
    scene = QueueScene(partitions=2)
    for partition in range(2):
        scene.publish(*[b"x"] * 100, partition=partition)
    scene.flusher.settle()
    for name in ("ada", "bob"):
        scene.customer(name, few(30))
    grants = [change for change in scene.flusher.take() if isinstance(change, Grant)]
    assert len({(change.partition, change.consumer) for change in grants}) == len(grants)


async def test_credit_is_never_exceeded_whatever_happens():
    scene = QueueScene()
    rng = random.Random(5)
    customers = [scene.customer(f"c{number}", few(rng.randint(1, 40))) for number in range(4)]
    held: dict[int, Counter[int]] = {at: Counter() for at in range(4)}
    for _ in range(300):
        scene.publish(*[b"x"] * rng.randint(1, 30))
        if rng.random() < 0.7:
            scene.flusher.settle()
        for at, customer in enumerate(customers):
            for pushed in customer.pushed:
                held[at][pushed.lease.grant] += pushed.fetched.rows
            customer.pushed.clear()
            assert held[at].total() <= customer.live.holdings.credit.messages
            for grant in [grant for grant in held[at] if rng.random() < 0.5]:
                customer.settle(rng.choice(list(Settlement)), grant)
                del held[at][grant]
    scene.check()


async def test_a_consumer_gets_no_more_grants_than_a_ledger_keeps():
    scene = QueueScene()
    ada = scene.customer()
    for _ in range(GRANTS_MAX + 5):
        scene.publish(b"x")
        scene.flusher.settle()
    assert len(ada.offsets) == GRANTS_MAX
    ada.settle(Settlement.ACK, 1)
    scene.flusher.settle()
    assert ada.offsets[-5:] == list(range(GRANTS_MAX + 1, GRANTS_MAX + 6))


async def test_grants_end_with_a_page_when_the_next_one_does_not_fit():
    scene = QueueScene()
    for _ in range(4):
        scene.publish(*[b"x"] * 100)
    scene.flusher.settle()
    ada = scene.customer(credit=few(250))
    scene.flusher.take()
    scene.flusher.commit()
    assert ada.offsets == list(range(1, 201))
    assert scene.flusher.requested


async def test_a_consumer_with_plenty_gets_the_rest_with_the_next_flush_or_a_little_later():
    scene = QueueScene()
    for _ in range(4):
        scene.publish(*[b"x"] * 100)
    scene.flusher.settle()
    ada = scene.customer(credit=few(250))
    scene.flusher.settle()
    ada.settle(Settlement.ACK, ada.grants[0], range(1, 61))
    scene.flusher.take()
    scene.flusher.commit()
    assert (len(ada.offsets), scene.flusher.requested) == (300, False)
    ada.settle(Settlement.ACK, ada.grants[0], [61])
    scene.flusher.settle()
    assert len(ada.offsets) == 311
    ada.settle(Settlement.ACK, ada.grants[0], range(62, 162))
    scene.flusher.take()
    scene.flusher.commit()
    assert len(ada.offsets) == 400


async def test_what_is_left_for_a_consumer_with_plenty_needs_no_other_flush():
    scene = QueueScene()
    for _ in range(4):
        scene.publish(*[b"x"] * 100)
    scene.flusher.settle()
    ada = scene.customer(credit=few(250))
    scene.flusher.settle()
    ada.settle(Settlement.ACK, ada.grants[0], range(1, 61))
    scene.flusher.settle()
    assert len(ada.offsets) == 300
    await scene.clock.move(1)
    assert scene.flusher.requested
    scene.flusher.settle()
    assert len(ada.offsets) == 310


async def test_a_consumer_that_settles_nothing_gets_rows_of_all_partitions():
    scene = QueueScene(partitions=3 * PARTITIONS_AT_ONCE)
    for partition in range(3 * PARTITIONS_AT_ONCE):
        scene.publish(b"x", partition=partition)
    ada = scene.customer()
    scene.flusher.settle()
    assert len(ada.offsets) == 3 * PARTITIONS_AT_ONCE


async def test_a_paused_consumer_gets_nothing_and_goes_on_where_it_was():
    scene = QueueScene()
    ada = scene.customer(credit=few(0))
    scene.publish(b"a")
    scene.flusher.settle()
    assert not ada.pushed
    ada.live.limit(few(1))
    scene.flusher.settle()
    assert ada.offsets == [1]


async def test_a_lower_credit_gives_back_what_is_on_its_way():
    scene = QueueScene()
    ada = scene.customer(credit=few(5))
    scene.publish(*[b"x"] * 5)
    scene.flusher.take()
    ada.live.limit(few(2))
    scene.flusher.commit()
    assert ada.offsets == [1, 2]
    scene.flusher.settle()
    assert scene.ledger().leases.rows().runs() == ((1, 2),)
    assert not scene.ledger().retry_counts(scene.ledger().returned.rows()).any()
    scene.check()


async def test_bytes_are_bounded_by_what_rows_really_have():
    """The estimate is of small messages; large ones are given back, and go to a consumer that has
    room.
    """
    scene = QueueScene()
    ada = scene.customer(credit=few(1000, 20_000))
    scene.publish(*[b"x" * 10] * 50)
    scene.flusher.settle()
    assert len(ada.offsets) == 50
    scene.publish(sizes=[9_000] * 4)
    scene.flusher.settle()
    assert sum(pushed.fetched.size for pushed in ada.pushed) <= 20_000
    assert ada.offsets[-1] == 51
    bob = scene.customer("bob", few(1000, 100_000))
    scene.flusher.settle()
    assert bob.offsets == [52, 53, 54]
    assert all(count == 0 for pushed in bob.pushed for count in pushed.lease.retry_counts)
    scene.check()


async def test_a_message_larger_than_the_credit_comes_alone():
    scene = QueueScene()
    ada = scene.customer(credit=few(1000, 1000))
    scene.publish(sizes=[5_000, 5_000, 10])
    scene.flusher.settle()
    assert ada.offsets == [1]
    ada.settle(Settlement.ACK, ada.grants[-1])
    scene.flusher.settle()
    assert ada.offsets == [1, 2]


@pytest.mark.parametrize("outcome", [Settlement.ACK, Settlement.NACK, Settlement.REJECT, Settlement.RELEASE])
async def test_what_is_settled_makes_room_and_what_is_given_back_comes_first(outcome: Settlement):
    scene = QueueScene()
    ada = scene.customer(credit=few(3))
    scene.publish(*[b"x"] * 10)
    scene.flusher.settle()
    ada.settle(outcome, 1, [2])
    scene.flusher.settle()
    assert ada.offsets == [1, 2, 3, 4 if outcome in (Settlement.ACK, Settlement.REJECT) else 2]
    counts = [count for pushed in ada.pushed[1:] for count in pushed.lease.retry_counts]
    assert counts == ([1] if outcome is Settlement.NACK else [])


async def test_readers_at_the_tail_sleep_through_grants_and_settlements():
    scene = QueueScene()
    scene.publish(b"a", b"b")
    scene.flusher.settle()
    woken = asyncio.Event()
    scene.actors[0].wake_when_readable(woken, 3)
    ada = scene.customer()
    scene.flusher.settle()
    ada.settle(Settlement.NACK, 1, [1])
    scene.flusher.settle()
    ada.settle(Settlement.ACK, 1)
    scene.flusher.settle()
    assert not woken.is_set()
    scene.publish(b"c")
    scene.flusher.settle()
    assert woken.is_set()
