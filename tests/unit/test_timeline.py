"""Rows that come back at a moment: in order, once, and never early."""

from __future__ import annotations

import random

import numpy as np
import pytest

from bowstring.core import timeline as timelines
from bowstring.core.backoff import wait_of
from bowstring.core.machine import NEVER
from bowstring.core.row_set import RowSet
from bowstring.core.subscription_settings import Backoff
from bowstring.core.timeline import Timeline


def rows(*offsets: int) -> RowSet:
    return RowSet.of_offsets(np.array(offsets, np.int64))


def test_rows_come_back_when_their_moment_has_come():
    timeline = Timeline()
    timeline.put(RowSet(5, 8), 100)
    timeline.put(rows(1, 9), 50)
    assert (timeline.first(), len(timeline), timeline.after(50), timeline.after(100)) == (50, 5, 100, NEVER)
    assert (timeline.ripe(49), timeline.ripe_count(49)) == (RowSet(0, 0), 0)
    assert timeline.take_until(99) == rows(1, 9)
    assert timeline.take_until(100) == RowSet(5, 8)
    assert timeline.is_empty
    assert timeline.first() == NEVER


def test_a_row_that_is_taken_out_does_not_come_back():
    timeline = Timeline()
    timeline.put(RowSet(1, 5), 10)
    timeline.take_out(RowSet(2, 4))
    timeline.put(RowSet(2, 3), 20)
    assert timeline.take_until(15) == rows(1, 4)
    assert timeline.take_until(20) == rows(2)
    timeline.check()


def test_what_was_at_rest_is_there_again():
    timeline, loaded = Timeline(), Timeline()
    timeline.put(RowSet(7, 9), 30)
    timeline.put(RowSet(1, 3), 40)
    loaded.load(*(array.astype("<i8").tobytes() for array in timeline.arrays()))
    assert loaded.state() == timeline.state()
    loaded.put(RowSet(20, 21), 5)
    assert loaded.first() == 5
    with pytest.raises(ValueError, match="1 moments and 0 rows"):
        loaded.load(b"12345678", b"")


@pytest.mark.parametrize("seed", range(20))
def test_it_is_a_dictionary_of_rows_and_moments(seed: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(timelines, "GATHERED_MAX", 4)
    source, timeline, model, now = random.Random(seed), Timeline(), dict[int, int](), 0
    for _ in range(200):
        first = source.randint(1, 60)
        some = RowSet(first, first + source.randint(1, 5))
        match source.randint(0, 3):
            case 0 | 1:
                fresh = some - timeline.rows()
                moment = now + source.randint(1, 30)
                timeline.put(fresh, moment)
                model |= dict.fromkeys(fresh.offsets().tolist(), moment)
            case 2:
                timeline.take_out(some)
                model = {row: moment for row, moment in model.items() if row not in some.offsets()}
            case _:
                now += source.randint(0, 10)
                came = {row for row, moment in model.items() if moment <= now}
                assert timeline.ripe_count(now) == len(came)
                assert set(timeline.take_until(now).offsets().tolist()) == came
                model = {row: moment for row, moment in model.items() if row not in came}
        timeline.check()
        assert timeline.first() == min(model.values(), default=NEVER)


@pytest.mark.parametrize(
    ("backoff", "waits"),
    [
        (Backoff(1, 2.0, 300), [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]),
        (Backoff(5, 1.0, 300), [5, 5, 5]),
        (Backoff(400, 2.0, 300), [300, 300]),
        (Backoff(0, 2.0, 300), [0, 0, 0]),
        (Backoff(10, 1.5, 40), [10, 15, 22, 34, 40]),
    ],
)
def test_a_wait_grows_up_to_the_longest(backoff: Backoff, waits: list[int]):
    assert [wait_of(backoff, failures) for failures in range(1, len(waits) + 1)] == waits
    assert wait_of(backoff, 1_000_000) <= backoff.most
