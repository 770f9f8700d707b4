"""An extension whose answer was lost may have made a lease longer, and no other one may."""

from __future__ import annotations

import pytest

from tests.history.lease_events import ACK, NACK
from tests.history.queue_story import QueueStory


@pytest.fixture
def story() -> QueueStory:
    told = QueueStory()
    told.open(2)
    return told


def test_a_settlement_may_be_late_behind_an_extension_whose_answer_was_lost(story: QueueStory):
    story.take(3, 1, 1)
    story.ask(4, 1, "", 1, 1)
    story.open(14)
    story.ask(14, 2, NACK, 1, 1)
    story.ask(14, 1, "", 1, 1)
    story.answer(14.1, 2)
    story.answer(14.2, 1, (1, 1))
    assert "a_late_settlement_is_refused" not in story.broken()


def test_a_refused_extension_that_was_written_once_makes_no_lease_longer(story: QueueStory):
    story.take(3, 1, 1)
    story.ask(12, 1, "", 1, 1)
    story.answer(12.1, 1, (1, 1), until=22)
    story.settle(14, 2, ACK, 1, 1)
    assert "a_late_settlement_is_refused" in story.broken()
