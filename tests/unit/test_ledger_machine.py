"""The ledger against a model that keeps one record per message."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.unit.ledger_world import LedgerWorld, live_through, small_world

__all__ = ["small_world"]


class Drawn:
    """Hypothesis decides."""

    def __init__(self, data: st.DataObject) -> None:
        self._data = data

    def number(self, low: int, high: int) -> int:
        return self._data.draw(st.integers(low, high))


class LedgerMachine(RuleBasedStateMachine):
    """A world in steps that hypothesis picks."""

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        self.world = LedgerWorld(Drawn(data))

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        self.world.picker = Drawn(data)
        self.world.step()


TestLedgerMachine = LedgerMachine.TestCase
TestLedgerMachine.settings = settings(max_examples=60, stateful_step_count=40)


@pytest.mark.parametrize("seed", range(8))
def test_a_seed_lives_through_many_steps(seed: int):
    live_through(seed, 500)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 200))
def test_many_seeds_live_through_many_steps(seed: int):
    live_through(seed, 1_000)
