"""Planted bugs of what happens to messages at rest: sealing, cleaning, retention, and loading on top of that."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from bowstring.broker.reading import page_cutting, visibility
from bowstring.broker.reading.cursor import Cursor
from bowstring.broker.reading.extents import Extents
from bowstring.broker.reading.fetcher import Fetcher
from bowstring.broker.reading.id_blocks import IdBlocks
from bowstring.broker.reading.sealed_ids import SealedIds
from bowstring.broker.trusted_clock import TrustedClock
from bowstring.broker.upkeep import capture, cleaner, coalesced_page, page_sealing, usage
from bowstring.broker.upkeep.copier import Copier
from bowstring.broker.upkeep.extent_removal import ExtentRemoval
from bowstring.broker.upkeep.placement import Placed, Placing, _Sections
from bowstring.broker.upkeep.sealer import Sealer
from bowstring.broker.upkeep.survey import Survey
from bowstring.broker.upkeep.usage import Usage
from bowstring.core import snapshots
from bowstring.core.machine import NEVER
from bowstring.core.natural_ids import Hits
from bowstring.core.pages import PageEntry
from bowstring.core.partition import Partition
from bowstring.core.retained import Retained
from bowstring.core.retention import NO_ROWS
from bowstring.core.unsealed_batches import UnsealedBatches
from bowstring.ports.extents import StateRow
from tests.simulation.load import KIB
from tests.simulation.planting import CALM, CRASHES, CUTS, HURRY, KEEPING, POWER, SEALING, SEGMENTS, bug

OVERTAKING = KEEPING.only(
    topics=0, brief_topics=0, sized_topics=2, retention_bytes=32 * KIB, readers=8, brink=0.7, inline_bytes=0, pages_bytes=0
).only(upkeep_seconds=0.1, seconds=12.0)


@contextmanager
def _unchecked() -> Generator[None]:
    """The machine's own checks at load would stop some of these."""
    with patch.object(Partition, "check", lambda _: None):
        yield


@contextmanager
def _without_chunks(machine: str) -> Generator[None]:
    """Chunks of a machine count as written, and are not."""
    original = snapshots.capture

    def captured(partition: Partition) -> list[Any]:
        return [part for part in original(partition) if part.machine != machine]

    with patch.object(snapshots, "capture", captured):
        yield


# ---- sealing -----------------------------------------------------------------------------------------------------------


@bug(CRASHES, SEALING)
def journal_is_trimmed_one_row_too_far() -> Generator[None]:
    """The first row that is not sealed yet goes with the others."""
    original = Sealer._trim

    async def trim(self: Sealer, sequence: int) -> None:
        await original(self, sequence + 2)

    with patch.object(Sealer, "_trim", trim), patch.object(Partition, "oldest_needed", lambda _: NEVER), _unchecked():
        yield


@bug(CRASHES, SEALING)
def trim_passes_what_a_state_still_needs() -> Generator[None]:
    """One partition of each step gets no new state, and the journal is trimmed as if it had one."""
    original = Sealer.snapshot

    async def snapshot(self: Sealer, actors: Any) -> None:
        await original(self, actors[1:] if len(actors) > 1 else actors)

    with patch.object(Sealer, "snapshot", snapshot), patch.object(Partition, "oldest_needed", lambda _: NEVER), _unchecked():
        yield


@bug(CRASHES, SEALING)
def snapshot_says_that_it_is_one_flush_newer() -> Generator[None]:
    """The flush after it is not applied at load."""

    def newer(topic: int, partition: int, machine: str, part: int, broker: int, sequence: int, state: bytes) -> StateRow:
        return StateRow(topic, partition, machine, part, broker, sequence + (part == 0), state)

    with patch.object(capture, "StateRow", newer), _unchecked():
        yield


class _Unsynced(Placing):
    """Writes and does not sync."""

    async def flush(self) -> None:
        store = self._store
        self._store = _NoSync(store)  # type: ignore[assignment]
        try:
            await super().flush()
        finally:
            self._store = store


class _NoSync:
    def __init__(self, store: Any) -> None:
        self.append = store.append

    async def sync(self) -> None:
        pass


@bug(POWER, SEALING)
def extent_is_committed_before_its_pages_are_synced() -> Generator[None]:
    """The journal is trimmed, and the copies may not be on the disk."""
    with patch.object(page_sealing, "Placing", _Unsynced):
        yield


@bug(POWER, KEEPING)
def extents_are_switched_before_the_copy_is_synced() -> Generator[None]:
    """The cleaner gives the old place back before the new one is durable."""
    with patch.object(cleaner, "Placing", _Unsynced):
        yield


@bug(CALM, SEALING)
def index_section_lacks_its_last_page() -> Generator[None]:
    """An extent of several pages forgets the last one."""
    original = _Sections.write_index_and_blocks

    async def write(self: _Sections, placing: Placing) -> None:
        whole = self._entries
        self._entries = whole[:-1] if len(whole) > 1 else whole
        await original(self, placing)
        self._entries = whole

    with patch.object(_Sections, "write_index_and_blocks", write):
        yield


