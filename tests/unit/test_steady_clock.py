"""The broker's clock, on a wall clock that jumps."""

from __future__ import annotations

from bowstring.broker.steady_clock import SteadyClock

SECOND = 1_000_000


class Wall:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.wall, self.tick = 1000 * SECOND, 5.0

    def now(self) -> int:
        return self.wall

    def monotonic(self) -> float:
        return self.tick

    async def sleep(self, seconds: float) -> None:
        self.tick += seconds


def test_it_follows_the_wall_clock_ahead() -> None:
    wall = Wall()
    clock = SteadyClock(wall)
    assert clock.now() == 1000 * SECOND
    wall.wall += 700 * SECOND
    assert clock.now() == 1700 * SECOND


def test_it_never_falls_and_goes_on_at_half_speed_until_the_wall_clock_has_caught_up() -> None:
    wall = Wall()
    clock = SteadyClock(wall)
    assert clock.now() == 1000 * SECOND
    wall.wall -= 10 * SECOND
    assert clock.now() == 1000 * SECOND
    wall.wall, wall.tick = wall.wall + 10 * SECOND, wall.tick + 10
    assert clock.now() == 1005 * SECOND
    wall.wall, wall.tick = wall.wall + 10 * SECOND, wall.tick + 10
    assert clock.now() == 1010 * SECOND
    wall.wall, wall.tick = wall.wall + 10 * SECOND, wall.tick + 10
    assert clock.now() == 1020 * SECOND


def test_it_begins_no_earlier_than_what_was_written_down() -> None:
    clock = SteadyClock(Wall())
    clock.not_before(5000 * SECOND)
    assert clock.now() == 5000 * SECOND
