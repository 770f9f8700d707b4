"""Native frames: whatever the cuts, the same frames; and nothing longer than its kind allows."""

from __future__ import annotations

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bowstring.wire import native_frames as frames
from bowstring.wire.native_frames import HEADER, HEADER_BYTES, LARGE_BYTES, PREFACE, SCRATCH_BYTES, Frame, FrameReader, Scratch

MOST = 100_000
"""The longest message that is taken here."""
BOUNDS = {
    frames.OPEN: (5, 68),
    frames.END: (0, 0),
    frames.ERROR: (0, 16 * 1024),
    frames.CANCEL: (0, 0),
    frames.CREDIT: (4, 4),
    frames.PING: (8, 8),
    frames.PONG: (8, 8),
    frames.GOODBYE: (0, 0),
}
EDGES = [edge + more for edge in (LARGE_BYTES, SCRATCH_BYTES, SCRATCH_BYTES - HEADER_BYTES, MOST) for more in (-1, 0, 1)]


def framed(kind: int, call: int, flags: int, payload: bytes) -> bytes:
    return HEADER.pack(len(payload), call, kind, flags, 0) + payload


def fed(reader: FrameReader, data: bytes, cuts: list[int]) -> list[Frame]:
    """The frames that come of these bytes, in reads of these lengths as long as there are any."""
    found: list[Frame] = []
    lengths = iter(cuts)
    while data:
        buffer = reader.buffer()
        count = min(next(lengths, len(data)), len(data), len(buffer))
        buffer[:count] = data[:count]
        found += [(kind, call, flags, bytes(payload)) for kind, call, flags, payload in reader.received(count)]
        data = data[count:]
    return found


def new_reader(scratch: Scratch | None = None) -> FrameReader:
    return FrameReader(scratch or Scratch(), message_bytes_max=MOST)


@st.composite
def a_frame(draw: st.DrawFn) -> tuple[bytes, Frame]:
    """The bytes of a frame, and what the reader makes of them."""
    call = draw(st.sampled_from([0, 1, 7, 2**32 - 1]))
    kind = draw(st.sampled_from([*BOUNDS, frames.MESSAGE, frames.MESSAGE, frames.MESSAGE, 10, 255]))
    flags = draw(st.sampled_from([0, 1, 255]))
    if kind == frames.MESSAGE:
        size = draw(st.one_of(st.integers(0, 100), st.sampled_from(EDGES)))
    elif kind in BOUNDS:
        size = draw(st.integers(*BOUNDS[kind]))
    else:
        size = draw(st.sampled_from([0, 1, 16 * 1024]))
    payload = bytes([draw(st.integers(0, 255))]) * size
    sent = framed(kind, call, flags, payload)
    if kind == frames.MESSAGE and size > MOST:
        return sent, (frames.TOO_LARGE, call, 0, frames.NUMBER.pack(size))
    if kind not in BOUNDS and kind != frames.MESSAGE:
        return sent, (frames.UNKNOWN, call, kind, b"")
    return sent, (kind, call, flags, payload)


@given(st.lists(a_frame(), max_size=8), st.lists(st.one_of(st.integers(1, 30), st.sampled_from([11, 12, 13, *EDGES])), max_size=40))
@settings(max_examples=300)
def test_any_cut_of_any_frames_gives_the_same_frames(given_frames: list[tuple[bytes, Frame]], cuts: list[int]):
    reader = new_reader()
    found = fed(reader, PREFACE + b"".join(sent for sent, _ in given_frames), cuts)
    assert found == [(frames.GREETED, 0, 0, b"\x01"), *(expected for _, expected in given_frames)]
    assert not reader.is_within


def test_a_byte_at_a_time_gives_the_same_frames():
    sent = PREFACE + framed(1, 1, 0, b"\0\0\0\0Hello") + framed(2, 1, 1, b"x" * 300) + framed(2, 2, 0, b"y" * LARGE_BYTES)
    found = fed(new_reader(), sent, [1] * len(sent))
    assert [frame[:3] for frame in found] == [(frames.GREETED, 0, 0), (1, 1, 0), (2, 1, 1), (2, 2, 0)]
    assert found[-1][3] == b"y" * LARGE_BYTES


@pytest.mark.parametrize("kind", BOUNDS)
def test_a_payload_may_have_the_lengths_of_its_kind_and_no_other(kind: int):
    least, most = BOUNDS[kind]
    for size in {least, most}:
        assert fed(new_reader(), PREFACE + framed(kind, 3, 0, bytes(size)), [])[1:] == [(kind, 3, 0, bytes(size))]
    for size in {least - 1, most + 1} - {-1}:
        after = framed(frames.PING, 0, 0, bytes(8))
        (broken,) = fed(new_reader(), PREFACE + framed(kind, 3, 0, bytes(size)) + after, [])[1:]
        assert broken[:2] == (frames.BROKEN, 3)
        assert f"kind {kind} has {size} bytes" in broken[3].decode()


