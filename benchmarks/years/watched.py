"""`python -m benchmarks.years.watched serve …`: a broker that notes how long upkeep held up its flushes.

Attributed is what can be seen to wait: between a flush's taking and its commit, the steps of upkeep on the loop; while its commit waits
for the catalog's thread, upkeep's calls there; while it waits for its sync, upkeep's syncs. What other processes take from a machine that
is busy is in these figures too, so they are upper bounds. The figures go to the file that BENCH_WATCH names, as JSON, when the broker ends.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import threading
import time
from collections.abc import Callable, Generator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from bowstring.broker.log.flusher import Flusher
from bowstring.broker.upkeep.upkeep import Upkeep
from bowstring.catalog.journal_rows import split
from bowstring.catalog.sqlite.database import Database
from bowstring.catalog.sqlite.journal import SqliteJournal
from bowstring.cli.main import main
from bowstring.host.file import HostFile
from bowstring.host.worker import Threads
from bowstring.store.local import LocalStore

LONG_SECONDS = 0.004
TOLD_MAX = 40

_in_upkeep: ContextVar[bool] = ContextVar("in_upkeep", default=False)
Span = tuple[float, float]


class Watch:
    """Everything that was noted."""

    def __init__(self) -> None:
        self.loop: list[Span] = []
        self.catalog: list[Span] = []
        self.syncs: list[Span] = []
        self.loop_cpu: list[float] = []
        """What each step on the loop took of the processor: on a busy machine most of its time is spent waiting for one."""
        self.steps: list[tuple[float, str]] = []
        """The longest steps on the loop, and what they were."""
        self.flushes: list[dict[str, float]] = []
        self.checkpoints: list[float] = []

    def figures(self) -> dict[str, Any]:
        delays = sorted((self._delay(flush) for flush in self.flushes), reverse=True)
        total = sum(end - begin for begin, end in self.loop)
        return {
            "flushes": len(self.flushes),
            "delay_ms": [round(delay * 1e3, 2) for delay in delays[:10]],
            "loop_step_ms_max": round(max((end - begin for begin, end in self.loop), default=0.0) * 1e3, 2),
            "loop_step_cpu_ms_max": round(max(self.loop_cpu, default=0.0) * 1e3, 2),
            "loop_seconds": round(total, 3),
            "catalog_ms_max": round(max((end - begin for begin, end in self.catalog), default=0.0) * 1e3, 2),
            "sync_ms_max": round(max((end - begin for begin, end in self.syncs), default=0.0) * 1e3, 2),
            "checkpoint_ms_max": round(max(self.checkpoints, default=0.0) * 1e3, 2),
            "steps": [f"{seconds * 1e3:.1f} ms {what}" for seconds, what in sorted(self.steps, reverse=True)[:TOLD_MAX]],
        }

    def _delay(self, flush: dict[str, float]) -> float:
        waits = (("loop", "taken", "done"), ("catalog", "asked", "begun"), ("syncs", "sync_asked", "sync_begun"))
        return sum(_overlap(getattr(self, spans), flush.get(begin, 0.0), flush.get(end, 0.0)) for spans, begin, end in waits)


def _overlap(spans: list[Span], begin: float, end: float) -> float:
    """How much of [begin, end) the spans cover. They are by time, and few of them matter: those at the end are looked at first."""
    found = 0.0
    for first, last in reversed(spans):
        if last < begin - 5.0:
            break
        found += max(0.0, min(end, last) - max(begin, first))
    return found


watch = Watch()
_now = time.perf_counter


class _Steps:
    """A coroutine of upkeep, with a clock around each of its steps on the loop."""

    def __init__(self, coroutine: Any, name: str) -> None:
        self._coroutine = coroutine
        self._name = name

    def __await__(self) -> Generator[Any, Any, Any]:
        value: Any = None
        error: BaseException | None = None
        while True:
            where, begun, burnt = _place(self._coroutine), _now(), time.thread_time()
            try:
                awaited = self._coroutine.send(value) if error is None else self._coroutine.throw(error)
            except StopIteration as stop:
                return stop.value
            finally:
                self._note(begun, time.thread_time() - burnt, where)
            try:
                value, error = (yield awaited), None
            except BaseException as raised:
                value, error = None, raised

    def _note(self, begun: float, burnt: float, where: str) -> None:
        ended = _now()
        watch.loop.append((begun, ended))
        watch.loop_cpu.append(burnt)
        if ended - begun > LONG_SECONDS:
            watch.steps.append((ended - begun, f"({burnt * 1e3:.1f} of CPU) {self._name} from {where} to {_place(self._coroutine)}"))


def _place(coroutine: Any) -> str:
    """Where a coroutine stands: the innermost function of the broker that it waits in."""
    found = ""
    while coroutine is not None and getattr(coroutine, "cr_frame", None) is not None:
        path = Path(coroutine.cr_code.co_filename)
        if path.parent.name == "broker" and path.stem != "steady_clock":
            found = f"{path.stem}.{coroutine.cr_code.co_name}:{coroutine.cr_frame.f_lineno}"
        coroutine = coroutine.cr_await
    return found


def _watch_upkeep() -> None:
    turn = Upkeep._turn

    async def watched(self: Upkeep) -> None:
        _in_upkeep.set(True)
        await _Steps(turn(self), "turn")

    Upkeep._turn = watched
    begin = Threads.begin

    def begun(self: Threads, call: Callable[[], Any]) -> asyncio.Future[Any]:
        return begin(self, _timed(call) if _in_upkeep.get() else call)

    Threads.begin = begun


def _timed(call: Callable[[], Any]) -> Callable[[], Any]:
    def run() -> Any:
        begun = _now()
        try:
            return call()
        finally:
            if threading.current_thread().name.startswith("bowstring-catalog"):
                watch.catalog.append((begun, _now()))

    return run


def _watch_flushes() -> None:
    take, commit_flush, commit, on_worker = Flusher._take, Flusher._commit_flush, SqliteJournal.commit, SqliteJournal._commit
    sync, file_sync, checkpoint = LocalStore.sync, HostFile.sync, Database._checkpoint_now
    asked: dict[int, dict[str, float]] = {}

    def taken(self: Flusher) -> Any:
        flush = take(self)
        asked[flush.sequence] = {"taken": _now()}
        return flush

    async def committed(self: Flusher, flush: Any) -> None:
        await commit_flush(self, flush)
        watch.flushes.append({**asked.pop(flush.sequence, {}), "done": _now()})

    async def committing(self: SqliteJournal, sequence: int, *rest: Any) -> None:
        asked[sequence]["asked"] = _now()
        await commit(self, sequence, *rest)

    def begun(self: SqliteJournal, row: Any) -> None:
        asked[split(row["position"])[1]]["begun"] = _now()
        on_worker(self, row)

    async def syncing(self: LocalStore) -> None:
        if not _in_upkeep.get() and asked:
            asked[max(asked)]["sync_asked"] = _now()
        await sync(self)

    async def file_synced(self: HostFile) -> None:
        begun_at = _now()
        if not _in_upkeep.get() and asked:
            asked[max(asked)].setdefault("sync_begun", begun_at)
        await file_sync(self)
        if _in_upkeep.get():
            watch.syncs.append((begun_at, _now()))

    def checkpointed(self: Database) -> None:
        begun_at = _now()
        checkpoint(self)
        watch.checkpoints.append(_now() - begun_at)

    Flusher._take, Flusher._commit_flush, SqliteJournal.commit, SqliteJournal._commit = taken, committed, committing, begun
    LocalStore.sync, HostFile.sync, Database._checkpoint_now = syncing, file_synced, checkpointed


def _write() -> None:
    Path(os.environ["BENCH_WATCH"]).write_text(json.dumps(watch.figures()))


if __name__ == "__main__":
    _watch_upkeep()
    _watch_flushes()
    atexit.register(_write)
    main()
