"""Decides how far retention goes in a partition, from facts that the caller has read.

Three things move. The floor rises past pages that are too old (`aged_to`), or too many bytes
(`shed_to`). Of the rows that it passes those are kept whose due time is not before the horizon,
those that a consumer holds, and those that a subscription has not settled and needs (`overtaking`).
And rows that were kept are released: their time has come and is over, their owner has deleted them,
or there are too many bytes. None is while a subscription needs it.

Reading takes a while, and publishes and deletions go on meanwhile. So `decide` looks again at
everything that can have changed: which rows are live, what is kept or held, and how far readers may
go.
What it knows stays true: rows do not get older or due by being moved.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bowstring.core.addresses import Runs
from bowstring.core.changes import Change
from bowstring.core.deletions import Deletions
from bowstring.core.due_blocks import NO_DUES, Dues, dues_of
from bowstring.core.machine import NEVER
from bowstring.core.offset_set import runs_of
from bowstring.core.overtaking import NO_LIMITS, KeepLimits, held, outgrown, overtake
from bowstring.core.pages import PageEntry
from bowstring.core.partition import Partition
from bowstring.core.retained import Retained
from bowstring.core.row_set import RowSet

NO_ROWS: NDArray[np.int64] = np.empty(0, np.int64)


class Facts(NamedTuple):
    """The facts about a partition that were read."""

    aged_to: int
    """Rows before this offset arrived before the horizon; at least the floor."""
    shed_to: int = 0
    """Rows before this offset are too many bytes, and go whenever they are due."""
    due_later: NDArray[np.int64] = NO_ROWS
    """The rows between the floor and `aged_to` that are not due before the horizon, in any order."""
    due_passed: NDArray[np.int64] = NO_ROWS
    """Rows below the floor that are due before the horizon, if they are kept: all that were not the last time, in any order."""
    unknown: Runs = ()
    """Rows whose due times are unreadable because of damage: they are kept."""
    passed_dues: Dues = NO_DUES
    """Those of `due_passed` that have a due time."""
    limits: KeepLimits = NO_LIMITS
    """How far subscriptions keep what is not settled."""


def decide(partition: Partition, facts: Facts, now: int) -> tuple[Change, ...]:
    """The changes that bring retention up to what was found; the floor is the last one."""
    retained, deletions = partition.retained, partition.deletions
    floor = max(retained.floor, min(max(facts.aged_to, facts.shed_to), partition.readable_offset))
    passed, released = RowSet(retained.floor, floor), RowSet.of_runs(runs_of(_released(retained, deletions, facts)))
    kept = RowSet.of_runs(sorted(_kept(retained.floor, floor, deletions, facts)))
    taken, ledgers = RowSet.union((passed - kept, released)), partition.ledgers
    overtaken = overtake(ledgers, taken, ledgers.kept(floor), facts.limits, now)
    if overtaken.stays:
        kept, released = RowSet.union((kept, overtaken.stays & passed)), released - overtaken.stays
    if floor == retained.floor and not released:
        return overtaken.changes
    return (*overtaken.changes, partition.raise_floor(floor, kept.runs(), released.runs()))


def _kept(before: int, floor: int, deletions: Deletions, facts: Facts) -> list[tuple[int, int]]:
    """Of the rows that the floor passes now those that stay."""
    first = max(before, facts.shed_to)
    rows = np.sort(facts.due_later)
    rows = rows[(rows >= first) & (rows < floor)]
    spans = [(max(offset, first), min(offset + rows, floor)) for offset, rows in facts.unknown]
    return [*runs_of(rows[~deletions.of(rows)]), *((offset, end - offset) for offset, end in spans if offset < end)]


def _released(retained: Retained, deletions: Deletions, facts: Facts) -> NDArray[np.int64]:
    """Of the rows that are kept those that go."""
    due = np.sort(facts.due_passed)
    parts = [due[retained.kept.of(due)], deletions.among(retained.kept), retained.kept.within(0, facts.shed_to)]
    parts = [part for part in parts if len(part)]
    return parts[0] if len(parts) == 1 else _distinct(np.concatenate(parts)) if parts else NO_ROWS


def note_releases(partition: Partition, facts: Facts) -> None:
    """Tells readers what the decision takes of the rows that are kept: those that no one has deleted. A row that a
    subscription still needs is too old for them already.
    """
    retained, deletions, dues = partition.retained, partition.deletions, facts.passed_dues
    order = np.argsort(dues.offsets)
    offsets, moments = dues.offsets[order], dues.moments[order]
    goes = retained.kept.of(offsets) & ~deletions.of(offsets)
    retained.releases.note(dues_of(moments[goes], offsets[goes]))
    shed = retained.kept.within(0, min(facts.shed_to, partition.readable_offset))
    shed = shed[~deletions.of(shed)]
    if len(shed):
        retained.releases.shed(int(shed[-1]) + 1)


def _distinct(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Ascending, each once. (np.unique imports numpy.ma, which takes 50 ms.)"""
    offsets.sort()
    return offsets[np.concatenate(([True], np.diff(offsets) != 0))]


