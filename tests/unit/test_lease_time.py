"""The bound of the broker's lease clock, and the credit of a consumer: numbers in, numbers out."""

from __future__ import annotations

from bowstring.client.broker_time import BrokerTime
from bowstring.client.lease_credit import MOST, LeaseCredit
from bowstring.client.lease_time import DRIFT, LeaseTime


class Ticks:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def now(self) -> int:
        return int(self.seconds * 1e6)

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        raise NotImplementedError


def lease_time() -> tuple[LeaseTime, Ticks]:
    clock = Ticks()
    return LeaseTime(BrokerTime(clock)), clock


def test_the_broker_shows_at_most_what_it_told_and_the_time_since_the_request_was_written():
    time, clock = lease_time()
    assert time.latest() == 0
    clock.seconds = 101.0
    time.restart(5_000_000, written=100.0)
    assert 6_000_000 <= time.latest() <= 6_000_000 + 1_000_000 * DRIFT


def test_the_least_bound_counts():
    time, clock = lease_time()
    clock.seconds = 110.0
    time.restart(5_000_000, written=100.0)  # the answer was on its way for up to ten seconds
    time.heard(5_100_000, written=109.9)
    assert time.latest() < 5_300_000
    time.heard(5_100_000, written=101.0)
    assert time.latest() < 5_300_000, "a looser bound changes nothing"


def test_a_bound_grows_while_it_ages_because_clocks_differ():
    time, clock = lease_time()
    time.restart(0, written=100.0)
    clock.seconds = 100.0 + 3600
    assert time.latest() == 3600_000_000 + int(3600 * DRIFT * 1e6)
    time.heard(3600_500_000, written=clock.seconds)
    assert time.latest() == 3600_500_000


def test_another_stream_begins_anew_because_a_broker_may_have_restarted():
    time, _ = lease_time()
    time.restart(5_000_000, written=100.0)
    time.restart(9_000_000, written=100.0)
    assert time.latest() == 9_000_000


def test_a_manual_clock_is_followed_exactly():
    time, _ = lease_time()
    manual = Ticks()
    time.broker_time.follow(manual)
    time.restart(1_000_000, written=manual.seconds)
    assert time.is_followed
    assert time.latest() == 1_000_000
    manual.seconds += 31
    assert time.latest() == 32_000_000


# ---- credit


def test_credit_doubles_when_it_is_worked_off_within_a_second():
    credit = LeaseCredit(None, 1000)
    now, told = 0.0, []
    for _ in range(6):
        told.append(credit.messages)
        credit.came(credit.messages, now)
        now += 0.5
        credit.settled(credit.messages, now)
    assert told == [1, 2, 4, 8, 16, 32]


def test_credit_falls_to_what_is_done_in_a_second():
    credit = LeaseCredit(None, 1000)
    for lap in range(6):
        credit.came(credit.messages, lap / 10)
        credit.settled(credit.messages, lap / 10 + 0.05)
    assert credit.messages == 64
    credit.came(64, 10.0)
    credit.settled(20, 12.0)
    assert credit.look(12.5)
    assert credit.messages == 8
    assert not credit.look(12.6), "the next second has just begun"
    credit.look(20.0)
    assert credit.messages == 1


def test_an_idle_consumer_keeps_its_credit():
    credit = LeaseCredit(None, 1000)
    credit.came(1, 0.0)
    credit.settled(1, 0.1)
    assert not credit.look(1000.0)
    credit.came(1, 1000.0)
    credit.settled(1, 1000.1)
    assert credit.messages == 2, "two at once would be more than it had to do"
    credit.came(2, 2000.0)
    credit.settled(2, 2000.1)
    assert credit.messages == 4


def test_a_short_pause_does_not_begin_the_count_anew():
    credit, now = LeaseCredit(None, 1000), 0.0
    for _ in range(4):
        credit.came(credit.messages, now)
        credit.settled(credit.messages, now)
    assert credit.messages == 16
    for part in (14, 2):  # each comes when the one before is settled
        credit.came(part, now)
        credit.settled(part, now + 0.01)
        now += 0.02
    assert credit.messages == 32
    credit.came(31, now)
    credit.settled(31, now + 0.01)
    credit.came(1, now + 0.2)
    credit.settled(1, now + 0.2)
    assert credit.messages == 32, "this was a long pause"


def test_credit_has_bounds_and_a_fixed_one_stays():
    credit = LeaseCredit(None, 1000)
    for lap in range(40):
        credit.came(credit.messages, float(lap))
        credit.settled(credit.messages, float(lap))
    assert credit.messages == MOST
    fixed = LeaseCredit(7, 1000)
    fixed.came(7, 0.0)
    assert not fixed.settled(7, 0.0)
    assert not fixed.look(100.0)
    assert fixed.messages == 7
    fixed.paused = True
    assert (fixed.messages, fixed.limit) == (0, 7)


def test_credit_is_never_below_the_number_of_those_who_iterate_at_the_same_time():
    credit = LeaseCredit(None, 1000)
    assert credit.asked(4)
    assert credit.messages == 4
    assert not credit.asked(3)
    credit.came(4, 0.0)
    credit.look(60.0)
    assert credit.messages == 4


def test_what_is_given_back_was_not_worked_off():
    credit = LeaseCredit(None, 1000)
    credit.came(1, 0.0)
    credit.gone(1)
    assert (credit.held, credit.messages) == (0, 1)
