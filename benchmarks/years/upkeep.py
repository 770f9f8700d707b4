"""Measures what seal, retention and cleaner cost publishers: the rate while they work, and how long
a flush waits for them.

The rate is that of plain brokers, one whose journal is sealed every second or so and whose cleaner
has work, and one that does neither. The delay of a flush is what a third one has noted itself
(`watched`): with the load of the first, and single messages beside it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import bowstring
from benchmarks import processes
from benchmarks.server import Server, running
from benchmarks.years.starting import MIB, NEVER
from benchmarks.years.tables import Tables, publish

BUSY = {
    "seal_bytes": "64MiB",
    "seal_rows": 500,
    "seal_inline_bytes": MIB,
    "upkeep_seconds": "200ms",
    "segment_bytes_first": "16MiB",
    "segment_bytes_max": "16MiB",
}
QUIET = {**NEVER, "upkeep_seconds": "1h", "segment_bytes_first": "16MiB", "segment_bytes_max": "16MiB"}
SHORT_RETENTION = 3.0
UNDER_WAY = 8


def measure(folder: Path, seconds: float) -> dict[str, Any]:
    """Rates in turns, twice each, and then the delays."""
    rates: dict[str, list[dict[str, float]]] = {"busy": [], "quiet": []}
    for name, settings in (("quiet", QUIET), ("busy", BUSY), ("busy", BUSY), ("quiet", QUIET)):
        with running(folder, settings=settings) as server:
            rates[name].append(_load(server, seconds, ids=False))
    best = {name: max(one["messages_per_second"] for one in found) for name, found in rates.items()}
    return {
        "share": round(best["busy"] / best["quiet"], 3),
        **rates,
        "plain": delays(folder, seconds),
        "ids": delays(folder, seconds, ids=True),
    }


def delays(folder: Path, seconds: float, *, ids: bool = False) -> dict[str, Any]:
    """What a broker that watches itself has to say."""
    told = folder / "watched.json"
    os.environ["BENCH_WATCH"] = str(told)
    with running(folder, settings=BUSY) as server:
        server.stop()
        server.run_as((sys.executable, "-m", "benchmarks.years.watched"))
        server.start()
        found = _load(server, seconds, ids=ids)
    return {**found, **json.loads(told.read_text())}


def _load(server: Server, seconds: float, *, ids: bool) -> dict[str, float]:
    """Two topics of different retention, a batch of one for three of the other; single messages to
    a third one.
    """
    waits: list[float] = []
    with bowstring.connect(server.address) as client, ThreadPoolExecutor(1) as beside:
        client.create_topic("short", retention=SHORT_RETENTION, deduplication=SHORT_RETENTION)
        client.create_topic("long")
        client.create_topic("single", partitions=4)
        begun, burnt = time.perf_counter(), processes.cpu_seconds(server.pid)
        singles = beside.submit(_singles, client, seconds, waits)
        published = _large(client, seconds, ids=ids)
        taken = time.perf_counter() - begun
        cpu = processes.cpu_seconds(server.pid) - burnt
        singles.result()
    waits.sort(reverse=True)
    return {
        "messages_per_second": round(published / taken),
        "cpu_per_million": round(cpu / published * 1e6, 3),
        "single_ms_max": round(waits[0] * 1e3, 1),
        "single_ms_median": round(waits[len(waits) // 2] * 1e3, 1),
    }


def _singles(client: Any, seconds: float, waits: list[float]) -> None:
    until = time.monotonic() + seconds
    with client.producer("single") as producer:
        while time.monotonic() < until:
            begun = time.perf_counter()
            producer.send(b"one").result(60)
            waits.append(time.perf_counter() - begun)


def _large(client: Any, seconds: float, *, ids: bool) -> int:
    tables, until, calls = Tables(), time.monotonic() + seconds, 0
    with client.producer("short", timeout=300) as short, client.producer("long", timeout=300) as long:
        receipts: list[Any] = []
        while time.monotonic() < until:
            receipts.append((short if calls % 4 else long).send_batch(tables.with_ids() if ids else tables.plain()))
            calls += 1
            if len(receipts) >= UNDER_WAY:
                receipts.pop(0).result(60)
    return calls * tables.rows


def with_ids(folder: Path, window: int, measured: int) -> dict[str, Any]:
    """Publishing with ids when this many are in the window, compared with publishing without; and
    the broker's largest memory.
    """
    with running(folder) as server, bowstring.connect(server.address) as client:
        client.create_topic("ids", deduplication=3600)
        client.create_topic("plain")
        tables = Tables()
        calls = range(measured // tables.rows)
        filling = publish(client, "ids", (tables.with_ids() for _ in range(window // tables.rows)))
        found: dict[str, list[float]] = {"ids": [], "plain": []}
        burnt: dict[str, float] = {}
        for name in ("plain", "ids", "ids", "plain"):
            made = [tables.with_ids() if name == "ids" else tables.plain() for _ in calls]
            before = processes.cpu_seconds(server.pid)
            found[name].append(len(calls) * tables.rows / publish(client, name, made))
            burnt[name] = round((processes.cpu_seconds(server.pid) - before) / (len(calls) * tables.rows) * 1e6, 3)
        return {
            "share": round(max(found["ids"]) / max(found["plain"]), 3),
            "filling_per_second": round(window / filling),
            **{f"{name}_per_second": [round(one) for one in rates] for name, rates in found.items()},
            **{f"{name}_cpu_per_million": seconds for name, seconds in burnt.items()},
            "memory_bytes": processes.peak_bytes(server.pid),
        }
