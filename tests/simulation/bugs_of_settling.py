"""Planted bugs of settlements, retry counts, and the state of a ledger at rest."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any
from unittest.mock import patch

from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.queue import leased_page
from bowstring.broker.queue.consumer import LiveConsumer
from bowstring.broker.queue.lease_requests import SettleForConsumer
from bowstring.core import ledger_state, settling
from bowstring.core.ledger import Ledger
from bowstring.core.ledger_changes import Settlement
from bowstring.core.ledger_consumers import LedgerConsumers
from bowstring.core.retry_counts import RetryCounts
from bowstring.core.row_set import RowSet
from tests.simulation.planting import CALM, CRASHES, CUTS, POWER, QUEUE, SEALED_QUEUE, bug

BROKEN = CUTS.only(cut_rate=0.03, cut_every=0.4, half_open=0.0)
NEWER = SEALED_QUEUE.only(nacks=0.7, seal_seconds=0.3, upkeep_seconds=0.2, producers=4, seconds=12.0, pause_seconds=0.03)
KILLED = CRASHES.only(crash_every=1.0, down_seconds=0.1, inside_operations=200)

SILENCE = CUTS.only(cut_every=1.0, half_open=0.8, half_open_seconds=4.0)
SHARED_NAMES = QUEUE.only(seconds=20.0, collisions=0.5, named_consumers=1.0, plain_consumers=1.0, lease_seconds=5.0, consume_seconds=1.0)

# ---- settlements -------------------------------------------------------------------------------------------------------


@bug(CALM, QUEUE.only(holds=0.6, credit_max=5))
def a_settlement_does_not_compare_the_grant() -> Generator[None]:
    """Whoever settles a row settles it for the one that holds it now."""
    settle = settling.settle

    def wrong(ledger: Ledger, request: Any, now: int, behind: Any = None) -> Any:
        parts = [part._replace(grant=_holding(ledger, part)) for part in request.parts]
        return settle(ledger, request._replace(parts=parts), now, behind)

    held = settling._Held.__init__
    with (
        patch.object(settling, "settle", wrong),
        patch.object(settling._Held, "__init__", lambda self, ledger, _, now: held(self, ledger, None, now)),
    ):
        yield


def _holding(ledger: Ledger, part: Any) -> int:
    return part.grant if part.rows is None else next((lease.number for lease, _ in ledger.leases.over(part.rows)), part.grant)


@bug(BROKEN, QUEUE.only(nacks=0.6, plain_consumers=1.0, credit_max=10))
def a_repeated_nack_counts_twice() -> Generator[None]:
    """A request that is sent again is carried out again, whatever has become of its rows."""
    settle = settling.settle

    def again(ledger: Ledger, request: Any, now: int, behind: Any = None) -> Any:
        done = settle(ledger, request, now, behind)
        if done.repeated:
            for part in request.parts:
                if part.rows is not None and part.outcome is Settlement.NACK:
                    ledger.counts.count(part.rows - ledger.settled.of(part.rows), ledger.ordinal)
        return done

    with patch.object(settling, "settle", again):
        yield


@bug(POWER.only(power_cut_every=1.0, sync_seconds=0.02, down_seconds=0.1), QUEUE.only(seconds=10.0))
def a_settlement_is_answered_before_it_is_durable() -> Generator[None]:
    """The consumer is told "done" in the step in which that is decided."""
    answer = PartitionActor._answer

    def hasty(self: PartitionActor, request: Any, outcome: Any) -> None:
        if isinstance(request, SettleForConsumer):
            request.settle(outcome)
        else:
            answer(self, request, outcome)

    with patch.object(PartitionActor, "_answer", hasty):
        yield


@bug(CALM, QUEUE.only(masks=1.0, nacks=0.4, holds=0.3))
def a_refused_row_takes_its_neighbours_along() -> Generator[None]:
    """Where one row of a request is not held, none of its grant counts."""
    of = settling._Held.of

    def all_or_none(self: Any, grant: int, rows: RowSet | None) -> Any:
        before = len(self.refused)
        spans = of(self, grant, rows)
        if spans is not None and len(self.refused) > before:
            self.refused[-1] = settling.GrantRows(grant, rows)
            return None
        return spans

    def refuses_the_first(self: Any, grant: int, rows: RowSet | None) -> Any:
        spans = all_or_none(self, grant, rows)
        if spans and rows is not None and len(rows) > 2 and rows.first % 7 == 0:
            self.refused.append(settling.GrantRows(grant, RowSet(rows.first, rows.first + 1)))
        return spans

    with patch.object(settling._Held, "of", refuses_the_first):
        yield


# ---- retry counts ------------------------------------------------------------------------------------------------------


@bug(CALM, QUEUE.only(nacks=0.9, topics=1, partitions_max=1, producers=1, pause_seconds=0.2, work_seconds=0.0, seconds=10.0))
def a_carry_is_lost_at_count_eight() -> Generator[None]:
    """The eighth delivery in vain makes a row new again."""
    count = RetryCounts.count

    def wrong(self: RetryCounts, rows: RowSet, ordinal: int) -> None:
        count(self, rows, ordinal)
        del self._planes[3:]

    with patch.object(RetryCounts, "count", wrong):
        yield


@bug(CALM, QUEUE.only(holds=0.5, lease_seconds=1.0))
def an_expiry_does_not_count() -> Generator[None]:
    """Only a nack raises the count."""
    give_back = Ledger._give_back

    def uncounted(self: Ledger, rows: RowSet, *, counted: bool = False, moment: int = 0) -> None:
        give_back(self, rows, counted=counted and self._expiring is False, moment=moment)

    apply = Ledger.apply

    def applied(self: Any, change: Any) -> None:
        self._expiring = type(change).__name__ == "Expire"
        apply(self, change)

    with patch.object(Ledger, "_give_back", uncounted), patch.object(Ledger, "apply", applied):
        yield


@bug(CALM, QUEUE.only(abandons=0.0, consume_seconds=0.5, credit_max=30, work_seconds=0.1))
def a_release_counts() -> Generator[None]:
    """A row that nobody has seen is counted as delivered."""
    give_back = Ledger._give_back
    with patch.object(Ledger, "_give_back", lambda self, rows, counted=True, moment=0: give_back(self, rows, counted=True, moment=moment)):
        yield


@bug(CALM, QUEUE.only(batches=1.0, nacks=0.5, masks=1.0))
def counts_are_told_of_the_row_before() -> Generator[None]:
    """Rows that are cut out of a page get the counts of their neighbours."""
    lengths = leased_page.run_lengths

    def shifted(counts: Any) -> Any:
        return lengths(counts[[0, *range(len(counts) - 1)]] if len(counts) else counts)

    with patch.object(leased_page, "run_lengths", shifted):
        yield


# ---- at rest -----------------------------------------------------------------------------------------------------------


@bug(KILLED, SEALED_QUEUE)
def a_grant_number_is_used_again_after_a_snapshot() -> Generator[None]:
    """Numbers go on behind the leases that are there."""
    restore = ledger_state._restore_head

    def wrong(ledger: Ledger, head: Any) -> None:
        restore(ledger, head)
        ledger.next_grant = max((lease.number for lease in ledger.leases), default=0) + 1

    apply = Ledger._apply_grant

    def unchecked(self: Ledger, change: Any) -> None:
        self.next_grant = change.number
        apply(self, change)

    with patch.object(ledger_state, "_restore_head", wrong), patch.object(Ledger, "_apply_grant", unchecked):
        yield


@bug(KILLED.only(cut_rate=0.02), SEALED_QUEUE)
def the_request_number_is_missing_in_the_snapshot() -> Generator[None]:
    """After a restart every request is a new one."""
    restore = LedgerConsumers.restore

    def wrong(self: LedgerConsumers, rest: Any, next_number: int) -> None:
        restore(self, [(number, name, lease, active, 0, refused) for number, name, lease, active, _, refused in rest], next_number)

    with patch.object(LedgerConsumers, "restore", wrong):
        yield


@bug(POWER.only(power_cut_every=0.5, power_cut_inside=1.0, inside_operations=80, down_seconds=0.1), NEWER)
def a_chunk_that_is_newer_than_its_head_counts_twice() -> Generator[None]:
    """The journal is replayed over chunks that know it already."""
    with patch.object(RetryCounts, "_behind", lambda self, rows, ordinal: rows):
        yield


@bug(KILLED, SEALED_QUEUE)
def leases_are_missing_in_the_snapshot() -> Generator[None]:
    """After a restart nobody holds what was granted before the seal."""
    restore = ledger_state._restore_head

    def wrong(ledger: Ledger, head: Any) -> None:
        restore(ledger, head)
        ledger.leases.clear()

    with patch.object(ledger_state, "_restore_head", wrong):
        yield


@bug(SILENCE, SHARED_NAMES)
def a_request_of_a_program_that_had_the_name_before_is_taken_for_a_repeat() -> Generator[None]:
    """It never came, and the broker says "done", because the next program has used its number."""

    def from_the_last(self: LiveConsumer) -> int:
        known = (ledger.consumers.named(self.name) for _, ledger in self.subscription.ledgers())
        return max((consumer.request for consumer in known if consumer is not None), default=0)

    with patch.object(LiveConsumer, "begin_series", from_the_last):
        yield
