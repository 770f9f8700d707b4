"""The second reading of the journal agrees with the ledgers of the product on all that happens to
them, and sees what is wrong: in a ledger, and in the journal itself.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bowstring.core import journal
from bowstring.core.changes import Append
from bowstring.core.ledger_changes import Bury, Expire, Grant, Join, Redrive, Settle, SettledPart, Settlement, Subscribe
from bowstring.core.ledgers import Ledgers
from bowstring.core.subscription_settings import SubscriptionSettings
from tests.simulation.naive_journal import NaiveJournal
from tests.unit.ledger_world import LedgerWorld, small_world
from tests.unit.pickers import Seeded

__all__ = ["small_world"]


OF_THE_BROKER = {"a_dead_letter_and_its_settlement_are_one_flush", "suspects_are_alone"}
"""What only the broker keeps: the world writes no dead letters, and grants suspects to anybody."""


class ReadWorld:
    """A ledger world whose journal is read a second time."""

    def __init__(self, seed: int) -> None:
        self.world = LedgerWorld(Seeded(seed))
        self.model = NaiveJournal()
        self._rows = 0
        self._end = 1

    def step(self) -> list[str]:
        self.world.step()
        news = [(0, journal.encode([_append(self._end, self.world.end)]))] if self.world.end > self._end else []
        self._end = self.world.end
        news += [(0, row) for row in self.world.journal[self._rows :]]
        self._rows = len(self.world.journal)
        self.model.catch_up((self.model.position + at + 1, row) for at, (_, row) in enumerate(news))
        partition: Any = SimpleNamespace(topic=1, number=0, ledgers=self.world.ledgers)
        found = self.model.compare([partition])
        return [str(violation) for violation in found if violation.checker not in OF_THE_BROKER]


def _append(first: int, end: int) -> Append:
    return Append(1, 0, first, end - first, 0, 0, b"", 0)


@pytest.mark.parametrize("seed", range(12))
def test_the_journal_read_twice_says_the_same(seed: int):
    read = ReadWorld(seed)
    for number in range(200):
        assert read.step() == [], f"step {number}"


BEGIN = [
    Subscribe(1, 0, 7, "s", SubscriptionSettings(), 0, 1),
    _append(1, 11),
    Join(1, 0, 7, 1, "ada", 10, 100),
    Grant(1, 0, 7, 1, 1, 0, 5),
]
NONSENSE = [
    ("a grant of what is held", Grant(1, 0, 7, 2, 1, 0, 0, (2, 1))),
    ("a grant whose number was used", Grant(1, 0, 7, 1, 1, 0, 1)),
    ("a settlement by another grant", Settle(1, 0, 7, 1, 1, (SettledPart(2, Settlement.ACK, (1, 2)),))),
    ("a settlement by another consumer", Settle(1, 0, 7, 2, 1, (SettledPart(1, Settlement.ACK, (1, 2)),))),
    ("a subscription whose number was used", Subscribe(1, 0, 7, "again", SubscriptionSettings(), 0, 1)),
    ("a burial of what is not condemned", Bury(1, 0, 7, (1, 1), (1, 1))),
    ("a burial without a dead letter", Bury(1, 0, 7, (1, 1))),
    ("a redrive where there is no lane", Redrive(1, 0, 7, (6, 1))),
    ("suspects beside others", Grant(1, 0, 7, 2, 1, 0, 1, (), (), True)),
    ("an expiry condemns what was not alone", Expire(1, 0, 7, 110, (), (1, 1))),
    ("an expiry of nobody's subscription", Expire(1, 0, 8, 100)),
]


def _read(*changes: Any) -> NaiveJournal:
    model = NaiveJournal()
    model.catch_up((number, journal.encode([change])) for number, change in enumerate(changes, 1))
    return model


def _ledgers(*changes: Any) -> Any:
    ledgers = Ledgers(1, 0)
    for change in changes:
        if not isinstance(change, Append):
            ledgers.apply(change)
    return SimpleNamespace(topic=1, number=0, ledgers=ledgers)


@pytest.mark.parametrize("change", [change for _, change in NONSENSE], ids=[name for name, _ in NONSENSE])
def test_a_journal_that_makes_no_sense_is_found(change: Any):
    assert not _read(*BEGIN).compare([_ledgers(*BEGIN)])
    assert _read(*BEGIN, change).compare([_ledgers(*BEGIN)])


def test_a_ledger_that_has_missed_a_change_is_found():
    settle = Settle(1, 0, 7, 1, 1, (SettledPart(1, Settlement.NACK, (1, 1)),))
    (case,) = {case.checker for case in _read(*BEGIN, settle).compare([_ledgers(*BEGIN)])}
    assert case == "a_ledger_is_what_the_journal_says"


def test_a_subscription_that_is_missing_is_found():
    assert _read(*BEGIN).compare([_ledgers()])
