"""A broker in the foreground of a terminal that closes, and one that is to outlive it."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import subprocess
import termios
from pathlib import Path

import pytest

import bowstring
from tests.process.serving import LIMIT_SECONDS, command, environment, start


def in_terminal(*arguments: str) -> tuple[subprocess.Popen[bytes], int]:
    """A command whose terminal is ours to close: the process and our end of it."""
    ours, theirs = pty.openpty()

    def take_terminal() -> None:
        os.setsid()
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(command(*arguments), env=environment(), stdin=theirs, stdout=theirs, stderr=theirs, preexec_fn=take_terminal)
    os.close(theirs)
    return process, ours


def wait_for(ours: int, said: bytes) -> None:
    told = b""
    while said not in told:
        told += os.read(ours, 4096)


@pytest.mark.parametrize("arguments", [["serve"], ["dev"]])
def test_a_terminal_that_closes_ends_the_broker_well(tmp_path: Path, arguments: list[str]):
    process, ours = in_terminal(*arguments, "--data", str(tmp_path), "--listen", "127.0.0.1:0")
    try:
        wait_for(ours, b"bowstring serves " if arguments == ["serve"] else b"Ctrl-C ends it")
        assert json.loads((tmp_path / "lock").read_text())["pid"] == process.pid
        os.close(ours)
        assert process.wait(LIMIT_SECONDS) == 0
    finally:
        process.kill()
        process.wait()
    assert (tmp_path / "lock").read_text().strip() == ""


def test_under_nohup_it_goes_on(tmp_path: Path):
    served = start("--data", str(tmp_path), "--listen", "127.0.0.1:0", before=["nohup"])
    served.process.send_signal(signal.SIGHUP)
    with bowstring.connect(served.address) as client:
        assert client.create_topic("orders").partitions == 1
    code, log = served.end()
    assert code == 0
    assert "reason=SIGTERM" in log
