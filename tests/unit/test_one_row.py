"""The quick check of a single row says yes exactly where the full check does, and so do both ways of parsing a publish request."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bowstring import errors
from bowstring.broker.log.published_batch import PublishedBatch
from bowstring.gateway import protobuf
from bowstring.messages import layout, limits, one_row, schema
from bowstring.messages.encoding import Encoded, encode_columns
from bowstring.messages.metadata import is_compressed
from bowstring.wire.codec import join
from bowstring.wire.generated import bowstring_pb2 as pb
from tests.fuzz.mutations import mutations

MUTANTS = 4000
MASKS = [schema.VALUE | more for more in (0, schema.KEY, schema.CREATED, schema.KEY | schema.CREATED)]
LENGTHS = (0, 1, 7, 8, 9, 100)


def row(mask: int, value: bytes, key: bytes = b"key", created: int = 1_700_000_000_000_000) -> Encoded:
    return encode_columns(1, values=[value], keys=[key] if mask & schema.KEY else None, created=created if mask & schema.CREATED else None)


def is_fully_canonical(mask: int, data: bytes) -> bool:
    """The full check accepts it, and it is no other form of a batch: compressed, or a null."""
    try:
        batch = layout.check(schema.BYTES_SCHEMA, mask, 1, data, bytes_max=1 << 20)
    except errors.Rejected:
        return False
    return not is_compressed(data) and not any(column.null_count for column in batch.columns)


@given(st.sampled_from(MASKS), st.binary(max_size=300), st.binary(max_size=40), st.integers(0, limits.MOMENT_MAX - 1))
def test_what_the_kit_writes_is_recognised(mask: int, value: bytes, key: bytes, created: int):
    batch = row(mask, value, key, created)
    assert batch.mask == mask
    assert one_row.is_canonical(mask, batch.data)
    assert one_row.is_canonical(mask, memoryview(batch.data))


@pytest.mark.parametrize("mask", MASKS)
def test_a_mutant_is_recognised_if_the_full_check_accepts_it(mask: int):
    seeds = [row(mask, b"v" * value, b"k" * key).data for value in LENGTHS for key in LENGTHS]
    verdicts = {True: 0, False: 0}
    for data in itertools.islice(mutations(random.Random(mask), seeds), MUTANTS):
        verdict = one_row.is_canonical(mask, data)
        assert verdict is is_fully_canonical(mask, data), data.hex()
        verdicts[verdict] += 1
    assert min(verdicts.values()) > MUTANTS // 50


@pytest.mark.parametrize("mask", MASKS)
def test_every_byte_counts(mask: int):
    """Each byte of a row with padding in each of its bits: only values, keys and the moment are free."""
    data = row(mask, b"value", b"k").data
    for at in range(len(data)):
        for bit in range(8):
            mutant = bytearray(data)
            mutant[at] ^= 1 << bit
            assert one_row.is_canonical(mask, mutant) is is_fully_canonical(mask, bytes(mutant)), (at, bit)


@pytest.mark.parametrize("mask", MASKS)
def test_a_shorter_or_longer_row_is_not_recognised(mask: int):
    data = row(mask, b"value").data
    assert not any(one_row.is_canonical(mask, data[:end]) for end in range(len(data)))
    assert not any(one_row.is_canonical(mask, data + bytes(more)) for more in range(1, 20))


def test_what_it_does_not_know_is_left_to_the_full_check():
    dear = encode_columns(1, values=[b"v" * one_row.BYTES_MAX])
    assert not one_row.is_canonical(dear.mask, dear.data)
    for other in (encode_columns(1, values=[b"v"], due=5), encode_columns(1, values=[None]), encode_columns(1, values=[b""], ids=["x"])):
        assert not one_row.is_canonical(other.mask, other.data)


# -- requests


def request(number: int = 7, partition: int = 0) -> bytes:
    header = pb.PublishRequest(partition=partition, number=number, previous=number - 1, sent=5, timeout=6, schema=1, columns=10, rows=1)
    return join(header.SerializeToString(), row(10, b"value").data)


def parsed(parse: Callable[[bytes], Any], message: bytes) -> object:
    try:
        found = parse(message)
    except errors.InvalidArgument:
        return None
    return found._replace(data=bytes(found.data)) if isinstance(found, PublishedBatch) else found


def test_both_ways_of_parsing_give_the_same():
    opening = pb.PublishRequest(open=pb.PublishOpen(topic="t", producer=b"p" * 16, stream=1, group="g")).SerializeToString()
    batch, field = row(10, b"value").data, join(b"", b"batch")
    odd = [
        field + b"\x18\x05",
        field + field,
        opening + field,
        join(b"\x18\x05\x18\x06", batch),
        join(b"\xa0\x06\x05", batch),
        b"",
        b"\x7a",
    ]
    seeds = [request(), request(1 << 40, 300), opening]
    mutants = itertools.islice(mutations(random.Random(1), seeds), MUTANTS)
    refused = 0
    for message in (*seeds, *odd, *mutants):
        slowly = parsed(protobuf._publish_request, message)
        assert parsed(protobuf.publish_request, message) == slowly, message.hex()
        refused += slowly is None
    assert MUTANTS // 50 < refused < MUTANTS


def test_our_own_requests_are_parsed_as_a_whole():
    for message in (request(), request(1 << 40, 300)):
        assert protobuf._small_batch(message) == parsed(protobuf._publish_request, message)
