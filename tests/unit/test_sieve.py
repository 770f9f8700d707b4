"""The sieve: whoever was added passes, and few strangers do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bowstring.core.sieve import BITS_AN_ENTRY, Asked, Sieve

HASHES = st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 40).map(lambda small: small << 30), max_size=300)


def hashes(values: list[int]) -> np.ndarray:
    return np.array(values, np.uint64)


def strangers_passing(count: int, capacity: int, bits_an_entry: int) -> float:
    """The share of strangers that pass a sieve with so many entries."""
    source = np.random.default_rng(count)
    sieve = Sieve(capacity, bits_an_entry)
    sieve.add(np.sort(source.integers(0, 2**64, count, np.uint64)))
    return len(sieve.passing(Asked.of(source.integers(0, 2**64, 200_000, np.uint64)))) / 200_000


@given(st.lists(HASHES, max_size=4), st.integers(0, 400), st.integers(1, 20))
def test_whoever_was_added_passes(added: list[list[int]], capacity: int, bits: int):
    sieve = Sieve(capacity, bits)
    for some in added:
        sieve.add(hashes(some))
    everything = [one for some in added for one in some]
    assert sieve.passing(Asked.of(hashes(everything))).tolist() == list(range(len(everything)))


@given(HASHES, HASHES)
def test_rows_come_in_order_and_once(added: list[int], asked: list[int]):
    sieve = Sieve(len(added))
    sieve.add(hashes(added))
    rows = sieve.passing(Asked.of(hashes(asked))).tolist()
    assert rows == sorted(set(rows))
    assert {row for row, one in enumerate(asked) if one in added} <= set(rows)


def test_an_empty_sieve_lets_nobody_pass():
    assert len(Sieve(1000).passing(Asked.of(np.arange(100, dtype=np.uint64) << np.uint64(50)))) == 0
    assert len(Sieve(0).passing(Asked.of(hashes([])))) == 0


def test_only_the_first_half_of_a_hash_counts_because_small_sections_keep_no_more():
    sieve = Sieve(100)
    sieve.add(hashes([0x1234_5678_0000_0000]))
    assert len(sieve.passing(Asked.of(hashes([0x1234_5678_FFFF_FFFF])))) == 1


@pytest.mark.parametrize(("bits", "share"), [(BITS_AN_ENTRY, 0.002), (12, 0.013), (8, 0.04)])
@pytest.mark.parametrize("count", [1_000, 30_000, 300_000])
def test_few_strangers_pass_a_full_sieve(count: int, bits: int, share: float):
    assert strangers_passing(count, count, bits) <= share + 0.003


def test_a_sieve_that_is_overfull_still_tells_most_strangers():
    assert strangers_passing(40_000, 20_000, 16) < 0.05


def test_a_sieve_takes_the_memory_that_was_said():
    assert Sieve(1_000_000, 8).nbytes == 1_000_000
    assert Sieve(1_000_000).nbytes == 3_000_000
