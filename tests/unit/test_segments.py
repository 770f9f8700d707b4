"""Segments, decided about without a disk: names, ids, growth, and which free file is reused; and which references are read together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bowstring.ports.store import Reference
from bowstring.store.segments import (
    FreeFile,
    FreePool,
    Growth,
    epoch_of,
    free_name,
    in_blocks,
    number_of,
    orphan_name,
    segment_id,
    segment_name,
    take_stock,
)
from bowstring.store.spans import SPANS_A_READ, reads, spans

MIB = 1 << 20


# Ids and names


@given(st.integers(0, 2**39), st.integers(1, 2**24 - 1))
def test_an_id_holds_epoch_and_number(epoch: int, number: int):
    segment = segment_id(epoch, number)
    assert (epoch_of(segment), number_of(segment)) == (epoch, number)
    assert segment > 0


@pytest.mark.parametrize("number", [0, -1, 1 << 24])
def test_a_number_that_an_epoch_cannot_have_is_refused(number: int):
    with pytest.raises(ValueError, match="1 to 16777215"):
        segment_id(1, number)


def test_the_name_of_a_segment_is_its_id_in_16_digits():
    assert segment_name(segment_id(3, 10)) == "segment-000000000300000a"


def test_lengths_are_rounded_up_to_blocks():
    assert [in_blocks(length) for length in (0, 1, 4096, 4097)] == [0, 4096, 4096, 8192]


# Taking stock


def test_what_nothing_refers_to_is_unused_and_what_is_later_is_left_alone():
    older, live, mine, later = (segment_id(*which) for which in ((1, 5), (1, 6), (2, 3), (3, 1)))
    stock = take_stock([segment_name(segment) for segment in (mine, later, live, older)], 2, [live])
    assert stock.live == [live]
    assert stock.unused == [older, mine]
    assert stock.number == 3
    assert stock.later == (later,)
    assert stock.epoch_last == 2


def test_orphans_keep_their_numbers():
    names = [orphan_name(segment_id(2, 7), None), orphan_name(segment_id(2, 9), 1_700_000_000), segment_name(segment_id(2, 4))]
    stock = take_stock(names, 2, [])
    assert [(orphan.segment, orphan.moment) for orphan in stock.orphans] == [(segment_id(2, 7), None), (segment_id(2, 9), 1_700_000_000)]
    assert stock.number == 9
    assert stock.unused == [segment_id(2, 4)]


def test_a_live_segment_that_is_missing_is_no_matter():
    stock = take_stock([], 2, [77])
    assert (stock.live, stock.unused, stock.missing) == ([], [], {77})


def test_free_files_are_found_by_their_number():
    assert take_stock([free_name(12), free_name(0), free_name(3)], 1, []).free == [0, 3, 12]


@pytest.mark.parametrize(
    "name",
    "lock catalog.db catalog.db-wal segment segment- segment-1 segment-00000000000000zz SEGMENT-0000000001000001 free- free-01 free-x "
    "orphan- orphan-1 orphan-0000000001000001- orphan-0000000001000001-x orphan-0000000001000001-01 "
    "segment-0000000001000001.bak segment-00000000010000011 .segment-0000000001000001 free--1 free-1~".split(),
)
def test_a_name_of_any_other_form_is_not_ours(name: str):
    assert take_stock([name, name + "\n"], 9, []) == take_stock([], 9, [])


# Growth


def test_sizes_double_from_the_first_to_the_largest():
    growth = Growth(16 * MIB, 100 * MIB)
    sizes = []
    for _ in range(5):
        sizes.append(growth.size // MIB)
        growth.grow()
    assert sizes == [16, 32, 64, 100, 100]
    growth.start_again()
    assert growth.size == 16 * MIB


def test_sizes_are_whole_blocks():
    growth = Growth(1, 5_000)
    assert (growth.first, growth.largest) == (4096, 8192)


@pytest.mark.parametrize(("first", "largest"), [(0, 10), (-1, 10), (20, 10)])
def test_sizes_that_make_no_sense_are_refused(first: int, largest: int):
    with pytest.raises(ValueError, match="first <= largest"):
        Growth(first, largest)


# The free pool


def pool(*sizes: int, files_max: int = 4) -> FreePool:
    made = FreePool(16, 256, files_max)
    for number, size in enumerate(sizes, 1):
        assert made.add(number, size) == []
    return made


def test_the_smallest_file_that_fits_is_taken():
    free = pool(64, 16, 32, 64)
    assert free.take(20) == FreeFile(3, 32)
    assert free.take(20) == FreeFile(1, 64)
    assert free.take(20) == FreeFile(4, 64)
    assert free.take(20) is None
    assert free.take(16) == FreeFile(2, 16)
    assert len(free) == 0


def test_on_a_full_disk_the_largest_file_is_taken_if_it_will_do():
    free = pool(64, 16, 32)
    assert free.take_largest(65) is None
    assert free.take_largest(16) == FreeFile(1, 64)
    assert free.take_largest(33) is None
    assert free.take_largest(32) == FreeFile(3, 32)


def test_a_file_of_a_size_that_no_segment_has_is_removed():
    free = pool()
    assert free.add(1, 15) == [FreeFile(1, 15)]
    assert free.add(2, 257) == [FreeFile(2, 257)]
    assert len(free) == 0


def test_of_too_many_files_the_smallest_is_removed():
    free = pool(64, 32, files_max=2)
    assert free.add(3, 128) == [FreeFile(2, 32)]
    assert free.add(4, 16) == [FreeFile(4, 16)]
    assert len(free) == 2


def test_files_that_growth_has_outrun_are_removed():
    free = pool(16, 128, 32)
    assert free.outrun(64) == [FreeFile(1, 16), FreeFile(3, 32)]
    assert free.take(16) == FreeFile(2, 128)


def test_as_many_files_are_kept_as_were_needed_lately_and_the_surplus_goes_by_halves():
    free = pool(files_max=2)
    free.needed = 9
    assert [gone for number in range(1, 11) for gone in free.add(number, 64)] == [FreeFile(1, 64)]
    free.needed = 0
    assert [len(free.shrink()) for _ in range(5)] == [4, 2, 1, 0, 0]
    assert len(free) == 2


def test_a_new_number_is_one_that_no_free_file_had():
    free = pool(16, 16)
    assert free.new_number() == 3
    free.add(9, 16)
    assert free.new_number() == 10


# Which references are read in one go


def at(position: int, length: int, segment: int = 1) -> Reference:
    return Reference(segment, position, length, 1)


def test_neighbours_are_read_together_across_small_gaps():
    (span,) = spans([at(0, 100), at(128, 100), at(1_000, 50)], gap_max=1_000)
    assert (span.segment, span.position, span.length) == (1, 0, 1_050)


@pytest.mark.parametrize(
    "references",
    [
        [at(0, 100), at(1_101, 100)],  # too far apart
        [at(0, 100), at(100, 100, segment=2)],  # in another segment
        [at(500, 100), at(0, 100)],  # backwards
        [at(0, 100), at(50, 100)],  # overlapping
        [at(0, 3_000), at(3_000, 3_000)],  # too much for one read
    ],
)
def test_others_are_read_alone(references: list[Reference]):
    assert len(spans(references, gap_max=1_000, bytes_max=5_000)) == 2


def test_one_page_may_be_longer_than_a_joined_read():
    assert [span.length for span in spans([at(0, 9_000), at(9_000, 10)], bytes_max=5_000)] == [9_000, 10]


@given(st.lists(st.builds(at, st.integers(0, 5_000), st.integers(64, 900), st.integers(1, 2))))
def test_every_reference_is_in_one_span_in_order_and_inside_it(references: list[Reference]):
    found = spans(references, gap_max=200, bytes_max=2_000)
    assert [reference for span in found for reference in span.references] == references
    for span in found:
        assert span.length <= 2_000
        for reference in span.references:
            assert span.position <= reference.position
            assert reference.position + reference.length <= span.position + span.length


def test_a_small_page_does_not_hold_a_large_read():
    (span,) = spans([at(0, 1_000), at(1_000, 100_000)])
    assert [span.outlives(reference) for reference in span.references] == [True, False]


def test_small_reads_in_one_segment_are_handed_over_together_and_large_ones_alone():
    far = 1 << 20
    scattered = [at(number * far, 9_000) for number in range(SPANS_A_READ + 2)]
    assert [len(together) for together in reads(spans(scattered))] == [SPANS_A_READ, 2]
    large = [at(0, 9_000), at(far, 200_000), at(3 * far, 9_000)]
    assert [len(together) for together in reads(spans(large))] == [1, 1, 1]
    assert [span for together in reads(spans(scattered)) for span in together] == spans(scattered)
