"""Frames: what is written, and everything that makes what is read not the page that was meant."""

from __future__ import annotations

import struct

import google_crc32c
import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bowstring.frames import frame, framed_length, header_of, inlined, padded, verify
from bowstring.ports.failures import Damaged
from bowstring.ports.store import Page, Reference

PAGE = Page(b"whose rows they are", b"a batch, as it came")
SEGMENT, EPOCH, SEQUENCE = 3 << 24 | 7, 3, 41
REFERENCE = Reference(SEGMENT, 4096, framed_length(PAGE), SEQUENCE)


def framed(page: Page = PAGE, segment: int = SEGMENT, epoch: int = EPOCH, sequence: int = SEQUENCE, position: int = 4096) -> bytes:
    return b"".join(frame(page, segment, epoch, sequence, position))


def framed_as_version_1(page: Page = PAGE) -> bytes:
    fields = struct.pack("<4sHHQQQQI16x", b"BOWF", 1, 0, SEGMENT, EPOCH, SEQUENCE, len(page.body), len(page.header))
    rest = page.header + bytes(page.body)
    return fields + struct.pack("<I", google_crc32c.value(fields + rest)) + rest


@given(st.binary(max_size=300), st.binary(max_size=3_000))
def test_a_page_comes_back_from_its_frame(header: bytes, body: bytes):
    page = Page(header, body)
    found = verify(framed(page), REFERENCE._replace(length=framed_length(page)))
    assert (found.header, bytes(found.body)) == (header, body)


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_a_frame_is_padded_with_zeros_to_whole_units_of_64_bytes(header: bytes, body: bytes):
    page = Page(header, body)
    data = framed(page)
    assert len(data) == padded(framed_length(page))
    assert len(data) % 64 == 0
    assert not any(data[framed_length(page) :])
    assert len(data) - framed_length(page) < 64


def test_the_format_is_the_one_that_is_written_down():
    data = framed()
    lengths = len(PAGE.body), len(PAGE.header)
    fields = struct.pack("<4sHHQQQQIQI4x", b"BOWF", 3, 0, SEGMENT, EPOCH, SEQUENCE, *lengths, 4096, 0)
    assert data[:60] == fields
    assert data[60:64] == struct.pack("<I", google_crc32c.value(fields + PAGE.header + bytes(PAGE.body)))
    assert data[64 : framed_length(PAGE)] == PAGE.header + bytes(PAGE.body)


def test_the_body_is_not_copied_on_the_way_out_nor_on_the_way_in():
    body = bytearray(b"a long body" * 1_000)
    page = Page(b"header", memoryview(body))
    assert any(buffer is page.body for buffer in frame(page, 1, 1, 1, 0))
    data = bytearray(framed(page))
    found = verify(data, REFERENCE._replace(length=framed_length(page)))
    assert isinstance(found.body, memoryview)
    assert found.body.obj is data


def test_a_view_of_wide_items_counts_in_bytes():
    body = memoryview(numpy.arange(100, dtype=numpy.int64).data)
    page = Page(b"", body)
    assert framed_length(page) == 64 + 800
    assert bytes(verify(framed(page), REFERENCE._replace(length=864)).body) == body.tobytes()


@pytest.mark.parametrize("at", range(framed_length(PAGE)))
def test_every_flipped_bit_is_noticed(at: int):
    for bit in range(8):
        data = bytearray(framed())
        data[at] ^= 1 << bit
        with pytest.raises(Damaged):
            verify(data, REFERENCE)


