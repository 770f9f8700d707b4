"""Processes as the kernel sees them: what one has burnt, how large it was, and how one ends.

CPU comes from /proc/PID/stat: user and system time of all threads of the process and of the children that it has waited for. Memory is
VmHWM, the largest resident set that there ever was. Both are the kernel's figures, not ours.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class MachineCpu(NamedTuple):
    """CPU seconds of the whole machine since it was started."""

    busy: float
    steal: float


def cpu_seconds(pid: int) -> float:
    """What a process and the children it has waited for have burnt so far, 0 if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0.0
    fields = text[text.rindex(")") + 2 :].split()
    return sum(int(ticks) for ticks in fields[11:15]) / TICKS_PER_SECOND


def family_cpu_seconds(pid: int) -> float:
    """The same with all processes that it has started and that still live."""
    return sum(cpu_seconds(member) for member in _family(pid))


def _family(pid: int) -> list[int]:
    found = [pid]
    for member in found:  # grows while it is walked
        for task in Path(f"/proc/{member}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += map(int, task.read_text().split())
    return found


def machine_cpu() -> MachineCpu:
    user, nice, system, _idle, _iowait, irq, softirq, steal = (int(x) for x in Path("/proc/stat").read_text().split()[1:9])
    return MachineCpu((user + nice + system + irq + softirq) / TICKS_PER_SECOND, steal / TICKS_PER_SECOND)


def peak_bytes(pid: int) -> int:
    """The largest resident set that the process ever had (VmHWM), 0 if it is gone."""
    return _status_bytes(pid, "VmHWM")


def resident_bytes(pid: int) -> int:
    """The resident set of a process (VmRSS), 0 if it is gone."""
    return _status_bytes(pid, "VmRSS")


def _status_bytes(pid: int, name: str) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return 0


def child_of(pid: int) -> int:
    """The one child of a process such as strace or bash; the process itself if it has none."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(children[0]) if children else pid


def end(process: subprocess.Popen[bytes], pid: int, seconds: float = 20.0) -> None:
    """Ends a process of ours by asking `pid`, which is the process itself or what runs under it; if that does not help, by force."""
    if process.poll() is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # it was started in a session of its own
        process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers_at(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
        return True
    return False


def percentiles(seconds: list[float]) -> dict[str, float]:
    """Median and 99th percentile, in milliseconds."""
    ordered = sorted(seconds)
    return {"median_ms": round(ordered[len(ordered) // 2] * 1e3, 3), "p99_ms": round(ordered[int(len(ordered) * 0.99)] * 1e3, 3)}


class Meter:
    """Clock and CPU from `start` to `stop`, of this process (the client) and of a server."""

    def __init__(self, server: int, watch: contextlib.AbstractContextManager[object] | None = None) -> None:
        self._server = server
        self._watch = watch or contextlib.nullcontext()
        """Something that looks on while the clock runs, such as a profiler."""

    def start(self) -> None:
        self._watch.__enter__()
        self._machine = machine_cpu()
        self._server_cpu = cpu_seconds(self._server)
        self._client_cpu = time.process_time()
        self._begun = time.perf_counter()

    def stop(self, count: int, value_bytes: int) -> dict[str, float]:
        """The figures of `count` messages whose values have so many bytes in all."""
        seconds = time.perf_counter() - self._begun
        client = time.process_time() - self._client_cpu
        server = cpu_seconds(self._server) - self._server_cpu
        machine = machine_cpu()
        self._watch.__exit__(None, None, None)
        return {
            "count": count,
            "seconds": round(seconds, 4),
            "messages_per_second": round(count / seconds),
            "megabytes_per_second": round(value_bytes / seconds / 1e6, 2),
            "client_cpu_per_million": round(client / count * 1e6, 4),
            "server_cpu_per_million": round(server / count * 1e6, 4),
            "other_busy_seconds": round(machine.busy - self._machine.busy - client - server, 2),
            "steal_seconds": round(machine.steal - self._machine.steal, 2),
        }
