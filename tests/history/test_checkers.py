"""The checkers are checked: each is shown a good history, in which it must find nothing, and bad ones, each of which it must find."""

from __future__ import annotations

import io

import pytest

from tests.history import checkers
from tests.history.events import (
    CREATE,
    DELETE,
    FAIL,
    FINAL,
    FIND,
    OK,
    PUBLISH,
    UNKNOWN,
    Row,
    fingerprint,
    line,
    merged,
    parsed,
    value_of,
)
from tests.history.told_by_hand import ToldByHand

SECOND = 1_000_000


class Story(ToldByHand):
    """A history told by hand: every step takes a second."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: dict[str, Row] = {}

    def send(self, *labels: str, producer: str = "p", sequence: int = 0, id: str = "", topic: str = "t") -> int:
        rows = [Row(f"<{label}>", id, "k", fingerprint(value_of(f"<{label}>", 50)), natural=bool(id)) for label in labels]
        self.sent |= {row.label: row for row in rows}
        return self.history.invoke(producer, PUBLISH, topic, rows, producer=producer, sequence=sequence or len(self.sent))

    def stored(self, label: str, offset: int, *, partition: int = 0, arrived: int = 0, id: str = "") -> Row:
        sent = self.sent.get(f"<{label}>", Row(f"<{label}>"))
        return sent._replace(partition=partition, offset=offset, id=id or sent.id or f"g-{label}", arrived=(arrived or offset) * SECOND)

    def acked(self, call: int, *rows: Row, topic: str = "t") -> None:
        self.history.ended(OK, "p", call, PUBLISH, topic, rows)

    def failed(self, call: int, error: str, kind: str = FAIL) -> None:
        self.history.ended(kind, "p", call, PUBLISH, "t", error=error)

    def read(self, session: str, *rows: Row, start: int = 1, topic: str = "t") -> None:
        self.history.opened("r", session, topic, {0: start})
        self.history.read("r", session, topic, rows)

    def publish(self, label: str, offset: int, **more: str) -> Row:
        """Sends and acknowledges."""
        call = self.send(label, **more)
        row = self.stored(label, offset)
        self.acked(call, row)
        return row

    def broken(self) -> set[str]:
        return {violation.checker for violation in checkers.check(self.history.events, steady_clocks=True)}


@pytest.fixture
def story() -> Story:
    return Story()


def test_a_good_history_breaks_no_promise(story: Story):
    a, b = story.publish("a", 1), story.publish("b", 2, id="order-2")
    late = story.send("late")
    lost = story.send("lost")
    story.failed(late, "deadline-passed")
    story.failed(lost, "outcome-unknown", UNKNOWN)
    repeat = story.send("b2", id="order-2")
    story.acked(repeat, story.stored("b2", 2)._replace(duplicate=True))
    c = story.stored("c", 4)
    call = story.send("c")
    story.read("r1", a, b, start=1)
    story.acked(call, story.stored("c", 4))
    c = story.stored("c", 4)
    story.read("r2", b, c, start=2)
    story.read(FINAL, a, b, c)
    assert story.broken() == set()


def test_an_acknowledged_message_that_is_gone_is_found(story: Story):
    a = story.publish("a", 1)
    story.publish("b", 2)
    story.read(FINAL, a)
    assert story.broken() == {"acknowledged_is_kept"}


def test_an_acknowledged_message_replaced_by_another_is_found(story: Story):
    story.publish("a", 1)
    story.send("b")
    story.read(FINAL, story.stored("b", 1))
    assert {"acknowledged_is_kept", "one_message_per_offset"} <= story.broken()


def test_a_duplicate_answer_that_names_another_id_is_found(story: Story):
    a = story.publish("a", 1, id="x")
    story.acked(story.send("b", id="y"), story.stored("b", 1, id="y")._replace(duplicate=True))
    story.read(FINAL, a)
    assert story.broken() == {"acknowledged_is_kept"}


def test_a_duplicate_answer_that_names_a_later_message_is_found(story: Story):
    story.acked(story.send("b", id="x"), story.stored("b", 1)._replace(duplicate=True))
    story.publish("a", 1, id="x")
    story.read(FINAL, story.stored("a", 1))
    assert story.broken() == {"duplicates_name_the_first"}


def test_a_message_that_nobody_sent_is_found(story: Story):
    story.read(FINAL, Row("<ghost>", partition=0, offset=1))
    assert story.broken() == {"nothing_comes_from_nowhere"}


@pytest.mark.parametrize("change", [{"value": "50:00000000"}, {"key": "another"}, {"id": "another"}])
def test_a_message_that_was_changed_is_found(story: Story, change: dict[str, str]):
    a = story.publish("a", 1)
    story.read(FINAL, a._replace(**change))
    assert "nothing_comes_from_nowhere" in story.broken()


def test_a_refused_message_that_is_read_before_or_after_is_found(story: Story):
    call = story.send("a")
    story.read("early", story.stored("a", 1))
    story.failed(call, "deadline-passed")
    story.read(FINAL)
    assert {"refused_is_never_read", "read_stays_readable"} == story.broken()
    story.read(FINAL + "-2", story.stored("a", 1))
    assert story.broken() == {"refused_is_never_read"}


def test_two_readers_that_see_different_messages_at_one_offset_are_found(story: Story):
    story.send("a"), story.send("b")
    story.read("r", story.stored("a", 1))
    story.read(FINAL, story.stored("b", 1))
    assert {"one_message_per_offset", "read_stays_readable", "rows_never_change"} == story.broken()


def test_a_message_that_was_read_and_then_vanished_is_found(story: Story):
    story.send("a")
    story.read("r", story.stored("a", 1))
    story.read(FINAL)
    assert story.broken() == {"read_stays_readable"}


def test_a_reader_that_goes_back_is_found(story: Story):
    a, b = story.publish("a", 1), story.publish("b", 2)
    story.read("r", b, a, start=2)
    story.read(FINAL, a, b)
    assert story.broken() == {"readers_go_forward"}


@pytest.mark.parametrize("start", [1, 2])
def test_a_message_that_turns_up_where_a_reader_has_passed_is_found(story: Story, start: int):
    a, b, c = story.publish("a", 1), story.publish("b", 2), story.publish("c", 3)
    story.read("r", *([a, c] if start == 1 else [c]), start=start)
    story.read(FINAL, a, b, c)
    assert story.broken() == {"passed_over_stays_a_hole", "nothing_is_passed_over"}


def test_a_hole_that_nothing_explains_is_found(story: Story):
    a = story.publish("a", 1)
    c = story.publish("c", 3)
    story.read(FINAL, a, c)
    assert story.broken() == {"holes_are_explained"}


def test_a_log_that_does_not_begin_at_1_is_found(story: Story):
    story.read(FINAL, story.publish("a", 2), start=2)
    assert story.broken() == {"holes_are_explained"}


def test_a_call_that_is_stored_twice_is_found(story: Story):
    a = story.publish("a", 1)
    story.read(FINAL, a, a._replace(offset=2, id="other", arrived=2 * SECOND))
    assert {"stored_once", "nothing_comes_from_nowhere"} == story.broken()


def test_an_id_that_is_stored_twice_within_the_window_is_found(story: Story):
    a, b = story.publish("a", 1, id="x"), story.publish("b", 2, id="x")
    story.read(FINAL, a, b)
    assert story.broken() == {"one_offset_per_id"}


def test_an_id_may_be_stored_again_after_the_window(story: Story):
    a, b = story.publish("a", 1, id="x"), story.publish("b", 2, id="x")
    story.read(FINAL, a, b._replace(arrived=a.arrived + 601 * SECOND))
    assert story.broken() == set()


def test_messages_of_one_producer_out_of_order_are_found(story: Story):
    first, second = story.send("a", sequence=1), story.send("b", "c", sequence=2)
    b, c, a = story.stored("b", 1), story.stored("c", 2), story.stored("a", 3)
    story.acked(second, b, c)
    story.acked(first, a)
    story.read(FINAL, b, c, a)
    assert story.broken() == {"order_of_each_producer"}


def test_rows_of_one_batch_out_of_order_are_found(story: Story):
    call = story.send("a", "b")
    a, b = story.stored("a", 2), story.stored("b", 1)
    story.acked(call, a, b)
    story.read(FINAL, b, a)
    assert story.broken() == {"order_of_each_producer"}


def test_an_arrival_that_falls_is_found(story: Story):
    a, b = story.publish("a", 1), story.publish("b", 2)
    story.read(FINAL, a, b._replace(arrived=0))
    assert story.broken() == {"arrival_never_falls"}


def test_a_find_that_names_a_wrong_place_is_found(story: Story):
    a = story.publish("a", 1, id="x")
    call = story.history.invoke("p", FIND, "t", [Row("", "x")])
    story.history.ended(OK, "p", call, FIND, "t", [Row("", "x", partition=0, offset=2)])
    story.read(FINAL, a)
    assert story.broken() == {"found_is_there"}


def test_a_find_that_misses_what_was_acknowledged_is_found(story: Story):
    a = story.publish("a", 1, id="x")
    story.history.ended(OK, "p", story.history.invoke("p", FIND, "t", [Row("", "x")]), FIND, "t")
    story.read(FINAL, a)
    assert story.broken() == {"stored_is_found"}


def test_a_refusal_without_a_reason_is_found(story: Story):
    story.failed(story.send("a"), "topic-not-found")
    story.read(FINAL)
    assert story.broken() == {"refusals_make_sense"}


def test_a_refusal_by_something_before_the_broker_is_fine_where_it_is_foreseen(story: Story):
    story.failed(story.send("a"), "login-required")
    story.read(FINAL)
    assert story.broken() == {"refusals_make_sense"}
    assert not checkers.check(story.history.events, foreseen=frozenset({"login-required"}))


def test_a_message_that_was_refused_before_the_broker_and_is_there_is_found(story: Story):
    row = story.publish("a", 1)
    story.failed(story.send("b"), "login-required")
    story.read(FINAL, row, row._replace(label="<b>", offset=2))
    found = checkers.check(story.history.events, foreseen=frozenset({"login-required"}))
    assert "refused_is_never_read" in {violation.checker for violation in found}


def test_silence_about_a_message_that_is_not_there_is_found(story: Story):
    a = story.publish("a", 1)
    story.send("b")
    story.history.silent("p", "t", [story.sent["<b>"]])
    story.read(FINAL, a)
    assert story.broken() == {"silence_means_stored"}


def test_silence_about_a_message_that_is_there_or_was_a_duplicate_is_fine(story: Story):
    a = story.publish("a", 1, id="x")
    story.send("b"), story.send("a2", id="x")
    story.history.silent("p", "t", [story.sent["<b>"], story.sent["<a2>"]])
    story.read(FINAL, a, story.stored("b", 2))
    assert story.broken() == set()


def test_a_duplicate_whose_id_was_made_up_by_the_kit_is_found(story: Story):
    a = story.stored("a", 1)
    story.acked(story.send("a"), a._replace(duplicate=True))
    story.read(FINAL, story.stored("a", 1, id=a.id))
    assert story.broken() == {"only_given_ids_are_duplicates"}


def test_a_topic_that_nobody_read_at_the_end_is_found(story: Story):
    story.publish("a", 1)
    assert story.broken() == {"the final read"}


def _made_anew(story: Story) -> None:
    for operation in (CREATE, DELETE, CREATE):
        story.history.ended(OK, "admin", story.history.invoke("admin", operation, "t"), operation, "t")


def test_a_topic_made_anew_begins_anew(story: Story):
    old = story.publish("old", 1)
    story.read("r", old)
    under_way = story.send("under-way")
    _made_anew(story)
    story.failed(under_way, "topic-not-found")
    new = story.publish("new", 1)
    story.read(FINAL, new)
    assert story.broken() == set()


def test_a_message_of_the_deleted_topic_in_the_new_one_is_found(story: Story):
    old = story.publish("old", 1)
    _made_anew(story)
    story.read(FINAL, old)
    assert story.broken() == {"nothing_comes_from_nowhere"}


def test_an_acknowledged_message_of_the_new_topic_that_is_gone_is_found(story: Story):
    _made_anew(story)
    story.publish("new", 1)
    story.read(FINAL)
    assert story.broken() == {"acknowledged_is_kept"}


def test_state_that_differs_after_loading_is_found():
    assert not checkers.live_equals_loaded("t/0", {"next_offset": 5}, {"next_offset": 5})
    assert checkers.live_equals_loaded("t/0", {"next_offset": 5, "arrived": 7}, {"next_offset": 5, "arrived": 6})


def test_a_budget_that_is_exceeded_is_found():
    assert not checkers.memory_stays_bounded([("tail", 10, 10)])
    assert checkers.memory_stays_bounded([("tail", 10, 10), ("publishes", 11, 10)])


def test_what_is_held_and_serves_nobody_is_found():
    assert not checkers.everything_comes_back([("bytes of credit", 0)], [("segments in which nothing lives", 0)])
    broken = checkers.everything_comes_back([("bytes of credit", 376)], [("segments in which nothing lives", 0)])
    assert [violation.case for violation in broken] == ["376 bytes of credit are held, and serve nobody"]


def test_a_run_that_differs_the_second_time_is_found():
    assert not checkers.same_digest(7, ["a", "a"])
    assert checkers.same_digest(7, ["a", "b"])


def test_bytes_of_a_refused_message_in_an_answer_are_found(story: Story):
    call = story.send("a")
    story.publish("b", 2)
    story.failed(call, "deadline-passed")
    assert not checkers.refused_bytes_never_travel([(9.0, frozenset({"<b>"}))], story.history.events)
    assert checkers.refused_bytes_never_travel([(9.0, frozenset({"<a>", "<b>"}))], story.history.events)


def test_a_history_survives_the_way_through_a_file(story: Story):
    story.publish("a", 1, id="x")
    story.read("r", story.stored("a", 1))
    text = io.StringIO("".join(line(event) + "\n" for event in story.history.events) + '["invoke","torn')
    assert list(parsed(text)) == story.history.events
    assert merged(story.history.events[1:], story.history.events[:1]) == story.history.events