def test_the_padding_is_nobodys_and_may_be_missing_or_anything():
    data = framed()
    assert verify(data[: REFERENCE.length], REFERENCE).header == PAGE.header
    assert verify(data[: REFERENCE.length] + b"\xff" * 500, REFERENCE).header == PAGE.header


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "only 0 bytes are there"),
        (framed()[:63], "only 63 bytes are there"),
        (framed()[: REFERENCE.length - 1], f"only {REFERENCE.length - 1} bytes are there"),
        (bytes(1_000), "no frame begins here"),
        (b"BOWF\x09\x00" + framed()[6:], "format version 9, and this release reads versions up to 3"),
        (framed(segment=5), "segment 0x5"),
        (framed(sequence=40), "flush 40"),
        (framed(position=8192), "written for position 8192"),
        (framed(Page(b"", PAGE.header + b"..")) + bytes(64), "0 bytes of header and 21 of body"),
        (framed()[:70] + b"!" + framed()[71:], "the checksum is"),
    ],
)
def test_damage_is_told_with_what_differs(data: bytes, says: str):
    with pytest.raises(Damaged) as damaged:
        verify(data, REFERENCE)
    assert says in str(damaged.value)
    assert f"segment {SEGMENT:#x} at 4096" in str(damaged.value)


def test_damage_in_the_journal_is_told_with_its_flush():
    with pytest.raises(Damaged, match="broker 7's journal row 41 at 128"):
        verify(bytes(100), Reference(0, 128, 100, 41, 7))


def test_a_whole_page_of_an_earlier_life_of_the_file_is_not_taken():
    """A recycled segment: the same place, the same length, a good checksum, but another segment and flush."""
    old = framed(segment=1 << 24 | 1, epoch=1, sequence=3)
    with pytest.raises(Damaged, match="recycled"):
        verify(old, REFERENCE)


def test_two_pages_of_one_flush_that_changed_places_are_told_apart():
    """Equal in length, of the same segment and flush, each whole: only the position differs."""
    one, other = Page(b"header", b"one body"), Page(b"header", b"a second"[:8])
    first = REFERENCE._replace(length=framed_length(one))
    second = first._replace(position=first.position + padded(first.length))
    written = {first: framed(one, position=first.position), second: framed(other, position=second.position)}
    for reference, data in ((first, written[second]), (second, written[first])):
        with pytest.raises(Damaged, match="wrong place"):
            verify(data, reference)


def test_the_version_before_which_knew_no_position_is_still_read():
    assert verify(framed_as_version_1(), REFERENCE).header == PAGE.header
    assert verify(framed_as_version_1(), REFERENCE._replace(position=0)).header == PAGE.header
    with pytest.raises(Damaged, match="the checksum is"):
        verify(framed_as_version_1()[:-1] + b"!", REFERENCE)


def test_a_frame_says_of_itself_what_it_is():
    for copy in (False, True):
        found = header_of(b"".join(frame(PAGE, SEGMENT, EPOCH, SEQUENCE, 128, copy=copy)))
        assert (found.segment, found.epoch, found.sequence, found.position) == (SEGMENT, EPOCH, SEQUENCE, 128)
        assert found.copy == copy
        assert found.length == framed_length(PAGE)
        assert verify(b"".join(frame(PAGE, SEGMENT, EPOCH, SEQUENCE, 4096, copy=copy)), REFERENCE).header == PAGE.header


def test_a_reference_shorter_than_a_frame_is_refused():
    with pytest.raises(Damaged):
        verify(framed(), REFERENCE._replace(length=10))


def test_inlined_pages_are_where_their_references_say_and_name_their_journal():
    pages = [PAGE, Page(b"", b"x" * 100), Page(b"header", b"")]
    data, references = inlined(pages, 7, EPOCH, SEQUENCE)
    assert data is not None
    for page, reference in zip(pages, references, strict=True):
        part = data[reference.position : reference.position + reference.length]
        assert bytes(verify(part, reference).body) == bytes(page.body)
        with pytest.raises(Damaged, match="the journal of broker 7"):
            verify(part, reference._replace(broker=1))
    assert inlined([], 7, EPOCH, SEQUENCE) == (None, [])


def test_a_frame_of_the_version_before_named_no_journal_and_is_still_read():
    fields = struct.pack("<4sHHQQQQIQ8x", b"BOWF", 2, 0, 0, EPOCH, SEQUENCE, len(PAGE.body), len(PAGE.header), 64)
    rest = PAGE.header + bytes(PAGE.body)
    data = fields + struct.pack("<I", google_crc32c.value(fields + rest)) + rest
    assert verify(data, Reference(0, 64, len(data), SEQUENCE, 1)).header == PAGE.header
