"""What retention looks at: rows that a lease kept are looked at again when it has ended, and only then."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bowstring.broker.reading.due_times import Stretch
from bowstring.broker.upkeep.survey import Survey, Surveyed
from bowstring.core import granting, retention, settling, subscribing
from bowstring.core.changes import Append
from bowstring.core.due_blocks import Dues
from bowstring.core.ledger_changes import Expire
from bowstring.core.partition import Partition
from bowstring.core.row_set import RowSet
from bowstring.core.subscription_settings import SubscriptionSettings

HOUR = 3_600_000_000
LATER = 100 * HOUR
DUES = {2: LATER, 12: LATER}
"""The rows with a due time. Rows 1 to 10 and 11 to 20 are two pages, which arrive in the first hour."""


class Pages:
    """Due times of pages that are not sealed. Counts how often they are asked for."""

    def __init__(self) -> None:
        self.asked = 0

    async def between(self, partition: Partition, stretch: Stretch, since: int, horizon: int) -> Dues:
        self.asked += 1
        return self._dues(stretch).released_before(since, horizon)

    async def earliest(self, partition: Partition, stretch: Stretch, horizon: int) -> int:
        found = self._dues(stretch).from_horizon(horizon).earliest
        return retention.NEVER if found is None else found

    def _dues(self, stretch: Stretch) -> Dues:
        rows = [row for row in DUES if stretch.first_offset <= row < stretch.end_offset]
        return Dues(np.array([DUES[row] for row in rows], np.int64), np.array(rows, np.int64))


class Upkeep:
    """A partition with a subscription, and the part of upkeep that looks after its rows."""

    def __init__(self) -> None:
        self.partition, self.pages, unused = Partition(1, 0, 0), Pages(), Any
        self.survey = Survey(extents=unused, reader=unused, due_times=self.pages)  # type: ignore[arg-type]
        for first in (1, 11):
            self.partition.replay(Append(1, 0, first, 10, first, 2, b"a" * 16, first, due=LATER, segment=7, length=100), first)
        self.partition.apply(subscribing.subscribe(self.partition, 1, "billing", SubscriptionSettings(), 1, 5))
        self.ledger = self.partition.ledgers[1]

    def grant(self, most: int, now: int) -> int:
        granted = granting.grant(self.ledger, "ada", most, self.partition.next_offset, 30, now)
        assert granted is not None
        for change in granted.changes:
            self.partition.apply(change)
        return granted.number

    async def turn(self, horizon: int = HOUR) -> Surveyed:
        """Looks, decides, and remembers; gives what is kept then."""
        surveyed = await self.survey.facts(self.partition, horizon, 0)
        for change in retention.decide(self.partition, surveyed.facts, 0):
            self.partition.apply(change)
        self.survey.remember(self.partition, surveyed)
        self.partition.check()
        return surveyed

    @property
    def kept(self) -> list[int]:
        return self.partition.retained.kept.within(0, 100).tolist()


@pytest.fixture
def upkeep() -> Upkeep:
    return Upkeep()


async def test_rows_that_a_lease_kept_go_when_it_has_ended_and_those_that_are_due_later_stay(upkeep: Upkeep):
    upkeep.grant(5, now=100)
    upkeep.grant(7, now=110)
    await upkeep.turn()
    assert upkeep.kept == list(range(1, 13))
    assert not upkeep.survey.may_release(upkeep.partition)
    upkeep.partition.apply(Expire(1, 0, 1, 130))
    assert upkeep.survey.may_release(upkeep.partition)
    await upkeep.turn()
    assert upkeep.kept == [2, *range(6, 13)]
    assert not upkeep.survey.may_release(upkeep.partition)
    upkeep.partition.apply(Expire(1, 0, 1, 140))
    await upkeep.turn()
    assert upkeep.kept == [2, 12]
    await upkeep.turn(LATER + 1)
    assert upkeep.kept == []


async def test_while_nothing_ends_nothing_is_read_again(upkeep: Upkeep):
    upkeep.grant(5, now=100)
    for _ in range(2):
        await upkeep.turn()
    asked = upkeep.pages.asked
    for _ in range(3):
        surveyed = await upkeep.turn()
        assert surveyed.next_due == LATER
    assert upkeep.pages.asked == asked


async def test_a_row_that_is_due_while_somebody_holds_it_goes_afterwards(upkeep: Upkeep):
    await upkeep.turn()
    assert upkeep.kept == [2, 12]
    number = upkeep.grant(1, now=100)
    assert upkeep.ledger.leases.of_grant(number)[0].rows == RowSet(2, 3)
    await upkeep.turn(LATER + 1)
    assert upkeep.kept == [2]
    for change in settling.give_back(upkeep.ledger, [settling.GrantRows(number)], 100).changes:
        upkeep.partition.apply(change)
    await upkeep.turn(LATER + 2)
    assert upkeep.kept == []
