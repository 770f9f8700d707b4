"""All machines have one face: what was applied, snapshot and restored is what was there."""

from __future__ import annotations

from typing import Any

import pytest

from bowstring.core.changes import Append, Change, Delete, Floor, Position, Reason, Reschedule
from bowstring.core.deletions import Deletions
from bowstring.core.ledger_changes import Grant, Join, LedgerChange, Settle, SettledPart, Settlement, Subscribe
from bowstring.core.ledgers import Ledgers
from bowstring.core.machine import NEVER, Machine
from bowstring.core.moved_rows import MovedRows
from bowstring.core.partition import Partition
from bowstring.core.positions import Positions
from bowstring.core.subscription_settings import SubscriptionSettings

ADA = b"a" * 16
APPEND = Append(1, 0, 1, 9, 1000, 2, ADA, 1, segment=7, length=100)
DELETES = [Delete(1, 0, ((1, 2), (1 << 21, 1)), Reason.OWNER), Delete(1, 0, ((4, 1),), Reason.DEADLINE)]
MOVES = [Position(1, 0, "a", 3, 5), Position(1, 0, "b", 2, 6), Position(1, 0, "a", 0, 7)]


RESCHEDULED = [Reschedule(1, 0, ((1, 2), (1 << 21, 1)), 50), Reschedule(1, 0, ((2, 3),), 70)]
LEASES: list[LedgerChange | Delete] = [
    Subscribe(1, 0, 7, "billing", SubscriptionSettings(), 5, 1),
    Join(1, 0, 7, 1, "ada", 30, 1000),
    Grant(1, 0, 7, 1, 1, 5, 9),
    Settle(1, 0, 7, 1, 1, (SettledPart(1, Settlement.NACK, (2, 3)), SettledPart(1, Settlement.ACK))),
    DELETES[0],
]


def ledgers() -> Ledgers:
    return Ledgers(1, 0)


def partition() -> Partition:
    return Partition(1, 0, 600)


@pytest.mark.parametrize(
    ("make", "changes"),
    [(Deletions, DELETES), (Positions, MOVES), (partition, [APPEND, Floor(1, 0, 3), *MOVES]), (ledgers, LEASES), (MovedRows, RESCHEDULED)],
    ids=["deletions", "positions", "partition", "ledgers", "moved"],
)
def test_a_machine_comes_back_from_its_snapshot_and_from_the_journal_alike(make: Any, changes: list[Change | LedgerChange]):
    live, restored, replayed = make(), make(), make()
    assert isinstance(live, Machine)
    for sequence, change in enumerate(changes, start=1):
        live.apply(change)
        live.committed(change, sequence)
        replayed.replay(change, sequence)
    restored.restore(live.snapshot())
    assert live.state() == restored.state() == replayed.state() != make().state()
    live.check()
    assert live.next_deadline() == NEVER
