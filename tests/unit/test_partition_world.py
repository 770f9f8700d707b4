"""A partition with subscriptions, captured at any moment and loaded at any other, is what it was."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from bowstring.core.ledger_state import LedgerState
from bowstring.core.ledgers import Ledgers
from bowstring.core.snapshots import PARTITION, StatePart
from tests.unit.ledger_world import small_world
from tests.unit.partition_world import PartitionWorld, live_through
from tests.unit.test_ledger_machine import Drawn

__all__ = ["small_world"]

Patch = pytest.MonkeyPatch


def worlds() -> None:
    for seed in range(40):
        live_through(seed, 600)


class PartitionMachine(RuleBasedStateMachine):
    """A world in steps that hypothesis picks."""

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        self.world = PartitionWorld(Drawn(data))

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        self.world.picker = Drawn(data)
        self.world.step()


TestPartitionMachine = PartitionMachine.TestCase
TestPartitionMachine.settings = settings(max_examples=40, stateful_step_count=40)


@pytest.mark.parametrize("seed", range(8))
def test_a_seed_lives_through_many_steps(seed: int):
    live_through(seed, 600)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 200))
def test_many_seeds_live_through_many_steps(seed: int):
    live_through(seed, 2_000)


# Bugs that are easily made, planted one by one


def the_head_of_the_partition_comes_before_those_of_ledgers(patch: Patch) -> None:
    patch.setattr(
        StatePart, "turn", property(lambda self: 3 if self.is_gone else 0 if self.number else 2 if self.machine != PARTITION else 1)
    )


def what_is_gone_goes_before_the_head_that_says_so(patch: Patch) -> None:
    patch.setattr(StatePart, "turn", property(lambda self: 0 if self.number or self.is_gone else 1 if self.machine != PARTITION else 2))


def the_next_number_is_not_at_rest(patch: Patch) -> None:
    restore = Ledgers.restore_named

    def wrong(self: Ledgers, named: Iterable[int], next_number: int, sequence: int) -> None:
        del next_number
        restore(self, named, max(named, default=0) + 1, sequence)

    patch.setattr(Ledgers, "restore_named", wrong)


def a_subscription_that_is_gone_comes_back(patch: Patch) -> None:
    restore = Ledgers.restore_named

    def wrong(self: Ledgers, named: Iterable[int], next_number: int, sequence: int) -> None:
        restore(self, named, next_number, sequence)
        self._named_below = 1

    patch.setattr(Ledgers, "restore_named", wrong)


def a_deletion_does_not_count_as_a_change_of_a_ledger(patch: Patch) -> None:
    behind = LedgerState.is_behind

    def wrong(self: LedgerState) -> bool:
        return behind.__get__(self) and self._ledger.moment != getattr(self, "_seen", -1)

    def remember(self: LedgerState) -> Any:
        self._seen = self._ledger.moment  # type: ignore[attr-defined]
        return capture(self)

    capture = LedgerState.capture
    patch.setattr(LedgerState, "is_behind", property(wrong))
    patch.setattr(LedgerState, "capture", remember)


def what_was_put_back_is_forgotten(patch: Patch) -> None:
    patch.setattr(Ledgers, "put_back", lambda *_, is_gone: None)


BUGS = [
    the_head_of_the_partition_comes_before_those_of_ledgers,
    what_is_gone_goes_before_the_head_that_says_so,
    the_next_number_is_not_at_rest,
    a_subscription_that_is_gone_comes_back,
    a_deletion_does_not_count_as_a_change_of_a_ledger,
    what_was_put_back_is_forgotten,
]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_the_world_finds(bug: Callable[[Patch], None], monkeypatch: Patch):
    bug(monkeypatch)
    with pytest.raises((AssertionError, KeyError)):
        worlds()
