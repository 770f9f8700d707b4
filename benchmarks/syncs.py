"""Proof by strace that nothing is acknowledged before it is synced.

The broker runs under strace, which writes down every fdatasync and fsync with the file that it concerns and with the moments at which
it began and ended, and which holds up each of them by some milliseconds. A client sends single messages, then whole batches, one after
the other, and notes when it sent each and when it had the answer. Between the two there must be a sync of the journal (SQLite's WAL)
that began after the message was sent and ended before the answer came; and for batches that are too large for the journal a sync of
their segment before it. Because syncs are held up, an answer that does not wait for its sync arrives long before it.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import server
from benchmarks.clients import work

DELAY_MICROSECONDS = 10_000
CALLS = "fdatasync,fsync"

_BEGUN = re.compile(r"^(\d+) +(\d+\.\d+) (?:fdatasync|fsync)\(\d+<([^>]*)>(.*)$")
_RESUMED = re.compile(r"^(\d+) +(\d+\.\d+) <\.\.\. (?:fdatasync|fsync) resumed>\) += (-?\d+)")
_ENDED = re.compile(r"^\) += (-?\d+).*<(\d+\.\d+)>")


class Sync(NamedTuple):
    """One sync that succeeded: which file, from when to when (seconds since 1970)."""

    file: str
    begun: float
    ended: float


def prove(folder: Path, singles: int, batches: int) -> dict[str, Any]:
    """How many answers there were, how many syncs, and how many answers came without theirs, which has to be none."""
    if shutil.which("strace") is None:
        return {"missing": "strace is not installed"}
    trace = folder / "syncs.strace"
    around = ["strace", "-f", "-y", "-ttt", "-T", "-s", "0", "-o", str(trace), "-e", f"trace={CALLS}"]
    around += ["-e", f"inject={CALLS}:delay_enter={DELAY_MICROSECONDS}"]
    try:
        with server.running(folder, around=around) as broker:
            small = work("one-by-one", broker, size=100, count=singles, rows=1)
            large = work("one-by-one", broker, size=100, count=batches, rows=10_000)
        syncs = read(trace.read_text())
    finally:
        trace.unlink(missing_ok=True)
    journal = [sync for sync in syncs if sync.file.endswith("-wal")]
    segments = [sync for sync in syncs if Path(sync.file).name.startswith("segment-")]
    early = [window for window in small["windows"] + large["windows"] if not inside(journal, *window)]
    early += [window for window in large["windows"] if not before_journal(segments, journal, *window)]
    return {
        "messages": singles,
        "batches": batches,
        "delay_ms": DELAY_MICROSECONDS / 1000,
        "journal_syncs": len(journal),
        "segment_syncs": len(segments),
        "answers_without_sync": len(early),
    }


def inside(syncs: list[Sync], sent: float, answered: float) -> list[Sync]:
    """The syncs that began after the message was sent and ended before its answer came."""
    return [sync for sync in syncs if sent <= sync.begun and sync.ended <= answered]


def before_journal(segments: list[Sync], journal: list[Sync], sent: float, answered: float) -> bool:
    """Is there a sync of a segment that ended before a sync of the journal began, all between sending and answer?"""
    ended = [sync.ended for sync in inside(segments, sent, answered)]
    return bool(ended) and any(sync.begun >= min(ended) for sync in inside(journal, sent, answered))


def read(trace: str) -> list[Sync]:
    """The syncs of a trace that succeeded."""
    found: list[Sync] = []
    open_calls: dict[str, tuple[str, float]] = {}
    for line in trace.splitlines():
        if begun := _BEGUN.match(line):
            thread, moment, file, rest = begun[1], float(begun[2]), begun[3], begun[4]
            if (ended := _ENDED.match(rest)) is None:
                open_calls[thread] = (file, moment)
            elif ended[1] == "0":
                found.append(Sync(file, moment, moment + float(ended[2])))
        elif resumed := _RESUMED.match(line):
            file, moment = open_calls.pop(resumed[1])
            if resumed[3] == "0":
                found.append(Sync(file, moment, float(resumed[2])))
    return found
