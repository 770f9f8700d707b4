"""The checkers of readers with names, filters and moments are checked: a good history gives nothing, each bad one what it should."""

from __future__ import annotations

from typing import Any

from tests.history import checkers, promises_of_reading
from tests.history.events import COMMIT, CREATE, FAIL, FINAL, FORGET, OK, PUBLISH, SET, UNKNOWN, History, Row, fingerprint, places, value_of

CH = "key = 'k3'"


class Story:
    """A topic of five messages, and a client whose position has the name "me"."""

    def __init__(self) -> None:
        self.time = 0.0
        self.history = History(self._tick)
        call = self.history.invoke("a", CREATE, "t")
        self.history.ended(OK, "a", call, CREATE, "t")
        self.rows = {offset: self._publish(offset) for offset in range(1, 6)}
        self.sessions = 0

    def _tick(self) -> float:
        self.time += 0.001
        return self.time

    def _publish(self, offset: int) -> Row:
        name = f"<m-{offset}>"
        row = Row(name, key=f"k{offset}", value=fingerprint(value_of(name, 50)))
        call = self.history.invoke("p", PUBLISH, "t", [row], producer="p", sequence=offset)
        stored = row._replace(partition=0, offset=offset, id=f"g-{offset}", arrived=1000 * offset)
        self.history.ended(OK, "p", call, PUBLISH, "t", [stored])
        return stored

    def read(self, start: int, *offsets: int, **how: Any) -> str:
        self.sessions += 1
        session = f"s{self.sessions}"
        self.history.opened("r", session, "t", {0: start}, **how)
        self.history.read("r", session, "t", [self.rows[offset] for offset in offsets])
        return session

    def move(self, offset: int, kind: str = OK, *, operation: str = COMMIT, session: str = "", error: str = "") -> None:
        call = self.history.invoke("r", operation, "t", places({0: offset}), producer="me", session=session)
        self.history.ended(kind, "r", call, operation, "t", error=error)

    def forget(self, kind: str = OK, *, error: str = "") -> None:
        call = self.history.invoke("r", FORGET, "t", producer="me")
        self.history.ended(kind, "r", call, FORGET, "t", error=error)

    def broken(self) -> set[str]:
        self.history.opened("r", FINAL, "t", {0: 0})
        self.history.read("r", FINAL, "t", self.rows.values())
        return {violation.checker for violation in checkers.check(self.history.events)}


def test_a_reader_that_goes_on_where_it_committed_is_fine():
    story = Story()
    session = story.read(0, 1, 2, name="me")
    story.move(3, session=session)
    story.move(1, FAIL, error="conflict")
    story.move(4, UNKNOWN)
    story.read(3, 3, name="me")
    story.read(4, 4, name="me")
    story.history.looked("r", "t", "me", {0: 4})
    story.move(2, operation=SET)
    story.read(2, 2, 3, name="me")
    assert not story.broken()


def test_a_position_that_fell_back_is_found():
    story = Story()
    story.move(4)
    story.read(2, 2, name="me")
    assert story.broken() == {"positions_go_only_forward"}


def test_a_position_that_is_gone_is_found():
    story = Story()
    story.move(4)
    story.read(0, 1, name="me")
    assert story.broken() == {"positions_go_only_forward"}


def test_a_position_that_nobody_put_there_is_found():
    story = Story()
    story.move(2)
    story.history.looked("r", "t", "me", {0: 5})
    assert story.broken() == {"positions_go_only_forward"}


def test_a_commit_backwards_that_was_taken_is_found():
    story = Story()
    story.move(4)
    story.move(2)
    assert story.broken() == {"positions_go_only_forward"}


def test_a_conflict_without_a_reason_is_found():
    story = Story()
    story.move(2)
    story.move(3, FAIL, error="conflict")
    assert story.broken() == {"positions_go_only_forward"}


def test_a_position_that_was_deleted_begins_anew():
    story = Story()
    story.move(4)
    story.forget()
    story.read(0, 1, name="me")
    story.forget(FAIL, error="not-found")
    story.move(2)
    assert not story.broken()


def test_a_deleted_position_that_is_still_there_is_found():
    story = Story()
    story.move(4)
    story.forget()
    story.history.looked("r", "t", "me", {0: 4})
    assert story.broken() == {"positions_go_only_forward"}


def test_a_delete_that_does_not_know_its_own_work_is_found():
    story = Story()
    story.move(4)
    story.forget(FAIL, error="not-found")
    assert story.broken() == {"a_delete_knows_its_own_work"}


def test_a_commit_of_what_was_not_handed_out_is_found():
    story = Story()
    story.move(4, session=story.read(1, 1, 2, name=""))
    assert story.broken() == {"committed_was_handed_out"}


def test_a_filter_passes_over_what_does_not_pass_and_nothing_else():
    story = Story()
    story.move(6, session=story.read(1, 3, where=CH))
    assert not story.broken()
    story.read(1, 4, where=CH)
    assert story.broken() == {"only_what_passes_is_read", "nothing_is_passed_over", "passed_over_stays_a_hole"}


def test_a_moment_that_was_missed_is_found():
    for start, fine in ((2, False), (3, True), (4, False)):
        story = Story()
        story.read(start, *range(start, 6), since=2500, asked=story.time)
        assert (story.broken() == set()) is fine


def test_what_came_after_the_question_cannot_be_before_its_answer():
    story = Story()
    story.read(2, *range(2, 6), since=2500, asked=0.0)
    assert not story.broken()


def test_bytes_that_a_filter_keeps_back_are_found():
    story = Story()
    labels = frozenset({"<m-3>"})
    assert not promises_of_reading.filtered_bytes_never_travel([(1.0, "t", CH, labels)], story.history.events)
    found = promises_of_reading.filtered_bytes_never_travel([(1.0, "t", CH, labels | {"<m-4>"})], story.history.events)
    assert [violation.checker for violation in found] == ["filtered_bytes_never_travel"]


def test_others_may_see_a_position_move_forward_and_an_old_answer_late():
    story = Story()
    story.move(3)
    story.history.observed("o", "t", "me", {0: 3}, asked=story.time)
    asked = story.time
    story.move(4)
    story.history.observed("o", "t", "me", {0: 3}, asked=asked)
    story.history.observed("o", "t", "me", {0: 4}, asked=story.time)
    assert not story.broken()


def test_a_position_that_falls_before_the_eyes_of_others_is_found():
    story = Story()
    story.move(2)
    story.history.observed("o", "t", "me", {0: 4}, asked=story.time)
    story.time += 1.0
    story.history.observed("o2", "t", "me", {0: 2}, asked=story.time)
    assert story.broken() == {"nobody_sees_a_position_fall"}


def test_a_committed_position_that_others_do_not_see_is_found():
    story = Story()
    story.move(4)
    story.time += 1.0
    story.history.observed("o", "t", "me", {0: 2}, asked=story.time)
    assert story.broken() == {"nobody_sees_a_position_fall"}


def test_a_position_that_was_set_may_fall():
    story = Story()
    story.move(4)
    story.move(2, operation=SET)
    story.time += 1.0
    story.history.observed("o", "t", "me", {0: 2}, asked=story.time)
    assert not story.broken()
