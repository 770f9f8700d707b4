"""The checkers of leases, settlements and retry counts are checked: each is shown good histories, in
which it must find nothing, and bad ones.
"""

from __future__ import annotations

import json

import pytest

from tests.history.events import line, parsed
from tests.history.keeping import Clocks
from tests.history.lease_events import ACK, LATEST, NACK, REJECT, RELEASE
from tests.history.lease_time import LeaseClocks
from tests.history.queue_story import QueueStory

TRUE = Clocks(0, lambda _: 0.0, 0.0)


@pytest.fixture
def story() -> QueueStory:
    told = QueueStory()
    told.open(2)
    return told


def test_a_queue_that_works_breaks_nothing(story: QueueStory):
    story.take(3, 1, 1, 2)
    story.settle(4, 1, ACK, 1, 1)
    story.settle(4, 2, NACK, 1, 2)
    story.open(4, "bob")
    story.take(4.1, 2, 2, name="bob", retries=1)
    story.settle(5, 1, ACK, 2, 2, name="bob")
    story.take(6, 3, 3, 4)
    story.finish(40, (3, 4), retries=1)
    assert story.cases() == []


def test_a_history_of_a_queue_survives_its_file(story: QueueStory):
    story.take(3, 1, 1, 2)
    story.settle(4, 1, ACK, 1, 1)
    lines = [line(event) for event in story.history.events]
    assert list(parsed(lines)) == story.history.events
    assert all(json.loads(text) for text in lines)


# ---- one lease at a time


def test_a_row_does_not_come_to_another_before_its_lease_has_ended(story: QueueStory):
    story.take(3, 1, 1)
    story.open(4, "bob")
    story.push(12.9, 2, 1, name="bob", retries=1)
    assert story.broken() == {"one_lease_at_a_time"}


def test_a_row_comes_to_another_when_its_lease_has_ended(story: QueueStory):
    story.take(3, 1, 1)
    story.open(4, "bob")
    story.push(13.1, 2, 1, name="bob", retries=1)
    assert not story.broken()


def test_an_extended_lease_ends_later(story: QueueStory):
    story.take(3, 1, 1)
    story.ask(12, 1, "", 1, 1)
    story.answer(12.1, 1, until=22)
    story.open(14, "bob")
    story.push(14, 2, 1, name="bob", retries=1)
    assert story.broken() == {"one_lease_at_a_time"}


def test_what_an_operator_takes_away_comes_to_another_at_once(story: QueueStory):
    story.take(3, 1, 1)
    story.open(4, "bob")
    story.take_away(5, "ada")
    story.push(5.1, 2, 1, name="bob")
    assert not story.broken()
    story.push(5.2, 3, 2, name="bob")
    story.push(5.3, 4, 2, retries=1)
    assert story.broken() == {"one_lease_at_a_time"}


def test_an_ack_without_an_answer_does_not_end_a_lease(story: QueueStory):
    story.take(3, 1, 1)
    story.ask(4, 1, ACK, 1, 1)
    story.open(4, "bob")
    story.push(5, 2, 1, name="bob", retries=1)
    assert story.broken() == {"one_lease_at_a_time"}


def test_a_grant_is_not_used_again(story: QueueStory):
    story.push(3, 1, 1)
    story.open(4, "bob")
    story.push(15, 1, 2, name="bob")
    assert story.broken() == {"a_grant_is_used_once"}


def test_numbers_of_grants_rise_with_time(story: QueueStory):
    story.push(3, 5, 1)
    story.push(4, 4, 2)
    assert story.broken() == {"a_grant_is_used_once"}


def test_a_lease_is_pushed_again_on_another_stream_only(story: QueueStory):
    story.push(3, 1, 1)
    story.open(4)
    story.push(5, 1, 1, until=13, again=True)
    assert not story.broken()
    story.push(6, 1, 1, until=13, again=True)
    assert story.broken() == {"a_grant_is_used_once"}


# ---- settlements


def test_a_late_ack_is_to_be_refused(story: QueueStory):
    story.take(3, 1, 1, 2)
    story.ask(13.5, 1, ACK, 1, 1)
    story.answer(13.6, 1, (1, 1))
    assert not story.broken()
    story.settle(14, 2, ACK, 1, 2)
    assert story.broken() == {"a_late_settlement_is_refused"}


def test_a_late_extension_is_to_be_refused(story: QueueStory):
    story.take(3, 1, 1)
    story.ask(13.5, 1, "", 1, 1)
    story.answer(13.6, 1, until=23)
    assert story.broken() == {"a_late_settlement_is_refused"}


def test_a_repeat_of_an_ack_may_be_late(story: QueueStory):
    story.take(3, 1, 1)
    story.ask(4, 1, ACK, 1, 1)
    story.open(14)
    story.ask(14, 1, ACK, 1, 1)
    story.answer(14.1, 1)
    assert "a_late_settlement_is_refused" not in story.broken()


