"""The plan of what concerns a store that lives for years, by the names that `--only` takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.years import keeping, kept, starting, upkeep

Work = Callable[[Path], dict[str, Any]]

FULL: dict[str, Work] = {
    "start-segments": lambda folder: starting.many_segments(folder, 10_000_000, 20_000),
    "start-partitions": lambda folder: starting.many_partitions(folder, 10_000),
    "start-ids": lambda folder: starting.unsealed_ids(folder, 2_500_000),
    "idle": lambda folder: starting.idle(folder, 10_000),
    "retention": lambda folder: keeping.after_retention(folder, 1_000),
    "upkeep": lambda folder: upkeep.measure(folder, 20.0),
    "written": lambda folder: keeping.written(folder, 1_000, 12_800),
    "behind": lambda folder: keeping.behind(folder, 100, 100_000),
    "ids": lambda folder: upkeep.with_ids(folder, 10_000_000, 1_800_000),
    "memory": lambda folder: keeping.memory(folder, 1_000_000, 50_000_000),
    "kept": lambda folder: kept.measure(folder, 100_000),
}
QUICK: dict[str, Work] = {
    "start-segments": lambda folder: starting.many_segments(folder, 1_000_000, 2_000),
    "start-partitions": lambda folder: starting.many_partitions(folder, 1_000),
    "start-ids": lambda folder: starting.unsealed_ids(folder, 250_000),
    "idle": lambda folder: starting.idle(folder, 1_000),
    "retention": lambda folder: keeping.after_retention(folder, 100),
    "upkeep": lambda folder: upkeep.measure(folder, 5.0),
    "written": lambda folder: keeping.written(folder, 200, 3_200),
    "behind": lambda folder: keeping.behind(folder, 100, 10_000),
    "ids": lambda folder: upkeep.with_ids(folder, 1_000_000, 450_000),
    "memory": lambda folder: keeping.memory(folder, 1_000_000, 5_000_000),
    "kept": lambda folder: kept.measure(folder, 100_000),
}
NAMES = tuple(FULL)
