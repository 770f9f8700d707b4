"""The local store on a scripted disk that fails: what ends the incarnation, what ends the store, and what is only told later."""

from __future__ import annotations

import asyncio
import errno
from contextlib import suppress

import pytest

from bowstring.ports.failures import DiskFull, StorageFailed
from bowstring.store.local import LocalStore
from bowstring.store.segments import segment_id, segment_name
from tests.contract.scripted_disk import ScriptedDisk
from tests.unit.small_segments import FIRST, background, page, scripted_disk, small_store, store_on

disk = scripted_disk
store = small_store


async def test_after_a_failed_sync_nothing_is_taken_any_more_but_reads(store: LocalStore, disk: ScriptedDisk):
    kept = await store.append(1, [page()])
    await store.sync()
    await store.append(2, [page()])
    disk.fail("sync", errno.EIO)
    for attempt in (store.sync(), store.sync(), store.append(3, [page()]), store.release([]), store.open(2, ())):
        with pytest.raises(StorageFailed, match="syncing a segment failed"):
            await attempt
    assert len(disk.done("sync")) == 1
    assert len(await store.read(kept)) == 1


async def test_a_sync_that_fails_for_lack_of_room_is_a_failed_sync_all_the_same(store: LocalStore, disk: ScriptedDisk):
    await store.append(1, [page()])
    disk.fail("sync", errno.ENOSPC)
    with pytest.raises(StorageFailed):
        await store.sync()


@pytest.mark.parametrize(("number", "failure"), [(errno.EIO, StorageFailed), (errno.ENOSPC, DiskFull), (errno.EDQUOT, DiskFull)])
async def test_a_failed_write_ends_the_incarnation(store: LocalStore, disk: ScriptedDisk, number: int, failure: type[Exception]):
    kept = await store.append(1, [page(letter=b"k")])
    await store.sync()
    disk.fail("write", number)
    for attempt in (store.append(2, [page(5_000)]), store.append(3, [page()]), store.sync()):
        with pytest.raises(failure, match="writing to a segment failed"):
            await attempt
    if failure is DiskFull:
        await store.open(2, [kept[0].segment])
        (after,) = await store.append(2, [page(5_000)])
        await store.sync()
        assert after.segment == segment_id(2, 1)
        assert len(await store.read([*kept, after])) == 2


async def test_a_full_disk_is_told_only_when_there_is_no_room_left(disk: ScriptedDisk):
    disk.platter.room = 2 * FIRST - 1
    store = store_on(disk)
    await store.open(1, ())
    for sequence in range(1, 6):
        await store.append(sequence, [page(12_000)])
        await background()
    assert len(disk.done("create")) == 1
    for _ in range(3):
        with pytest.raises(DiskFull):
            await store.append(6, [page(12_000)])
    disk.platter.room = None
    assert (await store.append(6, [page(12_000)]))[0].segment == segment_id(1, 2)  # no number was lost
    await store.close()


async def test_where_there_is_no_room_for_a_large_segment_a_small_one_is_made(disk: ScriptedDisk):
    store = store_on(disk)
    await store.open(1, ())
    for sequence in range(1, 6):
        await store.append(sequence, [page(50_000)])
    await background()
    disk.platter.room = disk.platter.used + 2 * FIRST + 100
    before = len(disk.done("create"))
    with suppress(DiskFull):
        for sequence in range(6, 99):
            await store.append(sequence, [page(50_000)])
    assert [size for _, size in disk.done("create")][before:] == [2 * FIRST]
    await store.close()


async def test_a_segment_that_is_being_made_counts_as_room_until_the_disk_is_found_full(disk: ScriptedDisk):
    store = store_on(disk)
    assert store.room == 0
    with disk.hold("create"):
        await store.open(1, ())
        assert store.room == FIRST
    disk.platter.room = FIRST
    await store.append(1, [page(40_000)])
    assert store.room == FIRST - 40_960 + 2 * FIRST
    await background()
    assert store.room == FIRST - 40_960
    with disk.hold("create"):
        making = asyncio.create_task(store.make_room())
        await background()
        assert store.room == FIRST - 40_960
        disk.platter.room = None
    await making
    assert store.room == FIRST - 40_960 + 2 * FIRST
    await store.close()


