"""Whether a figure was measured on a quiet machine: what others burn while the clock runs.

Shares of each other suffer most. Spark's own Parquet reader uses every core, a source in Python waits for others in between; foreign load
takes more from the one than from the other, and the ratio looks better than it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from benchmarks import processes
from benchmarks.turns import say

FOREIGN_CORES_MAX = 0.15
TRIES = 3
"""A round that was not quiet is repeated; so many times as many rounds are tried in all."""


class Run(NamedTuple):
    """One run of a work."""

    seconds: float
    server_cpu: float
    foreign_cores: float
    """CPU that neither we nor our server used, and what the hypervisor took, as cores."""


Round = dict[str, Run]


def timed(work: Callable[[], object], server: int, ours: Sequence[int]) -> Run:
    """Runs it once. `ours` are the processes that work for us, with all that they have started."""
    machine, family, cpu, began = processes.machine_cpu(), _family(ours), processes.cpu_seconds(server), time.perf_counter()
    work()
    seconds = time.perf_counter() - began
    after = processes.machine_cpu()
    taken = after.busy - machine.busy + after.steal - machine.steal
    foreign = max(0.0, taken - (_family(ours) - family))
    return Run(seconds, processes.cpu_seconds(server) - cpu, foreign / seconds)


def rounds(works: Mapping[str, Callable[[], object]], count: int, server: int, ours: Sequence[int]) -> tuple[list[Round], bool]:
    """So many rounds in which the machine was quiet, and True; or all that were tried, and False."""
    tried: list[Round] = []
    believed: list[Round] = []
    while len(believed) < count and len(tried) < TRIES * count:
        names = list(works) if len(tried) % 2 == 0 else list(reversed(works))
        found = {name: timed(works[name], server, ours) for name in names}
        tried.append(found)
        foreign = max(run.foreign_cores for run in found.values())
        if foreign <= FOREIGN_CORES_MAX:
            believed.append(found)
        else:
            say(f"  round {len(tried)} is not believed: others used {foreign:.2f} cores")
    return (believed, True) if len(believed) == count else (tried, False)


def _family(ours: Sequence[int]) -> float:
    return sum(processes.family_cpu_seconds(pid) for pid in ours)
