"""`python -m tests.simulation --seeds N --seed K`: N seeds from K on, each in a process of its own. `make sim` calls this.

A failing seed prints its options and the one command that repeats it. At the end stand the faults by kind and the rare states that were
reached; a state that no seed has reached is named, because then something is not tested.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.history.events import line
from tests.simulation import processes
from tests.simulation.run import Report, run

ENOUGH_SEEDS = 300
"""So many seeds must have reached every state of these; one that none has reached is not tested."""
WANTED = (
    "answer lost after the call was carried out",
    "backup made",
    "batch found in a section",
    "call cancelled while its message was in flight",
    "cleaner copied a page",
    "coalesced page read",
    "crash inside a disk operation",
    "crash inside a seal",
    "create undone",
    "delete of a message answered message-not-found",
    "delete of a message answered not-authorised",
    "delete was given up",
    "everything came back",
    "expired row hidden",
    "extent dropped",
    "extents joined",
    "floor raised",
    "frame cut in its header",
    "frame cut in its payload",
    "frame cut in the preface",
    "generated id given back",
    "goodbye seen while calls were open",
    "id found in a section",
    "kit had no room",
    "large message received into its own memory in pieces",
    "live state compared with loaded state",
    "message answered as a duplicate",
    "message answered corrupt",
    "message answered deadline-passed",
    "message cancelled by its owner",
    "message deleted by its owner",
    "message moved by its owner",
    "page cut at a seal",
    "pages moved while they were read",
    "ping timed out",
    "position commit",
    "position seen by another",
    "position set",
    "position was overtaken",
    "position was refused as conflict",
    "power cut at the start after a failed sync",
    "power-cut inside a disk operation",
    "publish refused because full, and accepted later again",
    "reader began by time",
    "reader was overtaken",
    "reader was told of damaged bytes",
    "reader went on at its position",
    "redriven letter was pushed",
    "rename undone",
    "row kept below the floor",
    "row was pushed because it was asked for",
    "row released below the floor",
    "seal under load",
    "segment in a backup",
    "segment put aside",
    "segment recycled",
    "sender waited for credit",
    "sender waited for the kernel",
    "the disk was inspected",
    "topic altered",
    "topic made anew",
    "topic's rows cleared away",
    "unknown outcome: it was not stored",
    "unknown outcome: it was stored",
    "write lost",
    "write lost by a failed sync",
    "write torn",
)

REGRESSIONS = Path(__file__).with_name("regression_seeds.txt")


def regression_seeds() -> list[int]:
    """The seeds that once failed, kept for ever. A line is a number, and after it what it has found."""
    lines = REGRESSIONS.read_text().splitlines()
    return [int(text.split()[0]) for text in lines if text.strip() and not text.startswith("#")]


def failure_of(outcome: processes.Outcome) -> str:
    """Why a seed failed, empty if it did not."""
    if outcome.error:
        return f"seed {outcome.seed} failed; make sim SEED={outcome.seed} repeats it\n  {outcome.error}"
    return "" if outcome.value.good else str(outcome.value)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description="Simulates the whole broker, seed by seed.")
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds")
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    parser.add_argument("--twice", action="store_true", help="run each seed twice and compare the digests")
    parser.add_argument("--trace", type=Path, help="write every event of the (one) seed to this file, and its history beside it")
    given = parser.parse_args(arguments)
    if given.trace is not None:
        return _traced(given.seed, given.trace)
    seeds = [seed for seed in range(given.seed, given.seed + given.seeds) for _ in range(2 if given.twice else 1)]
    return _many(seeds, given.jobs)


def _traced(seed: int, path: Path) -> int:
    with path.open("w") as trace, path.with_suffix(".history").open("w") as file:
        events: list = []
        report = run(seed, trace=trace, history=events)
        file.writelines(line(event) + "\n" for event in events)
    print(report.digest, "good" if report.good else report, sep="\n")
    return 0 if report.good else 1


def _many(seeds: Sequence[int], jobs: int) -> int:
    started = time.monotonic()
    reports: list[Report] = []
    digests: dict[int, str] = {}
    failed: list[int] = []
    for number, outcome in enumerate(processes.each(seeds, run, jobs=jobs), 1):
        failure = failure_of(outcome)
        if outcome.value is not None:
            reports.append(outcome.value)
            if digests.setdefault(outcome.seed, outcome.value.digest) != outcome.value.digest:
                failure += f"\nseed {outcome.seed} ran differently the second time"
        if failure:
            failed.append(outcome.seed)
            print(failure, flush=True)
        if number % 20 == 0 or number == len(seeds):
            print(f"{number} of {len(seeds)} seeds, {len(failed)} failed, {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    never = _totals(reports, time.monotonic() - started)
    if failed:
        print(f"failed: {' '.join(map(str, sorted(set(failed))))}")
    return 1 if failed or (never and len(reports) >= ENOUGH_SEEDS) else 0


def _totals(reports: list[Report], seconds: float) -> list[str]:
    """Prints what happened in all, and gives the states that no seed has reached."""
    faults: Counter[str] = Counter()
    reached: Counter[str] = Counter()
    for report in reports:
        faults += report.faults
        reached += report.reached
    virtual = sum(report.virtual_seconds for report in reports)
    messages = sum(report.messages for report in reports)
    print(f"{len(reports)} seeds, {virtual / 3600:.2f} virtual hours, {messages} messages, {faults.total()} faults in {seconds:.0f} s")
    print("faults:   " + ", ".join(f"{kind} {count}" for kind, count in faults.most_common()))
    print("reached:  " + ", ".join(f"{state} {count}" for state, count in reached.most_common()))
    never = [state for state in WANTED if not reached[state]]
    if never:
        print(f"never reached: {', '.join(never)}")
    return never


if __name__ == "__main__":
    sys.exit(main())
