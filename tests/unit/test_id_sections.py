"""Hashes at rest: what was put in is found again, and strangers are told from it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bowstring.core import sections
from bowstring.core.id_sections import BITS_MAX, BLOCK_ENTRIES, Builder, Built, Filter, batch_hashes, known_hashes
from bowstring.core.pages import PageEntry, PageIndex
from bowstring.core.sections import BlockPlace, SectionHeader, Unreadable

HASHES = st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 40).map(lambda small: small << 58), max_size=300)


def build(hashes: np.ndarray, offsets: np.ndarray, first_offset: int, parts: int = 0, bits_max: int = BITS_MAX) -> Built:
    """A section, made in as many parts as so many bits tell apart."""
    builder = Builder(len(hashes), first_offset, bits_max)
    numbers = hashes >> np.uint64(64 - parts) if parts else np.zeros(len(hashes), np.uint64)
    for part in range(1 << parts):
        builder.take(hashes[numbers == part], offsets[numbers == part])
        builder.sort()
    return builder.built()


def filter_of(built: Built) -> tuple[Filter, np.ndarray]:
    made, at = Filter(built.bits, built.starts), 0
    for keys, _ in built.blocks:
        made.fill(at, keys)
        at += len(keys)
    return made, np.concatenate([distances for _, distances in built.blocks] or [np.empty(0, np.uint32)])


def hashes_of(built: Built) -> np.ndarray:
    """What a section still knows of the hashes that were put in, block by block."""
    found, at = [np.empty(0, np.uint64)], 0
    for keys, _ in built.blocks:
        found.append(known_hashes(built.bits, built.starts, keys, at))
        at += len(keys)
    return np.concatenate(found)


def found(built: Built, hashes: list[int], first_offset: int) -> set[tuple[int, int]]:
    ids, distances = filter_of(built)
    rows, places = ids.find(np.array(hashes, np.uint64))
    return {(int(row), int(distances[place]) + first_offset) for row, place in zip(rows, places, strict=True)}


@given(HASHES, st.integers(1, 2**40), st.integers(0, 4))
def test_every_entry_is_found_with_its_offset(hashes: list[int], first: int, parts: int):
    offsets = np.arange(first, first + len(hashes))
    built = build(np.array(hashes, np.uint64), offsets, first, parts)
    expected = {(row, first + at) for row, wanted in enumerate(hashes) for at, stored in enumerate(hashes) if wanted == stored}
    assert expected <= found(built, hashes, first)


@given(HASHES, st.integers(0, 4))
def test_a_section_knows_the_first_half_of_every_hash(hashes: list[int], parts: int):
    built = build(np.array(hashes, np.uint64), np.arange(len(hashes)), 0, parts)
    assert [known >> 32 for known in hashes_of(built).tolist()] == sorted(one >> 32 for one in hashes)


@given(HASHES, HASHES)
def test_joined_sections_know_what_their_parts_knew(one: list[int], other: list[int]):
    parts, first = [], 1
    for hashes in (one, other):
        offsets = np.arange(first, first + len(hashes))
        built = build(np.array(hashes, np.uint64), offsets, first)
        parts.append((built, filter_of(built)[1].astype(np.int64) + first))
        first += len(hashes)
    builder = Builder(first, 1, min(built.bits for built, _ in parts))
    for built, offsets in parts:
        builder.take(hashes_of(built), offsets)
    builder.sort()
    everything = found(builder.built(), one + other, 1)
    assert {(row, row + 1) for row in range(len(one) + len(other))} <= everything


def test_strangers_are_told_from_what_is_known():
    source = np.random.default_rng(1)
    known = source.integers(0, 2**64, 200_000, np.uint64)
    ids, _ = filter_of(build(known, np.arange(1, 200_001), 1))
    rows, _ = ids.find(source.integers(0, 2**64, 20_000, np.uint64))
    assert len(rows) <= 2
    assert ids.bytes < 4 * len(known)


def test_blocks_are_bounded():
    built = build(np.arange(BLOCK_ENTRIES * 2 + 5, dtype=np.uint64), np.arange(BLOCK_ENTRIES * 2 + 5), 0)
    assert [len(keys) for keys, _ in built.blocks] == [BLOCK_ENTRIES, BLOCK_ENTRIES, 5]


def test_batches_of_different_numbers_and_producers_have_different_hashes():
    producers = [bytes([number]) * 16 for number in range(50)]
    hashes = batch_hashes(b"".join(producer for producer in producers for _ in range(50)), np.array([*range(1, 51)] * 50))
    assert len(set(hashes.tolist())) == 2500


def entry(first: int, rows: int, arrived: int = 5) -> PageEntry:
    return PageEntry(first, rows, arrived, 7, 64, 100, 3, 2, arrived)


def test_an_index_section_comes_back_as_it_was():
    entries = [entry(1, 5), entry(6, 1, 9), entry(7, 100, 9)]
    header = SectionHeader(sections.INDEX, sections.INDEX_VERSION, 1, 0, 1, 107, 3)
    again = sections.decode_header(sections.encode_header(header), sections.INDEX)
    index = sections.decode_index(again, memoryview(sections.encode_index(entries)))
    assert index.state() == entries
    assert index.bytes == 300


def test_a_directory_comes_back_as_it_was():
    built = build(np.arange(1000, dtype=np.uint64) << np.uint64(50), np.arange(1, 1001), 1)
    places = [BlockPlace(3, 128, 500)]
    header = SectionHeader(sections.IDS, 1, 1, 0, 1, 1001, 1000, built.bits)
    starts, blocks = sections.decode_directory(header, memoryview(sections.encode_directory(built, places)))
    assert (starts == built.starts).all()
    assert blocks == places


@pytest.mark.parametrize(
    ("header", "kind"),
    [
        (b"\xff\xff", sections.INDEX),
        (sections.encode_header(SectionHeader(sections.IDS, 1, 1, 0, 1, 2, 1)), sections.INDEX),
        (sections.encode_header(SectionHeader(sections.INDEX, 99, 1, 0, 1, 2, 1)), sections.INDEX),
    ],
)
def test_what_is_no_section_of_the_kind_is_refused(header: bytes, kind: str):
    with pytest.raises(Unreadable):
        sections.decode_header(header, kind)


def test_sections_of_the_wrong_size_are_refused():
    header = SectionHeader(sections.INDEX, 1, 1, 0, 1, 107, 3, 2)
    for decode in (sections.decode_index, sections.decode_directory, sections.decode_block):
        with pytest.raises(Unreadable):
            decode(header, memoryview(b"12345"))


def test_pages_are_found_across_gaps():
    index = PageIndex()
    for page in (entry(1, 5), entry(6, 5), entry(21, 5)):
        index.add(page)
    assert [page.first_offset for page in index.between(8, 30, 1 << 20, 10)] == [6, 21]
    assert [page.first_offset for page in index.between(12, 30, 1 << 20, 10)] == [21]
    assert [page.first_offset for page in index.between(1, 30, 150, 10)] == [1, 6]
    assert index.between(26, 30, 1, 1) == []
    index.drop_below(8)
    assert (index.start, index.bytes) == (6, 200)
