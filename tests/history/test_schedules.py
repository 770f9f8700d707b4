"""The checkers of what comes later, on queues that are told by hand."""

from __future__ import annotations

from tests.history.events import CANCEL, MOVE, OK, PUBLISH, Row
from tests.history.keeping import Clocks
from tests.history.lease_events import NACK, Consuming, Delivery
from tests.history.lease_time import EXACT
from tests.history.queue_checkers import check_queues
from tests.history.queue_story import SECOND, QueueStory

CLOCKS = Clocks(0, lambda _: 0.0, 0.0)


class LaterStory(QueueStory):
    """The same queue, with messages that are due later, and nacks with times."""

    def __init__(self, backoff: tuple[int, float, int] = (0, 1.0, 0)) -> None:
        super().__init__()
        made = [at for at, event in enumerate(self.history.events) if event.operation == "subscribe"]
        for at in made:
            event = self.history.events[at]
            self.history.events[at] = event._replace(queue=event.queue._replace(backoff=backoff))

    def schedule(self, time: float, offset: int, due: float) -> None:
        row = Row(f"<m-{offset}>", f"id-{offset}", value="1:0", natural=True, group="g", due=round(due * SECOND))
        self.rows[offset] = row._replace(partition=0, offset=offset, arrived=round(time * SECOND), natural=False)
        self._done(time, PUBLISH, [row], [self.rows[offset]], producer="p", sequence=offset)

    def ask_owner(self, time: float, operation: str, offset: int, due: float = 0) -> None:
        asked = Row("", f"id-{offset}", group="g", due=round(due * SECOND))
        self._done(time, operation, [asked], [asked._replace(partition=0, offset=offset)])
        if operation == MOVE:
            self.rows[offset] = self.rows[offset]._replace(due=asked.due)

    def nack(self, time: float, request: int, grant: int, offset: int, later: int = 0) -> None:
        self.time = time
        row = Delivery(0, offset, grant, outcome=NACK, later=later)
        about = Consuming("s", "ada", "1.1", (row,), stream=1, request=request)
        call = self.history.invoke("ada", "settle", "t", session="ada", queue=about)
        self.history.ended(OK, "ada", call, "settle", "t", queue=about._replace(rows=(), now=round(time * SECOND)))

    def broken(self) -> set[str]:
        return {violation.checker for violation in check_queues(self.history.events, EXACT, CLOCKS)}


def test_a_row_comes_when_it_is_due():
    early, late = LaterStory(), LaterStory()
    for story, time in ((early, 4.9), (late, 5.0)):
        story.schedule(1, 5, due=5)
        story.open(2)
        story.take(time, 1, 5)
    assert "nothing_comes_before_it_is_due" in early.broken()
    assert "nothing_comes_before_it_is_due" not in late.broken()


def test_a_moved_row_waits_for_its_new_time_whatever_it_shows():
    early, late = LaterStory(), LaterStory()
    for story, time in ((early, 6.0), (late, 8.0)):
        story.schedule(1, 5, due=5)
        story.ask_owner(2, MOVE, 5, due=8)
        story.rows[5] = story.rows[5]._replace(due=5 * SECOND)
        story.open(2)
        story.take(time, 1, 5)
    assert "a_moved_row_waits_for_its_new_time" in early.broken()
    assert "a_moved_row_waits_for_its_new_time" not in late.broken()


def test_a_cancelled_row_does_not_come_and_a_due_one_is_not_cancelled():
    came, late = LaterStory(), LaterStory()
    came.schedule(1, 5, due=5)
    came.open(2)
    came.ask_owner(3, CANCEL, 5)
    came.take(6, 1, 5)
    assert "a_deleted_row_is_not_delivered" in came.broken()
    late.schedule(1, 5, due=5)
    late.open(2)
    late.ask_owner(6, CANCEL, 5)
    assert "a_cancel_after_the_due_time_is_refused" in late.broken()


def test_a_nacked_row_waits_for_its_span_and_for_its_moment():
    for later in (-3 * SECOND, 7 * SECOND):
        early, late = LaterStory(), LaterStory()
        for story, time in ((early, 6.5), (late, 7.0)):
            story.open(2)
            story.take(3, 1, 1)
            story.nack(4, 1, 1, 1, later)
            story.take(time, 2, 1, retries=1)
        assert "a_nacked_row_waits" in early.broken(), later
        assert "a_nacked_row_waits" not in late.broken(), later


def test_a_backoff_grows_with_the_count():
    early, late = LaterStory((SECOND, 2.0, 60 * SECOND)), LaterStory((SECOND, 2.0, 60 * SECOND))
    for story, time in ((early, 7.5), (late, 8.0)):
        story.open(2)
        story.take(3, 1, 1)
        story.nack(4, 1, 1, 1)
        story.take(5, 2, 1, retries=1)
        story.nack(6, 2, 2, 1)
        story.take(time, 3, 1, retries=2)
    assert "a_backoff_grows" in early.broken()
    assert "a_backoff_grows" not in late.broken()


def test_a_backoff_counts_from_the_end_of_a_lease_that_expired():
    early, late = LaterStory((SECOND, 2.0, 60 * SECOND)), LaterStory((SECOND, 2.0, 60 * SECOND))
    for story, time in ((early, 13.5), (late, 14.0)):
        story.open(2)
        story.take(3, 1, 1)
        story.take(time, 2, 1, retries=1)
    assert "a_backoff_grows" in early.broken()
    assert "a_backoff_grows" not in late.broken()


def test_what_is_due_has_come_when_fresh_consumers_end():
    story = LaterStory()
    story.schedule(1, 5, due=5)
    story.finish(40, (1, 2, 3, 4))
    assert "what_is_due_comes" in story.broken()
    whole = LaterStory()
    whole.schedule(1, 5, due=5)
    whole.finish(40, (1, 2, 3, 4, 5))
    assert not whole.broken()
