"""`python -m benchmarks soak`: a broker under a mixed load with short retention, for as long as one likes, and whether it stays as it is.

Every few minutes it is killed and started again. What it takes in memory, files and bytes, and how long it takes to start, is told all
along. The first third is for warming up; flat is what in the last third is at most a quarter more than in the middle one.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import bowstring
from benchmarks import processes
from benchmarks.server import Server, running
from benchmarks.years.keeping import directory_bytes
from benchmarks.years.starting import MIB, timed_start
from benchmarks.years.tables import Tables

RESTART_SECONDS = 120.0
SAMPLE_SECONDS = 10.0
RATE_BATCHES = 20
SETTINGS = {"segment_bytes_first": 4 * MIB, "segment_bytes_max": 16 * MIB, "seal_bytes": "32MiB", "seal_rows": 2_000, "seal_seconds": "20s"}
FLAT = 1.25
SLACK = {"memory_mb": 20.0, "files": 4.0, "directory_mb": 40.0, "start_cpu": 0.3}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--minutes", type=float, default=30.0)


def run(folder: Path, options: argparse.Namespace) -> bool:
    """Whether everything stayed flat."""
    samples: list[dict[str, float]] = []
    seconds = options.minutes * 60
    with running(folder, settings=SETTINGS) as server:
        begun = time.monotonic()
        started = {"seconds": 0.0, "cpu_seconds": 0.0}
        while time.monotonic() - begun < seconds:
            life = min(RESTART_SECONDS, seconds / 6, begun + seconds - time.monotonic())
            _live(server, max(life, 1.0), begun, started, samples)
            server.kill()
            started = timed_start(server)
    return _judge(samples)


def _live(server: Server, seconds: float, begun: float, started: dict[str, float], samples: list[dict[str, float]]) -> None:
    until = time.monotonic() + seconds
    with bowstring.connect(server.address) as client, ThreadPoolExecutor(4) as threads:
        client.create_topic("seconds", partitions=4, retention=20, deduplication=10, exists_ok=True)
        client.create_topic("minute", retention=60, deduplication=30, exists_ok=True)
        client.create_topic("bytes", partitions=2, retention_bytes=16 * MIB, deduplication=10, retention=3600, exists_ok=True)
        work = ((_batches, "seconds"), (_ids, "minute"), (_singles, "bytes"), (_reading, "minute"))
        running_work = [threads.submit(one, client, topic, until) for one, topic in work]
        while time.monotonic() < until:
            time.sleep(min(SAMPLE_SECONDS, max(until - time.monotonic(), 0.1)))
            samples.append(_sample(server, begun, started))
            print("  ".join(f"{name} {value:.2f}" for name, value in samples[-1].items()), flush=True)
        for one in running_work:
            one.result()


def _sample(server: Server, begun: float, started: dict[str, float]) -> dict[str, float]:
    return {
        "minute": (time.monotonic() - begun) / 60,
        "memory_mb": processes.resident_bytes(server.pid) / 1e6,
        "files": float(len(os.listdir(server.data))),
        "directory_mb": directory_bytes(server.data) / 1e6,
        "catalog_mb": (server.data / "catalog.sqlite").stat().st_size / 1e6,
        "start_seconds": started["seconds"],
        "start_cpu": started["cpu_seconds"],
    }


def _batches(client: Any, topic: str, until: float) -> None:
    tables = Tables(rows=2_000)
    with client.producer(topic) as producer:
        while time.monotonic() < until:
            producer.send_batch(tables.with_keys(64)).result(60)
            time.sleep(1 / RATE_BATCHES)


def _ids(client: Any, topic: str, until: float) -> None:
    tables = Tables(rows=1_000)
    stream = time.time_ns() >> 20 & 0xFFFF
    with client.producer(topic) as producer:
        while time.monotonic() < until:
            producer.send_batch(tables.with_ids(stream)).result(60)
            time.sleep(1 / RATE_BATCHES)


def _singles(client: Any, topic: str, until: float) -> None:
    with client.producer(topic) as producer:
        while time.monotonic() < until:
            producer.send(os.urandom(200), key=os.urandom(2)).result(60)


def _reading(client: Any, topic: str, until: float) -> None:
    """From the beginning to the end, again and again."""
    while time.monotonic() < until:
        with client.reader(topic, start="beginning", end="latest") as reader:
            for _ in reader.batches():
                pass
        time.sleep(2.0)


def _judge(samples: list[dict[str, float]]) -> bool:
    """Prints, figure by figure, whether it is flat."""
    third = len(samples) // 3
    everything = True
    for name, slack in SLACK.items():
        middle, last = (statistics.median(sample[name] for sample in part) for part in (samples[third : 2 * third], samples[2 * third :]))
        flat = last <= FLAT * middle + slack
        everything &= flat
        print(f"{name}: {middle:.2f} in the middle third, {last:.2f} in the last: {'flat' if flat else 'NOT FLAT'}")
    return everything
