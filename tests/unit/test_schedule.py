"""A schedule knows of every page with due times, whenever it is made."""

from __future__ import annotations

from typing import Any

from tests.unit.queue_scene import SECOND, QueueScene


def resubscribed(scene: QueueScene) -> None:
    """The only subscription is gone for the topic's queue, and there again."""
    reading: Any = scene.reading
    scene.queue.remove(scene.subscription)
    scene.queue.add(scene.subscription, reading)


async def test_a_page_that_is_not_committed_when_the_first_subscription_comes_is_not_early():
    scene = QueueScene()
    scene.queue.remove(scene.subscription)
    scene.publish(b"late", due=scene.clock.now() + 60 * SECOND)
    reading: Any = scene.reading
    scene.queue.add(scene.subscription, reading)
    ada = scene.customer()
    scene.flusher.settle()
    assert ada.values == []
    scene.clock.moment += 61 * SECOND
    assert scene.subscription.schedules is not None
    scene.subscription.schedules[scene.actors[0]].woken(scene.clock.now())
    scene.flusher.settle()
    assert ada.values == [b"late"]


async def test_rows_that_are_not_due_are_passed_by():
    scene = QueueScene()
    ada = scene.customer()
    scene.publish(b"late", due=scene.clock.now() + 60 * SECOND)
    scene.publish(b"now")
    scene.flusher.settle()
    assert ada.values == [b"now"]


async def test_without_a_subscription_nothing_is_known_of_due_rows():
    scene = QueueScene()
    scene.customer()
    scene.publish(b"late", due=scene.clock.now() + 60 * SECOND)
    scene.flusher.settle()
    assert scene.subscription.schedules is not None
    schedule = scene.subscription.schedules[scene.actors[0]]
    assert not schedule.undue.is_empty
    resubscribed(scene)
    assert schedule.undue.is_empty
    assert scene.subscription.schedules[scene.actors[0]] is not schedule
