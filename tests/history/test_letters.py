"""The checkers of dead letters, peeks and leases by id, on queues that are told by hand."""

from __future__ import annotations

import pytest

from tests.history.events import INVOKE, OK, UNKNOWN, Row
from tests.history.lease_events import ACK, BY_ID, DRAIN, LIST, PEEK, PUSHED, REDRIVE, REJECT, Consuming, Delivery
from tests.history.lease_time import EXACT
from tests.history.letter_checkers import check_letters
from tests.history.queue_story import SECOND, SPAN, QueueStory

LANE = 1
"""Partition 0 of the topic for dead letters, as consumers name it."""


class LetterStory(QueueStory):
    """Row 2 is rejected, and is dead letter 1."""

    def __init__(self) -> None:
        super().__init__()
        self.open(2)
        self.take(3, 1, 1, 2)
        self.settle(4, 1, ACK, 1, 1)
        self.settle(4, 2, REJECT, 1, 2)

    def redrive(self, time: float, *ids: str, done: int = 0, kind: str = OK) -> None:
        """Sends back what has these ids; `done` is the letter that the answer names."""
        self.time = time
        call = self.history.invoke("op", REDRIVE, "t", [Row("", id) for id in ids], queue=Consuming("s"))
        rows = [Row("", partition=0, offset=done)] if done else []
        self.history.ended(kind, "op", call, REDRIVE, "t", rows, queue=Consuming("s"))

    def letter(self, time: float, grant: int, letter: int = 1, row: int = 2, name: str = "ada") -> None:
        """The dead letter of a row comes to a consumer."""
        delivery = Delivery(LANE, letter, grant, round((time + SPAN) * SECOND), home=0)
        message = self.rows[row]._replace(partition=LANE, offset=letter)
        self._note(time, name, PUSHED, [delivery], [message], now=round(time * SECOND))

    def ends(self, time: float, request: int, outcome: str, grant: int, letter: int = 1) -> None:
        self.settle(time, request, outcome, grant, letter)
        event = self.history.events[-2]
        rows = tuple(row._replace(partition=LANE) for row in event.queue.rows)
        self.history.events[-2] = event._replace(queue=event.queue._replace(rows=rows))

    def listed(self, time: float, *letters: tuple[int, int], client: str = "op") -> None:
        """Dead letters with the rows that they came from."""
        self.time = time
        call = self.history.invoke(client, LIST, "t", queue=Consuming("s"))
        rows = [self.rows[row]._replace(partition=0, offset=letter) for letter, row in letters]
        about = Consuming("s", rows=tuple(Delivery(0, row) for _, row in letters))
        self.history.ended(OK, client, call, LIST, "t", rows, queue=about)

    def drained(self, *letters: tuple[int, int]) -> None:
        """At the end the list has these."""
        self.open(90, "drain")
        self.close(95, "drain")
        self.listed(100, *letters, client=f"{DRAIN}-1")

    def wrong(self) -> set[str]:
        return {violation.checker for violation in check_letters(self.history.events, EXACT)}


@pytest.fixture
def story() -> LetterStory:
    return LetterStory()


@pytest.mark.parametrize("kind", [OK, UNKNOWN])
def test_a_letter_may_come_after_a_redrive(story: LetterStory, kind: str):
    story.redrive(5, "id-2", done=1 if kind == OK else 0, kind=kind)
    story.letter(6, 2)
    story.ends(7, 3, ACK, 2)
    story.drained()
    assert story.wrong() == set()


def test_a_letter_that_was_not_sent_back_does_not_come(story: LetterStory):
    story.redrive(5, "id-3", kind=UNKNOWN)
    story.letter(6, 2)
    assert story.wrong() == {"a_redrive_reaches_one_subscription_only"}


def test_a_letter_does_not_come_before_it_is_sent_back(story: LetterStory):
    story.letter(6, 2)
    story.redrive(7, "id-2", done=1)
    assert story.wrong() == {"a_redrive_reaches_one_subscription_only"}


