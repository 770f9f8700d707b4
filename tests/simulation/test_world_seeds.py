"""Seeds as wholes: the same one twice is the same to the last event, faults happen, and what was acknowledged survives them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tests.simulation import example
from tests.simulation.options import Options, drawn

ROOT = Path(__file__).resolve().parent.parent.parent


def python(*arguments: str, hash_seed: str = "0") -> str:
    """What a fresh interpreter prints: seeds fork, which a process with threads, as pytest's may be, had better not."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path}
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, env=environment, check=True, capture_output=True, text=True).stdout


def seeds(first: int, count: int, hash_seed: str = "0") -> list[dict[str, Any]]:
    lines = python("-m", "tests.simulation.example", str(first), str(count), hash_seed=hash_seed).splitlines()
    return sorted((json.loads(line) for line in lines), key=lambda result: result["seed"])


def test_the_same_seed_gives_the_same_events_in_two_processes():
    once, again = seeds(3, 4, "1"), seeds(3, 4, "2")
    assert once == again
    assert len({result["digest"] for result in once}) == 4


def test_many_seeds_lose_nothing_and_reach_all_kinds_of_faults():
    faults: Counter[str] = Counter()
    reached: Counter[str] = Counter()
    for result in seeds(0, 40):
        assert not result["error"], f"seed {result['seed']}\n{result['error']}"
        faults.update(result["faults"])
        reached.update(result["reached"])
    assert set(faults) >= {"power-cut", "crash", "connection-cut", "half-open", "clog", "sync-error", "no-space"}
    assert set(reached) >= {"power-cut inside a disk operation", "crash inside a disk operation", "write lost", "write torn"}


def test_every_option_is_off_in_some_seeds_and_on_in_others():
    options = [drawn(seed) for seed in range(200)]
    for name in ("power_cut_every", "crash_every", "read_error_rate", "sync_error_rate", "full_every", "bit_rot_rate", "cut_rate"):
        values = [getattr(each, name) for each in options]
        assert 0 < sum(value == 0.0 for value in values) < len(values), name
    assert sum(each.priorities for each in options) in range(40, 80)
    assert drawn(7) == drawn(7)
    assert "sync_error_rate=" in str(drawn(7))
    assert drawn(7).only(cut_rate=0.5).cut_rate == 0.5


FORKING = """
import os
from tests.simulation.processes import each

def run(seed):
    if seed == 1:
        raise ValueError("seed one")
    if seed == 2:
        os._exit(3)
    return seed * 10

for outcome in sorted(each(range(4), run, jobs=3)):
    print(outcome.value or outcome.error.splitlines()[-1:])
"""


def test_a_process_per_seed_tells_values_errors_and_deaths():
    told = python("-c", FORKING).splitlines()
    assert told == ["[]", "['ValueError: seed one']", "['the process of seed 2 ended with 3']", "30"]


def test_a_calm_world_has_no_faults():
    world = example.run(5, Options())
    assert not world.faults
    assert world.reached["acknowledged"] > 500
