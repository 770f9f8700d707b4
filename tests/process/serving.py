"""`bowstring serve` as a child process, waited for by what it says.

    with serving("--data", str(tmp_path)) as served:
        connect(served.address)

`start` gives a child that has printed its one line; `run` gives one that has ended, whatever with. Leaving the block ends the child.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import bowstring.errors

SOURCE = str(Path(bowstring.errors.__file__).parents[1])
READY = re.compile(r"bowstring serves (?P<address>\S+) from (?P<place>.+)\n")
LIMIT_SECONDS = 60


def command(*arguments: str) -> list[str]:
    """The command line of `bowstring` with these arguments, in this Python."""
    return [sys.executable, "-m", "bowstring.cli.main", *arguments]


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """This environment without settings of ours, with the source under test."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BOWSTRING_")}
    return {**kept, "PYTHONPATH": SOURCE, **(more or {})}


def run(*arguments: str, variables: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """A command that ends by itself."""
    return subprocess.run(
        command(*arguments), env=environment(variables), capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False
    )


def complaints(log: str) -> list[str]:
    """The lines of a log, or of what else went to stderr, that are more than news."""
    return [line for line in log.splitlines() if " INFO    " not in line]


class Served:
    """A child that serves."""

    def __init__(self, process: subprocess.Popen[str], address: str, place: str) -> None:
        self.process = process
        self.address = address
        self.place = place

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Sends the signal and waits; gives exit code and stderr."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> tuple[int, str]:
        """Waits for the child to end by itself; gives exit code and stderr."""
        _, said = self.process.communicate(timeout=LIMIT_SECONDS)
        return self.process.returncode, said


def start(*arguments: str, variables: Mapping[str, str] | None = None, before: list[str] | None = None) -> Served:
    """A broker that is ready. `before` is a command to run it under, such as strace."""
    process = subprocess.Popen(
        [*(before or []), *command("serve", *arguments)],
        env=environment(variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    ready = READY.fullmatch(line := process.stdout.readline())
    if ready is None:
        process.kill()
        _, said = process.communicate(timeout=LIMIT_SECONDS)
        raise AssertionError(f"the broker did not start: {line!r} {said}")
    return Served(process, ready["address"], ready["place"])


def put_down(process: subprocess.Popen[str]) -> None:
    """Ends a child if it has not ended, and waits for it."""
    if process.poll() is None:
        process.kill()
    process.communicate(timeout=LIMIT_SECONDS)


@contextmanager
def serving(*arguments: str, variables: Mapping[str, str] | None = None) -> Iterator[Served]:
    """A broker for the length of a block, on a free port unless the arguments name one."""
    listen = () if "--listen" in arguments else ("--listen", "127.0.0.1:0")
    served = start(*arguments, *listen, variables=variables)
    try:
        yield served
    finally:
        put_down(served.process)
