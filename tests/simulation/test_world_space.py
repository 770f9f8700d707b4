"""A disk that holds only so much: who takes space, who gives it back, and how the store, the catalog and the reserve live on it."""

from __future__ import annotations

import asyncio
import random

import apsw
import pytest

from bowstring.ports.failures import DiskFull
from bowstring.ports.store import Page, Reference
from bowstring.store.local import LocalStore
from bowstring.store.reserve import Reserve
from tests.simulation.example import opened, stored
from tests.simulation.medium import Medium
from tests.simulation.node import Incarnation
from tests.simulation.options import Options
from tests.simulation.world import World

KIB = 1 << 10
INSERT = "insert into told values (?, zeroblob(20000))"


def small(seed: int, kib: int) -> World:
    return World(seed, Options(sync_seconds=1e-4, disk_bytes=kib * KIB))


def lived(world: World, live) -> World:
    async def main(world: World) -> None:
        await world.node("server").start(live).ended

    world.run(main)
    return world


def store_on(life: Incarnation) -> LocalStore:
    return LocalStore(life.disk, segment_bytes_first=64 * KIB, segment_bytes_max=256 * KIB, free_files_max=2)


def sizes(medium: Medium) -> int:
    return sum(len(inode.data) for inode in medium.names.values())


def test_space_is_taken_by_files_and_given_back_when_they_go_or_shrink():
    async def live(life: Incarnation) -> None:
        disk, medium = life.disk, life.disk.medium
        for name in ("a", "b"):
            await disk.create(name, 24 * KIB)
        with pytest.raises(OSError, match="no space"):
            await disk.create("c", 24 * KIB)
        assert "c" not in disk.names()
        disk.rename("a", "b")
        file = await disk.create("c", 24 * KIB)
        with pytest.raises(OSError, match="no space"):
            file.write(24 * KIB, [bytes(20 * KIB)])
        disk.resize_now(medium.inode("b"), "b", 1 * KIB)
        file.write(24 * KIB, [bytes(20 * KIB)])
        disk.drive.squeeze(0)
        disk.drive.relax()
        with pytest.raises(OSError, match="no space"):
            await disk.create("d", 30 * KIB)
        assert medium.used == sizes(medium)

    assert lived(small(1, 64), live).faults == {"no-space": 2}


@pytest.mark.parametrize("seed", range(20))
def test_what_is_used_is_what_the_files_hold_whatever_happens(seed: int):
    source = random.Random(seed)

    async def live(life: Incarnation) -> None:
        disk = life.disk
        for number in range(200):
            name = f"{source.randrange(6)}"
            try:
                match source.randrange(5):
                    case 0:
                        await disk.create(name, source.randrange(20 * KIB))
                    case 1:
                        disk.unlink(name)
                    case 2:
                        disk.rename(name, f"{source.randrange(6)}")
                    case 3:
                        (await disk.open(name)).write(source.randrange(20 * KIB), [bytes(source.randrange(9 * KIB))])
                    case _:
                        disk.resize_now(disk.medium.inode(name), name, source.randrange(20 * KIB))
            except OSError:
                pass
            assert disk.medium.used == sizes(disk.medium) <= 64 * KIB, number

    lived(small(seed, 64), live)


def test_the_reserve_lets_sqlite_write_when_the_store_has_filled_the_disk():
    async def live(life: Incarnation) -> None:
        worker, store, reserve = life.worker(), store_on(life), Reserve(life.disk, 256 * KIB)
        connection = await worker.run(lambda: opened(life.disk))
        await worker.run(lambda: connection.execute(INSERT, (0,)))
        assert await reserve.hold()
        await store.open(1, (), 0)
        await until_full(store, 1)
        life.disk.drive.squeeze(0)
        numbers = iter(range(1, 100))
        with pytest.raises(apsw.FullError):
            await worker.run(lambda: [connection.execute(INSERT, (number,)) for number in numbers])
        assert not await Reserve(life.disk, 512 * KIB).hold()
        await reserve.give_up()
        number = next(numbers)
        await worker.run(lambda: connection.execute(INSERT, (number,)))
        assert number in await worker.run(lambda: stored(connection))
        assert not await reserve.hold()
        await store.release([min(store.segments())])

    lived(small(1, 2048), live)


async def until_full(store: LocalStore, sequence: int) -> dict[Reference, Page]:
    written: dict[Reference, Page] = {}
    while True:
        page = Page(b"%d" % sequence, b"%d;" % sequence * 2_000)
        try:
            (reference,) = await store.append(sequence, [page])
        except DiskFull:
            await store.sync()
            return written
        written[reference] = page
        sequence += 1


@pytest.mark.parametrize("seed", range(10))
def test_space_that_is_released_is_used_again_over_many_lives_on_a_full_disk(seed: int):
    """On every turn the disk is filled, the oldest segment goes, and half of the turns the power does."""
    source = random.Random(seed)
    kept: dict[Reference, Page] = {}
    state = {"epoch": 0, "sequence": 0, "turns": 0}

    async def live(life: Incarnation) -> None:
        store = store_on(life)
        state["epoch"] += 1
        await store.open(state["epoch"], {reference.segment for reference in kept}, state["sequence"])
        while True:
            found = await store.read(list(kept))
            assert [bytes(page.body) for page in found] == [page.body for page in kept.values()]
            written = await until_full(store, state["sequence"] + 1)
            assert written, "there was room"
            kept.update(written)
            state["sequence"] = max(reference.sequence for reference in kept)
            for segment in sorted(store.segments())[: source.randint(1, 2)]:
                for reference in [each for each in kept if each.segment == segment]:
                    del kept[reference]
                await store.release([segment])
            assert not store.orphans()
            state["turns"] += 1
            if source.random() < 0.5:
                await asyncio.Event().wait()

    async def main(world: World) -> None:
        node = world.node("server")
        for _ in range(12):
            node.start(live)
            await asyncio.sleep(30.0)
            node.power_cut()

    small(seed, 1024).run(main)
    assert state["turns"] >= 12
