"""What every `Store` promises. An implementation joins by a subclass with a `ground` fixture; see test_store.py."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from bowstring.ports.failures import Damaged, StorageFailed
from bowstring.ports.store import Page, Reference, Store

SEGMENT_BYTES = 64 << 10
"""Stores under test have segments of this size at first, and four times as much at most, so that tests soon have several."""


@dataclass
class Ground:
    """What a store stands on, with what a test can do to it; None for what it cannot."""

    store: Callable[[], Store]
    """A store over what is there, as the next process would have it."""
    outlasts: bool = False
    """Whether what a store has synced is there for the next store."""
    cut: Callable[[], None] | None = None
    """The power goes; stores that were made before are of no more use."""
    flip: Callable[[Reference, int], None] | None = None
    """Flips a bit of the n-th byte of a page's frame."""
    swap: Callable[[Reference, Reference], None] | None = None
    """Lets the frames of two pages change places, whole."""
    fill: Callable[[], None] | None = None
    """Leaves no room on the disk."""
    relieve: Callable[[], None] | None = None
    """Makes room again."""

    def fill_or_skip(self) -> None:
        if self.fill is None:
            pytest.skip("this store cannot be filled in a test")
        self.fill()


def page(number: int, size: int = 100) -> Page:
    """A page that differs from all others, of about that size."""
    return Page(f"header {number};".encode(), f"body {number};".encode() * (size // 8 + 1))


def same(found: Sequence[Page], expected: Sequence[Page]) -> bool:
    """Pages are the same if their bytes are, whatever holds them."""
    return [(bytes(p.header), bytes(p.body)) for p in found] == [(bytes(p.header), bytes(p.body)) for p in expected]


async def fill_segments(store: Store, sequence: int, segments: int) -> dict[Reference, Page]:
    """Appends flushes until that many segments are begun, and syncs."""
    written: dict[Reference, Page] = {}
    while len({reference.segment for reference in written}) < segments:
        pages = [page(sequence * 10 + n, 4_000) for n in range(3)]
        written.update(zip(await store.append(sequence, pages), pages, strict=True))
        sequence += 1
    await store.sync()
    return written


def swap_frames(image: bytearray, one: Reference, other: Reference) -> None:
    """Lets two frames of equal length change places in a segment's bytes."""
    first, second = (slice(each.position, each.position + each.length) for each in (one, other))
    image[first], image[second] = image[second], image[first]


def by_segment(written: dict[Reference, Page]) -> dict[int, list[Reference]]:
    segments: dict[int, list[Reference]] = {}
    for reference in written:
        segments.setdefault(reference.segment, []).append(reference)
    return segments


async def assert_reads(store: Store, written: dict[Reference, Page]) -> None:
    assert same(await store.read(list(written)), list(written.values()))


async def assert_gone(store: Store, references: Sequence[Reference]) -> None:
    """None of them is served: not the old bytes, not others."""
    for reference in references:
        with pytest.raises(Damaged):
            await store.read([reference])


class StoreContract:
    """Appending, reading by reference, incarnations, releasing, failing."""

    @pytest.fixture
    async def store(self, ground: Ground):
        store = ground.store()
        await store.open(1, ())
        yield store
        await store.close()

    # Appending and reading

    async def test_what_is_appended_is_read_back_the_same(self, store: Store):
        pages = [page(1), page(2, 5_000), page(3)]
        references = await store.append(7, pages)
        await store.sync()
        assert same(await store.read(references), pages)

    async def test_pages_come_in_the_order_in_which_they_are_asked_for(self, store: Store):
        written = await fill_segments(store, 1, 2)
        references = list(written)[::-3] + list(written)[:2]
        assert same(await store.read(references), [written[reference] for reference in references])

    async def test_a_page_can_be_asked_for_twice(self, store: Store):
        references = await store.append(1, [page(1), page(2)])
        assert same(await store.read([*references, *references]), [page(1), page(2), page(1), page(2)])

    async def test_asking_for_nothing_gives_nothing(self, store: Store):
        assert await store.append(1, []) == []
        await store.sync()
        assert await store.read([]) == []

    @pytest.mark.parametrize("made_of", [bytes, bytearray, memoryview, lambda b: memoryview(bytearray(b"__" + b))[2:]])
    async def test_a_body_may_be_any_buffer(self, store: Store, made_of: Callable[[bytes], bytes]):
        references = await store.append(1, [Page(b"h", made_of(b"some bytes")), Page(b"", made_of(b"")), Page(b"hh", made_of(b"x" * 64))])
        assert same(await store.read(references), [Page(b"h", b"some bytes"), Page(b"", b""), Page(b"hh", b"x" * 64)])

    async def test_a_thousand_tiny_pages_go_in_one_flush(self, store: Store):
        pages = [page(n, 1) for n in range(1_000)]
        references = await store.append(1, pages)
        await store.sync()
        assert len({reference.segment for reference in references}) == 1
        assert same(await store.read(references), pages)

    async def test_a_page_may_be_larger_than_a_segment(self, store: Store):
        pages = {1: page(1), 2: page(2, 10 * SEGMENT_BYTES), 3: page(3), 4: page(4, 6 * SEGMENT_BYTES)}
        references = [reference for sequence, one in pages.items() for reference in await store.append(sequence, [one])]
        await store.sync()
        assert same(await store.read(references), list(pages.values()))

    async def test_references_name_the_flush_and_never_overlap(self, store: Store):
        references = [await store.append(sequence, [page(n, 3_000) for n in range(3)]) for sequence in (3, 4, 9)]
        assert [[reference.sequence for reference in flush] for flush in references] == [[3] * 3, [4] * 3, [9] * 3]
        places = sorted(reference for flush in references for reference in flush)
        for one, other in itertools.pairwise(places):
            assert one.segment != other.segment or one.position + one.length <= other.position

    async def test_appends_at_the_same_time_do_not_mix(self, store: Store):
        flushes = [[page(10 * sequence + n, 9_000) for n in range(3)] for sequence in range(20)]
        references = await asyncio.gather(*(store.append(sequence, pages) for sequence, pages in enumerate(flushes)))
        await store.sync()
        for flush, pages in zip(references, flushes, strict=True):
            assert len({reference.segment for reference in flush}) == 1
            assert same(await store.read(flush), pages)

    async def test_a_reference_that_differs_in_anything_finds_nothing(self, store: Store):
        (reference,) = await store.append(5, [page(1)])
        await store.sync()
        segment, position, length, sequence, _ = reference
        others = [
            Reference(segment + 1, position, length, sequence),
            Reference(segment, position + 64, length, sequence),
            Reference(segment, position, length - 1, sequence),
            Reference(segment, position, length + 1, sequence),
            Reference(segment, position, length, sequence + 1),
            Reference(segment, 1 << 40, length, sequence),
            Reference(segment, position, 10, sequence),
        ]
        await assert_gone(store, others)

    # Incarnations

    async def test_nothing_is_written_before_the_store_is_open_or_after_it_is_closed(self, ground: Ground):
        store = ground.store()
        with pytest.raises(StorageFailed):
            await store.append(1, [page(1)])
        await store.open(1, ())
        await store.append(1, [page(1)])
        await store.close()
        with pytest.raises(StorageFailed):
            await store.append(2, [page(2)])
        with pytest.raises(StorageFailed):
            await store.sync()

    async def test_a_new_incarnation_reads_the_live_segments_and_never_appends_to_them(self, store: Store):
        before = await fill_segments(store, 1, 2)
        await store.open(2, {reference.segment for reference in before})
        after = await fill_segments(store, 100, 2)
        assert not {reference.segment for reference in before} & {reference.segment for reference in after}
        await assert_reads(store, before | after)

    async def test_segments_that_nothing_refers_to_are_not_served_after_a_new_incarnation(self, store: Store):
        before = await fill_segments(store, 1, 3)
        segments = by_segment(before)
        live, *unused = segments
        await store.open(2, [live])
        after = await fill_segments(store, 100, 4)
        await assert_reads(store, {reference: before[reference] for reference in segments[live]} | after)
        await assert_gone(store, [reference for segment in unused for reference in segments[segment]])

    async def test_a_segment_of_a_later_epoch_is_left_alone(self, store: Store):
        await store.open(9, ())
        later = await fill_segments(store, 1, 2)
        await store.open(3, ())
        await fill_segments(store, 100, 3)
        await assert_reads(store, later)

    async def test_an_incarnation_may_begin_with_live_segments_that_are_missing(self, store: Store):
        await store.open(3, [1 << 24 | 77])
        await assert_reads(store, await fill_segments(store, 1, 2))
        await assert_gone(store, [Reference(1 << 24 | 77, 0, 100, 1)])

    async def test_the_next_process_reads_what_was_synced(self, store: Store, ground: Ground):
        if not ground.outlasts:
            pytest.skip("this store forgets with its process")
        written = await fill_segments(store, 1, 3)
        await store.close()
        again = ground.store()
        await again.open(2, {reference.segment for reference in written})
        await assert_reads(again, written)
        await again.close()

    async def test_what_was_acknowledged_and_is_not_referred_to_is_put_aside_and_found_again(self, store: Store, ground: Ground):
        if not ground.outlasts:
            pytest.skip("this store forgets with its process")
        written = await fill_segments(store, 1, 2)
        segments = by_segment(written)
        await store.open(2, (), committed=99)
        assert [name[:23] for name in store.orphans()] == [f"orphan-{segment:016x}" for segment in segments]
        assert min(store.orphans().values()) >= SEGMENT_BYTES
        await assert_gone(store, list(written))
        after = await fill_segments(store, 100, 3)
        assert not by_segment(after).keys() & segments.keys()
        await store.open(3, [*segments, *by_segment(after)], committed=999)
        assert store.orphans() == {}
        assert sorted(store.segments()) == sorted([*segments, *by_segment(after)])
        await assert_reads(store, written | after)

    async def test_what_was_never_committed_is_not_put_aside(self, store: Store):
        for epoch in range(2, 12):
            await fill_segments(store, 100, 1)
            await store.open(epoch, (), committed=99)
            assert store.orphans() == {}

    # Releasing

    async def test_a_released_segment_is_not_served_and_the_others_are(self, store: Store):
        written = await fill_segments(store, 1, 4)
        segments = by_segment(written)
        first, second, *_ = segments
        await store.release([first, second])
        gone = [*segments[first], *segments[second]]
        await assert_gone(store, gone)
        after = await fill_segments(store, 100, 5)
        await assert_gone(store, gone)
        await assert_reads(store, {reference: p for reference, p in written.items() if reference not in gone} | after)

    async def test_releasing_what_is_not_there_or_twice_does_nothing(self, store: Store):
        written = await fill_segments(store, 1, 3)
        first, second, *_ = by_segment(written)
        await store.release([])
        await store.release([first, first, 12345])
        await asyncio.gather(store.release([first, second]), store.release([second]))
        await assert_gone(store, by_segment(written)[second])

    async def test_the_segment_that_is_being_written_is_not_released(self, store: Store):
        references = await store.append(1, [page(1)])
        await store.release([references[0].segment])
        await store.sync()
        assert same(await store.read(references), [page(1)])

    # Power

    async def test_what_was_synced_survives_a_power_cut_and_the_rest_is_never_served_wrongly(self, store: Store, ground: Ground):
        if ground.cut is None:
            pytest.skip("the power of this store cannot be cut in a test")
        kept = await fill_segments(store, 1, 3)
        lost = await store.append(100, [page(n, 9_000) for n in range(20)])
        ground.cut()
        again = ground.store()
        await again.open(2, {reference.segment for reference in kept})
        await assert_reads(again, kept)
        for number, reference in enumerate(lost):
            try:
                assert same(await again.read([reference]), [page(number, 9_000)])
            except Damaged:
                continue
        await again.close()

    # Damage

    async def test_a_flipped_bit_anywhere_in_a_page_is_noticed(self, store: Store, ground: Ground):
        if ground.flip is None:
            pytest.skip("bits of this store cannot be flipped in a test")
        references = await store.append(1, [page(1, 200), page(2, 200)])
        await store.sync()
        damaged, whole = references
        for at in range(damaged.length):
            ground.flip(damaged, at)
            with pytest.raises(Damaged, match=f"{damaged.segment:#x}"):
                await store.read([damaged])
            with pytest.raises(Damaged):
                await store.read([whole, damaged])
            assert same(await store.read([whole]), [page(2, 200)])
            ground.flip(damaged, at)
        assert same(await store.read(references), [page(1, 200), page(2, 200)])

    async def test_two_pages_that_changed_places_are_noticed(self, store: Store, ground: Ground):
        if ground.swap is None:
            pytest.skip("pages of this store cannot be moved in a test")
        one, other = await store.append(1, [page(1, 200), page(2, 200)])
        assert one.length == other.length
        await store.sync()
        ground.swap(one, other)
        await assert_gone(store, [one, other])
        ground.swap(one, other)
        assert same(await store.read([one, other]), [page(1, 200), page(2, 200)])
