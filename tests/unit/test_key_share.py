"""Keys are shared out over partitions: all of them have their turn."""

from __future__ import annotations

import pytest

from bowstring.broker.queue import key_share, keyed_partition, look_ahead
from bowstring.broker.queue.crumbs import CRUMBS_MICROSECONDS
from bowstring.broker.queue.holdings import ConsumerCredit
from bowstring.core.ledger_changes import Settlement
from tests.unit.queue_scene import Customer, QueueScene
from tests.unit.test_alarm import SECOND


def key_shared(partitions: int) -> QueueScene:
    """A scene in which keys count."""
    scene = QueueScene(partitions, with_keys=True)
    scene.subscription.share_keys(scene.lease_clock.now, scene.lease_alarm.set)
    return scene


def few(messages: int) -> ConsumerCredit:
    return ConsumerCredit(messages, 1 << 40)


def ack_all(scene: QueueScene, customer: Customer, rounds: int) -> list[bytes]:
    """The values in the order in which they came. All that has come is acked, so many times."""
    done = 0
    for _ in range(rounds):
        scene.flusher.settle()
        for pushed in customer.pushed[done:]:
            done += 1
            customer.settle(Settlement.ACK, pushed.lease.grant, partition=pushed.fetched.partition)
    scene.flusher.settle()
    return customer.values


async def test_a_partition_is_not_forgotten_because_no_consumer_had_room():
    scene = key_shared(partitions=2)
    scene.publish(keys=[b"a", b"a", b"a"], partition=0)
    scene.publish(keys=[b"b", b"b", b"b"], partition=1)
    scene.flusher.settle()
    ada = scene.customer(credit=few(3))
    scene.flusher.settle()
    assert ada.values == [b"a"] * 3
    assert ack_all(scene, ada, 2) == [b"a"] * 3 + [b"b"] * 3
    scene.check()


async def test_partitions_take_turns_when_room_is_scarce():
    scene = key_shared(partitions=3)
    for partition, key in enumerate((b"a", b"b", b"c")):
        scene.publish(keys=[key] * 2, partition=partition)
    scene.flusher.settle()
    ada = scene.customer(credit=few(1))
    assert ack_all(scene, ada, 6) == [b"a", b"b", b"c"] * 2
    scene.check()


async def test_the_search_for_a_free_key_goes_on_with_the_next_flush(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(key_share, "LOOKS_MAX", 1)
    monkeypatch.setattr(keyed_partition, "BLOCK_ROWS", 1)
    monkeypatch.setattr(look_ahead, "SMALL_ROWS", 1)
    scene = key_shared(partitions=1)
    assert scene.subscription.scout is not None
    for key in [b"a"] * 5 + [b"b"]:
        scene.publish(keys=[key])
        scene.flusher.settle()
        scene.subscription.scout.waiting(scene.actors[0], scene.ledger())  # it looks at each page by itself
    ada = scene.customer(credit=few(2))
    scene.flusher.settle()
    assert ada.values == [b"a", b"b"]
    scene.check()


async def test_a_few_rows_wait_a_little_if_their_consumer_has_plenty():
    scene = key_shared(partitions=1)
    scene.publish(keys=[b"%d" % number for number in range(20)])
    ada = scene.customer()
    scene.flusher.settle()
    scene.publish(keys=[b"late"])
    scene.flusher.settle()
    assert len(ada.values) == 20
    await scene.clock.move(CRUMBS_MICROSECONDS / SECOND)
    scene.flusher.settle()
    assert ada.values[20:] == [b"late"]
    scene.check()


async def test_an_earlier_alarm_does_not_forget_the_few_rows_that_wait():
    scene = key_shared(partitions=1)
    assert scene.subscription.keys is not None
    scene.publish(keys=[b"%d" % number for number in range(20)])
    ada = scene.customer()
    scene.flusher.settle()
    scene.lease_alarm.set(scene.subscription.keys, scene.clock.now() + CRUMBS_MICROSECONDS // 4)
    scene.publish(keys=[b"late"])
    scene.flusher.settle()
    for _ in range(2):
        await scene.clock.move(CRUMBS_MICROSECONDS / 2 / SECOND)
        scene.flusher.settle()
    assert ada.values[20:] == [b"late"]


async def test_a_consumer_that_has_little_gets_a_single_row_at_once():
    scene = key_shared(partitions=1)
    scene.publish(keys=[b"a", b"b", b"c"])
    ada = scene.customer()
    scene.flusher.settle()
    scene.publish(keys=[b"d"])
    scene.flusher.settle()
    assert ada.values == [b"a", b"b", b"c", b"d"]


async def test_a_message_that_is_due_comes_before_later_ones_of_its_key_that_wait_in_front():
    """Enough waits for the consumer, so that there would be no need to look at what has become due."""
    scene = key_shared(partitions=1)
    start = scene.clock.now()
    scene.publish(b"due", b"1", b"2", b"3", keys=[b"k"] * 4, dues=[start + 10 * SECOND, None, None, None])
    scene.flusher.settle()
    ada = scene.customer(credit=few(1))
    scene.flusher.settle()
    assert ada.values == [b"1"]
    scene.clock.moment += 11 * SECOND
    scene.subscription.schedules[scene.actors[0]].woken(scene.clock.now())
    assert ack_all(scene, ada, 5) == [b"1", b"due", b"2", b"3"]
    scene.check()
