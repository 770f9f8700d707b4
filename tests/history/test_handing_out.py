"""The checkers of pushes, and of what a consumer's kit hands out, are checked with good and bad
histories.
"""

from __future__ import annotations

import pytest

from tests.history.lease_events import ACK, NACK, RELEASE
from tests.history.queue_story import QueueStory


@pytest.fixture
def story() -> QueueStory:
    told = QueueStory()
    told.open(2, credit=2)
    return told


# ---- pushes


def test_credit_is_kept(story: QueueStory):
    story.take(3, 1, 1, 2)
    story.settle(4, 1, ACK, 1, 1)
    story.take(5, 2, 3)
    story.push(14, 3, 4)  # the leases of the first grant are over
    assert not story.broken()


def test_credit_is_not_to_be_exceeded(story: QueueStory):
    story.push(3, 1, 1, 2)
    story.push(4, 2, 3)
    assert story.broken() == {"credit_is_never_exceeded"}


def test_a_lower_credit_counts_when_a_later_settlement_is_answered(story: QueueStory):
    story.take(3, 1, 1)
    story.credit(4, 1)
    story.take(4.5, 2, 2)  # it may have been granted before
    story.settle(5, 1, NACK, 1, 1)
    assert not story.broken()
    story.push(5.5, 3, 3)
    assert story.broken() == {"credit_is_never_exceeded"}


def test_a_consumer_that_pauses_gets_nothing(story: QueueStory):
    story.take(3, 1, 1)
    story.credit(4, 0)
    story.settle(5, 1, ACK, 1, 1)
    story.push(6, 2, 2)
    assert story.broken() == {"credit_is_never_exceeded"}


def test_nothing_comes_before_the_kit_is_ready():
    story = QueueStory()
    story.open(2)
    story.history.events[:] = [event for event in story.history.events if event.operation != "ready"]
    story.push(3, 1, 1)
    assert story.broken() == {"nothing_is_pushed_before_all_is_sent_again"}


def test_rows_are_those_that_were_sent(story: QueueStory):
    story.rows[1] = story.rows[1]._replace(value="50:00000000")
    story.push(3, 1, 1)
    assert story.broken() == {"pushed_is_what_was_sent"}


def test_a_refused_message_is_not_pushed(story: QueueStory):
    story.publish(2.5, 5, error="deadline-passed")
    story.push(3, 1, 5)
    assert story.broken() == {"pushed_is_what_was_sent"}


# ---- what a kit hands out


def test_a_row_is_handed_out_while_its_lease_is_valid(story: QueueStory):
    story.push(3, 1, 1)
    story.hand(12.9, 1)
    assert not story.broken()


def test_a_row_is_not_to_be_handed_out_after_its_lease(story: QueueStory):
    story.push(3, 1, 1)
    story.hand(13.1, 1)
    assert story.broken() == {"handed_out_under_a_valid_lease"}


def test_a_row_is_not_to_be_handed_out_when_it_is_lost(story: QueueStory):
    story.push(3, 1, 1)
    story.lose(4, 1)
    story.hand(5, 1)
    assert story.broken() == {"handed_out_under_a_valid_lease"}


def test_a_row_is_not_to_be_handed_out_when_it_was_given_back(story: QueueStory):
    story.push(3, 1, 1)
    story.settle(4, 1, RELEASE, 1, 1)
    story.hand(5, 1)
    assert "handed_out_under_a_valid_lease" in story.broken()


def test_a_row_is_handed_out_once(story: QueueStory):
    story.take(3, 1, 1)
    story.open(4)
    story.push(5, 1, 1, until=13, again=True)
    story.hand(6, 1)
    assert story.broken() == {"handed_out_once"}


def test_a_row_that_never_came_is_not_handed_out(story: QueueStory):
    story.push(3, 1, 1)
    story._handed["ada", 2] = 1
    story.hand(4, 2)
    assert story.broken() == {"handed_out_under_a_valid_lease"}


def test_the_application_sees_the_count_that_came(story: QueueStory):
    story.push(3, 1, 1, retries=2)
    story.hand(4, 1, retries=1)
    assert "an_application_sees_the_count" in story.broken()


def test_unseen_rows_are_released(story: QueueStory):
    story.push(3, 1, 1, 2)
    story.hand(4, 1)
    story.settle(5, 1, NACK, 1, 1)
    story.settle(5, 2, RELEASE, 1, 2)
    assert not story.broken()


@pytest.mark.parametrize(("seen", "outcome"), [(False, NACK), (False, ACK), (True, RELEASE)])
def test_what_was_seen_counts_and_what_was_not_does_not(story: QueueStory, seen: bool, outcome: str):
    story.push(3, 1, 1)
    if seen:
        story.hand(4, 1)
    story.settle(5, 1, outcome, 1, 1)
    assert story.broken() == {"only_unseen_rows_are_released"}


def test_unanswered_requests_are_sent_again_first(story: QueueStory):
    story.take(3, 1, 1)
    story.ask(4, 1, ACK, 1, 1)
    story.open(5)  # and is ready at once
    assert story.broken() == {"unanswered_requests_are_sent_again_first"}
