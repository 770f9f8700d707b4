"""How long a start takes, from the exec of `bowstring serve` to the first call that is answered.

What Python takes before the broker's own code begins is told apart: that ends when the broker writes the lock file of its data directory.
What is preloaded has been published over the wire, by a broker with small segments so that there are many of them. It is killed, not
stopped, so that the start is one after a crash, with everything in the journal that a full one holds.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import bowstring
from benchmarks import processes
from benchmarks.server import Server, running
from benchmarks.years.tables import Tables, batches, publish, publish_singles

MIB = 1 << 20
LANES = 4
STARTS = 3
IDLE_SECONDS = 8.0
IDLE_SPAN_SECONDS = 30.0
SETTLED_SHARE = 0.1
SETTLING_SECONDS_MAX = 120.0
NEVER = {"seal_rows": 10_000_000, "seal_inline_bytes": "1GiB", "seal_bytes": "1TiB", "seal_seconds": "1d"}
OFTEN = {"seal_rows": 50, "seal_seconds": "5s"}
SMALL = {"segment_bytes_first": MIB, "segment_bytes_max": MIB, "publish_window": MIB}


def timed_start(server: Server) -> dict[str, float]:
    """Starts the broker. Gives the seconds until it answered, and those of them that went by before its own code began."""
    server.start()
    with bowstring.connect(server.address) as client:
        next(client.topics(), None)
        answered = time.time()
    begun = (server.data / "lock").stat().st_mtime
    return {
        "seconds": round(answered - server.born, 3),
        "before_own_code": round(begun - server.born, 3),
        "cpu_seconds": round(processes.cpu_seconds(server.pid), 2),
    }


def starts(server: Server) -> dict[str, Any]:
    """The best of a few starts, each after the death of the broker."""
    server.kill()
    found: list[dict[str, float]] = []
    for _ in range(STARTS):
        os.sync()
        found.append(timed_start(server))
        server.kill()
    best = min(found, key=lambda one: one["seconds"])
    return {**best, "all": [one["seconds"] for one in found]}


def many_segments(folder: Path, messages: int, rows: int) -> dict[str, Any]:
    """A store of many segments and a full journal: as much as fits before a seal is due."""
    with running(folder, settings=SMALL) as server:
        with bowstring.connect(server.address) as client:
            client.create_topic("old")
            client.create_topic("new", partitions=LANES)
            tables = Tables()
            publish(client, "old", (tables.plain() for _ in batches(messages, tables.rows)))
        server.settings |= NEVER
        server.restart()
        with bowstring.connect(server.address) as client:
            publish_singles(client, "new", LANES, rows, 100)
        segments = sum(name.startswith("segment-") for name in os.listdir(server.data))
        return {**starts(server), "segments": segments, "journal_changes": rows * LANES}


def unsealed_ids(folder: Path, messages: int) -> dict[str, Any]:
    """Messages with ids of which none is sealed: what deduplication has to know again."""
    with running(folder, settings=NEVER) as server:
        with bowstring.connect(server.address) as client:
            client.create_topic("ids")
            tables = Tables()
            publish(client, "ids", (tables.with_ids() for _ in batches(messages, tables.rows)))
        return starts(server)


def _fill_partitions(server: Server, partitions: int) -> None:
    """Ten topics of a thousand partitions, each with messages, sealed several times."""
    with bowstring.connect(server.address) as client:
        for topic in range(10):
            client.create_topic(f"topic-{topic}", partitions=partitions // 10)
        for seed in range(4):
            tables = Tables(seed=seed)
            for topic in range(10):
                publish(client, f"topic-{topic}", [tables.with_keys(partitions)])
            time.sleep(6.0)


def many_partitions(folder: Path, partitions: int) -> dict[str, Any]:
    """Starts over many partitions; then an idle broker's CPU."""
    with running(folder, settings=OFTEN) as server:
        _fill_partitions(server, partitions)
        found = starts(server)
        server.start()
        settled = _settled(server)
        idle = _busy(server, IDLE_SECONDS)
        return {
            **found,
            "settled_seconds": settled,
            "idle_cpu_percent": round(100 * idle, 2),
            "memory_bytes": processes.peak_bytes(server.pid),
        }


def idle(folder: Path, partitions: int) -> dict[str, Any]:
    """The CPU of a broker that nobody asks anything: from its first answer on, and later. It was stopped in good order, so that nothing
    is left to be sealed."""
    with running(folder, settings=OFTEN) as server:
        _fill_partitions(server, partitions)
        server.settings.clear()
        server.restart()
        _settled(server)
        server.stop()
        timed_start(server)
        shares = [_busy(server, IDLE_SPAN_SECONDS) for _ in range(2)]
        return {"first_percent": round(100 * shares[0], 2), "later_percent": round(100 * shares[1], 2)}


def _busy(server: Server, seconds: float) -> float:
    """How much of a core the broker takes, looking on for so long."""
    before = processes.cpu_seconds(server.pid)
    time.sleep(seconds)
    return (processes.cpu_seconds(server.pid) - before) / seconds


def _settled(server: Server) -> float:
    """Waits until the broker has sealed and cleaned what was left to do, and says how long that took."""
    begun = time.monotonic()
    while _busy(server, 2.0) > SETTLED_SHARE and time.monotonic() - begun < SETTLING_SECONDS_MAX:
        pass
    return round(time.monotonic() - begun, 1)
