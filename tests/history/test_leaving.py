"""What a consumer that leaves gives back: the checkers know it, and know what it may not give back."""

from __future__ import annotations

import pytest

from tests.history.lease_events import ACK, NACK
from tests.history.queue_story import QueueStory


@pytest.fixture
def story() -> QueueStory:
    """An object of the name ada has row 1 and has ended without a word; another one has come."""
    told = QueueStory()
    told.open(2, credit=2)
    told.take(3, 1, 1)
    told.open(4, "ada/again", credit=2)
    return told


def test_what_its_name_still_holds_comes_to_another_at_once_and_uncounted(story: QueueStory):
    story.leave(5, "ada/again")
    story.open(5, "bob")
    story.push(5.1, 2, 1, name="bob")
    assert not story.broken()


def test_it_may_count_because_the_broker_may_not_have_heard_of_the_leaving(story: QueueStory):
    story.leave(5, "ada/again")
    story.open(5, "bob")
    story.push(13.1, 2, 1, name="bob", retries=1)
    assert not story.broken()


def test_a_count_does_not_rise_by_leaving_alone(story: QueueStory):
    story.leave(5, "ada/again")
    story.open(5, "bob")
    story.push(5.1, 2, 1, name="bob", retries=2)
    assert story.broken() == {"counts_rise_by_one"}


def test_nothing_is_given_back_before_it_leaves(story: QueueStory):
    story.open(5, "bob")
    story.push(5.1, 2, 1, name="bob")
    story.leave(6, "ada/again")
    assert story.broken() == {"one_lease_at_a_time", "counts_rise_by_one"}


def test_nothing_of_another_name_is_given_back(story: QueueStory):
    story.open(4, "bob")
    story.leave(5, "bob")
    story.open(5, "cid")
    story.push(5.1, 2, 1, name="cid")
    assert story.broken() == {"one_lease_at_a_time", "counts_rise_by_one"}


def test_a_lease_after_the_name_has_come_again_is_not_given_back(story: QueueStory):
    story.leave(5, "ada/again")
    story.open(6, "ada/third")
    story.take(7, 2, 2, name="ada/third")
    story.open(8, "bob")
    story.push(8.1, 3, 2, name="bob")
    assert story.broken() == {"one_lease_at_a_time", "counts_rise_by_one"}


def test_what_was_given_back_leaves_room(story: QueueStory):
    story.leave(5, "ada/again")
    story.open(6, "ada/third", credit=2)
    story.push(6.1, 2, 2, 3, name="ada/third")
    assert not story.broken()


def test_a_consumer_leaves_when_it_has_settled_everything(story: QueueStory):
    story.take(4.1, 2, 2, name="ada/again")
    story.leave(5, "ada/again")
    assert story.broken() == {"a_consumer_leaves_with_nothing"}


@pytest.mark.parametrize("outcome", [ACK, NACK])
def test_it_waits_for_the_answer(story: QueueStory, outcome: str):
    story.take(4.1, 2, 2, name="ada/again")
    story.ask(4.5, 1, outcome, 2, 2, name="ada/again")
    story.leave(5, "ada/again")
    assert story.broken() == {"a_consumer_leaves_with_nothing"}


def test_it_may_leave_when_its_leases_have_ended(story: QueueStory):
    story.take(4.1, 2, 2, name="ada/again")
    story.leave(14.2, "ada/again")
    assert not story.broken()


def test_what_came_to_it_is_not_given_back_by_leaving(story: QueueStory):
    story.take(4.1, 2, 2, name="ada/again")
    story.leave(5, "ada/again")
    story.open(5, "bob")
    story.push(5.1, 3, 2, name="bob")
    assert story.broken() == {"a_consumer_leaves_with_nothing", "one_lease_at_a_time", "counts_rise_by_one"}
