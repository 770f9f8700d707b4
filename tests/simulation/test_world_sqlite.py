"""The real SQLite on the simulated disk: what it calls committed survives any power cut if it is opened as R11 says, and only then."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from functools import partial

import apsw
import pytest

from tests.simulation.disk import CRASH, POWER, SimulatedDisk
from tests.simulation.example import opened, stored
from tests.simulation.node import Incarnation
from tests.simulation.options import Options
from tests.simulation.world import World

Open = Callable[[SimulatedDisk], apsw.Connection]


def without_r11(disk: SimulatedDisk) -> apsw.Connection:
    """WAL and FULL, as most programs set them."""
    connection = apsw.Connection("catalog.db", vfs=disk.vfs)
    connection.pragma("locking_mode", "EXCLUSIVE")
    connection.pragma("journal_mode", "WAL")
    connection.pragma("synchronous", "FULL")
    connection.execute("create table if not exists told (number integer primary key, filler blob)")
    return connection


def without_syncs(disk: SimulatedDisk) -> apsw.Connection:
    return opened(disk, synchronous="OFF")


def lost_commits(seed: int, open_database: Open, *, kind: str = POWER, deaths: int = 4, strict: bool = False) -> list[int]:
    """Commits rows until the process dies inside one of SQLite's operations on the disk; which of them are missing afterwards?"""
    world = World(seed, Options(sync_seconds=1e-4, wal_syncs_its_name=not strict))
    source = world.source("test")
    committed: list[int] = []
    lost: list[int] = []

    async def live(life: Incarnation) -> None:
        worker = life.worker()
        connection = await worker.run(lambda: open_database(life.disk))
        found = await worker.run(lambda: stored(connection))
        lost.extend(number for number in committed if number not in found)
        committed[:] = sorted(found)
        for number in itertools.count(max(found, default=0) + 1):
            row = (number, source.randrange(3000))
            await worker.run(partial(connection.execute, "insert into told values (?, zeroblob(?))", row))
            committed.append(number)

    async def main(world: World) -> None:
        node = world.node("server", may_raise=(apsw.Error,))
        for _ in range(deaths):
            assert node.drive is not None
            node.drive.arm(kind, source.randint(1, source.choice((30, 120, 400))))
            await node.start(live).ended
        node.start(live)
        await asyncio.sleep(0.01)
        assert node.incarnation is not None
        assert node.incarnation.failure is None, "the database cannot be read any more"

    world.run(main)
    return lost


def test_commits_in_the_order_of_r11_survive_power_cuts_at_any_operation():
    assert sum(len(lost_commits(seed, opened, strict=seed % 2 == 0)) for seed in range(80)) == 0


def test_commits_survive_a_killed_process_even_without_syncs_because_the_page_cache_does():
    assert sum(len(lost_commits(seed, without_syncs, kind=CRASH)) for seed in range(15)) == 0


def test_without_syncs_commits_are_lost():
    results = [is_lossy(seed, without_syncs) for seed in range(15)]
    assert sum(results) > len(results) // 2


def test_without_the_order_of_r11_the_switch_to_wal_can_be_undone_and_commits_are_lost():
    assert any(is_lossy(seed, without_r11, strict=True) for seed in range(100))


def is_lossy(seed: int, open_database: Open, *, strict: bool = False) -> bool:
    """Whether rows are missing, or the whole database."""
    try:
        return bool(lost_commits(seed, open_database, strict=strict))
    except AssertionError:
        return True


def test_a_full_disk_is_an_error_of_sqlite_and_passes_when_there_is_room_again():
    async def main(world: World) -> None:
        node = world.node("server")
        done: list[int] = []

        async def live(life: Incarnation) -> None:
            worker = life.worker()
            connection = await worker.run(lambda: opened(life.disk))
            insert = "insert into told values (?, zeroblob(20000))"
            await worker.run(lambda: connection.execute(insert, (1,)))
            life.node.drive.squeeze(8192)
            with pytest.raises(apsw.FullError):
                await worker.run(lambda: connection.execute(insert, (2,)))
            with pytest.raises(apsw.FullError):
                await worker.run(lambda: connection.execute(insert, (3,)))
            life.node.drive.relax()
            await worker.run(lambda: connection.execute(insert, (4,)))
            done.extend(sorted(await worker.run(lambda: stored(connection))))

        await node.start(live).ended
        assert done == [1, 4]
        assert world.faults == {"no-space": 1}

    World(1).run(main)


def test_a_failed_sync_is_an_error_of_sqlite():
    async def main(world: World) -> None:
        async def live(life: Incarnation) -> None:
            worker = life.worker()
            world.faulty = False
            connection = await worker.run(lambda: opened(life.disk))
            world.faulty = True
            await worker.run(lambda: connection.execute("insert into told values (1, null)"))

        life = world.node("server", may_raise=(apsw.IOError,)).start(live)
        await life.ended
        assert isinstance(life.failure, apsw.IOError)
        assert life.failure.extendedresult == apsw.SQLITE_IOERR_FSYNC

    World(1, Options(sync_error_rate=1.0)).run(main)


def test_a_second_connection_is_kept_out_while_the_first_one_lives_and_let_in_when_it_is_dead():
    async def main(world: World) -> None:
        drive = world.drive("shared")
        first, second = world.node("first", drive=drive), world.node("second", drive=drive, may_raise=(apsw.BusyError,))

        async def hold(life: Incarnation) -> None:
            worker = life.worker()
            connection = await worker.run(lambda: opened(life.disk))
            await worker.run(lambda: connection.execute("insert into told values (1, null)"))
            await asyncio.Event().wait()

        async def look(life: Incarnation) -> None:
            assert await life.worker().run(lambda: stored(opened(life.disk))) == {1}

        first.start(hold)
        await asyncio.sleep(1.0)
        refused = second.start(look)
        await refused.ended
        assert isinstance(refused.failure, apsw.BusyError)
        first.crash()
        allowed = second.start(look)
        await allowed.ended
        assert allowed.failure is None

    World(1).run(main)


def test_a_dead_connection_that_is_closed_or_collected_changes_nothing():
    async def main(world: World) -> None:
        node = world.node("server")
        connections: list[apsw.Connection] = []

        async def live(life: Incarnation) -> None:
            worker = life.worker()
            connections.append(await worker.run(lambda: opened(life.disk)))
            await worker.run(lambda: connections[-1].execute("insert into told values (1, null)"))
            await asyncio.Event().wait()

        node.start(live)
        await asyncio.sleep(1.0)
        node.crash()
        assert node.drive is not None
        before = {name: bytes(inode.data) for name, inode in node.drive.medium.names.items()}
        with pytest.raises(apsw.Error):
            connections[0].execute("insert into told values (2, null)")
        with pytest.raises(apsw.Error):
            connections[0].close(True)
        assert {name: bytes(inode.data) for name, inode in node.drive.medium.names.items()} == before

    World(1).run(main)
