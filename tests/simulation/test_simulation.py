"""The simulation as `make test` runs it: the seeds that once failed, some more, and the proof that a seed is the same run every time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.history.checkers import same_digest
from tests.simulation import processes
from tests.simulation.__main__ import failure_of, regression_seeds
from tests.simulation.run import run

ROOT = Path(__file__).parents[2]
SEEDS = 100
"""All that `make sim` runs by default; two minutes on two quiet cores."""
SECONDS_MAX = 240.0


def failures(seeds: list[int]) -> str:
    """What went wrong in these seeds, each in a process of its own."""
    return "\n".join(filter(None, (failure_of(outcome) for outcome in processes.each(seeds, run, seconds_max=SECONDS_MAX))))


@pytest.mark.parametrize("seed", regression_seeds())
def test_a_seed_that_once_failed_does_not_fail_again(seed: int):
    assert not failures([seed])


@pytest.mark.timeout(0)
def test_every_promise_is_kept_through_all_faults():
    """In a fresh process: a fork of one that has run a thousand tests pays for its memory in every seed."""
    command = [sys.executable, "-m", "tests.simulation", "--seeds", str(SEEDS), "--seed", "1", "--jobs", "2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SEEDS * SECONDS_MAX, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("seed", [3, 11, 201])
def test_the_same_seed_is_the_same_run(seed: int):
    digests = [outcome.value.digest for outcome in processes.each([seed, seed], run, seconds_max=SECONDS_MAX)]
    assert not same_digest(seed, digests)


@pytest.mark.long
@pytest.mark.parametrize("first", range(1001, 2001, 20))
def test_a_thousand_seeds(first: int):
    assert not failures(list(range(first, first + 20)))
