"""Runs a workload of `worker` or `queue.worker` as a process of its own, and gives what it found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.server import Server

ROOT = Path(__file__).resolve().parent.parent
SECONDS_MAX = 900


def command(name: str, broker: Server, *, size: int, count: int, rows: int, server: str | None = None, **more: object) -> list[str]:
    module = "benchmarks.queue.worker" if name.startswith("consume") else "benchmarks.worker"
    told = {"server": server or broker.address, "broker": broker.pid, "size": size, "count": count, "rows": rows, **more}
    return [sys.executable, "-m", module, name, *(f"--{key}={value}" for key, value in told.items())]


def work(
    name: str, broker: Server, *, size: int, count: int, rows: int = 10_000, server: str | None = None, **more: object
) -> dict[str, Any]:
    """The figures of one workload, at another address of the broker if `server` names one. `more` is
    what only some workloads are told. Raises with the worker's own words if it failed.
    """
    # The kit's code is compiled once, as the broker's is.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(broker.data.parent / "compiled")
    done = subprocess.run(
        command(name, broker, size=size, count=count, rows=rows, server=server, **more),
        cwd=ROOT,
        env=environment,
        capture_output=True,
        timeout=SECONDS_MAX,
        start_new_session=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{name} failed:\n{done.stderr.decode()[-3000:]}")
    return json.loads(done.stdout.decode().splitlines()[-1])
