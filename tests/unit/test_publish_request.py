"""The request of a batch, written by hand: byte by byte what protobuf writes."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from bowstring.client import publish_request
from bowstring.wire.generated import bowstring_pb2 as pb

small = st.integers(0, 2**32 - 1)
large = st.integers(0, 2**64 - 1)


@given(small, st.integers(1, 2**64 - 1), large, st.integers(-(2**63), 2**63 - 1), large, small, small, st.binary(min_size=1, max_size=300))
@example(0, 1, 0, 0, 0, 0, 0, b"x")
@example(0, 1, 0, -1, 1, 10, 1, bytes(127))
@example(127, 128, 127, 1, 16_383, 10, 16_384, bytes(128))
@example(1, 2**21, 2**21 - 1, 1, 30_000_000, 127, 2**21, bytes(16_384))
def test_the_bytes_are_those_of_protobuf(
    partition: int, number: int, previous: int, sent: int, timeout: int, columns: int, rows: int, batch: bytes
):
    message = pb.PublishRequest(
        partition=partition,
        number=number,
        previous=previous,
        sent=sent,
        timeout=timeout,
        schema=1,
        columns=columns,
        rows=rows,
        batch=batch,
    )
    head = publish_request.head(partition, number, previous, sent, timeout, columns, rows, len(batch))
    assert head + batch == message.SerializeToString()
