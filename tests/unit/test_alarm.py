"""The alarm: one sleep for everybody who has a deadline."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from bowstring.broker.log.alarm import Alarm
from bowstring.core.machine import NEVER

SECOND = 1_000_000


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.moment = 1_800_000_000 * SECOND
        self.moved = asyncio.Event()
        self.sleepers = 0

    def now(self) -> int:
        return self.moment

    async def sleep(self, seconds: float) -> None:
        until = self.moment + round(seconds * 1e6)
        while self.moment < until:
            self.sleepers += 1
            try:
                await self.moved.wait()
            finally:
                self.sleepers -= 1

    async def move(self, seconds: float) -> None:
        self.moment += round(seconds * 1e6)
        self.moved.set()
        self.moved.clear()
        for _ in range(4):
            await asyncio.sleep(0)


class Sleeping:
    """Counts when it is woken."""

    def __init__(self) -> None:
        self.moments: list[int] = []

    def woken(self, now: int) -> None:
        self.moments.append(now)


async def test_one_sleep_wakes_everybody_at_the_earliest_deadline_that_was_set():
    clock = Clock()
    begun = clock.now()
    alarm = Alarm(clock, pytest.fail)  # type: ignore[arg-type]
    sleepers = [Sleeping() for _ in range(100)]
    for number, sleeper in enumerate(sleepers):
        alarm.set(sleeper, begun + (100 - number) * SECOND)
        alarm.set(sleeper, begun + 200 * SECOND)
        await asyncio.sleep(0)
    alarm.set(sleepers[0], begun + 2 * SECOND)
    alarm.set(sleepers[1], NEVER)
    await asyncio.sleep(0)
    assert clock.sleepers == 1, "there is one timer, however many sleep"
    await clock.move(3)
    assert [len(sleeper.moments) for sleeper in (sleepers[0], *sleepers[-3:])] == [1, 1, 1, 1]
    assert sum(len(sleeper.moments) for sleeper in sleepers) == 4
    for _ in range(40):
        await clock.move(10)
    assert [len(sleeper.moments) for sleeper in sleepers] == [1] * 100
    assert clock.sleepers == 0


async def test_an_alarm_that_was_stopped_wakes_nobody_and_what_goes_wrong_is_told():
    clock, failures = Clock(), list[Exception]()
    alarm, sleeper = Alarm(clock, failures.append), Sleeping()  # type: ignore[arg-type]
    alarm.set(sleeper, clock.now() + SECOND)
    alarm.stop()
    await clock.move(5)
    assert sleeper.moments == []
    alarm.set(cast("Any", object()), clock.now() + 1)
    await asyncio.sleep(0)
    await clock.move(1)
    assert isinstance(failures[0], AttributeError)
