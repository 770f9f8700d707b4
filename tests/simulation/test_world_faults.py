"""The disk's other ways to fail: power that goes inside an operation, no room, errors, flipped bits, slowness, a second process."""

from __future__ import annotations

import asyncio
import errno
import random
from collections import Counter

import pytest

from bowstring import errors
from tests.simulation.disk import CRASH, POWER
from tests.simulation.loop import PowerCut
from tests.simulation.medium import Medium
from tests.simulation.node import Incarnation
from tests.simulation.options import Options
from tests.simulation.test_world_disk import Steps, for_ever_after, made
from tests.simulation.world import World

# ---- power ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [POWER, CRASH])
def test_a_process_dies_inside_any_operation_and_what_it_does_afterwards_has_no_effect(kind):
    """Every operation of a small program is struck once; whatever its `finally` still tries is in vain."""

    async def main(world: World, at: int) -> bool:
        node = world.node("server")
        assert node.drive is not None
        reached: list[str] = []

        async def live(life: Incarnation) -> None:
            try:
                file = await made(life, "a", 1024)
                file.write(0, [b"x" * 1024])
                await file.sync()
                life.disk.rename("a", "b")
                await life.disk.sync_directory()
                life.disk.unlink("b")
                reached.append("all")
            finally:
                if life.dead:
                    with pytest.raises(PowerCut):
                        life.disk.rename("b", "ruined")
                    reached.append("a step after death")

        node.drive.arm(kind, at)
        life = node.start(live)
        how = await life.ended
        assert how == kind or reached == ["all"]
        assert "ruined" not in node.drive.medium.names
        assert node.drive.medium.name_changes == [] or kind == CRASH or reached == ["all"]
        return reached == ["all"] and how == "exit"

    for at in range(1, 30):
        if World(at).run(lambda world, at=at: main(world, at)):
            assert at > 9
            return
    raise AssertionError("the program never came to its end")


def test_a_power_cut_takes_every_process_of_the_machine():
    async def main(world: World) -> None:
        drive = world.drive("shared")
        first, second = world.node("first", drive=drive), world.node("second", drive=drive)
        first.start(for_ever_after)
        second.start(for_ever_after)
        await asyncio.sleep(1.0)
        first.crash()
        assert second.alive
        first.restart()
        second.power_cut()
        assert not first.alive
        assert not second.alive

    World(1).run(main)


def test_a_fault_counts_only_if_somebody_felt_it():
    async def main(world: World) -> None:
        node = world.node("server")
        node.start(for_ever_after)
        await asyncio.sleep(1.0)
        node.power_cut()
        node.restart()
        await asyncio.sleep(1.0)
        node.crash()
        assert not world.faults
        node.start(lambda life: life.disk.create("a", 512))
        await asyncio.sleep(1e-4)
        node.crash()
        assert world.faults == {"crash": 1}

    World(1).run(main)


# ---- other faults -----------------------------------------------------------------------------------------------------


def run_on_a_disk(steps: Steps, options: Options | None = None, seed: int = 1) -> World:
    world = World(seed, options)

    async def main(world: World) -> None:
        await world.node("server").start(steps).ended

    world.run(main)
    return world


def test_a_full_disk_refuses_what_needs_room_and_nothing_else():
    async def steps(life: Incarnation) -> None:
        drive = life.disk.drive
        file = await life.disk.create("a", 4096)
        drive.squeeze(1000)
        file.write(0, [b"x" * 4096])
        for refused in (lambda: file.write(4096, [bytes(1001)]), lambda: file.write(4096, [bytes(4000)])):
            with pytest.raises(OSError, match="no space") as raised:
                refused()
            assert raised.value.errno == errno.ENOSPC
            assert await life.disk.size("a") <= 5096
        with pytest.raises(OSError, match="no space"):
            await life.disk.create("b", 8192)
        life.disk.unlink("a")
        other = await life.disk.create("c", 4096)
        other.write(0, [b"y"])
        drive.relax()
        other.write(4096, [bytes(1 << 20)])

    assert run_on_a_disk(steps).faults == {"no-space": 1}


def test_reads_and_writes_fail_as_often_as_they_should():
    async def steps(life: Incarnation) -> None:
        file = await life.disk.create("a", 4096)
        failures: Counter[str] = Counter()
        for _ in range(300):
            try:
                file.write(0, [b"x" * 100])
            except OSError as error:
                failures[f"write {error.errno}"] += 1
            try:
                await file.read(0, 100)
            except OSError as error:
                failures[f"read {error.errno}"] += 1
        assert life.world.faults == {"write-error": failures["write 5"], "read-error": failures["read 5"]}

    world = run_on_a_disk(steps, Options(write_error_rate=0.1, read_error_rate=0.2))
    assert world.faults["read-error"] > world.faults["write-error"] > 10


