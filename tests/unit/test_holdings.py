"""What a consumer holds and may hold."""

from __future__ import annotations

from typing import Any

import pytest

from bowstring.broker.queue.holdings import MARGIN, ConsumerCredit, Holdings

ONE: Any = object()
TWO: Any = object()


def holdings(messages: int, size: int) -> Holdings:
    found = Holdings()
    found.limit(ConsumerCredit(messages, size))
    return found


def test_without_credit_there_is_no_room():
    assert not Holdings().has_room
    assert Holdings().room(1) == 0


@pytest.mark.parametrize(
    ("messages", "size", "mean", "room"),
    [
        (10, 1 << 30, 100, 10),
        (10, 500, 100, int(500 / 100 / MARGIN)),
        (10, 50, 100, 1),  # a single message may overdraw it
        (10, 0, 100, 1),
        (0, 500, 100, 0),
    ],
)
def test_room_is_by_messages_and_by_bytes(messages: int, size: int, mean: float, room: int):
    assert holdings(messages, size).room(mean) == room


def test_rows_and_bytes_follow_the_ledgers_over_all_partitions():
    held = holdings(100, 10_000)
    held.update(ONE, 1, 10, 100)
    held.update(TWO, 1, 5, 200)
    assert (held.rows, held.bytes, held.unsent) == (15, 2000, 15)
    held.sent(ONE, 1, 10, 1500)
    assert (held.rows, held.bytes, held.unsent, held.sendable) == (15, 2500, 5, 90)
    held.update(ONE, 1, 4, 100)
    assert (held.rows, held.bytes) == (9, 1600)
    held.update(ONE, 1, 0, 100)
    held.update(TWO, 1, 0, 100)
    assert (held.rows, held.bytes, held.unsent, held.grants_in(ONE)) == (0, 0, 0, [])


def test_what_is_unsent_counts_by_its_estimate_only_for_itself():
    held = holdings(100, 1000)
    held.update(ONE, 1, 4, 100)
    held.update(ONE, 2, 2, 100)
    assert held.spare(ONE, 1) == 800
    held.sent(ONE, 1, 4, 700)
    assert held.bytes == 900
    assert held.spare(ONE, 2) == 300
    assert held.spare(ONE, 9) == 100


def test_a_stalled_consumer_has_room_again_when_it_holds_less():
    held = holdings(100, 1000)
    held.update(ONE, 1, 2, 100)
    held.is_stalled = True
    assert not held.has_room
    held.update(ONE, 1, 1, 100)
    assert held.has_room
    held.is_stalled = True
    held.limit(ConsumerCredit(100, 2000))
    assert held.has_room
    held.is_stalled = True
    held.update(ONE, 1, 0, 100)
    assert held.has_room


def test_grants_that_the_kit_holds_count_as_sent():
    held = holdings(10, 1000)
    held.update(ONE, 1, 8, 10)
    assert held.sendable == 10
    held.has(ONE, 1)
    assert held.sendable == 2