@bug(CALM, SEALING.only(batches=0.0, natural=0.0))
def origins_are_mixed_up_in_a_coalesced_page() -> Generator[None]:
    """Rows get each other's producers."""
    original = coalesced_page.encode_header

    def encode(header: Any) -> bytes:
        header.origins = header.origins[::-1]
        return original(header)

    with patch.object(coalesced_page, "encode_header", encode):
        yield


@bug(CALM, SEALING)
def arrival_of_coalesced_rows_is_that_of_the_first() -> Generator[None]:
    """A page has one moment, whoever is in it."""

    def arrivals(_: Any, entry: Any) -> Any:
        return np.full(entry.rows, entry.arrived, np.int64)

    with patch.object(page_cutting, "arrivals", arrivals), patch.object(visibility, "arrivals", arrivals):
        yield


@bug(CRASHES.only(slow_rate=0.05, slow_seconds=0.5), HURRY.only(seal_seconds=1.0, upkeep_seconds=0.4))
def deletions_are_not_written_at_seal() -> Generator[None]:
    """What was taken back is there again when the journal is trimmed and the broker starts anew."""
    with _without_chunks(snapshots.DELETIONS):
        yield


@bug(CUTS, SEALING.only(natural=0.0, repeats=1.0))
def batches_are_forgotten_when_they_are_sealed() -> Generator[None]:
    """Sections have the ids that callers gave, and nothing of those that kits generate."""
    none = b"", np.empty(0, np.int64), np.empty(0, np.int64)
    with patch.object(UnsealedBatches, "below", lambda *_: none):
        yield


@bug(CALM, SEALING.only(natural=1.0, ids=20))
def ids_are_looked_for_in_the_newest_extent_only() -> Generator[None]:
    """An id that was sealed twice ago is not known any more."""
    original = SealedIds.candidates

    async def candidates(self: SealedIds, partition: Partition, hashes: Any, horizon: int) -> Hits:
        return await original(_OfNewest(self), partition, hashes, horizon)  # type: ignore[arg-type]

    class _OfNewest:
        def __init__(self, ids: SealedIds) -> None:
            self._all = ids
            self._extents = self

        async def of(self, partition: Partition) -> Any:
            return (await self._all._extents.of(partition))[-1:]

        def __getattr__(self, name: str) -> Any:
            return getattr(self._all, name)

    none = lambda *_: False  # noqa: E731
    with patch.object(SealedIds, "candidates", candidates), patch.object(SealedIds, "surely_none", none):
        yield


@bug(CALM, SEALING.only(seconds=20.0, natural=1.0, ids=200, seal_seconds=0.5, upkeep_seconds=0.3, pause_seconds=0.1))
def ids_are_lost_when_extents_are_joined() -> Generator[None]:
    """Of the sections of several extents the first one stays."""
    original = IdBlocks.joined_ids

    async def joined(self: IdBlocks, extents: Any, first_offset: int) -> Any:
        return await original(self, extents[:1], first_offset)

    with patch.object(IdBlocks, "joined_ids", joined):
        yield


@bug(CALM, SEALING.only(index_bytes=1 << 20, readers=4))
def extents_are_remembered_after_they_have_changed() -> Generator[None]:
    """What was sealed or moved since is looked for in the old places."""
    with patch.object(Extents, "forget", lambda *_: None):
        yield


@bug(CALM, KEEPING)
def a_moved_pages_order_is_taken_from_its_frame() -> Generator[None]:
    """A page that is copied counts as visible since it was copied, and so does not stand where its offsets are."""
    original = Placed.settled

    def settled(self: Placed) -> PageEntry:
        entry = original(self)
        return entry._replace(visible=entry.written)

    with patch.object(Placed, "settled", settled):
        yield


# ---- cleaning ----------------------------------------------------------------------------------------------------------


@bug(CALM, KEEPING)
def cleaner_leaves_a_live_page_behind() -> Generator[None]:
    """Of several pages the last one is not taken along."""
    original = Copier.copied

    async def copied(self: Copier, placing: Any, partition: Any, entries: Any, segment: int) -> Any:
        return await original(self, placing, partition, entries[:-1] if len(entries) > 1 else entries, segment)

    with patch.object(Copier, "copied", copied):
        yield


@bug(CALM, SEGMENTS.only(seconds=20.0, topics=2, brief_topics=2, retention_seconds=1.0, seal_seconds=2.0, upkeep_seconds=0.4))
def segment_is_reused_while_unsealed_pages_are_in_it() -> Generator[None]:
    """Only extents are asked whether they need it."""

    def unused(self: Usage, segments: Any) -> list[int]:
        return sorted(segment for segment in segments if not self._sealed[segment] and not self._pins[segment])

    with patch.object(Usage, "unused", unused):
        yield


