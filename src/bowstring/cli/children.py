"""Runs a command for each message of a queue: `bowstring consume --exec`.

The value is the command's stdin, the rest of the message are variables (`variables`), and its exit
code says what becomes of the message. Each command runs in a process group of its own, so that it
gets a signal once, from us, and with all that it has started.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Literal

from bowstring import errors

Outcome = Literal["acked", "rejected", "nacked", "lost"]
REJECTED: Final = 65
"""EX_DATAERR of sysexits.h: the input was wrong."""
CANNOT_RUN: Final = (126, 127)
"""Exit codes of a shell that cannot run the command: not a failure of the message."""
SHELL: Final = "/bin/sh"


def variables(message: Any) -> dict[str, str]:
    """What the command learns of a message, besides its value."""
    found = {
        "BOWSTRING_TOPIC": message.topic,
        "BOWSTRING_PARTITION": str(message.partition),
        "BOWSTRING_OFFSET": str(message.offset),
        "BOWSTRING_ID": _text(message.id.encode()),
        "BOWSTRING_RETRY_COUNT": str(message.retry_count),
        "BOWSTRING_ATTRIBUTES": json.dumps(dict(message.attributes), ensure_ascii=False, separators=(",", ":")),
    }
    return found if message.key is None else {**found, "BOWSTRING_KEY": _text(message.key)}


def _text(data: bytes) -> str:
    """Bytes as a variable: those that it cannot hold are as in JSON."""
    with suppress(UnicodeDecodeError):
        text = data.decode()
        if "\0" not in text:
            return text
    return json.dumps({"base64": base64.b64encode(data).decode()}, separators=(",", ":"))


class Children:
    """Runs a command for messages, in as many threads as call `work`."""

    def __init__(self, line: str, told: Callable[[str], object], failed: Callable[[errors.Error], object]) -> None:
        self._line = line
        self._told = told
        self._failed = failed
        """Gets an error after which no further message makes sense."""
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._signal = 0
        self.counts: dict[Outcome, int] = {"acked": 0, "nacked": 0, "rejected": 0, "lost": 0}

    def work(self, message: Any) -> None:
        """Runs the command for a message, and settles the message by its exit code."""
        place = f"{message.partition}@{message.offset}"
        try:
            code = self._run(message)
        except OSError as error:
            code = CANNOT_RUN[0]
            self._failed(errors.Rejected(f"the command cannot be run for {place}: {error.strerror}."))
        else:
            if code in CANNOT_RUN:
                self._failed(errors.Rejected(f"the command cannot be run: it ended with exit code {code}.", hint="Try it in a shell."))
        self._settle(message, place, code)

    def signal(self, number: int) -> bool:
        """Passes a signal on to the commands that run. No other one begins after this. Returns whether
        any runs.
        """
        with self._lock:
            self._signal = number
            for process in self._running:
                _send(process, number)
            return bool(self._running)

    def _run(self, message: Any) -> int:
        kept = {name: value for name, value in os.environ.items() if name != "BOWSTRING_KEY"}
        environment = {**kept, **variables(message)}
        with self._lock:
            if self._signal:
                return -self._signal  # as if it had begun and got the signal at once
            process = subprocess.Popen([SHELL, "-c", self._line], stdin=subprocess.PIPE, env=environment, process_group=0)
            self._running.add(process)
        try:
            process.communicate(message.value or b"")
        finally:
            with self._lock:
                self._running.discard(process)
        return process.returncode

    def _settle(self, message: Any, place: str, code: int) -> None:
        outcome: Outcome = "acked" if code == 0 else "rejected" if code == REJECTED else "nacked"
        ended = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        try:
            if outcome == "acked":
                message.ack().result()
            elif outcome == "rejected":
                message.reject(f"the command {ended}").result()
            else:
                message.nack(reason=f"the command {ended}").result()
        except errors.Error as error:
            outcome = "lost"
            self._told(f"{place} could not be settled: {error}")
        else:
            if code:
                self._told(f"{place} is {'rejected' if outcome == 'rejected' else 'given back'}: the command {ended}.")
        with self._lock:
            self.counts[outcome] += 1


def _send(process: subprocess.Popen[bytes], number: int) -> None:
    """Sends a signal to a command and all that it has started, unless it has ended: then its number
    may belong to another process.
    """
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
