"""A broker with scheduled messages and its workers, killed with SIGKILL again and again: no message comes before it is due or after it
was cancelled, one that was moved comes at its new time, and none is lost.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

import bowstring.aio
from bowstring import errors
from tests.process.killing import TOPIC, Crew, Line, worked_off
from tests.process.test_queue_sigkill import broken_promises

LATEST_SECONDS = 1.5
"""Messages are due so much later at most."""
AHEAD_MAX = 300
Place = tuple[int, int]


class Plan:
    """A producer of scheduled messages, which moves some and cancels others, and what came of it."""

    def __init__(self, address: str, crew: Crew, source: random.Random) -> None:
        self._address = address
        self._crew = crew
        self._source = source
        self.due: dict[Place, float] = {}
        """The earliest at which each message may come that was stored, and that no one may have cancelled."""
        self.cancelled: set[Place] = set()
        self.doubtful: set[Place] = set()
        """Those of which it is not known whether they were cancelled, or moved."""
        self.over = False

    async def run(self) -> None:
        async with bowstring.aio.connect(self._address, timeout=30) as client, client.producer(TOPIC, timeout=60) as producer:
            while not self.over:
                if len(self.expected) - self._crew.begun() > AHEAD_MAX:
                    await self._crew.acks(1)
                ids = await self._publish(producer)
                await self._change(producer, ids)

    async def _publish(self, producer: bowstring.aio.Producer) -> dict[str, Place]:
        """Their places, by id."""
        dues = [time.time() + self._source.choice((0.0, 0.3, LATEST_SECONDS)) * self._source.random() for _ in range(20)]
        receipts = [producer.send(os.urandom(100), at=datetime.fromtimestamp(due, UTC)) for due in dues]
        stored: dict[str, Place] = {}
        for due, outcome in zip(dues, await asyncio.gather(*receipts, return_exceptions=True), strict=True):
            if isinstance(outcome, errors.Error):
                continue
            assert not isinstance(outcome, BaseException), outcome
            stored[outcome.id] = outcome.partition, outcome.offset
            self.due[stored[outcome.id]] = due
        return stored

    async def _change(self, producer: bowstring.aio.Producer, ids: dict[str, Place]) -> None:
        """Cancels some, and moves others. What is due meanwhile is refused."""
        chosen = [message for message in ids if self._source.random() < 0.3]
        cut = self._source.randrange(len(chosen) + 1)
        later = time.time() + LATEST_SECONDS * self._source.random()
        for some, due in ((chosen[:cut], None), (chosen[cut:], later)):
            if not some:
                continue
            try:
                if due is None:
                    answers = await producer.cancel(some)
                else:
                    answers = await producer.move(some, at=datetime.fromtimestamp(due, UTC))
            except errors.Error:
                self.doubtful |= {ids[message] for message in some}
                continue
            done = [ids[message] for message, ok in zip(some, answers.ok.to_pylist(), strict=True) if ok]
            if due is None:
                self.cancelled.update(done)
            else:
                self.due |= dict.fromkeys(done, due)

    @property
    def expected(self) -> set[Place]:
        """What has to come."""
        return set(self.due) - self.cancelled - self.doubtful


def broken_schedules(lines: list[Line], due: dict[Place, float], cancelled: set[Place], doubtful: set[Place]) -> Iterator[str]:
    """What came too early, or at all. The broker's clock and the workers' are the same."""
    for line in lines:
        for partition, offset, *_ in line["rows"] if line["kind"] == "got" else ():
            place = partition, offset
            if place in cancelled:
                yield f"{place} came, and was cancelled"
            earliest = max(line["due"], 0.0 if place in doubtful else due.get(place, 0.0))
            if line["wall"] < earliest - 1e-6:
                yield f"{place} came {earliest - line['wall']:.6f} s before it was due"


@pytest.mark.parametrize("kills", [4, pytest.param(100, marks=pytest.mark.long)])
async def test_schedules_hold_when_broker_and_workers_are_killed(tmp_path: Path, kills: int) -> None:
    plan, lines = await worked_off(tmp_path, "schedules", kills, Plan)
    assert len(plan.due) > 5 * kills
    assert plan.cancelled, "nothing was cancelled"
    assert list(broken_schedules(lines, plan.due, plan.cancelled, plan.doubtful)) == []
    assert list(broken_promises(lines, plan.expected)) == []


def test_schedules_are_told_apart_from_what_breaks_them():
    def told(wall: float, due: float = 0.0, *, cancelled: bool = False, doubtful: bool = False) -> str:
        line: Line = {"kind": "got", "rows": [[0, 1, 1, 0]], "due": due, "wall": wall}
        place = {(0, 1)}
        return "; ".join(broken_schedules([line], {(0, 1): 10.0}, place if cancelled else set(), place if doubtful else set()))

    assert not told(10.0)
    assert not told(9.0, doubtful=True)
    assert "0.500000 s before it was due" in told(9.5)
    assert "before it was due" in told(10.5, due=11.0, doubtful=True)
    assert "was cancelled" in told(10.5, cancelled=True)
