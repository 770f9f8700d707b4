"""Thousands of broken batches: none kills the process, and what is accepted is canonical."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from bowstring import errors
from bowstring.messages import layout, schema
from bowstring.messages.encoding import Encoded, encode, encode_columns
from tests.fuzz.mutations import mutations

BYTES_MAX = 2**20
MUTANTS = 400


def batches() -> list[Encoded]:
    rows = 15
    columns: dict[str, list[Any]] = {
        "keys": [b"k", None, b""] * 5,
        "values": [b"hello", b"", None] * 5,
        "attributes": [{"a": "b", "c": "d"}, None, {}] * 5,
        "created": list(range(rows)),
        "due": [7, None, 9] * 5,
        "ids": [f"order-{row}" for row in range(rows)],
    }
    tall = {name: entries * 20 for name, entries in columns.items()}
    return [
        encode_columns(1, values=[b"hello"]),
        encode_columns(1, values=[b"hello"], keys=[b"k"], attributes=[{"a": "b"}], created=1, due=2, expires=3, ids=["x"]),
        encode_columns(rows, values=columns["values"]),
        encode_columns(rows, values=columns["values"], ids=columns["ids"]),
        encode_columns(rows, **columns),
        *(encode_columns(rows * 20, **tall, compression=compression) for compression in (None, "lz4", "zstd")),
    ]


@pytest.mark.parametrize("number", range(len(batches())))
def test_a_mutant_is_refused_or_canonical(number: int):
    seed = batches()[number]
    others = [each.data for each in batches() if each.mask == seed.mask]
    refused = accepted = 0
    for data in itertools.islice(mutations(random.Random(number), [seed.data, *others]), MUTANTS):
        try:
            batch = layout.check(schema.BYTES_SCHEMA, seed.mask, seed.rows, data, bytes_max=BYTES_MAX)
        except errors.Rejected:
            refused += 1
        else:
            accepted += 1
            confirm(seed, data, batch)
    assert refused > MUTANTS // 2
    assert accepted > 0


def confirm(seed: Encoded, data: bytes, batch: Any) -> None:
    """What was accepted can be read, is within bounds, and has one form: the same bytes, or those that it has uncompressed."""
    assert batch.num_rows == seed.rows
    assert len(batch.to_pylist()) == seed.rows
    plain = encode(batch)
    assert (plain.mask, plain.rows) == (seed.mask, seed.rows)
    assert len(plain.data) <= BYTES_MAX
    again = layout.check(schema.BYTES_SCHEMA, *plain, bytes_max=BYTES_MAX)
    assert again.equals(batch)
    if data[4:8] == plain.data[4:8]:
        assert plain.data == data


def test_the_same_seed_gives_the_same_mutants():
    def some() -> list[bytes]:
        return list(itertools.islice(mutations(random.Random(7), [b"0123456789abcdef" * 8]), 200))

    assert some() == some()
    assert len(set(some())) > 150
