"""The bars of a store that lives for years and the results, row by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.table import Row, least, most

Found = dict[str, Any]

START_SECONDS = 2.0
START_PARTITIONS_SECONDS = 1.5
IDLE_PERCENT = 2.0
UPKEEP_SHARE = 0.85
DELAY_MS = 20.0
WRITTEN = {"large": 1.3, "single, 1 at a time": 6.0, "single, 64 at a time": 6.0}
BEHIND_SHARE = 0.3
IDS_SHARE = 0.6
IDS_MB = 300
FLAT = 1.15
KEPT_MS = 20.0


def rows(found: dict[str, Found]) -> list[Row]:
    """The lines of the measurements."""
    return [row for name, figures in found.items() for row in _ROWS[name](figures)]


def _start(title: str, seconds: float = START_SECONDS) -> Callable[[Found], list[Row]]:
    def made(found: Found) -> list[Row]:
        told = [most(title, found["seconds"], seconds, "s")]
        told.append(Row("  of it before its own code", f"{found['before_own_code']:.2f} s"))
        told.append(Row("  CPU, over all", f"{found['cpu_seconds']:.2f} s"))
        if "idle_cpu_percent" in found:
            told.append(Row("  until all is sealed and cleaned", f"{found['settled_seconds']:.0f} s"))
            told.append(most("  idle, of a core", found["idle_cpu_percent"], IDLE_PERCENT, "%"))
        return told

    return made


def _idle(found: Found) -> list[Row]:
    made = [most("idle, 10,000 partitions, first 30 s after a start, of a core", found["first_percent"], IDLE_PERCENT, "%")]
    return [*made, most("  the next 30 s", found["later_percent"], IDLE_PERCENT, "%")]


def _retention(found: Found) -> list[Row]:
    size, allowed = found["directory_bytes"] / 1e6, found["allowed_bytes"] / 1e6
    row = Row("directory after retention", f"{size:.0f} MB", bar=f"≤ {allowed:.0f} MB", reached=allowed / size)
    return [row, Row("  seconds", f"{found['seconds']:.0f} s"), Row("  at its largest", f"{found['largest_bytes'] / 1e6:.0f} MB")]


def _upkeep(found: Found) -> list[Row]:
    made = [least("publish beside seal and cleaner / without", found["share"], UPKEEP_SHARE)]
    for name in ("plain", "ids"):
        made.append(most(f"  longest delay of a flush, {name}", found[name]["delay_ms"][0], DELAY_MS, "ms"))
        step, cpu = found[name]["loop_step_ms_max"], found[name]["loop_step_cpu_ms_max"]
        made.append(Row("  longest step on the loop, its CPU", f"{step:.1f}, {cpu:.1f} ms"))
    return made


def _written(found: Found) -> list[Row]:
    made: list[Row] = []
    for name, times in found.items():
        made.append(most(f"bytes written a byte, {name}, by the disk", times["disk"], WRITTEN[name], "×"))
        made.append(Row("  as the kernel counts for the process", f"{times['process']:.2f} ×"))
    return made


def _behind(found: Found) -> list[Row]:
    return [least("read 1 of 100 partitions / a lone one", found["share"], BEHIND_SHARE)]


def _ids(found: Found) -> list[Row]:
    peak = found["memory_bytes"] / 1e6
    cpu = f"{found['ids_cpu_per_million']:.2f}, {found['plain_cpu_per_million']:.2f}"
    made = [least("publish with ids / without", found["share"], IDS_SHARE), Row("  broker CPU s/million, with, without", cpu)]
    return [*made, most("  memory", peak, IDS_MB, "MB")]


def _memory(found: Found) -> list[Row]:
    few, many = found["few_bytes"], found["many_bytes"]
    return [
        Row("memory, many messages / few", f"{many / few:.2f} ×", bar=f"≤ {FLAT:g} ×", reached=FLAT * few / many),
        Row("  few, many", f"{few / 1e6:.0f}, {many / 1e6:.0f} MB"),
        Row("  after a start", f"{found['few_started_bytes'] / 1e6:.0f}, {found['many_started_bytes'] / 1e6:.0f} MB"),
    ]


def _kept(found: Found) -> list[Row]:
    made = [most("retention, 100,000 rows kept below the floor, CPU a minute", found["cpu_ms"], KEPT_MS, "ms")]
    return [*made, Row("  at most, of so many looks", f"{found['cpu_ms_max']:.1f} ms, {found['looks']}")]


_ROWS: dict[str, Callable[[Found], list[Row]]] = {
    "start-segments": _start("start, 1,000 segments, full journal"),
    "start-partitions": _start("start, 10,000 partitions", START_PARTITIONS_SECONDS),
    "start-ids": _start("start, 2.5 million ids not sealed"),
    "idle": _idle,
    "retention": _retention,
    "upkeep": _upkeep,
    "written": _written,
    "behind": _behind,
    "ids": _ids,
    "memory": _memory,
    "kept": _kept,
}
