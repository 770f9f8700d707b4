"""The local store on a scripted disk: in which order it asks for what."""

from __future__ import annotations

import asyncio
import errno

import pytest

from bowstring.ports.failures import Damaged, StorageFailed
from bowstring.ports.store import Reference
from bowstring.store.local import LocalStore
from bowstring.store.segments import segment_id, segment_name
from bowstring.store.supply import RESTS
from tests.contract.scripted_disk import ScriptedDisk
from tests.unit.small_segments import FIRST, background, page, scripted_disk, small_store, store_on

disk = scripted_disk
store = small_store


# The order of things


async def test_a_name_is_durable_before_anything_is_written_under_it(disk: ScriptedDisk):
    store = store_on(disk, segment_bytes_max=FIRST)
    await store.open(1, ())
    for sequence in range(1, 60):
        references = await store.append(sequence, [page(9_000)])
        await store.sync()
        if sequence == 30:
            await store.release([segment_id(1, 1), segment_id(1, 2)])  # so that recycled files are among them
        named = segment_name(references[0].segment)
        write = disk.log.index(next(entry for entry in disk.log if entry[:2] == ("write", named)))
        named_at = max(n for n, entry in enumerate(disk.log[:write]) if entry[0] in ("create", "rename") and named in entry)
        assert ("sync_directory",) in disk.log[named_at:write]
    assert len([new for _, new in disk.done("rename") if str(new).startswith("segment")]) == 2
    await store.close()


async def test_a_sync_covers_every_file_written_since_the_last_and_each_once(store: LocalStore, disk: ScriptedDisk):
    await store.append(1, [page(10)])
    await store.sync()
    first = await store.append(2, [page(50_000)])
    second = await store.append(3, [page(50_000)])
    third = await store.append(4, [page(200_000)])
    disk.log.clear()
    await store.sync()
    expected = [(segment_name(references[0].segment),) for references in (first, second, third)]
    assert disk.done("sync") == expected
    await store.sync()
    assert disk.done("sync") == expected


async def test_a_flush_is_one_write_whatever_the_number_of_its_pages(store: LocalStore, disk: ScriptedDisk):
    references = await store.append(1, [page(n % 7) for n in range(500)])
    ((_, position, length),) = disk.done("write")
    assert position == references[0].position == 0
    assert length % 4096 == 0
    assert references[-1].position + references[-1].length <= length


