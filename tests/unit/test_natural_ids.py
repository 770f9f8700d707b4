"""Ids that are not sealed: every one of them is found, generation by generation, and what was freed is not."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from bowstring.core import natural_ids
from bowstring.core.natural_ids import CAPACITY_MIN, RUN_MAX, NaturalIds

FEW = st.integers(0, 30).map(lambda small: small << 58 | small)
BATCH = st.lists(FEW | st.integers(0, 2**64 - 1), min_size=1, max_size=60)


def array(values: list[int]) -> np.ndarray:
    return np.array(values, np.uint64)


def found(ids: NaturalIds, values: list[int]) -> set[tuple[int, int]]:
    hits = ids.find(array(values))
    return {(values[row], offset) for row, offset in zip(hits.rows.tolist(), hits.offsets.tolist(), strict=True)}


def many(count: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**64, count, np.uint64)


class Remembering(RuleBasedStateMachine):
    """Against a plain dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.ids = NaturalIds()
        self.stored: dict[int, int] = {}
        """Hashes by offset."""
        self.offset = 1

    @rule(batch=BATCH, gap=st.sampled_from([0, 0, 5, 1 << 33]))
    def add(self, batch: list[int], gap: int) -> None:
        self.offset += gap
        offsets = range(self.offset, self.offset + len(batch))
        self.ids.add(array(batch), np.array(offsets))
        self.stored |= dict(zip(offsets, batch, strict=True))
        self.offset += len(batch)

    @rule(part=st.floats(0, 1), rows=st.integers(1, 80))
    def free(self, part: float, rows: int) -> None:
        first = int(part * self.offset)
        self.ids.free(first, first + rows)
        self.stored = {offset: one for offset, one in self.stored.items() if not first <= offset < first + rows}

    @rule(part=st.floats(0, 1))
    def seal(self, part: float) -> None:
        end = int(part * self.offset)
        hashes, offsets = self.ids.part_below(end, 0, 0)
        pairs = set(zip(offsets.tolist(), hashes.tolist(), strict=True))
        assert {(offset, one) for offset, one in self.stored.items() if offset < end} == pairs
        assert len(pairs) <= self.ids.count_below(end)
        self.ids.free(0, end)
        self.stored = {offset: one for offset, one in self.stored.items() if offset >= end}

    @invariant()
    def everything_is_found_and_nothing_that_is_not_there(self) -> None:
        wanted = sorted({*self.stored.values(), 3 << 58, 5})
        assert found(self.ids, wanted) == {(one, offset) for offset, one in self.stored.items()}


TestRemembering = Remembering.TestCase


@given(st.lists(BATCH, min_size=1, max_size=5), st.integers(0, 4))
def test_the_parts_of_all_hashes_are_all_of_them(batches: list[list[int]], bits: int):
    ids, offset = NaturalIds(), 1
    for batch in batches:
        ids.add(array(batch), np.arange(offset, offset + len(batch)))
        offset += len(batch)
    parts = [ids.part_below(offset, part, bits) for part in range(1 << bits)]
    pairs = sorted((int(at), int(one)) for hashes, offsets in parts for one, at in zip(hashes, offsets, strict=True))
    assert pairs == ids.pairs()
    for part, (hashes, _) in enumerate(parts):
        assert all(int(one) >> 64 - bits == part for one in hashes) if bits else True


def generations(ids: NaturalIds) -> list[natural_ids._Generation]:
    return ids._generations


def test_generations_grow_with_what_comes_and_are_left_when_they_are_full():
    ids, offset = NaturalIds(), 1
    for batch in range(60):
        ids.add(many(200, batch), np.arange(offset, offset + 200))
        offset += 200
    capacities = [generation.capacity for generation in generations(ids)]
    assert capacities[0] == CAPACITY_MIN
    assert all(later > earlier for earlier, later in pairwise(capacities))
    assert all(generation.count <= generation.capacity for generation in generations(ids))


def test_single_messages_do_not_make_a_run_each_and_large_runs_are_left_alone():
    ids = NaturalIds()
    for offset, one in enumerate(many(3_000)):
        ids.add(np.array([one]), np.array([offset + 1]))
    assert all(len(generation.runs) <= 14 for generation in generations(ids))
    large = NaturalIds()
    for batch in range(4):
        large.add(many(RUN_MAX // 2 + 1, batch), np.arange(RUN_MAX // 2 + 1) + batch * RUN_MAX + 1)
    assert sum(len(generation.runs) for generation in generations(large)) == 4


def test_a_generation_goes_when_all_its_rows_are_sealed():
    ids = NaturalIds()
    ids.add(many(600), np.arange(1, 601))
    ids.add(many(600, 2), np.arange(601, 1201))
    ids.free(0, 601)
    assert len(generations(ids)) == 1
    ids.free(0, 1201)
    assert not generations(ids)
    assert ids.pairs() == []
