"""The checkers of what kits hand out are checked: each is shown good histories, in which it must find nothing, and bad ones."""

from __future__ import annotations

from typing import Any

import pytest

from tests.history import checkers
from tests.history.events import ALTER, CREATE, DELETE, ERASE, FINAL, OK, PUBLISH, History, Row, Settings, fingerprint, places, value_of
from tests.history.keeping import Clocks
from tests.history.promises_of_delivery import a_deleted_topic_ends_its_readers

SECOND = 1_000_000
HOLDING = Clocks(0, lambda _: 0.0, 0.0, late=0.5, notice=0.5)
BREAKING = HOLDING._replace(late=3.0, notice=None)
KEPT = Settings(10.0, 0, 10.0, 1)


class Story:
    """A topic that keeps messages for 10 s, told by hand: four messages, the third expires at 6 s. A reader begins at 2 s."""

    def __init__(self) -> None:
        self.time, self.session = 0.0, "s"
        self.history = History(lambda: self.time)
        self.call(0, CREATE, settings=KEPT)
        self.rows: list[Row] = []
        for offset in (1, 2, 3, 4):
            name = f"<m-{offset}>"
            expires = 6 * SECOND if offset == 3 else 0
            row = Row(name, f"id-{offset}", value=fingerprint(value_of(name, 50)), natural=True, group="g", expires=expires)
            self.rows.append(row._replace(partition=0, offset=offset, arrived=SECOND, natural=False))
            self.call(1, PUBLISH, [row], self.rows[-1:], producer="p", sequence=offset)
        self.time = 2
        self.history.opened("r", "s", "t", {0: 1}, reads_ahead=True)
        self.history.came("r", "s", "t", [row for offset in (1, 2, 3, 4) for row in places({0: offset})])

    def call(self, time: float, operation: str, rows: Any = (), answers: Any = (), client: str = "p", **more: Any) -> None:
        self.time = time
        call = self.history.invoke(client, operation, "t", rows, **more)
        self.history.ended(OK, client, call, operation, "t", answers)

    def begin_anew(self, time: float) -> None:
        """The reader that hands out from here on begins at this time."""
        self.time, self.session = time, f"s-{time}"
        self.history.opened("r", self.session, "t", {0: 1}, reads_ahead=True)

    def hand_out(self, time: float, *offsets: int) -> None:
        self.time = time
        self.history.read("r", self.session, "t", [self.rows[offset - 1] for offset in offsets])

    def delete(self, time: float, offset: int, client: str = "p") -> None:
        self.call(time, ERASE, [Row("", f"id-{offset}", group="g")], [Row("", f"id-{offset}", "", "", 0, offset)], client)

    def finish(self, *offsets: int) -> None:
        self.time = 30
        self.history.opened("f", FINAL, "t", {0: 0})
        self.history.read("f", FINAL, "t", [self.rows[offset - 1] for offset in offsets])

    def broken(self, clocks: Clocks) -> set[str]:
        return {violation.checker for violation in checkers.check(self.history.events, clocks=clocks)}


@pytest.fixture
def story() -> Story:
    return Story()


def test_what_is_handed_out_in_time_is_right(story: Story):
    story.hand_out(3, 1, 2, 3)
    story.hand_out(10.9, 4)
    story.finish()
    assert not story.broken(HOLDING)


def test_what_has_expired_is_not_to_be_handed_out(story: Story):
    story.hand_out(3, 1, 2)
    story.hand_out(6.7, 3)
    story.finish()
    assert story.broken(HOLDING) == {"over_is_not_handed_out"}
    assert not story.broken(BREAKING)  # there a kit may know what time it is three seconds late


def test_what_is_too_old_is_not_to_be_handed_out(story: Story):
    story.hand_out(3, 1, 2, 3)
    story.hand_out(11.7, 4)
    story.finish()
    assert story.broken(HOLDING) == {"over_is_not_handed_out"}


def test_another_retention_counts_a_moment_after_it_was_set(story: Story):
    story.call(4, ALTER, settings=KEPT._replace(retention=2.0))
    story.hand_out(4.4, 1)
    story.finish()
    assert not story.broken(HOLDING)
    story.hand_out(6, 2)
    assert story.broken(HOLDING) == {"over_is_not_handed_out"}


def test_a_longer_retention_counts_at_once(story: Story):
    story.call(3, ALTER, settings=KEPT._replace(retention=2.0))
    story.call(8.8, ALTER, settings=KEPT._replace(retention=16.0))
    story.hand_out(9, 1)  # half a second before, the retention was still the short one
    story.finish()
    assert not story.broken(HOLDING)


