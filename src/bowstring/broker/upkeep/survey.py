"""What retention has to know of a partition before it decides: how old pages are, how large, and when rows are due.

Nothing is read twice for it. Of each stretch of rows below the floor it is remembered up to which
horizon its due times were looked at, and which comes next, so that a minute in which nothing is due
costs nothing, and one in which some rows are costs the blocks that these are in. Where a subscription
kept rows and needs them no more, all due times are looked at again: they may be kept for another reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from bowstring.broker.reading.due_times import DueTimes, Stretch, StretchKey
from bowstring.broker.reading.extents import Extents
from bowstring.broker.reading.page_reader import PageReader
from bowstring.core import retention
from bowstring.core.due_blocks import NO_DUES, Dues, Offsets, joined
from bowstring.core.machine import NEVER
from bowstring.core.overtaking import KeepLimit, spans_kept
from bowstring.core.pages import LOST, PageEntry
from bowstring.core.partition import Partition
from bowstring.core.retention import NO_ROWS, Facts, HeldRows, Outlook
from bowstring.ports.extents import Extent
from bowstring.ports.failures import Damaged

PAGES_A_READ = 256
KEPT_A_CHANGE = 100_000
"""About so many rows are newly kept with one change of the floor; it rises further with the next turn."""


class _Known(NamedTuple):
    """What is known of a stretch: which rows of it are kept."""

    since: int
    """Those that are due from this moment on; -1 if that is not known, which counts as all."""
    due: int
    """When the first of them is due."""


class Surveyed(NamedTuple):
    """The facts, and what is to be remembered when what follows from them is committed."""

    facts: Facts
    arrived: int
    """When the oldest page above the floor has arrived as a whole."""
    known: dict[StretchKey, _Known]

    @property
    def next_due(self) -> int:
        """When the first of the rows is due that are kept."""
        return min([known.due for known in self.known.values()], default=NEVER)


class _Passed(NamedTuple):
    """How far the floor can rise by age, and over what."""

    aged_to: int
    arrived: int
    stretches: list[Stretch]
    rows: list[Offsets]
    unknown: list[Stretch]


class _Gone(NamedTuple):
    """Rows that are kept no longer."""

    offsets: Offsets
    dues: Dues
    """Those of them that have a due time, and perhaps others."""


class Survey:
    """Gathers facts, and remembers what it has seen."""

    def __init__(self, *, extents: Extents, reader: PageReader, due_times: DueTimes) -> None:
        self._extents = extents
        self._reader = reader
        self._due_times = due_times
        self._known: dict[tuple[int, int], dict[StretchKey, _Known]] = {}
        self._held = HeldRows()

    def forget_all(self) -> None:
        self._known.clear()
        self._held.clear()

    def may_release(self, partition: Partition) -> bool:
        """Whether a subscription needs rows below the floor no more, or perhaps not for much longer."""
        return self._held.has_limits(partition) or self._held.ended(partition)

    # Glances

    async def outlook(self, partition: Partition) -> Outlook:
        """When something has to be done: at the earliest, as far as memory and the catalog tell."""
        at_load = partition.sealed_above_floor
        if at_load is not None and not len(partition.retained.kept):  # what is not sealed arrived later
            return Outlook(at_load.arrived, NEVER, at_load.expires or NEVER)
        floor, extents = partition.retained.floor, await self.extents_of(partition)
        expires = min((extent.expires for extent in extents if extent.expires), default=NEVER)
        known = self._known.get((partition.topic, partition.number), {})
        due = min([_due(partition, s, known.get(s.key)) for s in self._below(partition, extents)], default=NEVER)
        above = next((extent for extent in extents if extent.end_offset > floor), None)
        if above is not None and above.first_offset >= floor:
            return Outlook(above.arrived_first, due, expires)
        entries = await self.entries(partition, floor, partition.committed_offset, 1)
        return Outlook(entries[0].arrived if entries else NEVER, due, expires)

    async def extents_of(self, partition: Partition) -> list[Extent]:
        has_extents = partition.sealed_end > 1 and partition.sealed_bytes
        return await self._extents.of(partition) if has_extents else []

    def _below(self, partition: Partition, extents: list[Extent]) -> list[Stretch]:
        """The stretches with rows that are kept below the floor."""
        kept, floor = partition.retained.kept, partition.retained.floor
        if not len(kept):
            return []
        found = [Stretch(extent) for extent in extents if extent.first_offset < floor]
        if partition.sealed_end < floor:
            found += [Stretch(None, entry) for entry in partition.pages.between(partition.sealed_end, floor, 1 << 62, 1 << 62)]
        return [stretch for stretch in found if kept.any(stretch.first_offset, min(stretch.end_offset, floor))]

    # Facts

    async def facts(self, partition: Partition, horizon: int, surplus: int) -> Surveyed:
        """What `retention.decide` needs. `surplus` is by how many bytes there is too much."""
        extents, floor = await self.extents_of(partition), partition.retained.floor
        remembered = self._known.get((partition.topic, partition.number), {})
        below = self._below(partition, extents)
        passed = await self._passed(partition, extents, horizon)
        limits = {span: await self._limit(partition, extents, horizon - span) for span in sorted(spans_kept(partition.ledgers))}
        gone: list[_Gone] = []
        touched = {stretch.key: stretch for stretch in passed.stretches}
        unknown = {stretch.key for stretch in passed.unknown}
        for stretch in below:
            known = remembered.get(stretch.key, _Known(-1, 0))
            if self._held.ended(partition, stretch.first_offset, stretch.end_offset, limits):
                known = _Known(-1, 0)
            if _due(partition, stretch, known) < horizon:
                touched[stretch.key] = stretch
                try:
                    gone.append(await self._gone(partition, stretch, known, horizon))
                except Damaged:  # it is not known, so they stay
                    unknown.add(stretch.key)
        known = {stretch.key: remembered[stretch.key] for stretch in below if stretch.key in remembered}
        for key, stretch in touched.items():
            known[key] = _Known(-1, horizon) if key in unknown else await self._known_of(partition, stretch, horizon)
        shed_to = await self._shed_to(partition, surplus) if surplus > 0 else 0
        spans = [(stretch.first_offset, stretch.end_offset - stretch.first_offset) for stretch in passed.unknown]
        due_passed, passed_dues = _all([found.offsets for found in gone]), joined([found.dues for found in gone])
        facts = Facts(max(passed.aged_to, floor), shed_to, _all(passed.rows), due_passed, tuple(spans), passed_dues, limits)
        return Surveyed(facts, passed.arrived, known)

    def remember(self, partition: Partition, surveyed: Surveyed) -> None:
        """What follows from the facts is decided."""
        self._known[partition.topic, partition.number] = surveyed.known
        self._held.note(partition, surveyed.facts.limits)

    async def _gone(self, partition: Partition, stretch: Stretch, known: _Known, horizon: int) -> _Gone:
        """The rows of a stretch below the floor that are kept no longer. Raises Damaged."""
        if known.since >= 0:
            dues = await self._due_times.between(partition, stretch, known.since, horizon)
            return _Gone(dues.offsets, dues)
        later = await self._due_times.between(partition, stretch, horizon, NEVER)
        kept = partition.retained.kept.within(stretch.first_offset, min(stretch.end_offset, partition.retained.floor))
        gone = np.setdiff1d(kept, later.offsets, assume_unique=True)
        return _Gone(gone, await self._due_times.between(partition, stretch, 0, horizon) if len(gone) else NO_DUES)

    async def _limit(self, partition: Partition, extents: list[Extent], horizon: int) -> KeepLimit:
        """How far rows are kept that came before the horizon, which is earlier than that of retention."""
        offset, later = partition.retained.first, list[Offsets]()
        for extent in extents:
            if extent.end_offset <= offset:
                continue
            reach = await self._reach_in(extent, max(offset, extent.first_offset), horizon)
            try:
                later.append((await self._due_times.between(partition, Stretch(extent), horizon, NEVER)).offsets)
            except Damaged:  # how old its rows are is not known
                return KeepLimit.found(min(reach.offset, extent.first_offset), later)
            offset = reach.offset
            if reach.is_over:
                return KeepLimit.found(offset, later)
        entries = partition.pages.between(max(offset, partition.sealed_end), partition.readable_offset, 1 << 62, 1 << 62)
        offset = retention.aged(entries, offset, horizon).offset
        dated = [
            entry
            for entry in entries
            if entry.end <= offset and (entry.due >= horizon or partition.moved_rows.any(entry.first_offset, entry.end))
        ]
        later += [(await self._due_times.between(partition, Stretch(None, entry), horizon, NEVER)).offsets for entry in dated]
        return KeepLimit.found(offset, later)

    async def _known_of(self, partition: Partition, stretch: Stretch, horizon: int) -> _Known:
        try:
            return _Known(horizon, await self._due_times.earliest(partition, stretch, horizon))
        except Damaged:
            return _Known(-1, horizon)

    async def _passed(self, partition: Partition, extents: list[Extent], horizon: int) -> _Passed:
        """Extents that are too old as a whole, then pages."""
        floor = partition.retained.floor
        passed = _Passed(floor, NEVER, [], [], [])
        for extent in extents:
            if extent.end_offset <= floor:
                continue
            reach = await self._reach_in(extent, max(floor, passed.aged_to), horizon)
            if reach.offset > passed.aged_to:
                passed = await self._with_dues(partition, passed._replace(aged_to=reach.offset), Stretch(extent), horizon)
            if reach.is_over or sum(map(len, passed.rows)) >= KEPT_A_CHANGE:
                return passed._replace(arrived=reach.arrived)
        return await self._passed_unsealed(partition, passed, horizon)

    async def _reach_in(self, extent: Extent, offset: int, horizon: int) -> retention.Reach:
        if extent.arrived_last < horizon:
            return retention.Reach(extent.end_offset, is_over=False)
        if extent.arrived_first >= horizon:
            return retention.Reach(offset, is_over=True, arrived=extent.arrived_first)
        try:
            entries = (await self._extents.index(extent)).between(offset, extent.end_offset, 1 << 62, 1 << 62)
        except Damaged:  # it counts as one page, so that it holds nothing up
            return retention.Reach(offset, is_over=True, arrived=extent.arrived_last)
        return retention.aged(entries, offset, horizon)

    async def _with_dues(self, partition: Partition, passed: _Passed, stretch: Stretch, horizon: int) -> _Passed:
        passed.stretches.append(stretch)
        try:
            passed.rows.append((await self._due_times.between(partition, stretch, horizon, NEVER)).offsets)
        except Damaged:
            passed.unknown.append(stretch)
        return passed

    async def _passed_unsealed(self, partition: Partition, passed: _Passed, horizon: int) -> _Passed:
        while sum(map(len, passed.rows)) < KEPT_A_CHANGE:
            offset = max(passed.aged_to, partition.sealed_end)
            entries = partition.pages.between(offset, partition.readable_offset, 1 << 62, PAGES_A_READ)
            reach = retention.aged(entries, offset, horizon)
            for entry in entries:
                if entry.end <= reach.offset and (entry.due >= horizon or partition.moved_rows.any(entry.first_offset, entry.end)):
                    passed = await self._with_dues(partition, passed, Stretch(None, entry), horizon)
            passed = passed._replace(aged_to=max(passed.aged_to, reach.offset), arrived=reach.arrived)
            if reach.is_over or not entries:
                break
        return passed

    # Bytes

    async def _shed_to(self, partition: Partition, surplus: int) -> int:
        """Goes on page by page until what is left is not too much: the oldest first, kept or not."""
        retained = partition.retained
        offset = shed_to = retained.first
        while surplus > 0:
            entries = await self.entries(partition, offset, partition.readable_offset, PAGES_A_READ)
            if not entries:
                break
            counted = [entry for entry in entries if entry.end > partition.sealed_end or retained.any(entry.first_offset, entry.end)]
            reach, surplus = retention.shed(counted, offset, surplus)
            offset, shed_to = entries[-1].end, reach.offset
        return min(shed_to, partition.readable_offset)

    async def entries(self, partition: Partition, offset: int, end: int, pages_max: int) -> list[PageEntry]:
        """The next pages. An extent whose index cannot be read counts as one page that cannot be read, so that it holds nothing up."""
        try:
            return await self._reader.entries(partition, offset, end, 1 << 40, pages_max)
        except Damaged:
            for extent in await self._extents.of(partition):
                if extent.end_offset > offset and await self._index_entries(extent) is None:
                    return [_as_a_page(extent)]
            raise

    async def _index_entries(self, extent: Extent) -> list[PageEntry] | None:
        try:
            return (await self._extents.index(extent)).state()
        except Damaged:
            return None

    async def bytes_behind(self, partition: Partition) -> int:
        """Bytes of pages that extents still have, and in which nothing is retained."""
        retained, size = partition.retained, 0
        if partition.sealed_above_floor is not None:
            return 0
        for extent in await self._extents.of(partition):
            if not retained.any(extent.first_offset, extent.end_offset):
                size += extent.bytes
            elif extent.first_offset < retained.floor and (entries := await self._index_entries(extent)) is not None:
                size += sum(entry.length for entry in entries if not retained.any(entry.first_offset, entry.end))
        return size


def _due(partition: Partition, stretch: Stretch, known: _Known | None) -> int:
    """When the first row of a stretch is due that is kept: rows may have been moved since it was looked
    at.
    """
    if known is None:
        return 0
    moved = partition.moved_rows.due_between(max(known.since, 0), NEVER, stretch.first_offset, stretch.end_offset).earliest
    return known.due if moved is None else min(known.due, moved)


def _all(parts: Iterable[Offsets]) -> Offsets:
    found = [part for part in parts if len(part)]
    return np.concatenate(found) if found else NO_ROWS


def _as_a_page(extent: Extent) -> PageEntry:
    """All of an extent whose contents are not known."""
    return PageEntry(
        first_offset=extent.first_offset,
        rows=extent.end_offset - extent.first_offset,
        arrived=extent.arrived_first,
        segment=LOST,
        position=0,
        length=extent.bytes,
        written=0,
        columns=0,
        arrived_last=extent.arrived_last,
        due=NEVER,
    )
