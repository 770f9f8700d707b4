"""Suspects of a crash in a subscription without keys: who gets them, and when."""

from __future__ import annotations

from bowstring.broker.queue.holdings import ConsumerCredit
from bowstring.core.ledger_changes import Settlement
from tests.unit.queue_scene import QueueScene
from tests.unit.test_coming_back import come_back
from tests.unit.test_key_suspects import LEASE, held

PAUSED = ConsumerCredit(0, 0)


def run_out(scene: QueueScene) -> None:
    """All leases end."""
    scene.clock.moment += LEASE
    scene.queue.expire(scene.actors[0], scene.lease_clock.now())
    scene.flusher.settle()
    scene.check()


def scene_with_suspects(rows: int) -> QueueScene:
    """Ada alone has let the leases of all rows end twice; she holds a first group of them, if they are many."""
    scene = QueueScene(lease=LEASE)
    scene.customer("ada", lease=LEASE)
    scene.publish(*[b"x"] * rows)
    scene.flusher.settle()
    for _ in range(2):
        run_out(scene)
    return scene


async def test_a_consumer_that_comes_back_with_suspects_gets_others_only_when_it_is_ready():
    scene = scene_with_suspects(2_000)
    (lease,) = scene.ledger().leases.apart()
    scene.subscription.consumers["ada"].close()
    back = scene.customer("ada", lease=LEASE, ready=False)
    back.settle(Settlement.ACK, lease.number)
    scene.flusher.settle()
    assert held(scene, "ada") == []
    scene.check()
    back.live.ready()
    scene.flusher.settle()
    assert held(scene, "ada")
    assert not any(pushed.lease.again for pushed in back.pushed)


async def test_suspects_that_a_consumer_still_holds_come_again_once_and_nothing_beside_them():
    scene = scene_with_suspects(2_000)
    (lease,) = scene.ledger().leases.apart()
    scene.subscription.consumers["ada"].close()
    back = come_back(scene)
    scene.flusher.settle()
    assert set(back.grants) == {lease.number}
    assert len(back.offsets) == len(set(back.offsets)) == len(lease.rows)


async def test_a_consumer_that_pauses_gets_no_suspects_and_another_does():
    scene = scene_with_suspects(1)
    ada = scene.subscription.consumers["ada"]
    ada.limit(PAUSED)
    run_out(scene)
    assert held(scene, "ada") == []
    bob = scene.customer("bob", lease=LEASE)
    scene.flusher.settle()
    assert (held(scene, "bob"), bob.offsets) == ([1], [1])
    bob.live.limit(PAUSED)
    ada.limit(ConsumerCredit(1, 1 << 20))
    run_out(scene)
    assert (held(scene, "ada"), held(scene, "bob")) == ([1], [])


async def test_a_consumer_that_pauses_before_it_gets_the_suspects_that_it_was_chosen_for_makes_room_for_another():
    scene = QueueScene(lease=LEASE)
    one = ConsumerCredit(1, 1 << 20)
    bob = scene.customer("bob", one, lease=LEASE)
    scene.publish(b"poison")
    scene.flusher.settle()
    ada = scene.customer("ada", one, lease=10 * LEASE)
    scene.publish(b"other")
    scene.flusher.settle()
    assert (bob.offsets, ada.offsets) == ([1], [2])
    run_out(scene)
    bob.live.limit(PAUSED)
    ada.live.limit(ConsumerCredit(2, 1 << 20))
    run_out(scene)
    assert list(scene.subscription.apart) == [ada.live]
    ada.live.limit(PAUSED)
    following = scene.ledger().next_grant
    ada.settle(Settlement.ACK, ada.grants[0])
    scene.flusher.settle()
    assert (ada.offsets, scene.ledger().next_grant) == ([2], following)
    eve = scene.customer("eve", one, lease=LEASE)
    scene.flusher.settle()
    assert eve.offsets == [1]
    scene.check()
