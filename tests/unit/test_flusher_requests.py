"""What is decided when a flush is taken: it goes along, and `request` has one taken for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from bowstring.broker.counters import Counters
from bowstring.broker.log.flusher import OFTEN, PATIENCE, Flush, Flusher
from bowstring.core.changes import Append, Position
from bowstring.core.ledger_changes import Settle
from bowstring.ports.store import Page
from bowstring.settings import Settings
from tests.unit.virtual_time import FakeClock, on_virtual_time

CHANGE = Position(1, 0, "reader", 1, 5)
LATER = Position(1, 0, "reader", 2, 6)
SETTLED = Settle(1, 0, 1, 1, 1, ())


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


def publish(flusher: Flusher) -> None:
    change = Append(1, 0, first_offset=1, rows=1, arrived=1, columns=2, producer=b"p" * 16, number=1)
    flusher.add(change, Page(b"header", b"body"))


async def publish_often(flusher: Flusher) -> None:
    for _ in range(3):
        publish(flusher)
        await asyncio.sleep(OFTEN / 2)


@asynccontextmanager
async def settled_while_publishes_come_often(desk: Desk) -> AsyncGenerator[Flusher]:
    """Three publishes are committed, and a settlement has just come."""
    async with flushing(desk) as flusher:
        await publish_often(flusher)
        flusher.add(SETTLED)
        yield flusher


@on_virtual_time
async def test_settlements_go_with_the_next_publish_while_publishes_come_often():
    desk = Desk()
    async with settled_while_publishes_come_often(desk) as flusher:
        await asyncio.sleep(PATIENCE / 2)
        assert desk.committed_changes == [1, 1, 1]
        publish(flusher)
        await rest()
        assert desk.committed_changes == [1, 1, 1, 2]


@on_virtual_time
async def test_settlements_wait_for_no_longer_than_that_when_no_publish_comes():
    desk = Desk()
    async with settled_while_publishes_come_often(desk) as flusher:
        flusher.request()
        await asyncio.sleep(0.9 * PATIENCE)
        flusher.add(SETTLED)
        assert len(desk.committed_changes) == 3
        await asyncio.sleep(0.2 * PATIENCE)
        assert desk.committed_changes == [1, 1, 1, 2]


@on_virtual_time
async def test_settlements_wait_for_no_longer_than_that_while_the_clock_stands_still(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(FakeClock, "monotonic", lambda self: 5.0)
    desk = Desk()
    async with settled_while_publishes_come_often(desk):
        await asyncio.sleep(1.1 * PATIENCE)
        assert desk.committed_changes == [1, 1, 1, 1]


@on_virtual_time
async def test_what_is_no_settlement_takes_those_that_wait_along():
    desk = Desk()
    async with settled_while_publishes_come_often(desk) as flusher:
        await rest()
        flusher.add(CHANGE)
        await rest()
        assert desk.committed_changes == [1, 1, 1, 2]


@on_virtual_time
async def test_settlements_do_not_wait_where_publishes_are_rare():
    desk = Desk()
    async with flushing(desk) as flusher:
        publish(flusher)
        await asyncio.sleep(OFTEN / 2)
        flusher.add(SETTLED)
        await rest()
        assert desk.committed_changes == [1, 1]
        await publish_often(flusher)
        await asyncio.sleep(2 * OFTEN)
        flusher.add(SETTLED)
        await rest()
        assert desk.committed_changes[-1] == 1
        assert len(desk.committed_changes) == 6
