"""A digest over everything that happened, in order: two runs are the same when it is.

What is noted are events, with their virtual time and the checksum of the bytes that were moved: disk operations, messages, faults, and
what the clients write into their history. Counts would hide that two runs took different ways to the same totals.
"""

from __future__ import annotations

import hashlib
import zlib
from collections import deque
from collections.abc import Callable
from typing import IO

Bytes = bytes | bytearray | memoryview
LINES_AT_ONCE = 512


def checksum(data: Bytes) -> str:
    """A short name for some bytes."""
    return f"{zlib.crc32(data):08x}"


class Digest:
    """The running digest. It keeps the last lines for a failure's report, and writes all of them to `trace` if there is one."""

    def __init__(self, time: Callable[[], float], *, last: int = 400, trace: IO[str] | None = None) -> None:
        self.events = 0
        self.last: deque[str] = deque(maxlen=last)
        self._time = time
        self._trace = trace
        self._hash = hashlib.blake2b(digest_size=16)
        self._lines: list[str] = []

    def note(self, event: str) -> None:
        """One event in one line, without anything that differs between two runs of a seed (addresses, task names, real time)."""
        self.events += 1
        line = f"{self._time():.9f} {event}\n"
        self._lines.append(line)
        if len(self._lines) >= LINES_AT_ONCE:
            self._fold()

    def _fold(self) -> None:
        text = "".join(self._lines)
        self._hash.update(text.encode())
        self.last.extend(self._lines)
        if self._trace is not None:
            self._trace.write(text)
        self._lines.clear()

    def value(self) -> str:
        """The digest of all events so far."""
        self._fold()
        return self._hash.hexdigest()
