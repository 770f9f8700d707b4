"""Runs a command line as in a terminal of 85 columns, and gives what it shows there.

A command that goes on until Ctrl-C gets one: a broker when it has said that it serves, a reader when it has read all there is.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
from typing import Final

COLUMNS: Final = 85
LINES_MAX: Final = 14
"""Of what is longer the first lines are shown."""
SERVES: Final = re.compile(r"^bowstring (dev|serve)\b(?!.*--check)")
ANYWHERE: Final = " --listen 127.0.0.1:0"
READY: Final = {"dev": "Ctrl-C ends it", "serve": "bowstring serves"}
PORT: Final = re.compile(r"(?<!http://)(127\.0\.0\.1|localhost):\d+")
HTTP_PORT: Final = re.compile(r"(http://127\.0\.0\.1):\d+")
HERE: Final = "/srv/shop"
"""What this directory is called on the page."""


def run(typed: str) -> str:
    """What a terminal shows. Raises AssertionError if the command fails."""
    serves = SERVES.match(typed)
    if serves is None and typed.endswith("--check"):
        return _shown(typed + ANYWHERE)
    if serves is None:
        return shortened(_shown(typed.replace(" --follow", "")))
    said = _shown(typed.partition("#")[0].rstrip() + ANYWHERE, until=READY[serves[1]])
    said = HTTP_PORT.sub(r"\1:27770", PORT.sub(r"\1:27769", said))
    return re.sub(r"\s+--server\s+bowstring://localhost:27769", "", said)


def shortened(output: str) -> str:
    """At most so many lines."""
    lines = output.splitlines(keepends=True)
    return output if len(lines) <= LINES_MAX else "".join(lines[: LINES_MAX - 2]) + "…\n"


def _shown(line: str, until: str | None = None) -> str:
    """All that it says; if `until` is given, what it says up to there and then Ctrl-C."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    environment = {**os.environ, "TERM": "dumb", "NO_COLOR": "1", "COLUMNS": str(COLUMNS)}
    arguments = ["bash", "-e", "-o", "pipefail", "-c", line if "|" in line or ">" in line else f"exec {line}"]
    process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    said = wanted = b""
    while chunk := _read(ours):
        said += chunk
        if until is not None and not wanted and re.search(rf"{until}.*\n".encode(), said):
            wanted = said
            process.send_signal(signal.SIGINT)
    os.close(ours)
    code = process.wait()
    assert code == 0, f"{line}: {code}\n{said.decode()}"
    return _plain(wanted or said)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other side is closed
        return b""


def _plain(said: bytes) -> str:
    """Without what steers a terminal, spaces at the ends of lines, and the empty line that a progress bar leaves."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", said.decode()).replace(os.getcwd(), HERE)
    return "".join(line.rstrip() + "\n" for line in text.lstrip("\n").splitlines())