def test_an_ack_in_time_is_not_to_be_refused(story: QueueStory):
    story.take(3, 1, 1)
    story.ask(4, 1, ACK, 1, 1)
    story.answer(4.1, 1, (1, 1))
    assert story.broken() == {"a_held_row_is_not_refused"}


def test_a_row_that_was_settled_before_is_refused(story: QueueStory):
    story.take(3, 1, 1)
    story.settle(4, 1, NACK, 1, 1)
    story.ask(5, 2, ACK, 1, 1)
    story.answer(5.1, 2, (1, 1))
    assert not story.broken()


def test_what_was_acked_does_not_come_again(story: QueueStory):
    story.take(3, 1, 1)
    story.settle(4, 1, ACK, 1, 1)
    story.open(20, "bob")
    story.push(20, 2, 1, name="bob", retries=1)
    assert story.broken() == {"acked_never_comes_again"}


def test_the_lease_of_what_was_acked_is_not_pushed_again(story: QueueStory):
    story.push(3, 1, 1)
    story.hand(3, 1)
    story.settle(4, 1, ACK, 1, 1)
    story.open(5)
    story.push(6, 1, 1, until=13, again=True)
    assert story.broken() == {"acked_never_comes_again"}


def test_a_repeat_gets_the_answer_of_the_first_time(story: QueueStory):
    story.take(3, 1, 1, 2)
    story.ask(4, 1, NACK, 1, 1, 2)
    story.answer(4.1, 1)
    story.answer(5, 1, (1, 2))
    assert story.broken() == {"a_repeat_gets_the_same_answer"}


def test_only_what_was_asked_for_is_refused(story: QueueStory):
    story.take(3, 1, 1, 2)
    story.ask(4, 1, NACK, 1, 1)
    story.answer(4.1, 1, (1, 2))
    assert story.broken() == {"answers_are_about_what_was_asked"}


def test_an_application_is_told_the_truth(story: QueueStory):
    story.take(3, 1, 1, 2, 3)
    story.settle(4, 1, ACK, 1, 1)
    story.decide(4.1, ACK, 1, 1)
    story.ask(13.5, 2, ACK, 1, 2)
    story.answer(13.6, 2, (1, 2))
    story.decide(13.7, ACK, 1, 2, told="lease-lost")
    assert not story.broken()
    story.decide(14, ACK, 1, 3)
    assert story.broken() == {"an_application_is_told_what_came"}


def test_what_was_acked_is_not_told_to_be_lost(story: QueueStory):
    story.take(3, 1, 1)
    story.settle(4, 1, ACK, 1, 1)
    story.decide(4, ACK, 1, 1, told="lease-lost")
    assert story.broken() == {"an_application_is_told_what_came"}


@pytest.mark.parametrize(("nacked", "lost", "broken"), [(1, 2, set[str]()), (2, 1, {"an_application_is_told_what_came"})])
def test_what_a_kit_nacks_by_itself_takes_the_later_rows_of_its_key_along(nacked: int, lost: int, broken: set[str]):
    """Its consumer closes, and has not said so yet."""
    story = QueueStory(key="k")
    story.open(2)
    story.take(3, 1, 1, 2)
    story.ask(4, 1, NACK, 1, nacked)
    story.decide(5, ACK, 1, lost, told="lease-lost")
    assert story.broken() == broken


# ---- retry counts


@pytest.mark.parametrize(("outcome", "right"), [(NACK, 1), (REJECT, 1), (RELEASE, 0)])
@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_count_rises_by_one_for_what_was_seen(story: QueueStory, outcome: str, right: int, count: int):
    story.push(3, 1, 1)
    if outcome != RELEASE:
        story.hand(3, 1)
    story.settle(4, 1, outcome, 1, 1)
    story.push(4.5, 2, 1, retries=count)
    assert story.broken() == (set() if count == right else {"counts_rise_by_one"})


def test_a_delivery_that_nobody_saw_may_have_counted(story: QueueStory):
    story.take(3, 1, 1)
    story.settle(4, 1, NACK, 1, 1)
    story.push(5.5, 2, 1, retries=2)
    assert not story.broken()
    story.settle(6, 2, RELEASE, 2, 1)
    story.push(6.5, 3, 1, retries=3)
    assert story.broken() == {"counts_rise_by_one"}


def test_a_delivery_that_nobody_saw_may_have_counted_when_the_clock_of_leases_began_further_behind(story: QueueStory):
    """By that clock it may have lasted a second, though the message was sent less than a second before."""
    fallen = LeaseClocks(0, lambda time: 0.0 if time < 1.5 else -1.0, lambda _: 0.0)
    story.push(1.9, 1, 1, retries=1)
    assert "counts_rise_by_one" not in story.broken(leases=fallen)
    assert "counts_rise_by_one" in story.broken()


def test_an_expired_lease_counts(story: QueueStory):
    story.take(3, 1, 1)
    story.push(13.5, 2, 1, retries=0)
    assert story.broken() == {"counts_rise_by_one"}


