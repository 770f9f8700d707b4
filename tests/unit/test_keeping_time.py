"""What a kit knows of the time that the broker keeps messages by: never later than it is, and not much earlier."""

from __future__ import annotations

from typing import Any

import numpy as np

from bowstring.client.broker_time import BrokerTime
from bowstring.client.freshness import Freshness
from bowstring.client.pages import Chunk, FetchedPage
from bowstring.messages import encoding
from bowstring.wire.generated import bowstring_pb2 as pb

SECOND = 1_000_000
BEGUN = 1_800_000_000 * SECOND


class Hands:
    """A clock whose hands are moved."""

    def __init__(self) -> None:
        self.wall = BEGUN
        self.seconds = 100.0

    def now(self) -> int:
        return self.wall

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        raise NotImplementedError


def test_nothing_is_over_before_a_broker_has_told_the_time():
    assert BrokerTime(Hands()).keeping() == 0


def test_the_way_of_an_answer_is_not_added():
    hands = Hands()
    time = BrokerTime(hands)
    time.measured(BEGUN, 99.0, 100.0)
    assert time.keeping() == BEGUN
    hands.seconds = 103.5
    assert time.keeping() == BEGUN + 3.5 * SECOND


def test_a_slow_handshake_does_not_set_it_back_and_a_clock_that_was_set_does():
    hands = Hands()
    time = BrokerTime(hands)
    time.measured(BEGUN, 99.9, 100.0)
    time.measured(BEGUN + SECOND, 100.5, 103.0)
    hands.seconds = 103.0
    assert time.keeping() == BEGUN + 3 * SECOND
    time.measured(BEGUN, 103.0, 103.0)
    assert time.keeping() == BEGUN


def test_an_answer_that_was_quicker_sets_it_forward():
    hands = Hands()
    time = BrokerTime(hands)
    time.measured(BEGUN, 98.0, 100.0)
    time.heard_keeping(BEGUN + SECOND, 100.5)
    assert time.keeping() == BEGUN + SECOND // 2
    time.heard_keeping(0, 101.0)  # a broker that does not tell
    assert time.keeping() == BEGUN + SECOND // 2


def test_neither_this_machines_clock_nor_a_jump_of_the_brokers_counts():
    hands = Hands()
    time = BrokerTime(hands)
    hands.wall += 3600 * SECOND
    time.measured(BEGUN + 7200 * SECOND, 100.0, 100.0, BEGUN)
    assert time.keeping() == BEGUN
    assert time.now() == BEGUN + 7200 * SECOND


def test_the_brokers_own_clock_is_followed():
    hands = Hands()
    time = BrokerTime(hands)
    time.follow(hands)
    time.measured(BEGUN, 0.0, 0.0, BEGUN)
    hands.wall += 60 * SECOND
    assert time.keeping() == BEGUN + 60 * SECOND


# ---- what that means for rows


def chunk(rows: int = 10, **columns: Any) -> Chunk:
    """Rows with the offsets from 1 on that arrived when everything begun."""
    data = encoding.encode_columns(rows, values=[b"%d" % row for row in range(rows)], **columns)
    header = pb.FetchAnswer(next_offset=rows + 1, arrived=BEGUN, schema=1, columns=data.mask, rows=rows)
    header.runs.add(offset=1, rows=rows)
    header.origins.add(rows=rows, producer=bytes(16), number=1)
    return Chunk(FetchedPage("t", header, memoryview(data.data)), 0, rows)


def fresh(hands: Hands) -> Freshness:
    time = BrokerTime(hands)
    time.follow(hands)
    time.measured(BEGUN, 0.0, 0.0)
    return Freshness(time)


def left(freshness: Freshness, given: Chunk) -> list[int]:
    if not freshness.doubts(given):
        return given.offsets.tolist()
    found = freshness.sifted(given)
    assert found is None or not freshness.doubts(found)  # it is looked at once
    return [] if found is None else found.offsets.tolist()


def test_a_row_is_over_when_it_expires_and_after_its_retention():
    hands = Hands()
    freshness = fresh(hands)
    freshness.retention = 20 * SECOND
    given = chunk(expires=[None] * 5 + [BEGUN + 10 * SECOND] * 5, due=[BEGUN + SECOND] + [None] * 9)
    assert freshness.over_at(given) == BEGUN + 10 * SECOND
    hands.wall = BEGUN + 10 * SECOND - 1
    assert len(left(freshness, given)) == 10
    hands.wall += 1
    assert left(freshness, given) == [1, 2, 3, 4, 5]
    hands.wall = BEGUN + 20 * SECOND
    assert left(freshness, given) == [1, 2, 3, 4, 5]
    hands.wall += 1
    assert left(freshness, given) == [1]
    hands.wall += SECOND
    assert left(freshness, given) == []


def test_runs_of_deleted_rows_add_up_and_those_that_were_passed_are_forgotten():
    freshness = fresh(Hands())
    freshness.deleted(0, [(3, 2), (8, 1)], 1)
    freshness.deleted(0, [(5, 1), (9, 100)], 1)
    freshness.deleted(1, [(1, 2)], 1)
    assert left(freshness, chunk()) == [1, 2, 6, 7]
    freshness.deleted(0, [], 7)
    assert freshness._deleted[0].starts.tolist() == [8]
    freshness.deleted(0, [], 200)
    assert 0 not in freshness._deleted
    assert left(freshness, chunk()) == list(range(1, 11))


def test_what_is_left_of_a_page_has_the_same_columns():
    freshness = fresh(Hands())
    given = chunk(ids=[f"id-{row}" for row in range(10)], keys=[b"k%d" % row for row in range(10)])
    freshness.deleted(0, [(1, 8)], 1)
    found = freshness.sifted(Chunk(given.page, 5, 5))
    assert found is not None
    assert found.page.entries("id") == ["id-8", "id-9"]
    assert found.column("key").to_pylist() == [b"k8", b"k9"]
    assert np.array_equal(found.offsets, [9, 10])
    assert found.next_offset == 11
    assert found.column("producer_group").to_pylist() == ["", ""]
