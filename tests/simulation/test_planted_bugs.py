"""The simulation is tested by bugs: each one planted must be found, by the checkers, from seed 1 on.

What counts is a broken promise in the clients' history (or state that differs after loading, or work that does not finish after healing).
An error that the product raises by itself does not count. `make test` takes a few bugs, others with every version of the sources, so
that all have their turn; `make test-long` takes all of them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from bowstring.core import settling
from tests.simulation import processes
from tests.simulation.bugs import BUGS, Bug
from tests.simulation.planting import CALM, QUEUE
from tests.simulation.run import Report, run

SEEDS_MAX = 40
A_ROTATION = 6
SOURCES = Path(__file__).parents[2] / "src"
MISFIT = re.compile(r"\b(TypeError|AttributeError|NameError)\b")
"""What a stand-in ends in that does not fit where it was put."""


def evidence(report: Report | None) -> str:
    """By what a run has shown the bug, empty if it has not."""
    if report is None or MISFIT.search(report.bug):
        return ""
    if report.violations:
        return str(report.violations[0])
    return report.stuck if report.stuck and not report.bug else ""


def search(bug: Bug, seeds_max: int = SEEDS_MAX, jobs: int = 2) -> tuple[int, str]:
    """The first seed that finds the bug, and how; 0 if none does."""
    simulate = partial(run, options=bug.options, load=bug.load, planted=bug.planted)
    for outcome in processes.each(range(1, seeds_max + 1), simulate, jobs=jobs):
        found = evidence(outcome.value)
        if found:
            return outcome.seed, found
    return 0, ""


def rotation() -> list[Bug]:
    """The bugs whose turn it is: drawn from the sources, so that the same sources give the same ones."""
    sources = hashlib.blake2b(b"".join(path.read_bytes() for path in sorted(SOURCES.rglob("*.py")))).digest()
    start = int.from_bytes(sources[:4], "big") % len(BUGS)
    return [(BUGS * 2)[start + number] for number in range(A_ROTATION)]


@pytest.mark.parametrize("bug", rotation(), ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Bug):
    seed, how = search(bug)
    assert seed, f"no seed up to {SEEDS_MAX} has found {bug.name}"
    print(f"{bug.name}: seed {seed}: {how}")


@pytest.mark.long
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_every_planted_bug_is_found(bug: Bug):
    seed, _ = search(bug, seeds_max=100)
    assert seed, f"no seed up to 100 has found {bug.name}"


@pytest.mark.long
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_nothing_is_found_in_the_same_world_without_the_bug(bug: Bug):
    simulate = partial(run, options=bug.options, load=bug.load)
    assert not [str(outcome.value) for outcome in processes.each(range(1, 11), simulate) if not (outcome.value and outcome.value.good)]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_bug_can_be_planted_and_leaves_nothing_behind(bug: Bug):
    with bug.planted():
        pass


def test_a_stand_in_that_takes_other_arguments_is_no_bug_that_was_found():
    @contextmanager
    def unfit() -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(settling, "settle", lambda ledger: None)
            yield

    (outcome,) = processes.each([1], partial(run, options=CALM, load=QUEUE, planted=unfit))
    assert outcome.value is not None
    assert "TypeError" in outcome.value.bug
    assert not evidence(outcome.value)


def test_there_are_enough_planted_bugs():
    assert len(BUGS) >= 40
    assert len({bug.name for bug in BUGS}) == len(BUGS)