async def test_a_release_for_which_there_is_no_room_is_refused_and_can_be_repeated(store: LocalStore, disk: ScriptedDisk):
    (old,) = await store.append(1, [page(50_000)])
    await store.append(2, [page(50_000)])
    await store.sync()
    disk.fail("rename", errno.ENOSPC)
    with pytest.raises(DiskFull):
        await store.release([old.segment])
    assert old.segment in store.segments()
    assert len(await store.read([old])) == 1
    await store.release([old.segment])
    assert store.segments() == {}


async def test_a_release_is_durable_when_it_returns(store: LocalStore, disk: ScriptedDisk):
    (old,) = await store.append(1, [page(50_000)])
    await store.append(2, [page(50_000)])
    await store.sync()
    await store.release([old.segment])
    assert segment_name(old.segment) not in disk.platter.durable_names


async def test_room_that_was_made_meanwhile_is_used(disk: ScriptedDisk):
    disk.platter.room = 2 * FIRST - 1
    store = store_on(disk)
    await store.open(1, ())
    await store.append(1, [page(40_000)])
    await background()
    disk.platter.room = None
    assert (await store.append(2, [page(40_000)]))[0].segment > segment_id(1, 1)
    await store.close()


async def test_on_a_full_disk_a_smaller_free_file_will_do(disk: ScriptedDisk):
    store = store_on(disk)
    await store.open(1, ())
    (old,) = await store.append(1, [page(50_000)])
    (current,) = await store.append(2, [page(50_000)])
    await store.sync()
    await background()
    disk.platter.room = disk.platter.used
    await store.release([old.segment])
    segments = [(await store.append(sequence, [page(50_000)]))[0].segment for sequence in range(3, 9)]
    assert len(set(segments) - {current.segment}) == 2  # the one that was ready, and the recycled one
    with pytest.raises(DiskFull):
        await store.append(9, [page(50_000)])
    await store.close()


@pytest.mark.parametrize("operation", ["create", "sync_directory"])
async def test_any_other_failure_in_the_background_is_told_to_the_next_who_needs_a_segment(disk: ScriptedDisk, operation: str):
    store = store_on(disk)
    await store.open(1, ())
    await store.append(1, [page(100)])
    disk.fail(operation, errno.EIO)
    await store.append(2, [page(40_000)])
    await background()
    await store.sync()
    with pytest.raises(StorageFailed, match="preparing a segment failed"):
        await store.append(3, [page(40_000)])
    with pytest.raises(StorageFailed):
        await store.sync()
    await store.close()
    assert disk.open_files == 0


async def test_a_directory_that_cannot_be_synced_for_lack_of_room_is_a_failed_sync(disk: ScriptedDisk):
    store = store_on(disk)
    disk.fail("sync_directory", errno.ENOSPC)
    await store.open(1, ())
    with pytest.raises(StorageFailed):
        await store.append(1, [page()])
    await store.close()


async def test_a_store_can_be_opened_again_while_the_disk_is_still_full(disk: ScriptedDisk):
    disk.platter.room = 0
    store = store_on(disk)
    for epoch in (1, 2):
        await store.open(epoch, ())
        with pytest.raises(DiskFull):
            await store.append(1, [page()])
    disk.platter.room = None
    await store.open(3, ())
    assert (await store.append(1, [page()]))[0].segment == segment_id(3, 1)
    await store.close()


async def test_opening_waits_for_what_the_incarnation_before_has_under_way(disk: ScriptedDisk):
    store = store_on(disk)
    with disk.hold("create") as arrived:
        await store.open(1, ())
        await arrived.wait()
        opening = asyncio.create_task(store.open(2, ()))
        await background()
        assert not opening.done()
    await opening
    (reference,) = await store.append(1, [page()])
    assert disk.names() == [segment_name(reference.segment)] == [segment_name(segment_id(2, 1))]
    await store.close()


async def test_closing_a_store_that_is_being_appended_to_refuses_the_append(disk: ScriptedDisk):
    store = store_on(disk)
    with disk.hold("create"):
        await store.open(1, ())
        waiting = asyncio.create_task(store.append(1, [page()]))
        await background()
        closing = asyncio.create_task(store.close())
        await background()
    with pytest.raises(StorageFailed, match="not open"):
        await waiting
    await closing
    assert disk.open_files == 0