def test_nothing_is_read_after_a_frame_that_breaks_the_rules():
    reader = new_reader()
    fed(reader, PREFACE + framed(frames.PING, 0, 0, b"7 bytes"), [])
    assert fed(reader, framed(frames.PING, 0, 0, bytes(8)), []) == []


def test_an_unknown_frame_is_passed_over_up_to_16_kib():
    passed = framed(77, 5, 9, bytes(16 * 1024)) + framed(frames.PING, 0, 0, bytes(8))
    assert [frame[:3] for frame in fed(new_reader(), PREFACE + passed, [])[1:]] == [(frames.UNKNOWN, 5, 77), (frames.PING, 0, 0)]
    (broken,) = fed(new_reader(), PREFACE + framed(77, 5, 9, bytes(16 * 1024 + 1)), [])[1:]
    assert broken[0] == frames.BROKEN


@pytest.mark.parametrize("cuts", [[], [8, 12], [30, 50_000, 50_000], [20 + MOST + 1]])
def test_a_message_beyond_the_limit_is_passed_over_and_the_next_frame_is_read(cuts: list[int]):
    sent = PREFACE + framed(2, 5, 0, bytes(MOST + 1)) + framed(2, 6, 0, bytes(MOST)) + framed(2, 7, 1, b"next")
    assert fed(new_reader(), sent, cuts)[1:] == [
        (frames.TOO_LARGE, 5, 0, frames.NUMBER.pack(MOST + 1)),
        (2, 6, 0, bytes(MOST)),
        (2, 7, 1, b"next"),
    ]


def test_a_length_that_lies_takes_no_memory():
    reader = new_reader()
    fed(reader, PREFACE + HEADER.pack(2**32 - 1, 1, frames.MESSAGE, 0, 0), [])
    assert reader.is_within
    assert len(reader.buffer()) == SCRATCH_BYTES


@pytest.mark.parametrize("size", [LARGE_BYTES, LARGE_BYTES + 1, 50_001, MOST])
def test_a_large_message_that_comes_in_parts_has_memory_of_its_own_that_ends_aligned(size: int):
    reader = new_reader()
    head = PREFACE + framed(2, 1, 0, b"z" * size)[:100]
    buffer = reader.buffer()
    buffer[: len(head)] = head
    reader.received(len(head))
    rest = reader.buffer()
    assert len(rest) == size - (100 - HEADER_BYTES)
    rest[:] = b"z" * len(rest)
    ((_, _, _, payload),) = reader.received(len(rest))
    assert isinstance(payload, memoryview)
    assert payload.readonly
    assert bytes(payload) == b"z" * size
    assert (numpy.frombuffer(payload, numpy.uint8).ctypes.data + size) % 64 == 0


def test_a_small_message_that_comes_in_parts_goes_through_the_scratch_buffer():
    reader = new_reader()
    head = PREFACE + framed(2, 1, 0, b"z" * (LARGE_BYTES - 1))[:100]
    reader.buffer()[: len(head)] = head
    reader.received(len(head))
    assert len(reader.buffer()) == SCRATCH_BYTES - 100


@pytest.mark.parametrize("wrong", range(7))
def test_other_first_bytes_are_handed_out_whole_at_the_first_that_differs(wrong: int):
    first = bytearray(PREFACE)
    first[wrong] ^= 1
    given = bytes(first[: wrong + 1])
    assert fed(new_reader(), given, [1] * wrong)[-1] == (frames.FOREIGN, 0, 0, given)
    reader = new_reader()
    assert fed(reader, bytes(first) + b" and more", []) == [(frames.FOREIGN, 0, 0, bytes(first) + b" and more")]
    assert fed(reader, PREFACE, []) == []


def test_the_version_of_a_preface_is_told_whatever_it_is():
    for version in (0, 1, 2, 255):
        sent = frames.MAGIC + bytes([version]) + frames.LINES
        reader = new_reader()
        assert fed(reader, sent[:-1], []) == []
        assert reader.is_within
        assert fed(reader, sent[-1:], []) == [(frames.GREETED, 0, 0, bytes([version]))]


def test_connections_share_the_scratch_buffer_and_see_nothing_of_each_other():
    scratch = Scratch()
    one, two = new_reader(scratch), new_reader(scratch)
    sent = {one: PREFACE + framed(2, 1, 0, b"one" * 50), two: PREFACE + framed(2, 2, 1, b"two" * 60)}
    found: dict[FrameReader, list[Frame]] = {one: [], two: []}
    while any(sent.values()):
        for reader in (one, two):
            found[reader] += fed(reader, sent[reader][:7], [])
            sent[reader] = sent[reader][7:]
    assert found[one][1:] == [(2, 1, 0, b"one" * 50)]
    assert found[two][1:] == [(2, 2, 1, b"two" * 60)]


def test_opening_a_call_says_its_name_and_how_long_its_caller_waits():
    assert frames.opening(7, "Hello", 250) == b"\x09\0\0\0\x07\0\0\0\x01\0\0\0" + b"\xfa\0\0\0Hello"
    assert frames.opening(7, "Hello", 2**40)[12:16] == b"\xff" * 4
