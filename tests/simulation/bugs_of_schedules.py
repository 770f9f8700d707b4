"""Planted bugs of what comes later: messages that are due later, moved and cancelled, nacks with a time,
and backoffs.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from typing import Any
from unittest.mock import patch

import numpy as np

from bowstring.broker.queue.lease_clock import LeaseClock
from bowstring.broker.queue.schedule import Schedule
from bowstring.broker.reading import gathered_cutting, page_reader
from bowstring.broker.reading.gathered_rows import RowsAtHand
from bowstring.broker.reading.partition_dues import PartitionDues
from bowstring.core import backoff, deleting, settling
from bowstring.core.due_blocks import Dues
from bowstring.core.due_rows import DueRows, ScheduledRows, Wave
from bowstring.core.ledger import Ledger
from bowstring.core.moved_rows import MovedRows
from bowstring.core.row_set import RowSet
from bowstring.core.timeline import Timeline
from tests.simulation.planting import CALM, CRASHES, SEALED_QUEUE, bug

LATER = SEALED_QUEUE.only(delayed=0.5, holds=0.2)
MOVING = LATER.only(moves=0.5)
NACKING = SEALED_QUEUE.only(nacks=0.5, timed_nacks=0.8)


@bug(CALM, LATER.only(seal_seconds=600.0))
def a_row_due_just_now_is_met_by_neither_cursor() -> Generator[None]:
    """Of the rows that are due in one step the last one is not told."""
    original = Schedule._tell

    def tell(self: Schedule, due: Any) -> None:
        original(self, due[:-1])
        self.undue.take_out(RowSet.of_offsets(due[-1:]))

    with patch.object(Schedule, "_tell", tell):
        yield


@bug(CALM, LATER.only(ordered_rows=0))
def what_is_due_while_a_wave_is_granted_is_forgotten() -> Generator[None]:
    """It is put into a wave that no one looks at."""
    original = DueRows._open_wave

    def open_wave(self: DueRows) -> Wave:
        return original(self) if not self._waves else Wave()

    with patch.object(DueRows, "_open_wave", open_wave):
        yield


@bug(CRASHES, LATER)
def unsealed_dues_are_forgotten() -> Generator[None]:
    """A loaded broker looks at due sections, and not at pages that are not sealed."""

    async def nothing(self: PartitionDues, entries: Any) -> AsyncGenerator[Dues]:
        for none in ():
            yield none

    with patch.object(PartitionDues, "of_pages", nothing):
        yield


@bug(CALM, LATER)
def unsealed_dues_are_trimmed_with_the_sealed() -> Generator[None]:
    """A seal has rows forgotten that are due in the next minute, too: no window is read for them."""

    def trim(self: Schedule) -> None:
        self._near.keep(lambda rows: rows.offsets >= self._partition.sealed_end)
        self._seals = self._partition.seals

    with patch.object(Schedule, "_trim", trim):
        yield


@bug(CALM, MOVING)
def a_moved_row_fires_twice_after_a_seal() -> Generator[None]:
    """Its old due time counts still, and it stays among the rows that were passed by when it is granted."""

    def take_out(self: ScheduledRows, rows: RowSet) -> None:
        if not self.is_empty:
            self.due.take_out(rows)

    with (
        patch.object(MovedRows, "unmoved", lambda self, stored: stored),
        patch.object(ScheduledRows, "take_out", take_out),
        patch.object(Ledger, "check", lambda self: None),
    ):
        yield


@bug(CALM, MOVING)
def a_moved_row_comes_at_its_old_time() -> Generator[None]:
    """The schedule does not hear of moves."""
    with patch.object(Schedule, "rescheduled", lambda self, runs, due: None):
        yield


@bug(CRASHES, MOVING.only(seal_seconds=0.5))
def moved_rows_are_not_loaded() -> Generator[None]:
    """What a seal has written of them is not read."""
    with patch.object(MovedRows, "load", lambda self, number, data: None):
        yield


@bug(CALM, MOVING)
def a_page_shows_the_old_due_time() -> Generator[None]:
    """Of rows that were moved, to readers and to consumers."""
    with patch.object(page_reader, "with_moved_dues", lambda partition, entry, page: page):
        yield


@bug(CALM, LATER.only(cancels=0.5))
def a_cancel_takes_what_was_just_leased() -> Generator[None]:
    """A cancel looks neither at the due time nor at leases."""
    original = deleting.delete

    def delete(*arguments: Any, scheduled: Any = None, **others: Any) -> Any:
        if scheduled is None:
            return original(*arguments, **others)
        with patch.object(deleting, "_held", lambda *_: {}):
            return original(*arguments, **others)

    with patch.object(deleting, "delete", delete), patch.object(Ledger, "check", lambda self: None):
        yield


@bug(CALM, LATER.only(cancels=0.5, seal_seconds=0.5))
def a_cancelled_row_comes() -> Generator[None]:
    """A row that was passed by stays in its set when it is deleted."""
    original = Ledger._leave

    def leave(self: Ledger, *arguments: Any) -> Any:
        with patch.object(ScheduledRows, "take_out", lambda *_: None):
            return original(self, *arguments)

    with patch.object(Ledger, "_leave", leave), patch.object(Ledger, "check", lambda self: None):
        yield


@bug(CALM, SEALED_QUEUE.only(nacks=0.7, backoff_seconds=0.3))
def a_backoff_forgets_its_count() -> Generator[None]:
    """Every failure counts as the first."""
    original = backoff.wait_of
    with patch.object(backoff, "wait_of", lambda given, failures: original(given, 1)):
        yield


@bug(CALM, SEALED_QUEUE.only(nacks=0.1, holds=0.7, backoff_seconds=0.5, seconds=12.0))
def an_expired_row_has_no_backoff() -> Generator[None]:
    """Only nacks have rows wait."""
    original = settling.expire

    def expire(*arguments: Any, **others: Any) -> Any:
        with patch.object(settling, "backed_off", lambda *_: ()):
            return original(*arguments, **others)

    with patch.object(settling, "expire", expire):
        yield


@bug(CALM, NACKING)
def a_nacked_row_comes_early() -> Generator[None]:
    """By half a second."""
    original = Timeline.put
    with patch.object(Timeline, "put", lambda self, rows, moment: original(self, rows, moment - 500_000)):
        yield


@bug(CALM, NACKING)
def a_moment_of_a_nack_is_taken_for_one_of_leases() -> Generator[None]:
    """The two clocks differ, and the difference is counted twice."""
    original = LeaseClock.at
    with patch.object(LeaseClock, "at", lambda self, moment: 2 * original(self, moment) - moment - 1_200_000):
        yield


@bug(CALM, MOVING)
def a_row_that_was_taken_out_early_shows_its_old_due_time() -> Generator[None]:
    """It was moved while it waited beside the others that are due soon."""
    with patch.object(gathered_cutting, "with_dues", lambda partition, offsets, batch: batch):
        yield


@bug(CALM, LATER)
def a_row_that_was_taken_out_early_comes_as_its_neighbour() -> Generator[None]:
    """Rows are counted from the first one that stands there."""
    original = RowsAtHand.first_of

    def first_of(self: RowsAtHand, offsets: Any) -> Any:
        return np.maximum(original(self, offsets) - 1, 0)

    with patch.object(RowsAtHand, "first_of", first_of):
        yield
