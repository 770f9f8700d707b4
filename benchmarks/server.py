"""Our broker as a process of its own: `bowstring serve` on a fresh data directory and a port of its
own.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path

from benchmarks import processes

START_SECONDS_MAX = 60.0


class Server:
    """A broker that can be started again over what it has stored. `peak_bytes` is the largest it
    ever was, over all its lives.
    """

    def __init__(self, data: Path, around: Sequence[str] = (), settings: Mapping[str, object] | None = None) -> None:
        self.data = data
        self.settings: dict[str, object] = dict(settings or {})
        """Its settings in addition to the defaults; they may change before the next start."""
        self.born = 0.0
        """When its process was started, by the wall clock."""
        self.peak_bytes = 0
        self._around = around
        self._python: Sequence[str] = (sys.executable, "-m", "bowstring.cli.main")
        self._process: subprocess.Popen[bytes] | None = None
        self._log = data.with_suffix(".log")
        self.port = 0
        self.pid = 0

    @property
    def address(self) -> str:
        return f"bowstring://127.0.0.1:{self.port}"

    def run_as(self, python: Sequence[str]) -> None:
        """From the next start on by another program than the plain one, such as one that profiles:
        a Python and a module.
        """
        self._python = python

    def start(self) -> None:
        """Returns when the broker takes connections."""
        self.port = processes.free_port()
        program = ["serve", "--data", str(self.data), "--listen", f"127.0.0.1:{self.port}"]
        program += [f"--{name.replace('_', '-')}={value}" for name, value in self.settings.items()]
        # The broker has its defaults, whatever is set here for other purposes.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("BOWSTRING_")}
        # Its code is compiled once, and not again at each start.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        environment["PYTHONPYCACHEPREFIX"] = str(self.data.parent / "compiled")
        self.born = time.time()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._around, *self._python, *program], env=environment, stdout=log, stderr=log, start_new_session=True
            )
        self.pid = self._process.pid
        until = time.monotonic() + START_SECONDS_MAX
        while not processes.answers_at(self.port):
            if self._process.poll() is not None or time.monotonic() > until:
                self.stop()
                raise RuntimeError(f"the broker did not start:\n{self._log.read_text()[-2000:]}")
            time.sleep(0.005)
        if self._around:
            self.pid = processes.child_of(self._process.pid)

    def stop(self) -> None:
        if self._process is not None:
            self.peak_bytes = max(self.peak_bytes, processes.peak_bytes(self.pid))
            processes.end(self._process, self.pid)
            self._process = None

    def kill(self) -> None:
        """The process dies at once, as in a crash."""
        if self._process is not None:
            self.peak_bytes = max(self.peak_bytes, processes.peak_bytes(self.pid))
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        """Restarts the broker, so that its memory is empty: reads then come from its files."""
        self.stop()
        self.start()


@contextlib.contextmanager
def running(folder: Path, *, around: Sequence[str] = (), settings: Mapping[str, object] | None = None) -> Generator[Server]:
    """A broker with a fresh data directory in the folder, under a command such as strace if one is
    given. All is gone afterwards.
    """
    data = Path(tempfile.mkdtemp(prefix="data-", dir=folder))
    server = Server(data, around, settings)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(data, ignore_errors=True)
        data.with_suffix(".log").unlink(missing_ok=True)
