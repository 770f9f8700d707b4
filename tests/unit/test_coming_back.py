"""A consumer that comes back under its name gets the rows that it still holds again, then new ones."""

from __future__ import annotations

from bowstring.broker.queue.holdings import ConsumerCredit
from bowstring.broker.queue.opening import resume
from bowstring.core.ledger_changes import Settlement
from tests.unit.queue_scene import MUCH, Customer, QueueScene, values_of
from tests.unit.test_alarm import SECOND
from tests.unit.test_delivery import rest


def come_back(scene: QueueScene, name: str = "ada", held: dict[int, list[int]] | None = None, credit: ConsumerCredit = MUCH) -> Customer:
    """A consumer connects under its name, and is ready at once."""
    back = scene.customer(name, credit, ready=False)
    queues = type("Queues", (), {"log": type("Log", (), {"flusher": scene.flusher})})
    resume(queues, back.live, held or {})  # type: ignore[arg-type]
    return back


async def test_a_consumer_that_may_have_rows_of_a_damaged_index_keeps_them_until_its_lease_ends():
    scene = QueueScene()
    ada = scene.customer()
    scene.publish(b"a")
    scene.flusher.settle()
    ada.live.close()
    scene.reading.out_of_memory, scene.reading.extents = True, [(1, 2)]
    back = come_back(scene)
    scene.flusher.settle()
    await rest()
    assert back.values == []
    assert back.ended is None
    assert scene.ledger().floor == 1
    await scene.clock.move(40)
    scene.flusher.settle()
    await rest()
    scene.flusher.settle()
    assert scene.ledger().floor == 2


async def test_a_consumer_that_may_have_rows_that_are_gone_keeps_them_until_its_lease_ends():
    """Their page has left the store, because all of its rows have expired."""
    scene = QueueScene()
    ada = scene.customer()
    scene.publish(b"a")
    scene.flusher.settle()
    ada.live.close()
    scene.reading.out_of_memory, scene.reading.gone = True, {1}
    back = come_back(scene)
    scene.flusher.settle()
    await rest()
    scene.flusher.settle()
    assert (back.values, back.ended) == ([], None)
    assert scene.ledger().leases.rows_held == 1
    await scene.clock.move(40)
    for _ in range(2):
        scene.flusher.settle()
        await rest()
    scene.flusher.settle()
    assert scene.ledger().floor == 2


async def test_after_a_reconnect_lost_leases_come_first_then_those_again_then_new_ones():
    scene = QueueScene()
    first = scene.customer(credit=ConsumerCredit(4, 1 << 20))
    for value in (b"a", b"b", b"c"):
        scene.publish(value)
        scene.flusher.settle()
    first.settle(Settlement.ACK, 1)
    scene.flusher.settle()
    first.live.close()
    scene.publish(b"d")
    scene.flusher.settle()
    order: list[str] = []

    back = scene.customer("ada", ready=False)
    back.lost = lambda grants: order.append(f"lost {dict(grants)}")  # type: ignore[method-assign]
    back.push = lambda pushed: order.append(f"{values_of(pushed)} {pushed.lease.again}")  # type: ignore[method-assign]
    queues = type("Queues", (), {"log": type("Log", (), {"flusher": scene.flusher})})
    resume(queues, back.live, {0: [1, 2]})  # type: ignore[arg-type]
    scene.flusher.settle()
    assert order == ["lost {0: [1]}", "[b'c'] True", "[b'd'] False"]


async def test_what_comes_again_waits_for_what_it_rests_on():
    """A grant that is not committed yet is not sent to a newer stream of its consumer either."""
    scene = QueueScene()
    first = scene.customer()
    scene.publish(b"a")
    scene.flusher.take()
    first.live.close()
    back = come_back(scene)
    assert not back.pushed
    scene.flusher.commit()
    scene.flusher.settle()
    assert back.values == [b"a"]
    assert not first.pushed


async def test_leases_that_come_again_wait_for_credit():
    scene = QueueScene()
    first = scene.customer()
    scene.publish(*[b"x"] * 6)
    scene.flusher.settle()
    first.live.close()
    back = come_back(scene, credit=ConsumerCredit(4, 1 << 20))
    scene.flusher.settle()
    assert back.offsets == [1, 2, 3, 4]
    back.settle(Settlement.ACK, 1, [1, 2])
    scene.flusher.settle()
    assert back.live.delivery is not None
    back.live.delivery.go_on()
    assert back.offsets == [1, 2, 3, 4, 5, 6]
    scene.check()


async def test_rows_that_are_too_old_are_set_aside_at_their_first_push_only():
    scene = QueueScene(lease=4 * 3600 * SECOND)
    ada = scene.customer(lease=4 * 3600 * SECOND)
    scene.publish(b"held")
    scene.flusher.settle()
    ada.live.close()
    scene.publish(b"waits")
    scene.flusher.settle()
    await scene.clock.move(3700)
    back = come_back(scene)
    scene.flusher.settle()
    assert back.values == [b"held"]
    assert back.pushed[0].lease.again
    assert scene.ledger().settled.above.rows().runs() == ((2, 1),)
