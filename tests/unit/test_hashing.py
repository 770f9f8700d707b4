"""The hash of keys, which never changes, and the hash of ids, which is stored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bowstring.messages.hashing import hash_key, id_hashes, partition_of, partitions_of

DOCUMENT = Path(__file__).parents[2] / "docs" / "hash-vectors.json"
VECTORS: list[dict[str, Any]] = json.loads(DOCUMENT.read_text(encoding="utf-8"))["vectors"]


@pytest.mark.parametrize(
    ("key", "expected"),
    [(b"", 0xEF46DB3751D8E999), (b"a", 0xD24EC4F1A98C6E5B), (b"abc", 0x44BC2CF5AD770999), (b"xxhash", 0x32DD38952C4BC720)],
)
def test_keys_are_hashed_as_the_authors_of_xxh64_say(key: bytes, expected: int):
    assert hash_key(key) == expected


def test_xxh64_of_every_length_is_that_of_its_specification():
    text = bytes(range(200))
    for length in range(200):
        assert hash_key(text[:length]) == xxh64(text[:length])


def test_the_published_vectors_hold():
    assert len(VECTORS) >= 30
    for vector in VECTORS:
        key = bytes.fromhex(vector["key_hex"])
        assert f"{hash_key(key):016x}" == vector["xxh64"]
        assert vector["xxh64"] == f"{xxh64(key):016x}"
        assert "text" not in vector or vector["text"].encode() == key
        assert list(vector["partitions"]) == ["1", "2", "3", "7", "16", "1000"]
        for partitions, partition in vector["partitions"].items():
            assert partition_of(key, int(partitions)) == partition == xxh64(key) % int(partitions)


@pytest.mark.parametrize("partitions", [1, 2, 3, 7, 16, 1000])
def test_the_partitions_of_many_keys_are_those_of_each(partitions: int):
    keys = [bytes.fromhex(vector["key_hex"]) for vector in VECTORS]
    expected = [partition_of(key, partitions) for key in keys]
    assert partitions_of(keys, partitions).tolist() == expected
    assert partitions_of(pa.array(keys), partitions).tolist() == expected
    assert partitions_of(pa.array(keys).slice(3, 5), partitions).tolist() == expected[3:8]


def test_a_row_without_a_key_has_no_partition():
    assert partitions_of([b"a", None, b""], 7).tolist() == [partition_of(b"a", 7), -1, partition_of(b"", 7)]
    assert partitions_of(pa.array([None, b"a"]), 7).tolist() == [-1, partition_of(b"a", 7)]
    assert partitions_of([], 7).tolist() == []
    with pytest.raises(TypeError):
        partitions_of([b"a", 3], 7)  # pyright: ignore[reportArgumentType]


def xxh64(data: bytes) -> int:
    """XXH64 with seed 0 after its specification, slowly."""
    p1, p2, p3, p4, p5 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
    bits = 2**64 - 1

    def turn(x: int, count: int) -> int:
        return (x << count | x >> 64 - count) & bits

    def step(lane: int, word: int) -> int:
        return turn((lane + word * p2) & bits, 31) * p1 & bits

    words = [int.from_bytes(data[at : at + 8], "little") for at in range(0, len(data) - 7, 8)]
    whole = len(data) // 32 * 4
    h = p5
    if whole:
        lanes = [(p1 + p2) & bits, p2, 0, -p1 & bits]
        for number, word in enumerate(words[:whole]):
            lanes[number % 4] = step(lanes[number % 4], word)
        h = sum(turn(lane, count) for lane, count in zip(lanes, (1, 7, 12, 18), strict=True)) & bits
        for lane in lanes:
            h = ((h ^ step(0, lane)) * p1 + p4) & bits
    h = (h + len(data)) & bits
    for word in words[whole:]:
        h = (turn(h ^ step(0, word), 27) * p1 + p4) & bits
    rest = data[len(words) * 8 :]
    if len(rest) >= 4:
        h = (turn(h ^ int.from_bytes(rest[:4], "little") * p1 & bits, 23) * p2 + p3) & bits
        rest = rest[4:]
    for byte in rest:
        h = turn(h ^ byte * p5 & bits, 11) * p1 & bits
    h = (h ^ h >> 33) * p2 & bits
    h = (h ^ h >> 29) * p3 & bits
    return h ^ h >> 32


# -- ids


def slow_id_hash(text: str) -> int:
    """The description of `id_hashes`, for one text."""
    golden, mix, bits = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 2**64 - 1
    data = text.encode()
    h = len(data) * golden & bits
    for at in range(0, len(data), 8):
        h = (h ^ int.from_bytes(data[at : at + 8], "little")) * mix & bits
        h ^= h >> 29
    h = h * golden & bits
    return h ^ h >> 32


def test_the_hash_of_an_id_never_changes():
    ids = ["a", "order-7", "order-77", "order-777", "Zürich", "0" * 256]
    assert [f"{each:016x}" for each in id_hashes(pa.array(ids)).tolist()] == [
        "0a50b1f5107f68dc",
        "7b6afb6d8764bf9d",
        "ba997733cae40022",
        "bf27355399450779",
        "7746ce161e2eb5f0",
        "bb628a1d8226e4cb",
    ]


@given(st.lists(st.text(max_size=40), max_size=30), st.data())
def test_ids_hash_alone_as_in_a_column(ids: list[str], data: st.DataObject):
    column = pa.array(ids, pa.utf8())
    hashes = id_hashes(column)
    assert hashes.dtype == np.uint64
    assert hashes.tolist() == [slow_id_hash(each) for each in ids]
    start = data.draw(st.integers(0, len(ids)))
    assert id_hashes(column.slice(start)).tolist() == hashes.tolist()[start:]


def test_ids_of_every_length_hash_as_described():
    text = "abcdefgh" * 32
    texts = [text[:length] for length in range(257)]
    assert id_hashes(pa.array(texts)).tolist() == [slow_id_hash(each) for each in texts]


def test_ids_that_are_alike_have_hashes_that_are_not():
    ids = pa.array([f"order-{number}" for number in range(200_000)])
    hashes = id_hashes(ids)
    assert len(np.unique(hashes)) == len(hashes)
    for shift in (0, 16, 32, 48):
        counts = np.bincount((hashes >> np.uint64(shift) & np.uint64(1023)).astype(np.int64), minlength=1024)
        assert counts.min() > 100
        assert counts.max() < 300
