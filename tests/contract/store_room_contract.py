"""What every `Store` promises of its room, and on a full disk. It goes together with `StoreContract`, whose `store` it uses."""

from __future__ import annotations

import asyncio

import pytest

from bowstring.ports.failures import DiskFull
from bowstring.ports.store import Page, Reference, Store
from tests.contract.store_contract import SEGMENT_BYTES, Ground, assert_reads, by_segment, fill_segments, page


async def until_full(store: Store, sequence: int) -> dict[Reference, Page]:
    """Appends flushes until there is no room, and syncs."""
    written: dict[Reference, Page] = {}
    while True:
        pages = [page(sequence * 10 + n, 4_000) for n in range(3)]
        try:
            written.update(zip(await store.append(sequence, pages), pages, strict=True))
        except DiskFull:
            break
        sequence += 1
    await store.sync()
    return written


class StoreRoomContract:
    """Room, segments, and what a full disk refuses."""

    # Room

    async def test_there_is_room_for_what_is_appended_and_what_is_appended_takes_it(self, store: Store):
        await store.make_room()
        before = store.room
        assert before > 0
        await store.append(1, [page(1, 10_000)])
        await store.make_room()
        assert store.room <= before or store.room >= SEGMENT_BYTES
        await store.close()
        assert store.room == 0

    async def test_the_segments_are_those_that_are_not_written_to_any_more(self, store: Store):
        assert store.segments() == {}
        written = by_segment(await fill_segments(store, 1, 4))
        *left, current = written
        assert sorted(store.segments()) == sorted(left)
        assert min(store.segments().values()) >= SEGMENT_BYTES
        await store.release(left[:1])
        assert sorted(store.segments()) == sorted(left[1:])
        await store.open(2, [left[1], current])
        assert sorted(store.segments()) == [left[1], current]

    # A full disk

    async def test_an_append_without_room_writes_nothing_and_the_store_goes_on(self, store: Store, ground: Ground):
        written = await fill_segments(store, 1, 3)
        await store.make_room()
        ground.fill_or_skip()
        written |= await until_full(store, 100)
        room = store.room
        assert room < 3 * 5_000
        with pytest.raises(DiskFull):
            await store.append(199, [page(9, 60_000)])
        assert store.room == room
        await store.sync()
        await assert_reads(store, written)
        if room >= 4096:
            (small,) = await store.append(200, [page(1)])
            written[small] = page(1)
            await store.sync()
        await store.make_room()
        assert store.room <= room
        await assert_reads(store, written)

    async def test_what_is_released_on_a_full_disk_is_room_again(self, store: Store, ground: Ground):
        written = await fill_segments(store, 1, 5)
        ground.fill_or_skip()
        written |= await until_full(store, 100)
        for sequence in range(200, 900, 100):
            segments = by_segment(written)
            (oldest,) = sorted(store.segments())[:1]
            await store.release([oldest])
            for reference in segments[oldest]:
                del written[reference]
            await store.make_room()
            assert store.room >= SEGMENT_BYTES
            written |= await until_full(store, sequence)
            assert len(by_segment(written)) > len(segments) - 1
        await assert_reads(store, written)

    async def test_room_that_others_make_is_found_when_somebody_asks(self, store: Store, ground: Ground):
        ground.fill_or_skip()
        written = await until_full(store, 1)
        assert ground.relieve is not None
        ground.relieve()
        assert store.room < SEGMENT_BYTES
        await store.make_room()
        assert store.room >= SEGMENT_BYTES
        await assert_reads(store, written | await fill_segments(store, 300, 3))

    async def test_a_store_that_was_opened_on_a_full_disk_goes_on_when_there_is_room(self, store: Store, ground: Ground):
        written = await fill_segments(store, 1, 1)
        ground.fill_or_skip()
        await store.open(2, by_segment(written))
        with pytest.raises(DiskFull):
            await fill_segments(store, 100, 10)
        assert ground.relieve is not None
        ground.relieve()
        await assert_reads(store, written | await fill_segments(store, 300, 3))

    async def test_two_who_append_and_sync_do_not_hinder_each_other(self, store: Store):
        written: dict[Reference, Page] = {}

        async def append(first: int, size: int) -> list[Reference]:
            mine: list[Reference] = []
            for sequence in range(first, first + 30):
                pages = [page(sequence * 10 + n, size) for n in range(2)]
                mine += (found := await store.append(sequence, pages))
                written.update(zip(found, pages, strict=True))
                await store.sync()
            return mine

        for mine in await asyncio.gather(append(1, 300), append(1_000, 9_000)):
            assert mine == sorted(mine)
        await assert_reads(store, written)
