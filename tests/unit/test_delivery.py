"""What goes out to a consumer: leased rows and nothing else, in order, as far as there is room."""

from __future__ import annotations

import asyncio

import pytest

from bowstring import errors
from bowstring.broker.log.requests import Question
from bowstring.broker.queue import delivery
from bowstring.broker.queue.holdings import ConsumerCredit
from bowstring.broker.queue.leased_page import offsets_of
from bowstring.broker.reading import fetched, page_cutting
from bowstring.core.changes import Reason
from bowstring.core.decisions import Decided, Decision, Found
from bowstring.core.ledger_changes import SetAside, SetAsideReason, Settlement
from bowstring.core.partition import Partition
from bowstring.core.row_set import RowSet
from bowstring.ports.failures import Damaged
from tests.unit.queue_scene import Customer, QueueScene, values_of
from tests.unit.test_alarm import SECOND


async def rest() -> None:
    """Lets tasks run."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_whole_page_goes_out_untouched():
    scene = QueueScene()
    ada = scene.customer()
    scene.publish(b"a", b"b", b"c")
    scene.flusher.settle()
    (pushed,) = ada.pushed
    assert pushed.fetched.data is scene.flusher.tail[0, 1].body


async def test_rows_of_others_are_in_no_frame():
    """Their bytes are not even in the padding (invariant 13)."""
    scene = QueueScene()
    ada, bob = [scene.customer(name, ConsumerCredit(2, 1 << 20)) for name in ("ada", "bob")]
    scene.publish(b"secret-1", b"secret-2", b"secret-3", b"secret-4", b"secret-5")
    scene.flusher.settle()
    sent = {customer: b"".join(bytes(pushed.fetched.data or b"") for pushed in customer.pushed) for customer in (ada, bob)}
    for customer, others in ((ada, bob), (bob, ada)):
        assert len(customer.values) == 2
        assert all(value in sent[customer] for value in customer.values)
        assert not any(value in sent[customer] for value in (*others.values, b"secret-5"))
    ada.settle(Settlement.NACK, ada.grants[0], ada.offsets[1:])
    ada.live.limit(ConsumerCredit(0, 0))
    bob.live.limit(ConsumerCredit(3, 1 << 20))
    scene.flusher.settle()
    assert values_of(bob.pushed[-1]) == [ada.values[1]]
    assert ada.values[0] not in bytes(bob.pushed[-1].fetched.data or b"")


async def test_scattered_rows_of_several_pages_are_one_message_without_a_byte_of_others():
    scene = QueueScene()
    ada = scene.customer()
    for page in range(4):
        scene.publish(*[b"mine-%d" % (6 * page + at) if at % 2 else b"others-%d" % (6 * page + at) for at in range(6)])
    scene.flusher.settle()
    mine = [value for value in ada.values if value.startswith(b"mine")]
    (grant,) = set(ada.grants)
    ada.settle(Settlement.NACK, grant, [offset for offset, value in zip(ada.offsets, ada.values, strict=True) if value in mine])
    before = len(ada.pushed)
    scene.flusher.settle()
    (again,) = ada.pushed[before:]
    assert values_of(again) == mine
    assert b"others" not in bytes(again.fetched.data or b"")
    assert [origin.rows for origin in again.fetched.origins] == [3] * 4
    assert [origin.first_row for origin in again.fetched.origins] == [1] * 4


async def test_messages_of_gathered_rows_are_bounded(monkeypatch: pytest.MonkeyPatch):
    for module in (page_cutting, fetched):
        monkeypatch.setattr(module, "JOINED_BYTES_MAX", 600)
    monkeypatch.setattr(delivery, "READ_BYTES_MAX", 1_500)
    scene = QueueScene()
    ada = scene.customer()
    for _ in range(8):
        scene.publish(sizes=[100] * 4)
    scene.flusher.settle()
    odd = [offset for offset in ada.offsets if offset % 2]
    (grant,) = set(ada.grants)
    ada.settle(Settlement.NACK, grant, odd)
    before = len(ada.pushed)
    scene.flusher.settle()
    again = ada.pushed[before:]
    assert [offset for pushed in again for offset in offsets_of(pushed.fetched).offsets().tolist()] == odd
    assert len(again) > 2
    assert all(len(pushed.fetched.data or b"") <= 600 for pushed in again)


async def test_origins_name_the_rows_that_are_left():
    scene = QueueScene()
    ada = scene.customer(credit=ConsumerCredit(3, 1 << 20))
    scene.publish(*[b"%d" % number for number in range(5)])
    scene.flusher.settle()
    ada.settle(Settlement.ACK, 1)
    scene.flusher.settle()
    (origin,) = ada.pushed[-1].fetched.origins
    assert (origin.number, origin.first_row, origin.rows) == (1, 3, 2)


async def test_what_has_no_room_in_the_session_is_not_read():
    scene = QueueScene()
    ada = scene.customer()
    ada.takes = 1000
    for _ in range(5):
        scene.publish(sizes=[70_000])
    scene.flusher.settle()
    assert ada.offsets == [1]
    ada.bytes = 0
    assert ada.live.delivery is not None
    ada.live.delivery.go_on()
    assert ada.offsets == [1, 2]


async def test_rows_that_were_not_sent_are_given_back_to_a_consumer_that_asks_for_them_by_id():
    scene = QueueScene()
    ada = scene.customer()
    ada.takes = 1000
    for _ in range(3):
        scene.publish(sizes=[70_000])
        scene.flusher.settle()
    assert ada.offsets == [1]
    held = scene.ledger().leases.rows_held
    assert held > 1
    assert ada.live.delivery is not None
    ada.live.delivery.give_up(scene.actors[0], RowSet(1, 4))
    assert scene.ledger().leases.rows() == RowSet(1, 2), "the first one was sent"
    assert scene.ledger().returned.rows() == RowSet(2, 1 + held)


async def test_order_is_kept_when_pages_have_to_be_read():
    scene = QueueScene()
    ada = scene.customer()
    scene.reading.out_of_memory = True
    scene.publish(b"a")
    scene.flusher.settle()
    scene.reading.out_of_memory = False
    scene.publish(b"b")
    scene.flusher.settle()
    assert not ada.pushed
    await rest()
    assert ada.values == [b"a", b"b"]


async def test_rows_that_have_expired_are_set_aside():
    scene = QueueScene()
    now = scene.clock.now()
    scene.publish(b"old", expires=now + 5 * SECOND)
    scene.publish(b"young", expires=now + 50 * SECOND)
    scene.flusher.settle()
    await scene.clock.move(10)
    ada = scene.customer()
    scene.flusher.take()
    scene.flusher.commit()
    assert ada.values == [b"young"]
    (aside,) = [change for change in scene.flusher.pending.changes if isinstance(change, SetAside)]
    assert aside.reason is SetAsideReason.EXPIRED
    scene.flusher.settle()
    assert scene.ledger().floor == 2
    assert scene.reading.counters.queue.aside["expired"] == 1
    scene.check()


async def test_rows_of_a_damaged_page_are_set_aside_and_counted():
    scene = QueueScene()
    for value in (b"a", b"b", b"c"):
        scene.publish(value)
    scene.flusher.settle()
    scene.reading.out_of_memory = True
    scene.reading.damaged = {2}
    ada = scene.customer()
    scene.flusher.settle()
    await rest()
    scene.flusher.settle()
    await rest()
    assert ada.values == [b"a", b"c"]
    assert scene.reading.counters.queue.aside["damaged"] == 1
    assert scene.reading.counters.damaged == 1
    assert scene.ledger().settled.above.rows().runs() == ((2, 1),)


async def far_apart(scene: QueueScene) -> Customer:
    """Rows 1 and 6 were given back, and come to one consumer from the store; what is between them is
    settled."""
    ada = scene.customer()
    for value in (b"a", b"b", b"c", b"d", b"e", b"f"):
        scene.publish(value)
    scene.flusher.settle()
    ada.live.limit(ConsumerCredit(0, 0))
    ada.settle(Settlement.ACK, ada.grants[0], range(2, 6))
    ada.settle(Settlement.RELEASE, ada.grants[0])
    scene.flusher.settle()
    assert scene.ledger().returned.rows().runs() == ((1, 1), (6, 1))
    scene.reading.out_of_memory = True
    bob = scene.customer("bob")
    scene.flusher.settle()
    return bob


async def test_a_row_far_behind_one_that_is_gone_is_delivered():
    """One look at the index of the store finds no page of the rows: that does not mean that there is
    none."""
    scene = QueueScene()
    scene.reading.gone, scene.reading.pages_a_look = {1}, 2
    bob = await far_apart(scene)
    await rest()
    scene.flusher.settle()
    assert bob.values == [b"f"]
    assert scene.reading.counters.queue.aside["expired"] == 1
    assert scene.ledger().floor == 6


async def test_rows_whose_pages_are_all_gone_are_set_aside():
    scene = QueueScene()
    scene.reading.gone, scene.reading.pages_a_look = {1, 6}, 2
    bob = await far_apart(scene)
    await rest()
    scene.flusher.settle()
    assert bob.values == []
    assert scene.ledger().floor == 7


async def test_pages_that_move_while_they_are_read_are_looked_for_again():
    scene = QueueScene()
    partition = scene.actors[0].partition

    def move() -> None:
        scene.reading.damaged, scene.reading.when_read = set(), lambda: None
        partition.moves += 1
        raise Damaged("the segment has another life")

    scene.reading.when_read = move
    bob = await far_apart(scene)
    await rest()
    assert bob.values == [b"a", b"f"]
    assert bob.ended is None
    assert scene.reading.counters.queue.aside["expired"] == scene.reading.counters.damaged == 0


async def test_rows_of_an_extent_with_a_damaged_index_are_set_aside_and_the_others_go_on():
    scene = QueueScene()
    for value in (b"a", b"b", b"c", b"d"):
        scene.publish(value)
    scene.flusher.settle()
    scene.reading.out_of_memory = True
    scene.reading.extents = [(2, 4)]
    ada = scene.customer()
    for _ in range(3):
        scene.flusher.settle()
        await rest()
    assert ada.values == [b"a", b"d"]
    assert ada.ended is None
    assert scene.reading.counters.queue.aside["damaged"] == 2
    assert scene.reading.counters.damaged == 1
    assert scene.ledger().settled.above.rows().runs() == ((2, 2),)


async def test_scattered_rows_are_not_granted_while_others_wait_for_pages():
    """They are one grant then, and each page is read once for more rows."""
    scene = QueueScene()
    ada = scene.customer()
    scene.publish(*[b"%d" % number for number in range(1, 17)])
    scene.flusher.settle()
    ada.live.limit(ConsumerCredit(0, 0))
    scene.reading.out_of_memory = True
    bob = scene.customer("bob")
    for first in range(1, 16, 4):
        ada.settle(Settlement.RELEASE, ada.grants[0], (first, first + 2))
        scene.flusher.settle()
    assert scene.ledger().leases.held_by(2) == 4
    assert scene.ledger().returned.rows().runs() == ((9, 1), (11, 1), (13, 1), (15, 1))
    scene.check()
    await rest()
    scene.flusher.settle()
    await rest()
    assert bob.offsets == list(range(1, 16, 2))
    assert bob.grants == [2, 3, 4]
    scene.check()


async def test_a_row_that_is_deleted_on_its_way_is_not_sent():
    scene = QueueScene()
    ada = scene.customer()
    scene.publish(b"a", b"b")
    scene.flusher.take()
    scene.actors[0].receive(DeleteFirst())
    scene.flusher.commit()
    assert ada.values == [b"b"]
    scene.check()


class DeleteFirst(Question[None]):
    """The first row is deleted."""

    def decide(self, partition: Partition, now: int, found: Found | None) -> Decision[None]:
        return Decided((partition.delete(((1, 1),), Reason.OWNER),), None)


async def test_unsent_rows_of_a_consumer_that_leaves_are_given_back_uncounted():
    scene = QueueScene()
    first = scene.customer("first")
    first.takes = 1
    scene.publish(sizes=[70_000])
    scene.publish(sizes=[70_000])
    scene.flusher.settle()
    assert first.offsets == [1]
    first.live.close()
    second = scene.customer("second")
    scene.flusher.settle()
    assert (second.offsets, list(second.pushed[0].lease.retry_counts)) == ([2], [])
    assert scene.ledger().leases.rows().runs() == ((1, 2),)


# Ends of leases


async def test_an_extended_lease_outlives_its_first_timer():
    scene = QueueScene()
    ada = scene.customer()
    scene.publish(b"a")
    scene.flusher.settle()
    await scene.clock.move(20)
    ada.extend(1, 30 * SECOND)
    scene.flusher.settle()
    await scene.clock.move(10)
    await rest()
    scene.flusher.settle()
    assert scene.ledger().leases.rows().runs() == ((1, 1),)
    ada.live.limit(ConsumerCredit(0, 0))
    await scene.clock.move(20)
    await rest()
    scene.flusher.settle()
    assert not scene.ledger().leases.rows()
    assert scene.ledger().retry_counts(scene.ledger().returned.rows()).tolist() == [1]


async def test_all_leases_of_a_ledger_that_end_together_are_one_change():
    scene = QueueScene()
    scene.customer()
    for _ in range(5):
        scene.publish(b"x")
        scene.flusher.settle()
    scene.subscription.consumers["ada"].limit(ConsumerCredit(0, 0))
    await scene.clock.move(31)
    await rest()
    assert [type(change).__name__ for change in scene.flusher.pending.changes] == ["Expire"]
    assert scene.subscription.rates.totals.expired == 5
    scene.check()


async def test_the_subscription_ends_its_consumers_when_the_topic_ends():
    scene = QueueScene()
    ada = scene.customer()
    gone = errors.TopicNotFound("gone")
    scene.actors[0].end_reading(gone)
    assert ada.ended is gone
    with pytest.raises(errors.TopicNotFound):
        raise scene.subscription.ended or AssertionError


async def test_leases_of_a_topic_that_is_deleted_end_without_a_word():
    """The alarm rings once, and sets no other: nothing can be decided there any more."""
    scene = QueueScene()
    scene.customer()
    scene.publish(b"a")
    scene.flusher.settle()
    for actor in scene.actors:
        actor.close(errors.TopicNotFound("gone"))
    await scene.clock.move(31)
    await rest()
    assert not scene.clock.sleepers
    assert not scene.flusher.pending.changes