class HeldRows:
    """Which rows subscriptions kept below the floors of partitions when retention was decided: by a
    lease, or because they are not settled. When they need such rows no more, these are looked at again:
    they may be kept for another reason.
    """

    def __init__(self) -> None:
        self._held: dict[tuple[int, int], tuple[RowSet, KeepLimits]] = {}

    def note(self, partition: Partition, limits: KeepLimits) -> None:
        """Retention was decided."""
        if rows := held(partition.ledgers, partition.retained.floor, limits):
            self._held[partition.topic, partition.number] = rows, limits
        else:
            self._held.pop((partition.topic, partition.number), None)

    def has_limits(self, partition: Partition) -> bool:
        """Whether some of them are kept for a while only."""
        _, limits = self._held.get((partition.topic, partition.number), (None, None))
        return bool(limits)

    def ended(self, partition: Partition, first: int = 0, end: int = NEVER, limits: KeepLimits | None = None) -> bool:
        """Whether no subscription needs some of them any more, or one has lost some that another needs,
        of the rows in [first, end). The limits are those of the last time, unless newer ones are known.
        """
        rows, known = self._held.get((partition.topic, partition.number), (RowSet(0, 0), {}))
        if not (some := rows & RowSet(first, end)):
            return False
        ledgers, floor, reach = partition.ledgers, partition.retained.floor, known if limits is None else limits
        return bool(some - held(ledgers, floor, reach)) or bool(some & outgrown(ledgers, floor, reach))

    def clear(self) -> None:
        """Forgets all."""
        self._held.clear()


# How far


class Reach(NamedTuple):
    """How far a walk over pages has come, and whether it ends there."""

    offset: int
    is_over: bool
    arrived: int = NEVER
    """When the page at which it ends has arrived as a whole."""


def aged(entries: Iterable[PageEntry], offset: int, horizon: int) -> Reach:
    """Past the pages whose last row arrived before the horizon, from the offset on."""
    for entry in entries:
        if entry.arrived_last >= horizon:
            return Reach(offset, is_over=True, arrived=entry.arrived_last)
        offset = max(offset, entry.end)
    return Reach(offset, is_over=False)


def shed(entries: Iterable[PageEntry], offset: int, surplus: int) -> tuple[Reach, int]:
    """Past as many pages as have that many bytes too many, and how many bytes are left over."""
    for entry in entries:
        if surplus <= 0:
            return Reach(offset, is_over=True), surplus
        surplus -= entry.length
        offset = max(offset, entry.end)
    return Reach(offset, is_over=surplus <= 0), surplus


# When


class Outlook(NamedTuple):
    """The facts about a partition between two looks: nothing is due before `next_deadline`."""

    arrived: int
    """When the oldest page above the floor arrived, as a whole; NEVER if there is none."""
    due: int
    """The earliest due time of the rows that are kept below the floor; NEVER if there are none."""
    expires: int
    """When the first of the extents expires; NEVER if none does."""

    def next_deadline(self, retention: int) -> int:
        """When the floor can rise, a row be released, or an extent go."""
        return min(min(self.arrived, self.due) + retention, self.expires)
