"""Sealed ids in memory: several sections behind a sieve, which come and go."""

from __future__ import annotations

import numpy as np

from bowstring.core.id_sections import Blocks, Builder, Filter, known_hashes
from bowstring.core.known_ids import CAPACITY_MAX, KnownIds, KnownSection


def learn(known: KnownIds[str], name: str, hashes: np.ndarray) -> None:
    builder = Builder(len(hashes), 1)
    builder.take(hashes, np.arange(1, len(hashes) + 1))
    builder.sort()
    built = builder.built()
    made, group, at = Filter(built.bits, built.starts), known.room_for(len(hashes)), 0
    for keys, _ in built.blocks:
        made.fill(at, keys)
        group.sieve.add(known_hashes(built.bits, built.starts, keys, at))
        at += len(keys)
    known.add(group, name, KnownSection(made, Blocks([])))


def many(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**64, count, np.uint64)


def found(known: KnownIds[str], hashes: np.ndarray, sections: set[str]) -> dict[str, list[int]]:
    return {section: sorted(rows.tolist()) for section, _, rows, _ in known.find(hashes, sections)}


def test_everything_is_found_in_its_section_however_many_sections_there_are():
    known = KnownIds[str]()
    sizes = [1, 5, 100, 3_000, 20_000, 7, 0, 50_000, 64]
    for seed, size in enumerate(sizes):
        learn(known, f"section {seed}", many(size, seed))
    names = {f"section {seed}" for seed in range(len(sizes))}
    for seed, size in enumerate(sizes):
        hits = found(known, many(size, seed), names)
        assert sorted(set(hits.get(f"section {seed}", []))) == list(range(size))
        assert sum(map(len, hits.values())) <= size + 3 + size // 5_000
    assert len(known._groups) <= 5


def test_only_the_sections_that_are_asked_for_are_looked_at():
    known = KnownIds[str]()
    learn(known, "old", many(100, 1))
    learn(known, "new", many(100, 2))
    assert found(known, many(100, 1), {"new"}) == {}
    assert found(known, many(100, 1), {"old", "new"}) == {"old": list(range(100))}
    assert known.get("other") is None


def test_what_is_dropped_gives_its_memory_back():
    known = KnownIds[str]()
    for seed in range(8):
        learn(known, f"section {seed}", many(5_000, seed))
    before = known.bytes
    known.keep_only({"section 7"})
    assert known.bytes < before / 2
    assert found(known, many(5_000, 7), {"section 7"}) == {"section 7": list(range(5_000))}
    known.keep_only(())
    assert known.bytes == 0


def test_a_section_may_be_learnt_while_others_go():
    known = KnownIds[str]()
    group = known.room_for(10)
    known.keep_only(())
    hashes = many(10, 1)
    builder = Builder(10, 1)
    builder.take(hashes, np.arange(1, 11))
    builder.sort()
    built = builder.built()
    made = Filter(built.bits, built.starts)
    made.fill(0, built.blocks[0][0])
    group.sieve.add(hashes)
    known.add(group, "late", KnownSection(made, Blocks([])))
    assert found(known, hashes, {"late"}) == {"late": list(range(10))}


def test_ten_million_ids_take_few_sieves_and_about_five_bytes_each():
    known = KnownIds[str]()
    sizes = [1 << 20] * 10
    groups = {id(known.room_for(size)) for size in sizes}
    assert len(groups) <= 3
    assert max(group.capacity for group in known._groups) <= CAPACITY_MAX
    assert sum(group.sieve.nbytes for group in known._groups) <= 1.8 * sum(sizes)
