"""Where the time of a workload goes: in the client and in the broker, by Python function and by C function.

Three tools, because each sees what the others do not. pyinstrument shows the tree of the thread that runs the loop (broker) or the
user's loop (client). The sampler here looks at all threads of the client, of which the kit has several, and counts lines. perf, where it
is installed, sees what is below Python: copies, checksums, gRPC, the kernel. A process that waits is not on its processor: perf counts
only work, the other two count waiting too.
"""

from __future__ import annotations

import argparse
import collections
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import clients, server
from benchmarks.rounds import READ, READ_SOURCE, ROWS

WORKS = {"publish": "publish-list", "arrow": "publish-arrow", "send": "publish-send", "read": "read-arrow", "messages": "read-messages"}
TOOLS = ("pyinstrument", "perf")
SAMPLE_SECONDS = 0.001
LINES_TOLD = 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("work", choices=sorted(WORKS))
    parser.add_argument("--side", choices=("client", "broker", "both"), default="both")
    parser.add_argument("--tool", choices=TOOLS, help="without it all that are there")
    parser.add_argument("--size", type=int, choices=sorted(ROWS), default=100)
    parser.add_argument("--count", type=int, default=3_000_000)


def run(folder: Path, options: argparse.Namespace) -> None:
    """Each tool and each side has a run of its own, so that none slows the other down."""
    for tool in TOOLS if options.tool is None else (options.tool,):
        if tool == "perf" and shutil.which("perf") is None:
            print("perf is not installed: nothing is said about what is below Python")
            continue
        for side in ("client", "broker") if options.side == "both" else (options.side,):
            print(f"\n==== {options.work}, {options.size} B, {side}, {tool} " + "=" * 40, flush=True)
            _run(folder, options, tool, side)


def _run(folder: Path, options: argparse.Namespace, tool: str, side: str) -> None:
    name = WORKS[options.work]
    with server.running(folder) as plain:
        if name in READ:
            _work(plain, READ_SOURCE, options)
        if side == "client":
            if name in READ:
                plain.restart()
            _client(folder, plain, name, options, tool)
        else:
            plain.stop()
            report = folder / "profile"
            plain.run_as(around=_perf(report) if tool == "perf" else (), python=_pyinstrument(report) if tool != "perf" else ())
            plain.start()
            _work(plain, name, options)
            plain.stop()
            _show(report, tool)


def _client(folder: Path, broker: server.Server, name: str, options: argparse.Namespace, tool: str) -> None:
    report = folder / "profile"
    command = clients.command(name, broker, size=options.size, count=options.count, rows=ROWS[options.size])
    if tool == "perf":
        subprocess.run([*_perf(report), *command], cwd=clients.ROOT, check=True)
        _show(report, tool)
    else:
        subprocess.run([*command, "--profile"], cwd=clients.ROOT, check=True)


def _work(broker: server.Server, name: str, options: argparse.Namespace) -> None:
    figures = clients.work(name, broker, size=options.size, count=options.count, rows=ROWS[options.size])
    print(f"{name}: {figures['messages_per_second']:,} messages/s", flush=True)


def _perf(report: Path) -> list[str]:
    return ["perf", "record", "-q", "-F", "999", "-g", "-o", str(report), "--"]


def _pyinstrument(report: Path) -> list[str]:
    return [sys.executable, "-m", "pyinstrument", "-r", "text", "-o", str(report), "--show-all"]


def _show(report: Path, tool: str) -> None:
    if tool == "perf":
        command = ["perf", "report", "-q", "-i", str(report), "--no-children", "-g", "none", "--percent-limit", "0.7", "--stdio"]
        subprocess.run([*command, "--sort", "dso,symbol"], stderr=subprocess.DEVNULL, check=True)
    else:
        print(report.read_text())
    report.unlink(missing_ok=True)


# ---- inside the client -----------------------------------------------------------------------------------------------


def profiled(call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Runs a workload in this process under pyinstrument and the sampler, and prints what they saw."""
    from pyinstrument import Profiler

    profiler, sampler = Profiler(SAMPLE_SECONDS, async_mode="disabled"), Sampler()
    sampler.start()
    with profiler:
        found = call()
    sampler.stop()
    print(profiler.output_text(show_all=True, color=False))
    print(sampler.told())
    return found


class Sampler:
    """Looks at what every thread is doing a thousand times a second."""

    def __init__(self) -> None:
        self._own: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
        self._samples = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        mine = threading.get_ident()
        while not self._stopping.is_set():
            names = {thread.ident: thread.name for thread in threading.enumerate()}
            for ident, frame in sys._current_frames().items():
                if ident != mine:
                    code = frame.f_code
                    where = f"{Path(code.co_filename).name}:{frame.f_lineno} {code.co_qualname}"
                    self._own[names.get(ident, "a thread of C")][where] += 1
            self._samples += 1
            time.sleep(SAMPLE_SECONDS)

    def told(self) -> str:
        """The lines that threads were seen at most often, waiting included."""
        lines = [f"{self._samples} samples of all threads; share of samples, line"]
        for name, counted in self._own.items():
            lines.append(f"thread {name}")
            lines += [f"  {count / self._samples:6.1%}  {where}" for where, count in counted.most_common(LINES_TOLD) if count > 2]
        return "\n".join(lines)
