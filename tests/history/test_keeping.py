"""The checkers of what is kept are checked: each is shown a good history, in which it must find nothing, and bad ones."""

from __future__ import annotations

from typing import Any

import pytest

from tests.history import checkers
from tests.history.events import CREATE, ERASE, FINAL, FIND, OK, PUBLISH, History, Row, Settings, fingerprint, value_of
from tests.history.keeping import Clocks

SECOND = 1_000_000
EXACT = Clocks(0, lambda _: 0.0, 0.0)
UNDISTURBED = EXACT._replace(notice=1.0)
"""Clocks of a run in which nothing fails."""


class Story:
    """A topic that keeps messages for 10 s, told by hand."""

    def __init__(self, settings: Settings) -> None:
        self.time = 0.0
        self.history = History(lambda: self.time)
        self.rows: dict[int, Row] = {}
        call = self.history.invoke("a", CREATE, "t", settings=settings)
        self.history.ended(OK, "a", call, CREATE, "t")

    def publish(self, time: float, offset: int, **more: Any) -> None:
        self.time = time
        name = f"<m-{offset}>"
        row = Row(name, value=fingerprint(value_of(name, 50)), **more)
        call = self.history.invoke("p", PUBLISH, "t", [row], producer="p", sequence=offset)
        self.rows[offset] = row._replace(partition=0, offset=offset, id=row.id or f"g-{offset}", arrived=int(time * SECOND))
        self.history.ended(OK, "p", call, PUBLISH, "t", [self.rows[offset]])

    def read(self, time: float, session: str, *offsets: int, start: int = 0) -> None:
        self.time = time
        self.history.opened("r", session, "t", {0: start})
        self.history.read("r", session, "t", [self.rows[offset] for offset in offsets])

    def find(self, time: float, id: str, offset: int) -> None:
        """`find` gives that offset, or nothing for 0. It is asked at that time and takes a tenth of a second."""
        self.time = time
        call = self.history.invoke("c", FIND, "t", [Row("", id)])
        self.time = time + 0.1
        self.history.ended(OK, "c", call, FIND, "t", [self.rows[offset]] if offset else [])

    def broken(self, clocks: Clocks | None = EXACT) -> set[str]:
        return {violation.checker for violation in checkers.check(self.history.events, clocks=clocks)}


@pytest.fixture
def story() -> Story:
    return Story(Settings(10.0, 0, 10.0, 1))


def test_what_is_too_old_may_be_gone(story: Story):
    story.publish(1, 1)
    story.publish(8, 2)
    story.read(12, FINAL, 2)
    assert not story.broken()


def test_what_is_young_enough_must_be_there(story: Story):
    story.publish(1, 1)
    story.publish(8, 2)
    story.read(10.5, FINAL, 2)
    assert story.broken() == {"acknowledged_is_kept", "nothing_is_passed_over"}


def test_a_clock_that_is_ahead_may_take_it_early_by_as_much(story: Story):
    story.publish(1, 1)
    story.read(10.5, FINAL)
    assert not story.broken(EXACT._replace(ahead=lambda _: 1.0))
    assert story.broken(EXACT._replace(ahead=lambda _: 0.2)) == {"acknowledged_is_kept"}


def test_without_a_word_about_clocks_nothing_may_be_gone(story: Story):
    story.publish(1, 1)
    story.read(100, FINAL)
    assert story.broken(None) == {"acknowledged_is_kept"}


def test_age_counts_from_the_due_time(story: Story):
    story.publish(1, 1, due=20 * SECOND)
    story.read(25, FINAL)
    assert story.broken() == {"acknowledged_is_kept"}


def test_what_has_expired_may_be_gone(story: Story):
    story.publish(1, 1, expires=3 * SECOND)
    story.read(4, FINAL)
    assert not story.broken()


def test_what_has_not_expired_must_be_there(story: Story):
    story.publish(1, 1, expires=30 * SECOND)
    story.read(4, FINAL)
    assert story.broken() == {"acknowledged_is_kept"}


def test_a_reader_that_is_overtaken_without_a_word_is_found(story: Story):
    for offset in (1, 2, 3):
        story.publish(offset, offset)
    story.read(4, "r", 1, start=1)
    story.time = 13.5
    story.history.read("r", "r", "t", [story.rows[3]])
    story.read(14, FINAL)
    assert story.broken() == {"nothing_is_passed_over"}


def test_a_reader_from_the_beginning_begins_with_what_is_there(story: Story):
    for offset in (1, 2, 3):
        story.publish(offset, offset)
    story.read(12.5, "r", 3)
    story.read(14, FINAL)
    assert not story.broken()


def test_a_reader_that_is_told_so_although_nothing_is_gone_is_found(story: Story):
    story.publish(1, 1)
    story.read(2, "r", start=1)
    story.history.overtaken("r", "r", "t", "out-of-range")
    story.read(3, FINAL, 1)
    assert story.broken() == {"overtaken_only_by_retention"}


def test_a_reader_from_the_beginning_is_never_told_so(story: Story):
    story.publish(1, 1)
    story.read(13, "r")
    story.history.overtaken("r", "r", "t", "out-of-range")
    story.read(14, FINAL)
    assert story.broken() == {"overtaken_only_by_retention"}


def test_a_row_with_another_arrival_is_found(story: Story):
    story.publish(1, 1)
    story.read(2, "r", 1)
    story.rows[1] = story.rows[1]._replace(arrived=5)
    story.read(3, FINAL, 1)
    assert story.broken() == {"rows_never_change"}


