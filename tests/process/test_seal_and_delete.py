"""A topic is deleted while its pages are sealed: its segments come back, whichever of the two ends first."""

from __future__ import annotations

import asyncio

import pytest

from bowstring.ports.catalog import Fence
from bowstring.ports.journal import Edit
from tests.process.house import House, started_house

house = started_house

LARGE = bytes(40_000)
"""Too large for a journal row: it is in a segment from the start."""


@pytest.mark.parametrize("first", ["the seal", "the deletion"])
async def test_a_topic_that_is_deleted_during_a_seal_leaves_no_segment_behind(house: House, monkeypatch: pytest.MonkeyPatch, first: str):
    async with house.client() as client:
        await client.create_topic("orders")
        async with client.producer("orders") as producer:
            for _ in range(6):
                await producer.send(LARGE)
    assert house.server is not None
    assert house.live.usage.segments()
    topics, catalog, journal = house.server.broker.topics, house.live.surroundings.catalog, house.live.log.journal
    edit_as_ever, delete_as_ever = journal.edit, catalog.delete_topic
    actor = house.live.topics.topic("orders").actors[0]
    asked, deleting = asyncio.Event(), []

    async def delete_topic(fence: Fence, topic: int, now: int) -> None:
        asked.set()
        await delete_as_ever(fence, topic, now)

    async def edit(change: Edit) -> None:
        """The seal's own edit is in the catalog, and the seal does not know yet: there the deletion comes in."""
        await edit_as_ever(change)
        if change.add and not deleting:
            deleting.append(asyncio.create_task(topics.delete("orders")))
            await (asked.wait() if first == "the seal" else deleting[0])
            assert actor.closed is not None
            assert (actor.gone is not None) == (first == "the deletion")

    monkeypatch.setattr(catalog, "delete_topic", delete_topic)
    monkeypatch.setattr(journal, "edit", edit)
    await house.seal()
    await deleting[0]
    await house.upkeep()
    assert not house.live.usage.segments()
    assert not house.live.surroundings.store.segments()
