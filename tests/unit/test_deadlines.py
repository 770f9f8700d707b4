"""One timer for the deadlines of many batches."""

from __future__ import annotations

import asyncio

import pytest

from bowstring.client.deadlines import TIDY_MIN, Deadlines
from bowstring.client.outcome import StoredRows
from bowstring.client.sent_batch import SentBatch, Term
from bowstring.messages import encoding
from tests.unit.virtual_time import FakeClock, on_virtual_time


def batch(number: int) -> SentBatch:
    return SentBatch(b"p" * 16, 0, number, Term(1.0, 1.0, 0), encoding.draft_value(b"x", 1), 100, None)


@on_virtual_time
async def test_each_undecided_batch_is_called_at_its_deadline_whatever_the_order_of_adding():
    deadlines, loop, called = Deadlines(FakeClock()), asyncio.get_running_loop(), []
    begun = loop.time()

    def act(late: SentBatch) -> None:
        called.append((late.number, pytest.approx(loop.time() - begun, abs=0.01)))

    batches = {number: batch(number) for number in range(1, 6)}
    for number, seconds in ((1, 3.0), (2, 1.0), (3, 2.0), (4, 2.0), (5, 0.0)):
        deadlines.add(begun + seconds, act, batches[number])
    batches[3].decide(StoredRows(1))
    await asyncio.sleep(10)
    assert called == [(5, 0.0), (2, 1.0), (4, 2.0), (1, 3.0)]


@on_virtual_time
async def test_a_deadline_may_add_the_next_one():
    deadlines, loop, called = Deadlines(FakeClock()), asyncio.get_running_loop(), []
    begun = loop.time()

    def again(late: SentBatch) -> None:
        called.append(round(loop.time() - begun, 1))
        if len(called) < 3:
            deadlines.add(loop.time() + 1.0, again, late)

    deadlines.add(begun + 1.0, again, batch(1))
    await asyncio.sleep(10)
    assert called == [1.0, 2.0, 3.0]


@on_virtual_time
async def test_decided_batches_are_not_kept_until_their_time():
    deadlines, loop, called = Deadlines(FakeClock()), asyncio.get_running_loop(), []
    early = batch(1)
    deadlines.add(loop.time() + 1.0, called.append, early)
    for number in range(2, 1000):
        answered = batch(number)
        deadlines.add(loop.time() + 30.0, called.append, answered)
        answered.decide(StoredRows(number))
        assert len(deadlines) <= TIDY_MIN
    await asyncio.sleep(60)
    assert called == [early]
    assert len(deadlines) == 0


@on_virtual_time
async def test_nobody_is_called_after_the_end():
    deadlines, called = Deadlines(FakeClock()), []
    deadlines.add(asyncio.get_running_loop().time() + 1.0, called.append, batch(1))
    deadlines.close()
    deadlines.add(asyncio.get_running_loop().time() + 1.0, called.append, batch(2))
    await asyncio.sleep(10)
    assert called == []
