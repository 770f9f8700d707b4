"""The reserve on a scripted disk: kept when there is room, given up when there is none, and never in the way."""

from __future__ import annotations

import asyncio
import errno

import pytest

from bowstring.ports.failures import StorageFailed
from bowstring.store.reserve import RESERVE, Reserve
from tests.contract.scripted_disk import Platter, ScriptedDisk

SIZE = 64 << 10


@pytest.fixture
def disk() -> ScriptedDisk:
    return ScriptedDisk()


async def test_it_is_made_once_and_its_name_is_durable(disk: ScriptedDisk):
    reserve = Reserve(disk, SIZE)
    assert not reserve.held
    assert await reserve.hold()
    assert await reserve.hold()
    assert reserve.held
    assert disk.done("create") == [(RESERVE, SIZE)]
    assert disk.log[-1] == ("sync_directory",)
    assert disk.open_files == 0
    disk.platter.cut()
    assert disk.platter.used == SIZE


async def test_what_is_given_up_is_room_for_others_and_durably_so(disk: ScriptedDisk):
    disk.platter.room = SIZE
    reserve = Reserve(disk, SIZE)
    await reserve.hold()
    with pytest.raises(OSError, match="no room"):
        await disk.create("catalog", 1)
    await reserve.give_up()
    assert not reserve.held
    assert disk.log[-2:] == [("unlink", RESERVE), ("sync_directory",)]
    (await disk.create("catalog", 1)).close()
    assert not await reserve.hold()
    assert not reserve.held
    disk.unlink("catalog")
    assert await reserve.hold()


async def test_giving_up_what_is_not_there_does_nothing(disk: ScriptedDisk):
    reserve = Reserve(disk, SIZE)
    await reserve.give_up()
    await reserve.hold()
    await reserve.give_up()
    await reserve.give_up()
    assert len(disk.done("unlink")) == 1


async def test_the_next_process_finds_it(disk: ScriptedDisk):
    await Reserve(disk, SIZE).hold()
    again = ScriptedDisk(disk.platter)
    reserve = Reserve(again, SIZE)
    assert await reserve.hold()
    assert again.done("create") == []
    await Reserve(again, SIZE).give_up()
    assert again.names() == []


@pytest.mark.parametrize("left", [0, SIZE // 2, 2 * SIZE])
async def test_one_of_another_size_is_replaced(disk: ScriptedDisk, left: int):
    (await disk.create(RESERVE, left)).close()
    disk.platter.room = max(left, SIZE)
    assert await Reserve(disk, SIZE).hold()
    assert await disk.size(RESERVE) == SIZE


async def test_two_who_hold_at_once_make_one(disk: ScriptedDisk):
    reserve = Reserve(disk, SIZE)
    assert await asyncio.gather(reserve.hold(), reserve.hold()) == [True, True]
    assert len(disk.done("create")) == 1


@pytest.mark.parametrize("operation", ["create", "sync_directory"])
async def test_any_failure_but_a_full_disk_is_one(disk: ScriptedDisk, operation: str):
    reserve = Reserve(disk, SIZE)
    disk.fail(operation, errno.EIO)
    with pytest.raises(StorageFailed, match="Input/output error"):
        await reserve.hold()
    assert not reserve.held


@pytest.mark.parametrize("operation", ["unlink", "sync_directory"])
async def test_so_is_one_in_giving_up(operation: str):
    disk = ScriptedDisk(Platter())
    reserve = Reserve(disk, SIZE)
    await reserve.hold()
    disk.fail(operation, errno.EIO)
    with pytest.raises(StorageFailed, match="giving up"):
        await reserve.give_up()
