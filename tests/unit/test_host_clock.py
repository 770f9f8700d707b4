"""The machine's clock and randomness, as far as they can be tested at all."""

from __future__ import annotations

import time

from bowstring.host.clock import SystemClock
from bowstring.host.randomness import SystemRandomness


def test_now_is_whole_microseconds_since_1970():
    before, now, after = time.time(), SystemClock().now(), time.time()
    assert isinstance(now, int)
    assert before - 1 < now / 1e6 < after + 1


async def test_a_sleep_takes_at_least_its_time_on_the_monotonic_clock():
    clock = SystemClock()
    start = clock.monotonic()
    await clock.sleep(0.01)
    assert clock.monotonic() - start >= 0.009


def test_numbers_lie_between_0_and_1_and_differ():
    randomness = SystemRandomness()
    numbers = [randomness.unit() for _ in range(1_000)]
    assert all(0 <= number < 1 for number in numbers)
    assert len(set(numbers)) > 990


def test_unique_bytes_are_version_7_uuids_that_grow_with_time():
    randomness = SystemRandomness()
    ids = [randomness.unique() for _ in range(1_000)]
    assert len(set(ids)) == 1_000
    assert all(len(id) == 16 and id[6] >> 4 == 7 for id in ids)
    milliseconds = [int.from_bytes(id[:6], "big") for id in ids]
    assert milliseconds == sorted(milliseconds)
    assert abs(milliseconds[0] / 1000 - time.time()) < 60
