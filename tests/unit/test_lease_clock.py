"""The time by which leases run."""

from __future__ import annotations

import pytest

from bowstring.broker.counters import QueueCounters
from bowstring.broker.queue.lease_clock import ALLOWANCE, LeaseClock
from bowstring.broker.queue.rates import DeliveryTotals, Rates, RatesFacts
from bowstring.broker.steady_clock import SteadyClock

START = 1_800_000_000_000_000


class TwoClocks:
    """A wall and a monotonic clock that are moved one by one."""

    def __init__(self) -> None:
        self.wall, self.passed = START, 5.0

    def now(self) -> int:
        return self.wall

    def monotonic(self) -> float:
        return self.passed

    async def sleep(self, seconds: float) -> None: ...


def test_it_starts_a_second_before_the_wall_and_goes_on_by_the_monotonic_clock():
    clock = TwoClocks()
    leases = LeaseClock(clock, clock.now())
    assert leases.now() == START - ALLOWANCE
    clock.wall -= 3_600_000_000
    clock.passed += 1.5
    assert leases.now() == START - ALLOWANCE + 1_500_000


def test_it_starts_no_earlier_than_the_newest_moment_of_a_ledger():
    assert LeaseClock(TwoClocks(), START, START + 7).now() == START + 7


def test_a_jump_that_was_taken_back_before_the_start_ends_no_lease():
    """The broker's clock never falls: it begins at the last arrival, which was an hour ahead."""
    machine = TwoClocks()
    brokers = SteadyClock(machine)
    brokers.not_before(START + 3_600_000_000)
    leases = LeaseClock(brokers, brokers.wall(), START - 500_000)
    assert leases.now() == START - 500_000
    in_a_minute = brokers.now() + 60_000_000
    assert leases.at(in_a_minute) == leases.now() + 60_000_000


@pytest.mark.parametrize("seconds", [0.1, 29.9, 31, 86_399.999999])
def test_a_span_that_has_passed_is_not_a_microsecond_short(seconds: float):
    clock = TwoClocks()
    leases = LeaseClock(clock, clock.now())
    before = leases.now()
    clock.passed = 5.0 + seconds
    assert leases.now() - before == round(seconds * 1e6)


def test_rates_count_the_last_minute_and_totals_everything():
    clock, counters = TwoClocks(), QueueCounters()
    rates = Rates(clock.monotonic, counters)
    assert rates.facts() == RatesFacts(0, 0, 0, 0)
    rates.count(delivered=100, acked=50)
    clock.passed += 10
    rates.count(nacked=20, expired=10)
    assert rates.facts() == RatesFacts(10, 5, 2, 1)
    clock.passed += 50.5
    assert rates.facts() == RatesFacts(0, 0, 20 / 60, 10 / 60)
    clock.passed += 50
    assert rates.facts() == RatesFacts(0, 0, 0, 0)
    assert rates.totals == DeliveryTotals(100, 50, 20, 10)
    assert (counters.leased, counters.acked, counters.nacked, counters.expired) == (100, 50, 20, 10)
