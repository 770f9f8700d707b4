"""The checkers of deletes are checked: each is shown good histories, in which it must find nothing, and bad ones."""

from __future__ import annotations

import pytest

from tests.history import checkers, promises_of_deleting
from tests.history.events import CREATE, DELETE, ERASE, FINAL, FIND, OK, PUBLISH, UNKNOWN, Row, Settings, fingerprint, value_of
from tests.history.keeping import Clocks
from tests.history.told_by_hand import ToldByHand

SECOND = 1_000_000


class Story(ToldByHand):
    """A history told by hand: every step takes a second. Messages have the id of their label."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[str, Row] = {}

    def publish(self, *labels: str, group: str = "shop") -> None:
        for label in labels:
            offset = len(self.rows) + 1
            value = fingerprint(value_of(f"<{label}>", 50))
            row = Row(f"<{label}>", label, value=value, natural=True, group=group)
            call = self.history.invoke("p", PUBLISH, "t", [row], producer="p", sequence=offset)
            self.rows[label] = row._replace(partition=0, offset=offset, arrived=int(self.time) * SECOND, natural=False)
            self.history.ended(OK, "p", call, PUBLISH, "t", [self.rows[label]])

    def delete(self, *ids: str, group: str = "shop", error: str = "", offset: int = 0) -> None:
        """Asks and is answered; with an offset as if the message had been there."""
        call = self.ask(*ids, group=group)
        places = [offset or self.rows[name].offset for name in ids if not error]
        rows = [Row("", name, error=error, group=group) for name in ids]
        answers = [row._replace(partition=0, offset=at) for row, at in zip(rows, places, strict=True)] if not error else rows
        self.history.ended(OK, "p", call, ERASE, "t", answers)

    def ask(self, *ids: str, group: str = "shop") -> int:
        return self.history.invoke("p", ERASE, "t", [Row("", name, group=group) for name in ids])

    def read(self, session: str, *labels: str) -> None:
        self.history.opened("r", session, "t", {0: 1})
        self.history.read("r", session, "t", [self.rows[label] for label in labels])

    def find(self, label: str) -> None:
        call = self.history.invoke("p", FIND, "t", [Row("", label)])
        self.history.ended(OK, "p", call, FIND, "t", [self.rows[label]])

    def broken(self, *, steady_clocks: bool = False, clocks: Clocks | None = None) -> set[str]:
        found = checkers.check(self.history.events, steady_clocks=steady_clocks, clocks=clocks)
        return {violation.checker for violation in found}


@pytest.fixture
def story() -> Story:
    return Story()


def test_deleted_messages_may_be_gone_and_only_those(story: Story):
    story.publish("a", "b", "c", "d")
    story.read("r", "a", "b", "c", "d")
    story.delete("b", "d")
    story.delete("d")
    story.read("r2", "a", "c")
    story.read(FINAL, "a", "c")
    assert not story.broken()


def test_a_neighbour_that_goes_with_a_deleted_message_is_found(story: Story):
    story.publish("a", "b", "c")
    story.delete("b")
    story.read(FINAL, "c")
    assert story.broken() == {"acknowledged_is_kept", "nothing_is_passed_over"}


def test_a_delete_whose_outcome_is_unknown_may_have_landed_or_not(story: Story):
    story.publish("a", "b", "c")
    lost = story.ask("a", "b")
    story.history.ended(UNKNOWN, "p", lost, ERASE, "t", error="unavailable")
    story.ask("c")
    story.read(FINAL, "b", "c")
    assert not story.broken()


def test_a_message_that_is_gone_before_anybody_asked_is_found(story: Story):
    story.publish("a", "b")
    story.read("early", "b")
    story.delete("a")
    story.read(FINAL, "b")
    assert story.broken() == {"nothing_is_passed_over"}


def test_a_deleted_message_that_a_later_reader_gets_is_found(story: Story):
    story.publish("a", "b")
    story.delete("a")
    story.read("late", "a", "b")
    story.read(FINAL, "b")
    assert story.broken() == {"deleted_is_read_by_nobody"}


def test_a_deleted_message_that_is_found_by_its_id_is_found(story: Story):
    story.publish("a")
    story.find("a")
    story.delete("a")
    story.read(FINAL)
    assert not story.broken()
    story.find("a")
    assert story.broken() == {"deleted_is_read_by_nobody"}


def test_a_delete_that_names_another_message_is_found(story: Story):
    story.publish("a", "b")
    story.delete("a", offset=2)
    story.read(FINAL)
    assert {"deleted_is_what_was_asked_for", "acknowledged_is_kept"} == story.broken()


def test_another_groups_message_that_is_deleted_is_found(story: Story):
    story.publish("a", group="warehouse")
    story.delete("a", group="shop")
    story.read(FINAL)
    assert story.broken() == {"deleted_is_what_was_asked_for", "acknowledged_is_kept"}


def test_another_groups_message_that_was_refused_must_be_there(story: Story):
    story.publish("a", group="warehouse")
    story.delete("a", group="shop", error="not-authorised")
    story.read(FINAL)
    assert story.broken() == {"acknowledged_is_kept"}


def test_a_delete_that_does_not_know_what_was_acknowledged_is_found(story: Story):
    story.publish("a")
    story.delete("a", error="message-not-found")
    story.read(FINAL, "a")
    assert story.broken(steady_clocks=True) == {"stored_can_be_deleted"}
    assert not story.broken(), "a clock that jumps may have let the message go"


def test_a_delete_that_knows_a_message_or_is_refused_for_another_reason_is_right(story: Story):
    story.publish("a", "b")
    story.delete("a")
    story.delete("b", group="warehouse", error="not-authorised")
    story.read(FINAL, "b")
    assert not story.broken(steady_clocks=True)


def test_a_delete_need_not_know_what_was_not_acknowledged_before_it(story: Story):
    story.delete("a", error="message-not-found")
    story.publish("a")
    story.read(FINAL, "a")
    assert not story.broken(steady_clocks=True)


def test_a_delete_need_not_know_what_another_delete_may_have_taken(story: Story):
    story.publish("a")
    story.ask("a")
    story.delete("a", error="message-not-found")
    story.read(FINAL)
    assert not story.broken(steady_clocks=True)


@pytest.mark.parametrize(("waited", "broken"), [(1.0, {"stored_can_be_deleted"}), (9.0, set())])
def test_a_delete_need_not_know_what_retention_may_have_taken(story: Story, waited: float, broken: set[str]):
    call = story.history.invoke("admin", CREATE, "t", settings=Settings(retention=10.0))
    story.history.ended(OK, "admin", call, CREATE, "t")
    story.publish("a")
    story.time += waited
    story.delete("a", error="message-not-found")
    story.read(FINAL, *(["a"] if broken else []))
    assert story.broken(steady_clocks=True, clocks=Clocks(0, lambda _: 0.0, 0.0)) == broken


def test_a_message_that_comes_back_behind_a_reader_is_found(story: Story):
    story.publish("a", "b")
    story.ask("a")
    story.read("r", "b")
    story.read(FINAL, "a", "b")
    assert story.broken() == {"passed_over_stays_a_hole"}


def test_an_id_that_is_stored_again_after_its_message_was_deleted_is_found(story: Story):
    story.publish("a")
    story.read("r", "a")
    story.delete("a")
    row = Row("<again>", "a", value=fingerprint(value_of("<again>", 50)), natural=True, group="shop")
    call = story.history.invoke("p", PUBLISH, "t", [row], producer="p", sequence=2)
    stored = story.rows["again"] = row._replace(partition=0, offset=2, arrived=int(story.time) * SECOND, natural=False)
    story.history.ended(OK, "p", call, PUBLISH, "t", [stored])
    story.read(FINAL, "again")
    assert story.broken() == {"one_offset_per_id"}


def test_a_message_read_under_another_group_is_found(story: Story):
    story.publish("a")
    story.rows["a"] = story.rows["a"]._replace(group="warehouse")
    story.read(FINAL, "a")
    assert story.broken() == {"nothing_comes_from_nowhere"}


def test_a_delete_of_the_topic_before_says_nothing_of_this_one(story: Story):
    story.publish("a")
    story.delete("a")
    for operation in (DELETE, CREATE):
        call = story.history.invoke("admin", operation, "t")
        story.history.ended(OK, "admin", call, operation, "t")
    story.rows.clear()
    story.publish("a")
    story.read(FINAL)
    assert story.broken() == {"acknowledged_is_kept"}


def test_bytes_of_a_deleted_message_are_found_in_whatever_is_taken_for_a_reader(story: Story):
    story.publish("a", "b")
    story.delete("a")
    taken = [(4.0, "t", frozenset({"<a>", "<b>"})), (story.time + 1, "t", frozenset({"<b>"}))]
    assert not promises_of_deleting.deleted_bytes_are_not_taken(taken, story.history.events)
    taken.append((story.time + 1, "t", frozenset({"<a>", "<b>"})))
    assert len(promises_of_deleting.deleted_bytes_are_not_taken(taken, story.history.events)) == 1
