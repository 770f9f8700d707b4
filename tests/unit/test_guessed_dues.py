"""Rows of a page that cannot be read wait for the latest due time of the page, as long as it cannot be read."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np

from bowstring.broker.queue.schedule import Schedule
from bowstring.broker.reading.due_times import DueTimes
from bowstring.broker.reading.partition_dues import PartitionDues
from bowstring.core.due_blocks import DueDirectory, Dues
from bowstring.core.id_sections import BlockPlace
from bowstring.core.machine import NEVER
from bowstring.core.pages import PageEntry
from bowstring.core.partition import Partition
from bowstring.core.sections import DUE
from bowstring.ports.extents import Extent, Section
from bowstring.ports.failures import Damaged
from bowstring.ports.store import Page, Reference
from tests.unit.queue_scene import SECOND, QueueScene

DAY = 86_400 * SECOND


class RottenReading:
    """The pages of a scene, which cannot be read for a while. A sealed one is an extent whose section has a guess."""

    def __init__(self, scene: QueueScene) -> None:
        self.scene, self.clock, self.rotten = scene, scene.clock, True
        self.reader, self.extents, self.caches = self, self, scene.reading.caches
        here: Any = self
        self.due_times = DueTimes(extents=here, reader=here, bytes_max=1 << 20)
        self.sealed: list[PageEntry] = []
        self.guess = 0
        self.dues: Dues | None = None
        """What the section of an extent tells, but for a guess."""
        self.extent: Extent | None = None

    async def entries(self, partition: Partition, offset: int, end: int, bytes_max: int, pages_max: int) -> list[PageEntry]:
        return await self.scene.reading.entries(partition, offset, end, bytes_max, pages_max)

    async def stored(self, partition: Partition, entries: list[PageEntry]) -> list[Page]:
        if self.rotten:
            raise Damaged("rotten")
        return [self.scene.flusher.tail[partition.number, entry.first_offset] for entry in entries]

    def stored_held(self, partition: Partition, entries: list[PageEntry]) -> None:
        return None

    # Extents

    def seal(self, partition: Partition) -> Extent:
        """The committed pages are one extent; they could not be read when it was written."""
        self.sealed = partition.pages.between(1, partition.committed_offset, NEVER, NEVER)
        self.guess = max(entry.due for entry in self.sealed)
        sections = Section(DUE, Reference(1, 0, 1, 1)), Section("index", Reference(1, 1, 1, 1))
        return Extent(1, 0, 1, partition.committed_offset, 0, 0, 0, 1, 1, 0, sections, ())

    def seal_well(self, partition: Partition, dues: Dues) -> None:
        """The same, but they could be read. Deliveries find the pages where they were."""
        self.rotten, self.dues, self.extent = False, dues, self.seal(partition)
        partition.sealed_end = partition.committed_offset

    async def of(self, partition: Partition) -> list[Extent]:
        return [] if self.extent is None else [self.extent]

    async def due_directory(self, extent: Extent, reference: Reference) -> DueDirectory:
        if self.dues is not None:
            moments = self.dues.moments.tolist()
            return DueDirectory(moments[:1], moments[-1], [BlockPlace(1, 0, 1)], rows=len(moments))
        return DueDirectory([self.guess], self.guess, [BlockPlace(1, 0, 1)], guesses=1)

    async def due_block(self, extent: Extent, place: Reference) -> Dues:
        if self.dues is not None:
            return self.dues
        offsets = np.arange(extent.first_offset, extent.end_offset, dtype=np.int64)
        return Dues(np.full(len(offsets), self.guess, np.int64), offsets)

    async def index(self, extent: Extent) -> RottenReading:
        return self

    def state(self) -> list[PageEntry]:
        return self.sealed


def scheduled(scene: QueueScene) -> tuple[RottenReading, Schedule]:
    """The schedule of a subscription that reads such pages."""
    rotten = RottenReading(scene)
    reading: Any = rotten
    scene.queue.remove(scene.subscription)
    scene.queue.add(scene.subscription, reading)
    assert scene.subscription.schedules is not None
    return rotten, scene.subscription.schedules[scene.actors[0]]


async def settled(scene: QueueScene) -> None:
    """Everything has happened that can."""
    for _ in range(10):
        scene.flusher.settle()
        await asyncio.sleep(0)


async def passed(scene: QueueScene, schedule: Schedule, span: int) -> None:
    """So much later."""
    scene.clock.moment += span
    schedule.woken(scene.clock.now())
    await settled(scene)


async def test_rows_come_when_they_are_due_although_their_page_could_not_be_read_once():
    scene = QueueScene()
    rotten, schedule = scheduled(scene)
    now = scene.clock.now()
    scene.publish(b"soon", b"now", b"late", dues=[now + SECOND, None, now + DAY])
    ada = scene.customer()
    await settled(scene)
    assert ada.values == []
    rotten.rotten = False
    await passed(scene, schedule, 2 * SECOND)
    assert ada.values == [b"soon", b"now"]
    await passed(scene, schedule, DAY)
    assert ada.values == [b"soon", b"now", b"late"]


async def test_a_page_that_stays_damaged_is_read_again_now_and_then_and_its_rows_come_at_last():
    scene = QueueScene()
    _, schedule = scheduled(scene)
    now = scene.clock.now()
    scene.publish(b"soon", b"late", dues=[now + SECOND, now + 60 * SECOND])
    ada = scene.customer()
    for _ in range(5):
        await passed(scene, schedule, 10 * SECOND)
    assert ada.values == []
    await passed(scene, schedule, 20 * SECOND)
    assert ada.values == [b"soon", b"late"]


async def test_a_guess_of_a_section_gives_way_to_the_page_when_that_can_be_read():
    scene = QueueScene()
    rotten, _ = scheduled(scene)
    now = scene.clock.now()
    scene.publish(b"soon", b"late", dues=[now + SECOND, now + DAY])
    await settled(scene)
    reading: Any = rotten
    extent, dues = rotten.seal(scene.actors[0].partition), PartitionDues(scene.actors[0].partition, reading)
    guessed = await dues.between(extent, 0, NEVER)
    assert guessed.moments.tolist() == [now + DAY, now + DAY]
    assert await dues.guessed.known_now() == []
    rotten.rotten = False
    found = await dues.between(extent, 0, NEVER)
    assert found.moments.tolist() == [now + SECOND, now + DAY]
    (again,) = await dues.guessed.known_now()
    assert again.moments.tolist() == [now + SECOND, now + DAY]
    assert not dues.guessed.are_there


async def test_rows_without_a_due_time_that_were_passed_by_with_a_guess_come_from_the_next_incarnation():
    scene = QueueScene()
    scheduled(scene)
    now = scene.clock.now()
    scene.publish(b"soon", b"now", b"late", dues=[now + SECOND, None, now + DAY])
    ada = scene.customer()
    await settled(scene)
    assert ada.values == []
    assert len(scene.ledger().later.rows()) == 3
    rotten, schedule = scheduled(scene)  # nothing of the first schedule is known to the next one
    rotten.rotten = False
    scene.subscription.may_grant(scene.actors[0])
    await passed(scene, schedule, 2 * SECOND)
    await passed(scene, schedule, SECOND)
    assert sorted(ada.values) == [b"now", b"soon"]
    await passed(scene, schedule, DAY)
    assert sorted(ada.values) == [b"late", b"now", b"soon"]


async def test_rows_that_no_due_section_names_come_although_their_ledger_has_passed_them_by():
    scene = QueueScene()
    scheduled(scene)
    now = scene.clock.now()
    scene.publish(b"soon", b"now", b"late", dues=[now + SECOND, None, now + DAY])
    ada = scene.customer()
    await settled(scene)
    rotten, schedule = scheduled(scene)
    rotten.seal_well(scene.actors[0].partition, Dues(np.array([now + SECOND, now + DAY]), np.array([1, 3])))
    scene.subscription.may_grant(scene.actors[0])
    await passed(scene, schedule, 0)
    assert ada.values == [b"now"]
    await passed(scene, schedule, SECOND)
    assert ada.values == [b"now", b"soon"]
    await passed(scene, schedule, DAY)
    assert ada.values == [b"now", b"soon", b"late"]


async def test_rows_without_a_due_time_come_although_everything_is_read_anew_before_their_page_is():
    scene = QueueScene()
    rotten, schedule = scheduled(scene)
    now = scene.clock.now()
    scene.publish(b"soon", b"now", b"late", dues=[now + SECOND, None, now + DAY])
    ada = scene.customer()
    await settled(scene)
    rotten.rotten = False
    schedule.forget(scene.subscription.number)
    scene.subscription.may_grant(scene.actors[0])
    await passed(scene, schedule, SECOND)
    assert sorted(ada.values) == [b"now", b"soon"]