def test_a_release_without_an_answer_may_have_expired(story: QueueStory):
    story.push(3, 1, 1)
    story.ask(4, 1, RELEASE, 1, 1)
    story.push(13.5, 2, 1, retries=1)
    assert not story.broken()


def test_the_first_delivery_has_no_count(story: QueueStory):
    story.push(1.5, 1, 1, retries=1)
    assert story.broken() >= {"counts_rise_by_one"}


def test_a_count_stays_while_a_lease_is_pushed_again(story: QueueStory):
    story.push(3, 1, 1)
    story.open(4)
    story.push(5, 1, 1, until=13, again=True, retries=1)
    assert story.broken() == {"a_count_stays_within_a_lease"}


# ---- deletes


def test_a_delete_under_a_lease_is_to_be_refused(story: QueueStory):
    story.take(3, 1, 1, 2)
    story.delete(4, 1, error="leased")
    assert not story.broken()
    story.delete(5, 2)
    assert story.broken() == {"a_delete_under_a_lease_is_refused"}


def test_a_row_may_be_deleted_when_its_lease_is_over(story: QueueStory):
    story.take(3, 1, 1, 2)
    story.settle(4, 1, NACK, 1, 1)
    story.delete(5, 1)
    story.delete(14, 2)
    assert not story.broken()


def test_a_deleted_row_is_not_to_be_delivered(story: QueueStory):
    story.delete(2.5, 1)
    story.push(4, 1, 1)
    assert story.broken() == {"a_deleted_row_is_not_delivered"}


# ---- what is over


def read_at_once(story: QueueStory) -> None:
    """A reader has read everything, so it is known when the rows arrived."""
    story.history.opened("r", "r", "t", {0: 1})
    story.history.read("r", "r", "t", list(story.rows.values()))


def test_what_is_too_old_is_not_to_be_pushed(story: QueueStory):
    read_at_once(story)
    story.alter(3, retention=4)
    story.push(5.9, 1, 1)
    assert "what_is_over_is_not_pushed" not in story.broken(TRUE)
    story.push(6.1, 2, 2)
    assert "what_is_over_is_not_pushed" in story.broken(TRUE)


def test_a_longer_retention_counts_at_once(story: QueueStory):
    read_at_once(story)
    story.alter(3, retention=4)
    story.alter(6.6, retention=16)
    story.push(7.1, 1, 1)
    assert "what_is_over_is_not_pushed" not in story.broken(TRUE)


def test_a_longer_retention_does_not_excuse_what_was_pushed_before(story: QueueStory):
    read_at_once(story)
    story.alter(3, retention=4)
    story.push(6.5, 1, 1)
    story.alter(6.6, retention=16)
    assert "what_is_over_is_not_pushed" in story.broken(TRUE)


# ---- where it begins, and what is left


def test_nothing_is_forgotten(story: QueueStory):
    story.take(3, 1, 1, 2)
    story.settle(4, 1, ACK, 1, 1)
    story.ask(4, 2, ACK, 1, 2)  # never answered: it may have been carried out
    story.finish(40, (3, 4), retries=0)
    assert story.cases() == []


def test_a_row_that_nobody_acked_is_to_come_again(story: QueueStory):
    story.take(3, 1, 1, 2)
    story.settle(4, 1, ACK, 1, 1)
    story.ask(13.5, 2, ACK, 1, 2)
    story.answer(13.6, 2, (1, 2))
    story.finish(40, (3, 4))
    assert story.broken() == {"nothing_is_forgotten"}


def test_a_row_that_never_came_is_forgotten(story: QueueStory):
    story.finish(40, (1, 2, 4))
    assert story.broken() == {"nothing_is_forgotten"}


def test_the_latest_gets_nothing_from_before():
    story = QueueStory(LATEST, made=2)
    story.publish(3, 5)
    story.open(4)
    story.finish(40, (5,))
    assert story.cases() == []


def test_the_latest_gets_everything_from_then_on():
    story = QueueStory(LATEST, made=2)
    story.publish(3, 5)
    story.publish(3, 6)
    story.finish(40, (4, 5))
    assert story.broken() == {"nothing_is_forgotten", "latest_is_later"}


def test_a_row_may_be_deleted_when_its_subscription_is_deleted_meanwhile():
    story = QueueStory()
    story.open(2)
    story.unsubscribe(2.5, 3.5)
    story.take(3, 1, 1)  # it was on its way
    story.delete(4, 1)
    assert "a_delete_under_a_lease_is_refused" not in story.broken()


def test_a_subscription_that_was_deleted_before_a_lease_says_nothing_about_it():
    story = QueueStory()
    story.unsubscribe(1.5, 1.6)
    story.subscribe(1.7, LATEST)
    story.open(2)
    story.take(3, 1, 1)
    story.delete(4, 1)
    assert "a_delete_under_a_lease_is_refused" in story.broken()
