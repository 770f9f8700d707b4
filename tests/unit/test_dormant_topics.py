"""Catalog and memory agree about dormant topics, also when a caller goes in the midst of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bowstring import errors
from bowstring.broker.dormant_topics import DormantTopics
from bowstring.broker.queue.companions import Companions
from bowstring.broker.topic_table import TopicTable
from bowstring.ports.catalog import TopicRow
from bowstring.settings import Settings
from tests.unit.queue_scene import QueueScene

NAME = "orders.billing.dead-letters"


class SlowCatalog:
    """Each step waits until it may go on."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.goes_on = asyncio.Event()
        self.steps = 0

    async def create_topic(self, fence: Any, row: TopicRow, *, dormant: bool) -> TopicRow:
        self.steps += 1
        await self.goes_on.wait()
        if row.name in self.names:
            raise errors.TopicExists(row.name)
        self.names[row.name] = self.steps
        return row._replace(id=self.steps)

    async def delete_topic(self, fence: Any, topic: int, now: int) -> None:
        self.steps += 1
        await self.goes_on.wait()
        self.names = {name: number for name, number in self.names.items() if number != topic}


class Dead:
    """A subscription, and the companions of its broker."""

    def __init__(self) -> None:
        self.scene, self.catalog, self.topics = QueueScene(), SlowCatalog(), TopicTable(1, creates=False)
        some: Any = None
        catalog: Any = self.catalog
        dormant = DormantTopics(catalog, some, self.topics, some, self.failed)
        clock: Any = self.scene.clock
        self.companions = Companions(self.topics, dormant, Settings(), clock)
        self.subscription = self.scene.subscription
        self.companions.claim(self.subscription)

    def failed(self, error: Exception) -> None:
        raise error

    def agrees(self) -> bool:
        return self.topics.has(NAME) == (NAME in self.catalog.names)


async def steps(count: int = 10) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_companion_is_created_although_the_caller_goes():
    dead = Dead()
    creating = asyncio.create_task(dead.companions.created(dead.subscription))
    await steps()
    creating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await creating
    dead.catalog.goes_on.set()
    await steps()
    assert dead.topics.has(NAME)
    assert dead.agrees()


async def test_a_subscription_is_made_again_while_the_companion_of_the_one_before_is_on_its_way():
    dead = Dead()
    creating = asyncio.create_task(dead.companions.created(dead.subscription))
    await steps()
    creating.cancel()
    await asyncio.wait([creating])
    dead.companions.leave(dead.subscription)
    deleting = asyncio.create_task(dead.companions.release(dead.subscription))
    await steps()
    dead.companions.claim(dead.subscription)  # its namesake
    again = asyncio.create_task(dead.companions.created(dead.subscription))
    await steps()
    dead.catalog.goes_on.set()
    await deleting
    await again
    assert dead.topics.has(NAME)
    assert dead.agrees()


async def test_a_companion_that_is_on_its_way_when_its_subscription_is_deleted_goes_with_it():
    dead = Dead()
    creating = asyncio.create_task(dead.companions.created(dead.subscription))
    await steps()
    dead.companions.leave(dead.subscription)
    deleting = asyncio.create_task(dead.companions.release(dead.subscription))
    await steps()
    dead.catalog.goes_on.set()
    await creating
    await deleting
    assert not dead.topics.has(NAME)
    assert dead.agrees()


async def test_one_that_is_deleted_is_created_again_behind_that():
    dead = Dead()
    dead.catalog.goes_on.set()
    await dead.companions.created(dead.subscription)
    dead.catalog.goes_on.clear()
    dead.companions.leave(dead.subscription)
    deleting = asyncio.create_task(dead.companions.release(dead.subscription))
    await steps()
    dead.companions.claim(dead.subscription)
    again = asyncio.create_task(dead.companions.created(dead.subscription))
    await steps()
    assert dead.catalog.steps == 2
    dead.catalog.goes_on.set()
    await deleting
    await again
    assert dead.topics.has(NAME)
    assert dead.agrees()


async def test_two_who_need_a_companion_create_it_once():
    dead = Dead()
    both = [asyncio.create_task(dead.companions.create(dead.subscription)) for _ in range(2)]
    await steps()
    dead.catalog.goes_on.set()
    await asyncio.gather(*both)
    assert dead.catalog.steps == 1
    assert dead.agrees()