async def test_a_block_that_holds_synced_bytes_is_never_written_again(store: LocalStore, disk: ScriptedDisk):
    for sequence in range(1, 40):
        await store.append(sequence, [page(sequence * 100)] * (sequence % 3 + 1))
        await store.sync()
    written: set[tuple[object, int]] = set()
    for name, position, length in disk.done("write"):
        blocks = {(name, block) for block in range(position // 4096, (position + length + 4095) // 4096)}
        assert not blocks & written
        written |= blocks


async def test_a_second_sync_waits_for_the_first(store: LocalStore, disk: ScriptedDisk):
    await store.append(1, [page()])
    with disk.hold("sync") as arrived:
        first = asyncio.create_task(store.sync())
        await arrived.wait()
        second = asyncio.create_task(store.sync())
        await background()
        assert not second.done()
    await asyncio.gather(first, second)
    assert len(disk.done("sync")) == 1


async def test_what_is_appended_during_a_sync_is_covered_by_the_next(store: LocalStore, disk: ScriptedDisk):
    await store.append(1, [page()])
    with disk.hold("sync") as arrived:
        syncing = asyncio.create_task(store.sync())
        await arrived.wait()
        later = await store.append(2, [page(letter=b"y")])
    await syncing
    await store.sync()
    assert len(disk.done("sync")) == 2
    disk.platter.cut()
    again = store_on(ScriptedDisk(disk.platter))
    await again.open(2, [later[0].segment])
    assert bytes((await again.read(later))[0].body) == b"y" * 100
    await again.close()


async def test_a_cancelled_sync_leaves_its_work_to_the_next(store: LocalStore, disk: ScriptedDisk):
    references = await store.append(1, [page()])
    with disk.hold("sync") as arrived:
        syncing = asyncio.create_task(store.sync())
        await arrived.wait()
        syncing.cancel()
        await asyncio.wait([syncing])
    await store.sync()
    assert disk.done("sync") == [(segment_name(references[0].segment),)]


# Segments


async def test_sizes_double_up_to_the_largest(store: LocalStore, disk: ScriptedDisk):
    for sequence in range(1, 60):
        await store.append(sequence, [page(30_000)])
    assert [size for _, size in disk.done("create")][:5] == [FIRST, 2 * FIRST, 4 * FIRST, 4 * FIRST, 4 * FIRST]


async def test_an_idle_store_has_one_segment_and_a_busy_one_prepares_the_next(store: LocalStore, disk: ScriptedDisk):
    await store.append(1, [page(100)])
    await background()
    assert len(disk.done("create")) == 1
    await store.append(2, [page(10_000)])
    await background()
    assert len(disk.done("create")) == 2


async def test_appending_goes_on_while_the_next_segment_is_being_prepared(store: LocalStore, disk: ScriptedDisk):
    await store.append(1, [page(1_000)])
    with disk.hold("create") as arrived:
        await store.append(2, [page(20_000)])
        await arrived.wait()
        await store.append(3, [page(20_000)])
        waiting = asyncio.create_task(store.append(4, [page(40_000)]))
        await background()
        assert not waiting.done()
    assert (await waiting)[0].segment == segment_id(1, 2)


async def test_a_cancelled_append_leaves_the_preparation_going(store: LocalStore, disk: ScriptedDisk):
    with disk.hold("sync_directory") as arrived:
        await store.open(2, ())
        waiting = asyncio.create_task(store.append(1, [page(100)]))
        await arrived.wait()
        await background()
        waiting.cancel()
        await asyncio.wait([waiting])
    references = await store.append(2, [page(100)])
    assert references[0].segment == segment_id(2, 1)


async def test_a_flush_larger_than_a_segment_gets_one_of_its_own_size(store: LocalStore, disk: ScriptedDisk):
    await store.append(1, [page(100)])
    (large,) = await store.append(2, [page(1_000_000)])
    (name, size) = disk.done("create")[-1]
    assert name == segment_name(large.segment)
    assert 1_000_000 < size < 1_010_000
    (after,) = await store.append(3, [page(100)])
    assert after.segment != large.segment


async def test_released_files_are_reused_and_their_old_bytes_are_not_served(store: LocalStore, disk: ScriptedDisk):
    old = [(await store.append(sequence, [page(30_000, b"o")]))[0] for sequence in range(1, 80)]
    await store.sync()
    created = len(disk.done("create"))
    released = sorted({reference.segment for reference in old})[-4:-1]
    await store.release(released)
    new = [(await store.append(sequence, [page(30_000, b"n")]))[0] for sequence in range(100, 115)]
    assert len(disk.done("create")) == created
    for reference in new:
        assert bytes((await store.read([reference]))[0].body) == b"n" * 30_000
        behind = reference._replace(position=reference.position + 8 * 32_768)
        for wrong in (behind, reference._replace(sequence=reference.sequence + 1)):
            with pytest.raises(Damaged):
                await store.read([wrong])
    for reference in old:
        if reference.segment in released:
            with pytest.raises(Damaged):
                await store.read([reference])


async def test_old_bytes_at_the_very_place_of_a_lost_flush_are_not_served(disk: ScriptedDisk):
    """The reference of a flush whose bytes were lost leads to a whole frame of the file's earlier life."""
    store = store_on(disk, segment_bytes_max=FIRST)
    await store.open(1, ())
    (old,) = await store.append(1, [page(3_000, b"o")])
    await store.sync()
    await store.open(2, (), committed=0)
    (new,) = await store.append(2, [page(3_000, b"n")])
    assert (new.position, new.length) == (old.position, old.length)
    assert len(disk.done("create")) == 1
    disk.platter.cut()
    again = store_on(ScriptedDisk(disk.platter))
    await again.open(3, [new.segment])
    with pytest.raises(Damaged, match="recycled"):
        await again.read([new])
    await again.close()


async def test_the_pool_of_free_files_is_bounded_by_what_was_needed_lately(disk: ScriptedDisk):
    store = store_on(disk, free_files_max=2, segment_bytes_max=FIRST)
    await store.open(1, ())
    references = [(await store.append(sequence, [page(50_000)]))[0] for sequence in range(1, 10)]
    await store.sync()

    def free() -> int:
        return len([name for name in disk.names() if name.startswith("free")])

    await store.release({reference.segment for reference in references[:-1]})
    assert free() == 8
    found: list[int] = []
    for _ in range(2 * RESTS):
        await store.make_room()
        found.append(free())
    assert found[RESTS - 2] == 7  # one of them is the next segment
    assert found[RESTS:] == sorted(found[RESTS:], reverse=True)
    assert found[-1] == 0
    await store.close()


async def test_free_files_are_given_back_when_someone_needs_their_space_also_while_the_store_is_closed(disk: ScriptedDisk):
    store = store_on(disk, segment_bytes_max=FIRST)
    await store.open(1, ())
    references = [(await store.append(sequence, [page(50_000)]))[0] for sequence in range(1, 6)]
    await store.sync()
    await store.release({reference.segment for reference in references[:-1]})
    await store.close()
    assert [name for name in disk.names() if name.startswith("free")]
    store.give_space_back()
    assert not [name for name in disk.names() if name.startswith("free")]
    await store.open(2, {references[-1].segment})
    assert len(await store.read(references[-1:])) == 1
    await store.close()


async def test_what_others_keep_in_the_directory_is_never_touched(disk: ScriptedDisk):
    others = ["lock", "catalog.db", "segment-1", "free-x", "orphan-x", segment_name(segment_id(9, 1))]
    for name in others:
        (await disk.create(name, 10)).close()
    store = store_on(disk)
    await store.open(2, ())
    for sequence in range(1, 40):
        await store.append(sequence, [page(30_000)])
    await store.close()
    touched = {name for entry in disk.log[len(others) :] for name in entry[1:] if isinstance(name, str)}
    assert not touched & set(others)


async def test_a_number_is_not_given_twice_when_an_epoch_is_opened_again(disk: ScriptedDisk):
    store = store_on(disk)
    await store.open(5, ())
    (first,) = await store.append(1, [page()])
    await store.open(5, [first.segment])
    (second,) = await store.append(1, [page()])
    assert second.segment > first.segment
    await store.close()


# Reading


async def test_neighbours_are_read_in_one_go(store: LocalStore, disk: ScriptedDisk):
    references = [reference for sequence in range(1, 5) for reference in await store.append(sequence, [page(700)] * 4)]
    disk.log.clear()
    assert len(await store.read(references)) == 16
    assert len(disk.done("read")) == 1
    await store.read(references[::-1])
    assert len(disk.done("read")) == 17


async def test_of_several_damaged_pages_the_first_asked_for_is_told(store: LocalStore, disk: ScriptedDisk):
    references = [(await store.append(sequence, [page(40_000)]))[0] for sequence in (1, 2, 3, 4)]
    for reference in references[1:]:
        disk.platter.names[segment_name(reference.segment)].data[reference.position + 70] ^= 1
    with pytest.raises(Damaged, match="flush 2"):
        await store.read(references)


@pytest.mark.parametrize("operation", ["open", "read"])
async def test_a_read_error_is_damage_and_the_store_goes_on(store: LocalStore, disk: ScriptedDisk, operation: str):
    references = await store.append(1, [page()])
    await store.sync()
    await store.open(2, [references[0].segment])
    reader = store_on(disk)
    disk.fail(operation, errno.EIO)
    with pytest.raises(Damaged, match="Input/output error"):
        await reader.read(references)
    assert len(await reader.read(references)) == 1
    await reader.close()


async def test_a_segment_that_is_missing_or_short_is_damage(store: LocalStore, disk: ScriptedDisk):
    references = await store.append(1, [page()])
    await store.sync()
    with pytest.raises(Damaged):
        await store.read([Reference(segment_id(1, 99), 0, 100, 1)])
    disk.platter.names[segment_name(references[0].segment)].data[100:] = b""
    with pytest.raises(Damaged, match="bytes are there"):
        await store.read(references)


async def test_a_release_waits_until_no_read_is_under_way(store: LocalStore, disk: ScriptedDisk):
    references = [(await store.append(sequence, [page(40_000)]))[0] for sequence in (1, 2)]
    await store.sync()
    with disk.hold("read") as arrived:
        reading = asyncio.create_task(store.read(references[:1]))
        await arrived.wait()
        releasing = asyncio.create_task(store.release([references[0].segment]))
        await background()
        assert not releasing.done()
        assert segment_name(references[0].segment) in disk.names()
        with pytest.raises(Damaged, match="released"):
            await store.read(references[:1])
    assert bytes((await reading)[0].body) == b"x" * 40_000
    await releasing
    assert segment_name(references[0].segment) not in disk.names()


async def test_a_cancelled_read_does_not_hold_up_a_release(store: LocalStore, disk: ScriptedDisk):
    references = [(await store.append(sequence, [page(40_000)]))[0] for sequence in (1, 2)]
    await store.sync()
    with disk.hold("read") as arrived:
        reading = asyncio.create_task(store.read(references))
        await arrived.wait()
        reading.cancel()
        await asyncio.wait([reading])
        await store.release([references[0].segment])
    assert segment_name(references[0].segment) not in disk.names()


async def test_two_who_come_at_once_to_a_closed_segment_leave_one_file_open(store: LocalStore, disk: ScriptedDisk):
    references = await store.append(1, [page(100), page(200)])
    await store.sync()
    reader = store_on(disk)
    before = disk.open_files
    with disk.hold("open"):
        reading = [asyncio.create_task(reader.read([reference])) for reference in references]
        await background()
    assert [len((await read)[0].body) for read in reading] == [100, 200]
    assert disk.open_files == before + 1
    await reader.close()
    assert disk.open_files == before


async def test_a_file_that_is_being_opened_when_the_store_is_closed_is_closed_too(store: LocalStore, disk: ScriptedDisk):
    references = await store.append(1, [page()])
    reader = store_on(disk)
    before = disk.open_files
    with disk.hold("open"):
        reading = asyncio.create_task(reader.read(references))
        await background()
        await reader.close()
    with pytest.raises(StorageFailed, match="closed"):
        await reading
    assert disk.open_files == before


async def test_open_files_are_bounded(disk: ScriptedDisk):
    store = store_on(disk, handles_max=3, segment_bytes_max=FIRST)
    await store.open(1, ())
    references = [(await store.append(sequence, [page(50_000)]))[0] for sequence in range(1, 20)]
    await store.sync()
    for reference in references:
        await store.read([reference])
        assert disk.open_files <= 3 + 2  # the one that is written, and the one that is ready
    await asyncio.gather(*(store.read(references) for _ in range(5)))
    assert disk.open_files <= 3 + 2
    await store.close()
    assert disk.open_files == 0


async def test_a_small_page_of_a_large_read_is_a_copy_and_a_large_one_a_view(store: LocalStore):
    references = await store.append(1, [page(100), page(50_000)])
    small, large = await store.read(references)
    assert isinstance(small.body, bytes)
    assert isinstance(large.body, memoryview)


async def test_nothing_is_read_after_close(store: LocalStore):
    references = await store.append(1, [page()])
    await store.close()
    with pytest.raises(StorageFailed, match="closed"):
        await store.read(references)
