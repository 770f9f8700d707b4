"""The simulation as `make test` runs it: the seeds that once failed, some more, and the proof that a seed is the same run every time."""

from __future__ import annotations

import pytest

from tests.history.checkers import same_digest
from tests.simulation import processes
from tests.simulation.__main__ import failure_of, regression_seeds
from tests.simulation.run import run

SEEDS = 64
A_TEST = 8
SECONDS_MAX = 240.0


def failures(seeds: list[int]) -> str:
    """What went wrong in these seeds, each in a process of its own."""
    return "\n".join(filter(None, (failure_of(outcome) for outcome in processes.each(seeds, run, seconds_max=SECONDS_MAX))))


@pytest.mark.parametrize("seed", regression_seeds())
def test_a_seed_that_once_failed_does_not_fail_again(seed: int):
    assert not failures([seed])


@pytest.mark.parametrize("first", range(1, SEEDS + 1, A_TEST))
def test_every_promise_is_kept_through_all_faults(first: int):
    assert not failures(list(range(first, first + A_TEST)))


@pytest.mark.parametrize("seed", [3, 11, 19])
def test_the_same_seed_is_the_same_run(seed: int):
    digests = [outcome.value.digest for outcome in processes.each([seed, seed], run, seconds_max=SECONDS_MAX)]
    assert not same_digest(seed, digests)


@pytest.mark.long
@pytest.mark.parametrize("first", range(1001, 2001, 20))
def test_a_thousand_seeds(first: int):
    assert not failures(list(range(first, first + 20)))
