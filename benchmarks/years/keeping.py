"""Measures storage: the directory after retention, bytes written for each published byte, memory by
messages.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bowstring
from benchmarks import processes
from benchmarks.server import Server, running
from benchmarks.years.starting import MIB, timed_start
from benchmarks.years.tables import Tables, batches, publish, publish_singles

SEGMENT = 4 * MIB
SHORT_SECONDS = 8.0
WAIT_SECONDS = 60.0
SINGLE_BYTES = 1024
RESERVE = "reserve"


def directory_bytes(data: Path) -> int:
    """What its files take on the disk, but for the reserve, which is of a fixed size."""
    total = 0
    for name in os.listdir(data):
        try:
            total += 0 if name == RESERVE else (data / name).stat().st_blocks * 512
        except FileNotFoundError:
            continue
    return total


def after_retention(folder: Path, megabytes: int) -> dict[str, Any]:
    """Two topics, one of which keeps a hundredth for long and the other all the rest for seconds,
    in the same segments.
    """
    small = {"segment_bytes_first": SEGMENT, "segment_bytes_max": SEGMENT, "seal_bytes": "16MiB", "seal_seconds": "2s"}
    with running(folder, settings=small) as server, bowstring.connect(server.address) as client:
        client.create_topic("short", retention=SHORT_SECONDS, deduplication=SHORT_SECONDS)
        client.create_topic("long")
        many, few = Tables(rows=9_900), Tables(rows=100)
        with client.producer("short", timeout=300) as short, client.producer("long", timeout=300) as long:
            for _ in range(megabytes):
                short.send_batch(many.plain())
                long.send_batch(few.plain())
        largest, until = directory_bytes(server.data), time.monotonic() + SHORT_SECONDS + WAIT_SECONDS
        found: dict[str, Any] = {}
        while time.monotonic() < until and not found.get("met"):
            time.sleep(1.0)
            live, size = client.topic("long").bytes + client.topic("short").bytes, directory_bytes(server.data)
            old = client.topic("short").messages
            allowed = 2 * live + 2 * SEGMENT
            found = {"live_bytes": live, "directory_bytes": size, "allowed_bytes": allowed, "short_left": old}
            found["met"] = not old and size <= allowed
            found["seconds"] = round(time.monotonic() - until + SHORT_SECONDS + WAIT_SECONDS, 1)
        names = sorted(os.listdir(server.data))
        kinds = {kind: sum(name.startswith(kind) for name in names) for kind in ("segment-", "free-", "catalog")}
        return {**found, "largest_bytes": largest, "files": kinds, "catalog_bytes": (server.data / "catalog.sqlite").stat().st_size}


def written_bytes(pid: int) -> int:
    """What the kernel has been made to write for the process."""
    for line in Path(f"/proc/{pid}/io").read_text().splitlines():
        if line.startswith("write_bytes:"):
            return int(line.split()[1])
    return 0


def device_written_bytes(folder: Path) -> int:
    """What the disk under the folder was made to write, by whomever."""
    number = folder.stat().st_dev
    return 512 * int(Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/stat").read_text().split()[6])


def written(folder: Path, megabytes: int, singles: int) -> dict[str, dict[str, float]]:
    """Bytes written for each byte of a value by a broker that has been at it for a while, so that
    it uses its files again: large batches; single messages of 1 KiB, one and 64 at a time.
    """
    large = {"segment_bytes_first": "64MiB", "segment_bytes_max": "64MiB"}
    small = {"segment_bytes_first": MIB, "segment_bytes_max": MIB, "seal_seconds": "3s", "upkeep_seconds": "500ms"}
    found = {"large": _written(folder, large, megabytes * 300_000, lambda server: _large(server, megabytes))}
    for lanes in (1, 64):
        work = functools.partial(_singles, lanes=lanes, count=singles)
        found[f"single, {lanes} at a time"] = _written(folder, small, 4 * MIB, work)
    return found


def _written(folder: Path, settings: dict[str, object], kept_bytes: int, work: Callable[[Server], int]) -> dict[str, float]:
    """The work is done twice, and counts the second time; a moment later all of it is sealed.

    Two counters are told. That of the process counts a folio of the page cache whole whenever a
    part of it is written (appends of 68 KiB, each synced, as 1.94 times their bytes where the disk
    wrote 1.05), and leaves out the file system's own journal. That of the disk has all, but also
    what others write meanwhile: it is right on a machine that does nothing else.
    """
    with running(folder, settings=settings) as server:
        with bowstring.connect(server.address) as client:
            client.create_topic("all", retention_bytes=kept_bytes)
        work(server)
        time.sleep(4.0)
        process, disk = written_bytes(server.pid), device_written_bytes(folder)
        published = work(server)
        time.sleep(4.0)
        by_process, by_disk = written_bytes(server.pid) - process, device_written_bytes(folder) - disk
        return {"process": round(by_process / published, 2), "disk": round(by_disk / published, 2)}


def _large(server: Server, megabytes: int) -> int:
    with bowstring.connect(server.address) as client:
        tables = Tables()
        calls = batches(megabytes * 10_000, tables.rows)
        publish(client, "all", (tables.plain() for _ in calls))
        return len(calls) * tables.rows * tables.size


def _singles(server: Server, lanes: int, count: int) -> int:
    with bowstring.connect(server.address) as client:
        return publish_singles(client, "all", lanes, count // lanes, SINGLE_BYTES)


def memory(folder: Path, few: int, many: int) -> dict[str, Any]:
    """The broker's memory with few messages and with many, after publishing and after a start."""
    found: dict[str, Any] = {}
    with running(folder) as server:
        tables, sent = Tables(), 0
        for name, wanted in (("few", few), ("many", many)):
            with bowstring.connect(server.address) as client:
                client.create_topic("all", exists_ok=True)
                publish(client, "all", (tables.plain() for _ in batches(wanted - sent, tables.rows)))
                sent = wanted
                time.sleep(3.0)
                found[f"{name}_bytes"] = processes.resident_bytes(server.pid)
                found[f"{name}_peak_bytes"] = processes.peak_bytes(server.pid)
            server.stop()
            found[f"{name}_start"] = timed_start(server)
            found[f"{name}_started_bytes"] = processes.resident_bytes(server.pid)
    return found