def test_an_id_that_is_stored_twice_within_the_window_is_found(story: Story):
    story.publish(1, 1, id="x", natural=True)
    story.publish(5, 2, id="x", natural=True)
    story.read(6, FINAL, 1, 2)
    assert story.broken() == {"one_offset_per_id"}


def test_an_id_may_be_stored_again_after_the_window():
    story = Story(Settings(100.0, 0, 3.0, 1))
    story.publish(1, 1, id="x", natural=True)
    story.publish(5, 2, id="x", natural=True)
    story.read(6, FINAL, 1, 2)
    assert not story.broken()


@pytest.fixture
def stored_twice() -> Story:
    """The id x is stored again after its window."""
    story = Story(Settings(100.0, 0, 3.0, 1))
    story.publish(1, 1, id="x", natural=True)
    story.publish(5, 2, id="x", natural=True)
    return story


def test_a_find_that_gives_the_newest_message_of_an_id_is_right(stored_twice: Story):
    stored_twice.find(6, "x", 2)
    stored_twice.read(7, FINAL, 1, 2)
    assert not stored_twice.broken()


def test_a_find_that_gives_an_older_message_than_the_newest_is_found(stored_twice: Story):
    stored_twice.find(6, "x", 1)
    stored_twice.read(7, FINAL, 1, 2)
    assert stored_twice.broken() == {"newest_is_found"}


def test_a_find_that_was_asked_before_the_newest_was_acknowledged_may_give_the_older_one():
    story = Story(Settings(100.0, 0, 3.0, 1))
    story.publish(1, 1, id="x", natural=True)
    story.find(4.95, "x", 1)
    story.publish(5, 2, id="x", natural=True)
    story.read(7, FINAL, 1, 2)
    assert not story.broken()


def test_a_find_may_give_the_older_message_when_the_newest_has_expired():
    story = Story(Settings(100.0, 0, 3.0, 1))
    story.publish(1, 1, id="x", natural=True)
    story.publish(5, 2, id="x", natural=True, expires=6 * SECOND)
    story.read(5.5, "r", 1, 2)
    story.find(6.5, "x", 1)
    story.read(7, FINAL, 1)
    assert not story.broken()


def test_a_find_may_give_the_older_message_once_a_delete_of_the_newest_was_asked_for(stored_twice: Story):
    stored_twice.read(5.5, "r", 1, 2)
    stored_twice.history.invoke("p", ERASE, "t", [Row("", "x")])
    stored_twice.find(6.5, "x", 1)
    stored_twice.read(7, FINAL, 1)
    assert not stored_twice.broken()


def test_a_find_that_gives_a_message_long_after_retention_took_it_is_found(story: Story):
    story.publish(1, 1, id="x", natural=True)
    story.read(2, "r", 1)
    story.find(23.5, "x", 1)
    story.read(24, FINAL)
    assert story.broken(UNDISTURBED) == {"found_is_not_over"}


def test_a_find_may_give_a_message_until_retention_has_come_to_it(story: Story):
    story.publish(1, 1, id="x", natural=True)
    story.read(2, "r", 1)
    story.find(22.5, "x", 1)
    story.read(24, FINAL)
    assert not story.broken(UNDISTURBED)


def test_a_find_may_give_a_message_late_if_something_failed_or_the_clock_was_behind(story: Story):
    story.publish(1, 1, id="x", natural=True)
    story.read(2, "r", 1)
    story.find(23.5, "x", 1)
    story.read(24, FINAL)
    assert not story.broken(EXACT)
    assert not story.broken(UNDISTURBED._replace(behind=1.0))


def test_a_find_of_a_message_whose_due_time_keeps_it_is_right_until_that_is_over(story: Story):
    story.publish(1, 1, id="x", natural=True, due=20 * SECOND)
    story.read(2, "r", 1)
    story.find(40, "x", 1)
    story.read(41, FINAL)
    assert not story.broken(UNDISTURBED)
    story.find(42.5, "x", 1)
    assert story.broken(UNDISTURBED) == {"found_is_not_over"}


def test_what_is_delivered_too_late_is_found(story: Story):
    story.publish(1, 1, expires=3 * SECOND)
    story.publish(1, 2)
    story.read(2, FINAL, 1, 2)
    events = story.history.events
    taken = [(2.9, "t", frozenset({"<m-1>", "<m-2>"}))]
    assert not checkers.expired_is_not_delivered(taken, events, EXACT)
    assert len(checkers.expired_is_not_delivered([(3.1, "t", frozenset({"<m-1>"}))], events, EXACT)) == 1
    assert len(checkers.expired_is_not_delivered([(11.1, "t", frozenset({"<m-2>"}))], events, EXACT)) == 1
    assert not checkers.expired_is_not_delivered([(3.1, "t", frozenset({"<m-1>"}))], events, EXACT._replace(behind=0.5))


def test_a_limit_of_bytes_takes_the_oldest_only():
    limited = Story(Settings(1_000.0, 400_000, 10.0, 1))
    for offset in range(1, 400):
        limited.publish(float(offset), offset)
    limited.read(400, FINAL, *range(150, 400))
    assert not limited.broken()
    limited = Story(Settings(1_000.0, 4_000_000, 10.0, 1))
    limited.publish(1, 1)
    limited.publish(2, 2)
    limited.read(3, FINAL, 2)
    assert limited.broken() == {"acknowledged_is_kept", "nothing_is_passed_over"}
