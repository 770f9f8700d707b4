"""Bugs that are easily made in a ledger, planted one by one: the comparison with the
model finds each.

What that seldom reaches, because it takes certain steps in a row, is found by a story of
`test_ledger` or `test_ledger_state`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bowstring.core import backoff, due_rows, ledger_state, settling
from bowstring.core.due_rows import DueRows, Wave
from bowstring.core.leases import Lease, Leases
from bowstring.core.ledger import Ledger
from bowstring.core.ledger_consumers import LedgerConsumers
from bowstring.core.ledgers import Ledgers
from bowstring.core.retry_counts import RetryCounts
from bowstring.core.row_set import RowSet
from bowstring.core.settled_rows import SettledRows
from bowstring.core.timeline import Timeline
from tests.unit import test_due_rows, test_ledger, test_ledger_state
from tests.unit.ledger_world import live_through, small_world

__all__ = ["small_world"]

Patch = pytest.MonkeyPatch
SEEDS, STEPS = 40, 250


def worlds() -> None:
    for seed in range(SEEDS):
        live_through(seed, STEPS)


def a_grant_number_is_used_again_after_a_snapshot(patch: Patch) -> None:
    restore = ledger_state._restore_head

    def wrong(ledger: Ledger, head: Any) -> None:
        restore(ledger, head)
        ledger.next_grant = max((lease.number for lease in ledger.leases), default=0) + 1

    patch.setattr(ledger_state, "_restore_head", wrong)


def the_request_number_is_missing_in_the_snapshot(patch: Patch) -> None:
    restore = LedgerConsumers.restore

    def wrong(self: LedgerConsumers, rest: list[Any], next_number: int) -> None:
        restore(self, [(number, name, lease, active, 0, refused) for number, name, lease, active, _, refused in rest], next_number)

    patch.setattr(LedgerConsumers, "restore", wrong)


def the_refusals_are_missing_in_the_snapshot(patch: Patch) -> None:
    restore = LedgerConsumers.restore

    def wrong(self: LedgerConsumers, rest: list[Any], next_number: int) -> None:
        restore(self, [(*facts, []) for *facts, _ in rest], next_number)

    patch.setattr(LedgerConsumers, "restore", wrong)


def a_settlement_does_not_compare_the_grant(patch: Patch) -> None:
    settle = settling.settle

    def wrong(ledger: Ledger, request: Any, now: int) -> Any:
        parts = [part._replace(grant=_holding(ledger, part)) for part in request.parts]
        return settle(ledger, request._replace(parts=parts), now)

    patch.setattr(settling, "settle", wrong)


def _holding(ledger: Ledger, part: Any) -> int:
    return part.grant if part.rows is None else next((lease.number for lease, _ in ledger.leases.over(part.rows)), part.grant)


def a_settlement_does_not_compare_the_consumer(patch: Patch) -> None:
    begin = settling._Held.__init__
    patch.setattr(settling._Held, "__init__", lambda self, ledger, _, now: begin(self, ledger, None, now))


def an_ended_lease_counts_until_it_is_expired(patch: Patch) -> None:
    begin = settling._Held.__init__
    patch.setattr(settling._Held, "__init__", lambda self, ledger, consumer, _: begin(self, ledger, consumer, 0))


def a_repeated_nack_counts_twice(patch: Patch) -> None:
    settle = LedgerConsumers.settle

    def wrong(self: LedgerConsumers, change: Any, moment: int) -> None:
        settle(self, change, moment)
        self[change.consumer].request = 0

    patch.setattr(LedgerConsumers, "settle", wrong)


def a_stale_timer_ends_an_extended_lease(patch: Patch) -> None:
    expire = Leases.expire

    def wrong(self: Leases, moment: int) -> RowSet:
        stale = {grant for until, grant in self._ends if until <= moment}
        for lease in self:
            if lease.number in stale:
                lease.until = min(lease.until, moment)
        return expire(self, moment)

    patch.setattr(Leases, "expire", wrong)


def an_extension_of_some_rows_extends_them_all(patch: Patch) -> None:
    extend = Leases.extend
    patch.setattr(Leases, "extend", lambda self, grant, _, until: extend(self, grant, None, until))


def an_extension_shortens(patch: Patch) -> None:
    def wrong(self: Leases, grant: int, rows: RowSet | None, until: int) -> None:
        leases = self.of_grant(grant)
        for lease in leases:
            taken = self.take(grant, lease.rows if rows is None else lease.rows & rows)
            if taken:
                self.add(Lease(grant, lease.consumer, lease.granted, until, taken))

    patch.setattr(Leases, "extend", wrong)


def a_carry_is_lost_at_count_eight(patch: Patch) -> None:
    count = RetryCounts.count

    def wrong(self: RetryCounts, rows: RowSet, ordinal: int) -> None:
        count(self, rows, ordinal)
        del self._planes[3:]

    patch.setattr(RetryCounts, "count", wrong)


def a_carry_is_lost_at_count_two(patch: Patch) -> None:
    count = RetryCounts.count

    def wrong(self: RetryCounts, rows: RowSet, ordinal: int) -> None:
        count(self, rows, ordinal)
        del self._planes[1:]

    patch.setattr(RetryCounts, "count", wrong)


def a_release_counts(patch: Patch) -> None:
    give_back = Ledger._give_back
    patch.setattr(Ledger, "_give_back", lambda self, rows, counted=True, moment=0: give_back(self, rows, counted=True, moment=moment))


def a_second_floor_loses_a_kept_lease(patch: Patch) -> None:
    apply = Ledger._apply_floor

    def wrong(self: Ledger, change: Any) -> None:
        self.retained = 1
        apply(self, change)

    patch.setattr(Ledger, "_apply_floor", wrong)


def a_deleted_row_stays_leased(patch: Patch) -> None:
    patch.setattr(Leases, "drop", lambda self, rows: None)


def a_chunk_that_is_newer_than_its_head_counts_twice(patch: Patch) -> None:
    patch.setattr(RetryCounts, "_behind", lambda self, rows, ordinal: rows)


def a_chunk_does_not_say_what_is_below_the_floor(patch: Patch) -> None:
    copy = ledger_state._capture_chunk

    def wrong(ledger: Ledger, chunk: int) -> Any:
        floor, ledger.settled.floor = ledger.settled.floor, 0
        captured = copy(ledger, chunk)
        ledger.settled.floor = floor
        return captured

    patch.setattr(ledger_state, "_capture_chunk", wrong)


def a_passed_chunk_is_removed_before_its_head(patch: Patch) -> None:
    capture = ledger_state.LedgerState.capture

    def wrong(self: Any) -> Any:
        self._passed = {chunk for chunk in self._resting if ledger_state._end(chunk) <= self._ledger.floor}
        self._head_is_at_rest = True
        return capture(self)

    patch.setattr(ledger_state.LedgerState, "capture", wrong)


def a_seek_back_leaves_the_old_chunks(patch: Patch) -> None:
    capture = ledger_state.LedgerState.capture

    def wrong(self: Any) -> Any:
        self._resets = self._ledger.settled.resets
        return capture(self)

    patch.setattr(ledger_state.LedgerState, "capture", wrong)


def a_seek_leaves_the_leases(patch: Patch) -> None:
    patch.setattr(Leases, "clear", lambda self: None)


def the_floor_does_not_pass_what_was_acked_before_it(patch: Patch) -> None:
    patch.setattr(SettledRows, "rise", lambda self: None)


def new_rows_come_before_those_that_were_given_back(patch: Patch) -> None:
    def wrong(self: Ledger, most: int, end: int, now: int) -> RowSet:
        fresh = self.settled.unsettled(max(self.cursor, self.floor), end, most)
        return fresh or self.returned.smallest(most)

    patch.setattr(Ledger, "next_rows", wrong)


def a_backoff_forgets_its_count(patch: Patch) -> None:
    patch.setattr(backoff, "wait_of", lambda settings, failures: settings.first)


def the_timeline_is_missing_in_the_snapshot(patch: Patch) -> None:
    patch.setattr(Timeline, "load", lambda self, moments, offsets: None)


def a_row_comes_again_at_once(patch: Patch) -> None:
    give_back = Ledger._give_back
    patch.setattr(Ledger, "_give_back", lambda self, rows, counted=False, moment=0: give_back(self, rows, counted=counted))


def a_deleted_row_comes_again(patch: Patch) -> None:
    patch.setattr(Timeline, "take_out", lambda self, rows: None)


def delete_looks_at_one_subscription_only(patch: Patch) -> None:
    leased = Ledgers.leased

    def wrong(self: Ledgers, rows: RowSet, now: int) -> Any:
        first = next(iter(self)).subscription
        return (one for one in leased(self, rows, now) if one.subscription == first)

    patch.setattr(Ledgers, "leased", wrong)


def many_rows_come_in_the_order_in_which_they_were_told(patch: Patch) -> None:
    patch.setattr(due_rows, "ORDERED_ROWS_MAX", 1000)


def few_rows_come_by_offset(patch: Patch) -> None:
    patch.setattr(due_rows, "ORDERED_ROWS_MAX", 0)


def rows_join_a_wave_that_is_granted(patch: Patch) -> None:
    """Those that wait already may wait for ever."""

    def wrong(self: DueRows) -> Wave:
        if not self._waves:
            self._waves.append(Wave())
        return self._waves[-1]

    patch.setattr(DueRows, "_open_wave", wrong)


def a_row_that_left_keeps_its_turn(patch: Patch) -> None:
    patch.setattr(Wave, "take_out", lambda self, rows: self.rows.take_out(rows))


MODEL = [
    a_grant_number_is_used_again_after_a_snapshot,
    the_request_number_is_missing_in_the_snapshot,
    the_refusals_are_missing_in_the_snapshot,
    a_settlement_does_not_compare_the_grant,
    a_settlement_does_not_compare_the_consumer,
    an_ended_lease_counts_until_it_is_expired,
    a_repeated_nack_counts_twice,
    a_stale_timer_ends_an_extended_lease,
    an_extension_of_some_rows_extends_them_all,
    an_extension_shortens,
    a_carry_is_lost_at_count_two,
    a_release_counts,
    a_second_floor_loses_a_kept_lease,
    a_deleted_row_stays_leased,
    a_chunk_that_is_newer_than_its_head_counts_twice,
    a_chunk_does_not_say_what_is_below_the_floor,
    a_passed_chunk_is_removed_before_its_head,
    a_seek_leaves_the_leases,
    the_floor_does_not_pass_what_was_acked_before_it,
    new_rows_come_before_those_that_were_given_back,
    a_backoff_forgets_its_count,
    the_timeline_is_missing_in_the_snapshot,
    a_row_comes_again_at_once,
    a_deleted_row_comes_again,
    many_rows_come_in_the_order_in_which_they_were_told,
    few_rows_come_by_offset,
    a_row_that_left_keeps_its_turn,
]
STORIES: list[tuple[Callable[[Patch], None], Callable[[], None]]] = [
    (a_seek_back_leaves_the_old_chunks, test_ledger_state.test_a_seek_back_is_at_rest_too),
    (a_carry_is_lost_at_count_eight, test_ledger.test_the_retry_count_goes_on_beyond_eight),
    (delete_looks_at_one_subscription_only, test_ledger.test_an_owner_learns_of_the_leases_of_every_subscription),
    (rows_join_a_wave_that_is_granted, test_due_rows.test_a_wave_that_is_granted_takes_no_more_rows),
]


@pytest.mark.parametrize("bug", MODEL, ids=lambda bug: bug.__name__)
def test_the_model_finds(bug: Callable[[Patch], None], monkeypatch: Patch):
    bug(monkeypatch)
    with pytest.raises((AssertionError, KeyError)):
        worlds()


@pytest.mark.parametrize(("bug", "story"), STORIES, ids=lambda one: one.__name__)
def test_a_story_finds(bug: Callable[[Patch], None], story: Callable[[], None], monkeypatch: Patch):
    bug(monkeypatch)
    with pytest.raises(AssertionError):
        story()
