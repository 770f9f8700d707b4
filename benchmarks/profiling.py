"""Where the time of a workload goes: in the client and in the broker, by Python function and by C function.

Three tools, because each sees what the others do not. pyinstrument shows the tree of the broker's loop, or of the user's thread in the
client. The sampler here looks at all threads of the client, of which the kit has several, and counts lines. perf, where it is installed,
sees what is below Python: copies, checksums, gRPC, the kernel. A thread that waits is not on its processor: perf counts only work, the
other two count waiting too. But for pyinstrument in the broker, all look on only while the workload's clock runs.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from pathlib import Path

from benchmarks import clients, server
from benchmarks.queue.consuming import WAYS
from benchmarks.rounds import READ, READ_SOURCE, ROWS

WORKS = {"publish": "publish-list", "arrow": "publish-arrow", "send": "publish-send", "keyed": "publish-keyed"}
WORKS |= {"read": "read-arrow", "messages": "read-messages"}
WORKS |= {way.replace("consume-", "queue-"): way for way in (*WAYS, "consume-plain")}
TOOLS = ("pyinstrument", "perf")
PYINSTRUMENT = (sys.executable, "-m", "pyinstrument", "-r", "text", "-o")
SAMPLE_SECONDS = 0.001
ATTACH_SECONDS = 0.5
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
    report = folder / "profile"
    with server.running(folder) as broker:
        if name in READ or name.startswith("consume"):
            _work(broker, READ_SOURCE, options)
        if side == "broker" and tool == "pyinstrument":
            broker.stop()
            broker.run_as([*PYINSTRUMENT, str(report), "--interval", str(SAMPLE_SECONDS), "-m", "bowstring.cli.main"])
            broker.start()
            _work(broker, name, options)
            broker.stop()
            print(report.read_text())
            return
        if name in READ or name.startswith("consume"):
            broker.restart()
        command = clients.command(name, broker, size=options.size, count=options.count, rows=ROWS[options.size])
        subprocess.run([*command, f"--profile={tool}", f"--side={side}"], cwd=clients.ROOT, check=True)


def _work(broker: server.Server, name: str, options: argparse.Namespace) -> None:
    figures = clients.work(name, broker, size=options.size, count=options.count, rows=ROWS[options.size])
    print(f"{name}: {figures['messages_per_second']:,} messages/s", flush=True)


# ---- inside the client's process, while its clock runs ---------------------------------------------------------------


def watch(tool: str, pid: int) -> contextlib.AbstractContextManager[object]:
    return _perf(pid) if tool == "perf" else _python()


@contextlib.contextmanager
def _perf(pid: int) -> Generator[None]:
    """perf looks at a process."""
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "perf.data"
        perf = subprocess.Popen(["perf", "record", "-q", "-F", "999", "-p", str(pid), "-o", str(found)], stderr=subprocess.DEVNULL)
        time.sleep(ATTACH_SECONDS)
        yield
        perf.send_signal(signal.SIGINT)
        perf.wait()
        command = ["perf", "report", "-q", "-i", str(found), "--percent-limit", "0.7", "--stdio", "--sort", "comm,dso,symbol"]
        report = subprocess.run(command, capture_output=True, check=True).stdout.decode()
        print("\n".join(re.sub(r"[- ]+$", "", line) for line in report.splitlines()), flush=True)


@contextlib.contextmanager
def _python() -> Generator[None]:
    """pyinstrument looks at this thread, the sampler at all of this process."""
    from pyinstrument import Profiler

    profiler, sampler = Profiler(SAMPLE_SECONDS, async_mode="disabled"), Sampler()
    sampler.start()
    profiler.start()
    yield
    profiler.stop()
    sampler.stop()
    print(profiler.output_text(color=False))
    print(sampler.told(), flush=True)


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
