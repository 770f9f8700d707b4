"""What is decided when a flush is taken: it goes along, and `request` has one taken for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from bowstring.broker.counters import Counters
from bowstring.broker.log.flusher import Flush, Flusher
from bowstring.core.changes import Position
from bowstring.settings import Settings
from tests.unit.virtual_time import FakeClock

CHANGE = Position(1, 0, "reader", 1, 5)
LATER = Position(1, 0, "reader", 2, 6)


class Desk:
    """Journal, store and watcher in one: commits when it is let."""

    fence = (1, 1)

    def __init__(self) -> None:
        self.committed_changes: list[int] = []
        self.let = asyncio.Event()
        self.let.set()

    async def commit(self, sequence: int, changes: bytes, inlined: bytes | None) -> None:
        await self.let.wait()

    def committed(self, flush: Flush) -> None:
        self.committed_changes.append(len(flush.changes))


@asynccontextmanager
async def flushing(desk: Desk) -> AsyncGenerator[Flusher]:
    port: Any = desk
    flusher = Flusher(
        settings=Settings(),
        clock=FakeClock(),
        counters=Counters(),
        journal=port,
        store=port,
        sequence=0,
        watcher=port,
        overlap_bytes=1 << 20,
    )
    running = asyncio.create_task(flusher.run())
    yield flusher
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def rest() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_what_is_decided_when_a_flush_is_taken_goes_along():
    desk, answered = Desk(), list[str]()
    async with flushing(desk) as flusher:

        def decide() -> None:
            if len(desk.committed_changes) == 0 and not flusher.idle:
                flusher.add(LATER)
                flusher.answer(lambda: answered.append("granted"))

        flusher.before_take.append(decide)
        flusher.add(CHANGE)
        flusher.answer(lambda: answered.append("first"))
        await rest()
    assert desk.committed_changes == [2]
    assert answered == ["first", "granted"]


async def test_a_request_has_a_flush_taken_if_something_is_decided():
    desk, wanted = Desk(), [True]
    async with flushing(desk) as flusher:
        flusher.before_take.append(lambda: flusher.add(LATER) if wanted and wanted.pop() else None)
        flusher.request()
        await rest()
        assert desk.committed_changes == [1]
        flusher.request()
        await rest()
    assert desk.committed_changes == [1]
    assert flusher.idle


async def test_a_request_during_a_commit_waits_for_its_end():
    desk, decided = Desk(), list[int]()
    async with flushing(desk) as flusher:
        flusher.before_take.append(lambda: decided.append(len(desk.committed_changes)))
        desk.let.clear()
        flusher.add(CHANGE)
        await rest()
        flusher.request()
        await rest()
        assert decided == [0]
        desk.let.set()
        await rest()
    assert decided == [0, 1]