def test_a_flipped_bit_passes_and_a_rotten_one_stays_until_it_is_written_or_healed():
    async def flip(life: Incarnation) -> None:
        file = await life.disk.create("a", 512)
        assert await file.read(0, 512) != bytes(512)
        life.world.faulty = False
        assert await file.read(0, 512) == bytes(512)

    async def rot(life: Incarnation) -> None:
        file = await life.disk.create("a", 512)
        life.world.faulty = True
        assert await file.read(0, 512) != bytes(512)
        life.world.faulty = False
        assert await file.read(0, 512) != bytes(512)
        file.write(0, [bytes(512)])
        assert await file.read(0, 512) == bytes(512)
        life.world.faulty = True
        assert await file.read(0, 512) != bytes(512)
        life.world.heal()
        assert await file.read(0, 512) == bytes(512)

    assert run_on_a_disk(flip, Options(bit_flip_rate=1.0)).faults == {"bit-flip": 1}
    assert run_on_a_disk(rot, Options(bit_rot_rate=1.0)).faults == {"bit-rot": 2}


def test_a_slow_disk_takes_seconds_and_is_no_fault():
    async def steps(life: Incarnation) -> None:
        started = life.clock.monotonic()
        await life.disk.create("a", 512)
        assert life.clock.monotonic() - started > 0.1

    world = run_on_a_disk(steps, Options(slow_rate=1.0, slow_seconds=5.0))
    assert not world.faults
    assert world.reached["slow disk operation"]


@pytest.mark.parametrize("on_a_worker", [False, True])
def test_a_slow_operation_that_is_under_way_ends_when_the_world_heals(on_a_worker: bool):
    async def main(world: World) -> None:
        async def live(life: Incarnation) -> None:
            await (life.worker().run(lambda: None) if on_a_worker else life.disk.create("a", 512))

        life = world.node("server").start(live)
        await asyncio.sleep(60.0)
        assert not life.ended.done()
        world.heal()
        await asyncio.sleep(3 * world.options.sync_seconds)
        assert life.ended.done()

    World(1, Options(slow_rate=1.0, slow_seconds=1e6)).run(main)


def test_the_lock_names_its_holder_and_is_free_when_the_holder_is_dead():
    async def main(world: World) -> None:
        drive = world.drive("shared")
        first, second = world.node("first", drive=drive), world.node("second", drive=drive, may_raise=(errors.Conflict,))

        async def hold(life: Incarnation) -> None:
            life.disk.lock(f"{life.node.name}:1")
            await for_ever_after(life)

        first.start(hold)
        await asyncio.sleep(1.0)
        refused = second.start(hold)
        await refused.ended
        assert isinstance(refused.failure, errors.Conflict)
        assert refused.failure.details == {"address": "first:1"}
        first.crash()
        second.start(hold)
        await asyncio.sleep(1.0)
        assert second.alive

    World(1).run(main)


def test_files_that_are_missing_present_or_closed_are_errors_of_the_system():
    async def steps(life: Incarnation) -> None:
        with pytest.raises(FileNotFoundError):
            await life.disk.open("a")
        with pytest.raises(FileNotFoundError):
            life.disk.unlink("a")
        with pytest.raises(FileNotFoundError):
            life.disk.rename("a", "b")
        file = await life.disk.create("a", 10)
        with pytest.raises(FileExistsError):
            await life.disk.create("a", 10)
        assert await file.read(5, 100) == bytes(5)
        file.close()
        with pytest.raises(OSError, match="closed"):
            file.write(0, [b"x"])

    run_on_a_disk(steps)


def test_rot_stays_where_it_is_through_power_cuts_and_healing_brings_the_true_bytes_back():
    """However writes, failed syncs and cuts follow each other, a healed file holds what one without rot holds."""

    def bytes_after(seed: int, *, rots: bool) -> bytes:
        medium, source = Medium(random.Random(seed)), random.Random(f"{seed}/steps")
        inode = medium.create("a")
        medium.names_synced(medium.names_serial)
        for _ in range(60):
            match source.randrange(6):
                case 0 | 1:
                    inode.write(source.randrange(4096), source.randbytes(source.randrange(1, 2000)))
                case 2:
                    inode.resize(source.randrange(6000))
                case 3:
                    inode.synced(inode.serial - source.randrange(2))
                case 4:
                    inode.sync_failed(inode.serial, medium.lottery())
                case _:
                    medium.cut()
            position, bit = source.randrange(6000), 1 << source.randrange(8)
            if rots and position < len(inode.data):
                inode.rot(position, bit)
        medium.cut()
        medium.heal()
        return bytes(inode.data)

    for seed in range(150):
        assert bytes_after(seed, rots=True) == bytes_after(seed, rots=False), seed
