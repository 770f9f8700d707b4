"""Runs a workload of `worker` as a process of its own, and gives what it found."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.server import Server

ROOT = Path(__file__).resolve().parent.parent
SECONDS_MAX = 900


def command(name: str, broker: Server, *, size: int, count: int, rows: int) -> list[str]:
    told = {"server": broker.address, "broker": broker.pid, "size": size, "count": count, "rows": rows}
    return [sys.executable, "-m", "benchmarks.worker", name, *(f"--{key}={value}" for key, value in told.items())]


def work(name: str, broker: Server, *, size: int, count: int, rows: int = 10_000) -> dict[str, Any]:
    """The figures of one workload. Raises with the worker's own words if it failed."""
    done = subprocess.run(
        command(name, broker, size=size, count=count, rows=rows),
        cwd=ROOT,
        capture_output=True,
        timeout=SECONDS_MAX,
        start_new_session=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{name} failed:\n{done.stderr.decode()[-3000:]}")
    return json.loads(done.stdout.decode().splitlines()[-1])