def test_a_longer_retention_counts_at_once_for_a_reader_that_began_under_the_shorter_one(story: Story):
    story.call(3, ALTER, settings=KEPT._replace(retention=2.0))
    story.begin_anew(5)
    story.call(7, ALTER, settings=KEPT._replace(retention=16.0))
    story.hand_out(8.5, 1)
    story.finish()
    assert not story.broken(BREAKING)


def test_a_longer_retention_does_not_excuse_what_was_handed_out_before(story: Story):
    story.call(3, ALTER, settings=KEPT._replace(retention=2.0))
    story.hand_out(8.7, 1)
    story.call(8.8, ALTER, settings=KEPT._replace(retention=16.0))
    story.finish()
    assert story.broken(HOLDING) == {"over_is_not_handed_out"}


def test_a_longer_retention_does_not_excuse_what_is_older_than_that_too(story: Story):
    story.call(3, ALTER, settings=KEPT._replace(retention=2.0))
    story.call(8.8, ALTER, settings=KEPT._replace(retention=4.0))
    story.hand_out(9, 1)
    story.finish()
    assert story.broken(HOLDING) == {"over_is_not_handed_out"}


def test_a_reader_knows_the_retention_that_was_set_before_it_began(story: Story):
    story.call(8, ALTER, settings=KEPT._replace(retention=2.0))
    story.begin_anew(8.5)
    story.hand_out(9, 1)
    story.finish()
    assert story.broken(BREAKING) == {"over_is_not_handed_out"}  # it may know the time late, but never knew another retention


def test_what_grew_too_old_in_the_kit_may_be_passed_over(story: Story):
    story.rows.append(
        story.rows[3]._replace(label="<m-5>", id="id-5", offset=5, arrived=9 * SECOND, value=fingerprint(value_of("<m-5>", 50)))
    )
    story.call(
        9, PUBLISH, [story.rows[4]._replace(natural=True, partition=-1, offset=0, arrived=0)], story.rows[4:], producer="p", sequence=5
    )
    story.hand_out(12, 5)
    story.finish()
    assert not story.broken(HOLDING)
    story.history.events[:] = [event for event in story.history.events if event.operation != "came"]
    assert story.broken(HOLDING) == {"nothing_is_passed_over"}  # what never came was not the kit's to drop


def test_what_its_own_client_has_deleted_is_not_to_be_handed_out_at_all(story: Story):
    story.delete(3, 2, client="r")
    story.hand_out(3.1, 1, 2)
    story.finish()
    assert story.broken(BREAKING) == {"deleted_is_not_handed_out"}


def test_what_another_client_has_deleted_may_be_handed_out_until_the_kit_knows(story: Story):
    story.delete(3, 2)
    story.hand_out(3.3, 1, 2)
    story.finish()
    assert not story.broken(HOLDING)


def test_what_was_deleted_long_before_is_not_to_be_handed_out_where_connections_hold(story: Story):
    story.delete(3, 2)
    story.hand_out(4, 1, 2)
    story.finish()
    assert story.broken(HOLDING) == {"deleted_is_not_handed_out"}
    assert not story.broken(BREAKING)


def test_what_a_kit_was_told_to_be_deleted_is_not_to_be_handed_out(story: Story):
    story.delete(3, 2)
    story.time = 4
    story.history.noticed("r", "s", "t", places({0: 2}))
    story.hand_out(4.1, 1, 2)
    story.finish()
    assert story.broken(BREAKING) == {"deleted_is_not_handed_out"}


def went_on(story: Story, clocks: Clocks = HOLDING) -> bool:
    return bool(a_deleted_topic_ends_its_readers(story.history.events, clocks))


def test_a_deleted_topic_ends_its_readers(story: Story):
    story.hand_out(3, 1)
    story.call(4, DELETE)
    story.hand_out(4.3, 2)
    assert not went_on(story)
    story.hand_out(5, 4)
    assert went_on(story)
    assert not went_on(story, BREAKING)


def test_a_reader_of_the_topic_that_was_made_again_is_another_one(story: Story):
    story.call(4, DELETE)
    story.call(5, CREATE, settings=KEPT)
    story.history.opened("r", "s2", "t", {0: 0}, reads_ahead=True)
    story.time = 7
    story.history.read("r", "s2", "t", story.rows[:1])
    assert not went_on(story)
