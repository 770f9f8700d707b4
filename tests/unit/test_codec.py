"""Splitting header and batch: as protobuf reads it, without a copy, and never fooled."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf.message import DecodeError
from hypothesis import example, given
from hypothesis import strategies as st

from bowstring.errors import InvalidArgument
from bowstring.wire.codec import BATCH_TAG, HEADER_BYTES_MAX, join, split
from bowstring.wire.generated import bowstring_pb2 as pb

headers = st.builds(
    pb.PublishRequest,
    partition=st.integers(0, 2**32 - 1),
    number=st.integers(0, 2**64 - 1),
    previous=st.integers(0, 2**64 - 1),
    sent=st.integers(-(2**63), 2**63 - 1),
    timeout=st.integers(0, 2**64 - 1),
    schema=st.integers(0, 2**32 - 1),
    columns=st.integers(0, 2**32 - 1),
    rows=st.integers(0, 2**32 - 1),
)


@given(headers, st.binary(max_size=300))
def test_what_protobuf_writes_is_split(header: pb.PublishRequest, batch: bytes):
    whole = pb.PublishRequest()
    whole.CopyFrom(header)
    whole.batch = batch
    head, found = split(whole.SerializeToString())
    assert head == header.SerializeToString()
    assert bytes(found or b"") == batch


@given(headers, st.binary(max_size=300))
def test_what_is_joined_is_read_by_protobuf(header: pb.PublishRequest, batch: bytes):
    whole = pb.PublishRequest.FromString(join(header.SerializeToString(), batch))
    assert whole.batch == batch
    whole.ClearField("batch")
    assert whole == header


@pytest.mark.parametrize("size", [0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152])
def test_lengths_of_every_width(size: int):
    batch = b"x" * size
    header, found = split(join(b"", memoryview(batch)))
    assert header == b""
    assert found is not None
    assert found == batch


def test_the_batch_is_a_view_into_the_message():
    message = join(pb.PublishRequest(number=7).SerializeToString(), b"b" * 100)
    _, batch = split(message)
    assert isinstance(batch, memoryview)
    assert batch.obj is message


def test_answers_with_many_runs_and_origins():
    header = pb.FetchAnswer(partition=3, next_offset=9, runs=[pb.Run(offset=n, rows=1) for n in range(5000)])
    header.origins.add(rows=3, producer=b"p" * 16, number=1, group="shop")
    head, batch = split(join(header.SerializeToString(), b"batch"))
    assert pb.FetchAnswer.FromString(head) == header
    assert batch == b"batch"


def test_a_message_without_batch_is_all_header():
    message = pb.FetchRequest(open=pb.FetchOpen(topic="orders"), credit=5).SerializeToString()
    assert split(message) == (message, None)
    assert split(b"") == (b"", None)


def test_an_empty_batch_is_not_no_batch():
    assert split(b"\x7a\x00") == (b"", memoryview(b""))


NUMBER = b"\x18\x05"
BAD = {
    "something after the batch": b"\x7a\x01x" + NUMBER,
    "two batches": b"\x7a\x01x\x7a\x01x",
    "a batch longer than the message": b"\x7a\x05xx",
    "a batch shorter than the rest": b"\x7a\x01xx",
    "no length of the batch": NUMBER + b"\x7a",
    "a cut length": b"\x7a\x80",
    "a length of 2^70": b"\x7a" + b"\xff" * 9 + b"\x7f",
    "a number without end": b"\x18" + b"\xff" * 20,
    "a tag without end": b"\xff" * 20,
    "a cut number": b"\x18\x80",
    "a cut fixed64": b"\x29\x00\x00",
    "a cut fixed32": b"\x2d\x00",
    "a field behind the end": b"\x0a\x7f",
    "a group": b"\x1b\x1c",
    "wire type 6": b"\x1e",
    "wire type 7": b"\x1f",
    "field 0": b"\x00\x00",
    "field 15 as a number": b"\x78\x01",
    "field 15 as a fixed32": b"\x7d\x00\x00\x00\x00",
}


@pytest.mark.parametrize("message", BAD.values(), ids=BAD.keys())
def test_what_is_malformed_is_refused(message: bytes):
    with pytest.raises(InvalidArgument, match=r"not a message of the protocol.*proto/bowstring/v1"):
        split(message)


def test_a_header_may_be_bounded():
    small = NUMBER * 100
    assert split(small, 200) == (small, None)
    for large in (NUMBER * 101 + b"\x7a\x00", NUMBER * 101):
        with pytest.raises(InvalidArgument, match="more than 200 bytes"):
            split(large, 200)
    assert split(join(small, b"x" * 1000), 200)[0] == small
    huge = NUMBER * 8_000_000  # 16 MB of tiny fields: refused after the first 64 KiB, not walked to the end
    with pytest.raises(InvalidArgument, match="Only the batch may be large"):
        split(huge, HEADER_BYTES_MAX)


@given(st.binary(max_size=200))
@example(b"")
@example(bytes([BATCH_TAG]))
def test_any_bytes_are_split_as_protobuf_reads_them_or_refused(message: bytes):
    try:
        header, batch = split(message)
    except InvalidArgument:
        return
    try:
        whole = pb.PublishRequest.FromString(message)
    except DecodeError:
        with pytest.raises(DecodeError):  # what split lets pass and protobuf does not, protobuf refuses in the header
            pb.PublishRequest.FromString(header)
        return
    assert whole.batch == bytes(batch or b"")
    whole.ClearField("batch")
    assert whole == pb.PublishRequest.FromString(header)


def test_the_generated_code_is_that_of_the_schema():
    tool = Path(__file__).parents[2] / "tools" / "proto.py"
    done = subprocess.run([sys.executable, str(tool), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