def behind(folder: Path, partitions: int, rows_each: int) -> dict[str, Any]:
    """Reading one partition of many from the disk, compared with reading a lone one."""
    with running(folder, settings={"seal_bytes": "64MiB", "seal_seconds": "2s"}) as server:
        with bowstring.connect(server.address) as client:
            client.create_topic("many", partitions=partitions)
            client.create_topic("lone")
            tables = Tables()
            publish(client, "many", (tables.with_keys(997) for _ in batches(partitions * rows_each, tables.rows)))
            publish(client, "lone", (tables.plain() for _ in batches(4 * rows_each, tables.rows)))
            time.sleep(5.0)
        many = [_read(server, "many", [partition]) for partition in range(0, partitions, max(1, partitions // 4))][:4]
        lone = [_read(server, "lone", None)]
        rates = [sum(count for count, _ in read) / sum(seconds for _, seconds in read) for read in (many, lone)]
        return {"share": round(rates[0] / rates[1], 3), "many_per_second": round(rates[0]), "lone_per_second": round(rates[1])}


def _read(server: Server, topic: str, partitions: list[int] | None) -> tuple[int, float]:
    """From files that the kernel has not in memory."""
    server.stop()
    for path in server.data.iterdir():
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)
    server.start()
    count = 0
    with bowstring.connect(server.address) as client:
        begun = time.perf_counter()
        with client.reader(topic, partitions=partitions, start="beginning", end="latest") as reader:
            for batch in reader.batches():
                count += len(batch.column("value"))
        return count, time.perf_counter() - begun