@bug(CALM, KEEPING.only(inline_bytes=0))
def use_of_a_segment_is_counted_too_low() -> Generator[None]:
    """Where an extent is in several segments, one of them is not counted."""

    def add(counter: Any, segments: Any, sign: int) -> None:
        for segment, size in list(segments.items())[: max(1, len(segments) - 1)]:
            counter[segment] += sign * size

    with patch.object(usage, "_add", add):
        yield


# ---- retention ---------------------------------------------------------------------------------------------------------


@bug(CALM, KEEPING)
def retention_takes_one_page_too_many() -> Generator[None]:
    """The first page that is young enough goes, too."""
    original = Survey.facts

    async def facts(self: Survey, partition: Partition, *arguments: Any) -> Any:
        found = await original(self, partition, *arguments)
        aged_to, end = found.facts.aged_to, partition.readable_offset
        entries = await self._reader.entries(partition, aged_to, end, 1, 1) if aged_to > partition.retained.floor else []
        return found._replace(facts=found.facts._replace(aged_to=min(entries[0].end, end))) if entries else found

    with patch.object(Survey, "facts", facts):
        yield


@bug(CALM.only(jump_every=3.0, jump_seconds=3_000.0), KEEPING.only(retention_seconds=60.0))
def retention_goes_by_a_wall_clock_that_jumps() -> Generator[None]:
    """A clock that is set forward deletes everything that is there."""
    with patch.object(TrustedClock, "now", lambda self: self._clock.now()):
        yield


@bug(CALM, KEEPING.only(delayed=0.5))
def rows_with_a_due_time_go_with_the_others() -> Generator[None]:
    """Nothing is kept below the floor."""
    original = Survey.facts

    async def facts(self: Survey, *arguments: Any) -> Any:
        found = await original(self, *arguments)
        return found._replace(facts=found.facts._replace(due_later=NO_ROWS, unknown=()))

    with patch.object(Survey, "facts", facts):
        yield


@bug(CALM, KEEPING.only(delayed=0.5, upkeep_seconds=5.0))
def age_counts_from_arrival_alone() -> Generator[None]:
    """A message whose due time is still to come is too old to be shown."""
    with patch.object(visibility, "DUE", 0):
        yield


@bug(CALM, SEALING.only(expiring=0.5))
def expired_rows_are_delivered() -> Generator[None]:
    """They are there until their page goes."""
    with patch.object(visibility, "EXPIRES", 0):
        yield


@bug(CALM, KEEPING.only(readers=4, delayed=0.3))
def overtaken_reader_goes_on_without_a_word() -> Generator[None]:
    """It is put behind what is gone."""

    def move(self: Cursor, topic: str) -> None:
        self.offset = max(self.offset, self.actor.partition.retained.first)

    original = Cursor.__init__

    def made(self: Cursor, *arguments: Any) -> None:
        original(self, *arguments)
        self.horizon = 1 << 62

    with patch.object(Cursor, "check_overtaken", move), patch.object(Cursor, "__init__", made):
        yield


@bug(CALM.only(slow_rate=0.1, slow_seconds=0.5, sync_seconds=0.01), OVERTAKING)
def reader_is_overtaken_while_its_pages_are_read() -> Generator[None]:
    """Retention takes rows between the look at the index and the end of the read, and the reader goes on behind them."""
    original = Fetcher._fetch

    async def fetch(self: Fetcher, cursor: Cursor, entries: Any) -> Any:
        cursor.check_overtaken = lambda _: None  # type: ignore[method-assign]
        try:
            return await original(self, cursor, entries)
        finally:
            cursor.__dict__.pop("check_overtaken", None)

    with patch.object(Fetcher, "_fetch", fetch):
        yield


@bug(CRASHES, KEEPING.only(delayed=0.3))
def floor_is_not_restored_at_load() -> Generator[None]:
    """What a snapshot says of retention is not read."""
    with patch.object(Retained, "restore", lambda *_: None), _unchecked():
        yield


@bug(
    CRASHES.only(crash_every=2.0, bit_rot_rate=0.02),  # damaged pages stop seals half-way
    KEEPING.only(brief_topics=3, retention_seconds=1.0, seal_seconds=0.5, upkeep_seconds=0.2, inline_bytes=16 * KIB),
)
def extent_goes_before_its_journal() -> Generator[None]:
    """The journal still has the pages, no snapshot says that they were sealed, and they come back at load: they lead nowhere."""
    original = ExtentRemoval.drop

    async def drop(self: ExtentRemoval, actor: Any, now: int) -> None:
        of, partition = self._sealer, actor.partition
        before = of.trimmed, partition.snapshot_end
        of.trimmed = partition.snapshot_end = 1 << 60
        try:
            await original(self, actor, now)
        finally:
            of.trimmed, partition.snapshot_end = before

    with patch.object(ExtentRemoval, "drop", drop):
        yield
