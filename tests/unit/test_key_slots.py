"""Slots: planned by load, with as few moves as needed."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
from hypothesis import given, settings

from bowstring.broker.queue.slot_owners import SlotOwners
from bowstring.core import key_slots
from bowstring.core.keys import NO_OWNER, SLOTS

NOBODY = np.full(SLOTS, NO_OWNER, np.int16)


def zipf(keys: int = 100_000, exponent: float = 1.1, seed: int = 1) -> key_slots.Loads:
    """The load of slots by keys of which the first one is by far the heaviest."""
    loads = np.zeros(SLOTS)
    weights = 1.0 / np.arange(1, keys + 1) ** exponent
    np.add.at(loads, np.random.default_rng(seed).integers(0, SLOTS, keys), weights)
    return loads


def shares(loads: key_slots.Loads, owners: key_slots.Owners, consumers: list[int]) -> dict[int, float]:
    return {consumer: float(loads[owners == consumer].sum()) for consumer in consumers}


def test_the_consumer_of_the_heaviest_key_gets_little_else_and_the_others_the_same() -> None:
    loads, consumers = zipf(), list(range(8))
    owners = key_slots.plan(loads, NOBODY, consumers)
    heaviest = int(loads.argmax())
    owner = int(owners[heaviest])
    held = shares(loads, owners, consumers)
    assert held[owner] <= 1.02 * loads[heaviest]
    others = [share for consumer, share in held.items() if consumer != owner]
    mean = sum(others) / len(others)
    assert all(0.9 * mean <= share <= 1.1 * mean for share in others)
    assert not key_slots.is_off(loads, owners, consumers)


def test_those_who_join_get_their_share_and_nothing_else_moves() -> None:
    loads, consumers = zipf(), list(range(8))
    before = key_slots.plan(loads, NOBODY, consumers)
    consumers += [8, 9]
    assert key_slots.is_off(loads, before, consumers)
    after = key_slots.plan(loads, before, consumers)
    moved = before != after
    assert set(after[moved].tolist()) <= {8, 9} | {int(after[loads.argmax()])}
    assert loads[moved].sum() <= 1.3 * 2 / 10 * loads.sum()
    assert not key_slots.is_off(loads, after, consumers)


def test_only_the_slots_of_those_who_leave_move() -> None:
    loads = np.ones(SLOTS)
    before = key_slots.plan(loads, NOBODY, [0, 1, 2, 3])
    after = key_slots.plan(loads, before, [0, 1, 2])
    assert set(before[before != after].tolist()) == {3}


def test_without_any_load_slots_are_shared_evenly() -> None:
    owners = key_slots.plan(np.zeros(SLOTS), NOBODY, [4, 5, 6])
    assert {int((owners == one).sum()) for one in (4, 5, 6)} <= {1365, 1366}


def test_without_consumers_no_slot_has_an_owner() -> None:
    assert (key_slots.plan(zipf(), np.zeros(SLOTS, np.int16), []) == NO_OWNER).all()


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 999),
    exponent=st.sampled_from([0.0, 0.5, 1.1, 2.0, 4.0]),
    keys=st.sampled_from([1, 3, 50, 5000]),
    steps=st.lists(st.sets(st.integers(0, 11), min_size=1), min_size=1, max_size=4),
)
def test_every_plan_is_whole_and_good_enough_to_be_kept(seed: int, exponent: float, keys: int, steps: list[set[int]]) -> None:
    loads, owners = zipf(keys, exponent, seed), NOBODY
    for consumers in map(sorted, steps):
        owners = key_slots.plan(loads, owners, consumers)
        assert set(owners.tolist()) <= set(consumers)
        again = key_slots.plan(loads, owners, consumers)
        assert loads[again != owners].sum() <= 0.02 * loads.sum() + 1e-9


def test_a_consumer_that_is_full_loses_its_slots_only_if_it_takes_nothing() -> None:
    slots, second = SlotOwners(), 1_000_000
    slots.join("works")
    slots.join("stands")
    for now in range(0, 3 * second, second // 4):
        for name in slots.numbers:
            slots.has_room(name, now, has_room=False, waiting=True)
        slots.took("works")
        slots.look(now)
    assert set(slots.owners.tolist()) == {slots.numbers["works"]}
    slots.has_room("stands", 3 * second, has_room=True, waiting=False)
    assert slots.look(3 * second)
    assert set(slots.owners.tolist()) == set(slots.numbers.values())
