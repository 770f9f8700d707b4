"""Rows are looked at before they are granted: filters, and what is left out."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from bowstring.broker.queue import page_looks, scout
from bowstring.broker.queue.crumbs import CRUMBS_MICROSECONDS
from bowstring.broker.queue.holdings import ConsumerCredit
from bowstring.core.changes import Append, Delete, Reason
from bowstring.core.ledger_changes import Grant, Join, Settlement, Skip
from bowstring.core.row_set import RowSet
from bowstring.messages.hashing import id_hashes
from tests.unit.queue_scene import QueueScene

ONLY_A = "key = 'a'"


def few(messages: int) -> ConsumerCredit:
    return ConsumerCredit(messages, 1 << 40)


async def turns(scene: QueueScene) -> None:
    """Tasks read what they have to."""
    for _ in range(20):
        await asyncio.sleep(0)
        scene.flusher.settle()


async def test_only_rows_that_pass_the_filter_are_delivered():
    scene = QueueScene(where=ONLY_A)
    ada = scene.customer()
    scene.publish(keys=[b"a", b"b", b"b", b"a", None, b"b"])
    assert [type(change) for change in scene.flusher.take()] == [Append]
    scene.flusher.commit()
    assert [type(change) for change in scene.flusher.take()] == [Join, Grant]
    scene.flusher.commit()
    assert ada.offsets == [1, 4]
    assert scene.ledger().backlog(7) == 2
    ada.settle(Settlement.ACK, 1)
    scene.flusher.settle()
    assert scene.ledger().floor == 7
    scene.check()


async def test_rows_that_are_left_out_are_settled_by_the_grant_that_passes_them():
    scene = QueueScene(where=ONLY_A)
    scene.publish(keys=[b"b", b"a", b"b", b"b", b"a", b"b", b"a"])
    scene.flusher.settle()
    ada = scene.customer(credit=few(1))
    (_, grant) = scene.flusher.take()
    assert isinstance(grant, Grant)
    assert (grant.passed, grant.rows, grant.skipped) == (4, (2, 1), (1, 1, 1, 2))
    scene.flusher.settle()
    assert (ada.offsets, scene.ledger().cursor, scene.ledger().floor) == ([2], 5, 2)
    ada.settle(Settlement.NACK, 1)
    scene.flusher.settle()
    assert ada.offsets == [2, 2]
    ada.settle(Settlement.ACK, 2)
    scene.flusher.settle()
    assert ada.offsets == [2, 2, 5]
    scene.check()


async def test_the_floor_rises_though_nothing_matches():
    scene = QueueScene(where=ONLY_A)
    scene.customer()
    scene.publish(keys=[b"b"] * 10)
    scene.flusher.settle()
    assert scene.ledger().floor == 1
    await scene.clock.move(6)
    (skip,) = scene.flusher.take()
    assert skip == Skip(1, 0, 1, 10)
    scene.flusher.settle()
    assert (scene.ledger().floor, scene.ledger().cursor) == (11, 11)
    await scene.clock.move(60)
    assert not scene.flusher.take()
    scene.check()


async def test_very_many_rows_that_are_left_out_are_settled_at_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(scout, "SKIP_ROWS", 100)
    scene = QueueScene(where=ONLY_A)
    scene.customer()
    for _ in range(5):
        scene.publish(keys=[b"b"] * 30)
        scene.flusher.settle()
    assert scene.ledger().cursor == 121


async def test_pages_that_are_not_in_memory_are_read_by_a_task():
    scene = QueueScene(where=ONLY_A)
    for _ in range(5):
        scene.publish(keys=[b"b", b"a", b"b"])
    scene.flusher.settle()
    scene.reading.out_of_memory = True
    ada = scene.customer()
    scene.flusher.settle()
    assert not ada.offsets
    await turns(scene)
    assert ada.offsets == [2, 5, 8, 11, 14]
    scene.check()


async def test_few_rows_wait_for_those_that_are_found_a_moment_later(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(page_looks, "BYTES_A_READ", 1)
    scene = QueueScene(where=ONLY_A)
    for _ in range(5):
        scene.publish(keys=[b"b", b"a", b"b"])
    scene.flusher.settle()
    scene.reading.out_of_memory = True
    ada = scene.customer()
    await turns(scene)
    assert ada.grants == [1, 2], "the first at once, and all others when the reading is done"
    assert ada.offsets == [2, 5, 8, 11, 14]
    scene.check()


async def test_few_rows_wait_no_longer_than_a_moment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(page_looks, "BYTES_A_READ", 1)
    scene = QueueScene(where=ONLY_A)
    for _ in range(9):
        scene.publish(keys=[b"a", b"b", b"b", b"b"])
    scene.flusher.settle()
    scene.reading.out_of_memory = True

    def take_long() -> None:
        scene.clock.moment += CRUMBS_MICROSECONDS // 2

    scene.reading.when_read = take_long
    ada = scene.customer()
    for _ in range(40):
        await asyncio.sleep(0)
        scene.flusher.settle()
    assert ada.offsets == list(range(1, 37, 4))
    assert 4 <= len(set(ada.grants)) <= 6, "two at a time"
    scene.check()


async def test_a_consumer_with_little_room_does_not_wait_for_more_than_it_takes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(page_looks, "BYTES_A_READ", 1)
    scene = QueueScene(where=ONLY_A)
    for _ in range(5):
        scene.publish(keys=[b"b", b"a", b"b"])
    scene.flusher.settle()
    scene.reading.out_of_memory = True
    ada = scene.customer(credit=few(1))
    was_reading = list[bool]()
    for number in range(1, 4):
        while len(ada.grants) < number:
            await asyncio.sleep(0)
            scene.flusher.settle()
        was_reading.append(scene.subscription.scout.is_reading(scene.actors[0]))  # type: ignore[union-attr]
        ada.settle(Settlement.ACK, number)
    assert (ada.offsets, was_reading) == ([2, 5, 8], [True] * 3)
    scene.check()


async def test_it_looks_ahead_no_further_than_it_has_to(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(scout, "AHEAD_ROWS", 4)
    monkeypatch.setattr(page_looks, "BYTES_AT_ONCE", 1)
    monkeypatch.setattr(page_looks, "BYTES_A_READ", 1)
    scene = QueueScene(where=ONLY_A)
    for _ in range(50):
        scene.publish(keys=[b"a", b"b"])
    scene.flusher.settle()
    ada = scene.customer(credit=few(1))
    await turns(scene)
    assert scene.subscription.scout is not None
    assert 1 <= scene.subscription.scout.waiting(scene.actors[0], scene.ledger()) <= 6
    for number in range(1, 51):
        assert ada.offsets[-1] == 2 * number - 1
        ada.settle(Settlement.ACK, number)
        await turns(scene)
    assert scene.ledger().floor == 101
    scene.check()


async def test_rows_that_are_deleted_after_they_were_looked_at_are_not_granted():
    scene = QueueScene(where=ONLY_A)
    scene.publish(keys=[b"a"] * 6)
    scene.flusher.settle()
    ada = scene.customer(credit=few(1))
    scene.flusher.settle()
    actor = scene.actors[0]
    delete = Delete(1, 0, ((2, 2), (5, 1)), Reason.OWNER)
    actor.partition.apply(delete)
    scene.flusher.add(delete)
    assert actor.taken is not None
    actor.taken(actor, [delete])
    for number in (1, 2, 3):
        scene.flusher.settle()
        ada.settle(Settlement.ACK, number)
    scene.flusher.settle()
    assert ada.offsets == [1, 4, 6]
    assert scene.ledger().floor == 7
    scene.check()


async def test_rows_of_a_damaged_page_are_set_aside_and_the_queue_goes_on():
    scene = QueueScene(where=ONLY_A)
    for keys in ([b"a", b"b"], [b"b", b"a"], [b"a"]):
        scene.publish(keys=keys)
    scene.flusher.settle()
    scene.reading.damaged, scene.reading.out_of_memory = {3}, True
    ada = scene.customer()
    await turns(scene)
    assert ada.offsets == [1, 5]
    assert scene.reading.counters.queue.aside["damaged"] == 2
    scene.check()


async def test_hashes_of_keys_come_with_the_rows():
    scene = QueueScene(with_keys=True)
    scene.publish(keys=[b"a", None, b"b"])
    scene.publish(keys=[b"a"])
    scene.publish(b"keyless")
    scene.flusher.settle()
    scene.customer(credit=few(0))
    found = scene.subscription.scout.eligible(scene.actors[0], scene.ledger(), 100)  # type: ignore[union-attr]
    assert (found.first, found.end, found.offsets.tolist()) == (1, 6, [1, 2, 3, 4, 5])
    assert found.keyed.tolist() == [True, False, True, True, False]
    import pyarrow as pa

    assert (found.hashes[[0, 2, 3]] == id_hashes(pa.array([b"a", b"b", b"a"], pa.binary()))).all()


async def test_rows_that_were_given_back_are_looked_at_again():
    scene = QueueScene(with_keys=True)
    for keys in ([b"a", None], [b"b"], [b"c", b"a"], [b"d"]):
        scene.publish(keys=keys)
    scene.flusher.settle()
    rows, looking = RowSet.of_offsets(np.array([2, 4, 5])), scene.subscription.scout
    assert looking is not None
    known = looking.again_at_once(scene.actors[0], rows)
    assert known is not None
    assert (known.offsets.tolist(), known.keyed.tolist()) == ([2, 4, 5], [False, True, True])
    scene.reading.out_of_memory = True
    assert looking.again_at_once(scene.actors[0], rows) is None
    read = await looking.again(scene.actors[0], rows)
    assert (read.offsets.tolist(), read.hashes.tolist()) == (known.offsets.tolist(), known.hashes.tolist())
    scene.reading.damaged = {4}
    damaged = await looking.again(scene.actors[0], rows)
    assert (damaged.end, damaged.offsets.tolist(), damaged.keyed.tolist()) == (6, [2, 4, 5], [False, False, False])


async def test_a_consumer_that_leaves_ends_the_looking():
    scene = QueueScene(where=ONLY_A)
    scene.publish(keys=[b"b"])
    scene.flusher.settle()
    ada = scene.customer()
    scene.flusher.settle()
    assert scene.actors[0].readers
    ada.live.close()
    assert not scene.actors[0].readers
    await scene.clock.move(60)
    assert not scene.flusher.take()


async def test_few_rows_of_a_page_are_delivered_without_the_page():
    scene = QueueScene(where=ONLY_A)
    for _ in range(3):
        scene.publish(keys=[b"b", b"b", b"a", b"b", b"b"])
    scene.flusher.settle()
    scene.reading.out_of_memory = True
    read: list[int] = []
    scene.reading.when_read = lambda: read.append(1)
    ada = scene.customer()
    await turns(scene)
    assert ada.offsets == [3, 8, 13]
    assert len(read) == 1, "the delivery reads nothing"
    scene.check()


async def test_a_damaged_page_that_can_be_read_again_is_filtered_at_its_delivery():
    scene = QueueScene(where=ONLY_A)
    scene.publish(keys=[b"a", b"b", b"a"])
    scene.flusher.settle()
    scene.reading.damaged, scene.reading.out_of_memory = {1}, True
    ada = scene.customer(credit=few(0))
    await turns(scene)
    scene.subscription.scout.waiting(scene.actors[0], scene.ledger())  # type: ignore[union-attr]
    await turns(scene)
    scene.reading.damaged = set()
    ada.live.limit(few(10))
    await turns(scene)
    assert ada.offsets == [1, 3]
    scene.check()