def test_an_answer_names_all_letters_that_are_sent_back(story: LetterStory):
    story.redrive(5, "id-2", "id-3", done=2)
    story.letter(6, 2)
    assert story.wrong() == {"a_redrive_reaches_one_subscription_only"}


@pytest.mark.parametrize("outcome", [ACK, REJECT])
def test_a_settled_letter_never_comes_again(story: LetterStory, outcome: str):
    story.redrive(5, "id-2", done=1)
    story.letter(6, 2)
    story.ends(7, 3, outcome, 2)
    story.letter(8, 3)
    assert story.wrong() == {"a_letter_is_redriven_once"}


def test_a_dead_message_does_not_come_from_its_old_place(story: LetterStory):
    story.take(6, 2, 2)
    assert story.wrong() == {"a_dead_message_comes_only_as_a_letter"}


def test_an_acked_letter_is_not_in_the_list(story: LetterStory):
    story.redrive(5, "id-2", done=1)
    story.letter(6, 2)
    story.ends(7, 3, ACK, 2)
    story.listed(8, (1, 2))
    assert story.wrong() == {"an_acked_letter_leaves_the_list"}


def test_a_dead_message_is_in_the_list(story: LetterStory):
    story.drained()
    assert story.wrong() == {"each_dead_letter_exactly_once"}


def test_a_dead_message_is_in_the_list_once(story: LetterStory):
    story.drained((1, 2), (2, 2))
    assert story.wrong() == {"each_dead_letter_exactly_once"}


def test_a_letter_that_died_again_is_another_one(story: LetterStory):
    story.redrive(5, "id-2", done=1)
    story.letter(6, 2)
    story.ends(7, 3, REJECT, 2)
    story.drained((2, 2))
    assert story.wrong() == set()


def test_a_letter_that_was_sent_back_comes(story: LetterStory):
    story.redrive(5, "id-2", done=1)
    story.drained((1, 2))
    assert story.wrong() == {"what_was_redriven_comes"}


def test_a_letter_is_the_message_that_died(story: LetterStory):
    story.rows[2] = story.rows[2]._replace(key="other")
    story.redrive(5, "id-2", done=1)
    story.letter(6, 2)
    assert story.wrong() == {"a_letter_is_what_died"}


# Peeks, and leases by id


def looked(story: QueueStory, time: float, operation: str, asked: list[Row], rows: list[Row]) -> None:
    story.time = time
    call = story.history.invoke("ada", operation, "t", asked, session="ada", queue=Consuming("s", "ada", "1.1"))
    story.history.ended(OK, "ada", call, operation, "t", rows, queue=Consuming("s", "ada", "1.1"))
    assert story.history.events[-2].kind == INVOKE


def test_a_peek_shows_messages_that_wait(story: LetterStory):
    looked(story, 5, PEEK, [], [story.rows[3], story.rows[4]])
    assert story.broken() == set()


def test_a_peek_shows_nothing_that_was_acked(story: LetterStory):
    looked(story, 5, PEEK, [], [story.rows[1]])
    assert story.broken() == {"a_peek_shows_what_waits"}


def test_a_peek_shows_nothing_that_is_held(story: LetterStory):
    story.take(5, 2, 3)
    looked(story, 6, PEEK, [], [story.rows[3]])
    assert story.broken() == {"a_peek_shows_what_waits"}


def test_an_id_has_one_answer(story: LetterStory):
    looked(story, 5, BY_ID, [Row("", "id-3"), Row("", "id-4")], [Row("", "id-3", error="lease-taken")])
    assert story.broken() == {"an_id_is_leased_or_refused"}


def test_what_was_acked_is_not_taken(story: LetterStory):
    looked(story, 5, BY_ID, [Row("", "id-1")], [Row("", "id-1", error="lease-taken")])
    assert story.broken() == {"an_id_is_leased_or_refused"}
