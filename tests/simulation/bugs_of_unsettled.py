"""Planted bugs of what retention does to messages that a subscription has not settled."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any
from unittest.mock import patch

from bowstring.broker.queue import letter_rows
from bowstring.broker.queue.subscription import LiveSubscription
from bowstring.core import overtaking, retention
from bowstring.core.ledger import Ledger
from bowstring.core.ledger_changes import Condemn, SetAsideReason
from bowstring.core.overtaking import Overtaken
from bowstring.core.row_set import NO_ROWS, RowSet
from tests.simulation.planting import CALM, QUEUE, bug

OLD = QUEUE.only(topics=0, brief_topics=1, retention_seconds=1.0, upkeep_seconds=0.3, kept_seconds=0.5, consumers=1, holds=0.4).only(
    seconds=10.0, lease_seconds=2.0, credit_max=5, consume_seconds=1.0
)
LETTERS, KEPT = OLD.only(unsettled=1), OLD.only(unsettled=2)


@bug(CALM, LETTERS)
def unsettled_rows_go_without_a_dead_letter() -> Generator[None]:
    """Retention counts them, and nothing else."""
    with patch.object(overtaking, "_letters", lambda *_: None):
        yield


@bug(CALM, LETTERS)
def rows_are_condemned_and_not_kept() -> Generator[None]:
    """They are gone before their dead letters are written."""

    def wrong(*arguments: Any) -> Overtaken:
        return overtaking.overtake(*arguments)._replace(stays=NO_ROWS)

    with patch.object(retention, "overtake", wrong), patch.object(Ledger, "check", lambda self: None):
        yield


@bug(CALM, LETTERS)
def rows_that_grow_old_on_their_way_are_settled() -> Generator[None]:
    """Only those that retention has come to become dead letters."""
    with patch.object(LiveSubscription, "fate_of_old_rows", SetAsideReason.EXPIRED):
        yield


@bug(CALM, LETTERS.only(delayed=0.4))
def rows_between_condemned_ones_count_as_due() -> Generator[None]:
    """The cursor passes them, and they are delivered before their time."""
    original = Ledger._apply_condemn  # pyright: ignore[reportPrivateUsage]

    def wrong(self: Ledger, change: Condemn) -> None:
        rows, cursor = RowSet.of_spans(change.rows), self.cursor
        original(self, change)
        passed = RowSet(cursor, max(cursor, rows.stop)) - rows
        self.later.take_out(passed)
        self.returned.put(passed - self.settled.of(passed))

    with patch.object(Ledger, "_apply_condemn", wrong):
        yield


@bug(CALM, LETTERS.only(chosen=1))
def rows_that_the_filter_leaves_out_are_lost_letters() -> Generator[None]:
    """Every row that retention has condemned counts as one that gets no dead letter."""
    with patch.object(letter_rows, "_not_meant", lambda subscription, actor, ledger, rows, found, now: rows):
        yield


@bug(CALM, KEPT)
def kept_rows_are_too_old_to_be_delivered() -> Generator[None]:
    """Retention keeps them, and the delivery does not know it."""
    with patch.object(LiveSubscription, "kept_longer", lambda self, actor: 0):
        yield


@bug(CALM, KEPT)
def unsettled_rows_are_not_kept() -> Generator[None]:
    """As if every subscription dropped them."""
    with patch.object(overtaking, "_kept", lambda *_: NO_ROWS):
        yield


@bug(CALM, KEPT.only(keep_seconds=2.0, readers=1))
def rows_are_kept_beyond_their_limit() -> Generator[None]:
    """They are delivered however old they are."""
    with patch.object(LiveSubscription, "kept_longer", lambda self, actor: None):
        yield
