"""What keeps the journal short: its pages move into extents, its changes into snapshots, and its
rows are trimmed.

    for some partitions at a time:
      pages that are inlined in the journal, and small ones ──coalesced──► segment ┐
      index section, ids section                                        ──► segment ┴ sync ──► edit: one extent a partition
    for some partitions at a time: their state as of a flush, once that flush is committed ──► edit: snapshots, chunks of deletions
    edit after edit: rows of the journal go

Each step is small, because flushes wait behind it: the loop is given up after every few pages, a
write to a segment is small and is synced at once (`placing`), an edit has a few dozen rows. The
order makes every crash harmless. An extent is added only after its bytes are durable; while the
journal still has the rows, the loader skips what extents and snapshots tell already
(`Partition.replay`); and the rows go last.

A page of the journal that cannot be read keeps the seal from going on. It is tried again at the
next one; after `TRIES_MAX` it is written down as lost, so that one bad page does not let the
journal grow for ever: its offsets then answer `Corrupt`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from bowstring import errors
from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.log.flusher import Flush
from bowstring.broker.log.log import Log
from bowstring.broker.reading.page_dues import all_at_last
from bowstring.broker.reading.reading import Reading
from bowstring.broker.surroundings import Surroundings
from bowstring.broker.upkeep.capture import Capture
from bowstring.broker.upkeep.coalesced_page import BYTES_MAX, Cutting, Sealable, coalesce, runs
from bowstring.broker.upkeep.placement import PAUSE_SECONDS, ExtentDraft, Placed, Placing, Written, write_sections
from bowstring.broker.upkeep.switch import Switch
from bowstring.broker.upkeep.usage import Usage
from bowstring.core.due_blocks import joined
from bowstring.core.id_sections import Builder, batch_hashes, parts_in, parts_of
from bowstring.core.machine import NEVER
from bowstring.core.pages import LOST, PAGES_AT_ONCE, PageEntry
from bowstring.core.partition import Partition
from bowstring.messages.schema import DUE, ID
from bowstring.ports.extents import Extent
from bowstring.ports.failures import Damaged, DiskFull
from bowstring.ports.journal import Edit

PARTITIONS_A_STEP = 32
PAGES_AN_EXTENT = 4096
"""A partition with more pages gets several extents: with more of them each would hold up the loop."""
IDS_MAX = 1 << 20
"""Messages with ids, in an extent or before a seal is due, or a few more: one that is not sealed
takes three times the memory.
"""
PAGE_COST = 8 * 1024
"""So many bytes take as long to copy as it takes to look at a page."""
HURRY = 2
"""A seal is in a hurry at this many times its threshold."""
ROWS_A_TRIM = 200
TRIES_MAX = 3


class Counts(NamedTuple):
    """The amounts since the last seal."""

    rows: int = 0
    changes: int = 0
    inlined: int = 0
    bytes: int = 0
    ids: int = 0
    """Messages with ids that callers gave."""


class Sealer:
    """Seals what one incarnation writes."""

    def __init__(self, surroundings: Surroundings, log: Log, reading: Reading, usage: Usage, switch: Switch, *, trimmed: int) -> None:
        self._settings = surroundings.settings
        self._clock = surroundings.clock
        self._journal = log.journal
        self._store = surroundings.store
        self._counters = surroundings.counters
        self._observer = surroundings.observer
        self._witness = surroundings.witness
        self._small_page_bytes = surroundings.tuning.small_page_bytes
        self._cut_page_bytes = surroundings.tuning.cut_page_bytes
        self._broker = log.fence.broker
        self._flusher = log.flusher
        self._topics = log.topics
        self._extents = reading.extents
        self._reader = reading.reader
        self._note_damage = reading.note_damage
        self._usage = usage
        self._switch = switch
        self.trimmed = trimmed
        """The journal has no rows up to this sequence."""
        self._counts = Counts(rows=log.flusher.committed - trimmed)
        self._copied = 0
        """Bytes since the last pause."""
        self._hurry = False
        """So much has come that it is better sealed soon than well."""
        self._postponed = False
        """The last seal could not be done."""
        self._tries: dict[tuple[int, int, int], int] = {}
        """How often a page of the journal could not be read, by topic, partition and offset."""
        self._sealed_at = self._clock.monotonic()

    def note(self, flush: Flush) -> None:
        """A flush was committed."""
        rows, changes, inlined, size, ids = self._counts
        small = flush.page_bytes if not flush.written else 0
        ids += sum([change.rows for change, _ in flush.pages if change.columns & ID])
        self._counts = Counts(rows + 1, changes + len(flush.changes), inlined + small, size + flush.page_bytes, ids)

    @property
    def is_due(self) -> bool:
        """Is there enough to seal?"""
        settings, counts = self._settings, self._counts
        old = counts.rows > 1 and self._clock.monotonic() - self._sealed_at >= settings.seal_seconds
        full = counts.rows >= settings.seal_rows or counts.changes >= 15 * settings.seal_rows or counts.ids >= IDS_MAX
        return old or full or counts.inlined >= settings.seal_inline_bytes or counts.bytes >= settings.seal_bytes

    @property
    def is_pressed(self) -> bool:
        """Have so many ids come while the last ones were sealed that the next seal is due at once? They take memory until then."""
        return self._counts.ids >= IDS_MAX and not self._postponed

    async def seal(self) -> None:
        """Seals everything that is committed now. Raises DiskFull, Damaged (nothing is lost, and it
        can be tried again), or worse.
        """
        before, self._counts = self._counts, Counts()
        self._hurry = before.bytes >= HURRY * self._settings.seal_bytes or before.rows >= HURRY * self._settings.seal_rows
        self._witness.seal_began()
        try:
            await self._seal(self._flusher.committed)
        except (DiskFull, Damaged):
            self._witness.seal_ended(whole=False)
            self._counts = Counts(*map(sum, zip(before, self._counts, strict=True)))
            self._postponed = True
            raise
        self._postponed = False
        self._sealed_at = self._clock.monotonic()
        self._counters.seals += 1
        self._witness.seal_ended(whole=True)
        self._observer.note("journal-sealed", rows=before.rows, bytes=before.bytes)

    async def _seal(self, sequence: int) -> None:
        actors = self._topics.actors()
        for step in _steps(actor for actor in actors if actor.partition.pages.count_upto(sequence)):
            while step:
                await self._seal_pages(step, sequence)
                step = [actor for actor in step if actor.closed is None and actor.partition.pages.count_upto(sequence)]
        actors = self._topics.actors()
        for step in _steps(actor for actor in actors if actor.partition.is_ahead_of_snapshot):
            await self.snapshot(step)
        await self._trim(sequence)

    # Pages

    async def _seal_pages(self, actors: Sequence[PartitionActor], sequence: int) -> None:
        """The pages of some partitions become extents."""
        with Placing(self._store, self._usage, self._broker, sequence) as placing:
            pages = [await self._pages(placing, actor.partition, sequence) for actor in actors]
            await placing.flush()
            drafts = [await self._draft(actor.partition, placed) for actor, placed in zip(actors, pages, strict=True)]
            written = await write_sections(placing, drafts)
            self._adopt_ids(drafts, written)
            await self._journal.edit(Edit(add=[extent for extent, _ in written]))
            for actor, (extent, _) in zip(actors, written, strict=True):
                self._switch.sealed(actor, extent)

    def _adopt_ids(self, drafts: Sequence[ExtentDraft], written: Sequence[Written]) -> None:
        """Ids that callers gave will be asked for again at once, so what was just made of them stays in memory."""
        for draft, (extent, blocks) in zip(drafts, written, strict=True):
            if draft.group is not None:
                self._extents.adopt(draft.partition, extent, draft.hashes, blocks, draft.group)

    async def _pages(self, placing: Placing, partition: Partition, sequence: int) -> list[Placed]:
        """The next pages of a partition, where they are or are going to be. Inlined and small ones
        are coalesced and written.
        """
        found: list[Placed] = []
        ids = 0
        for group in runs(partition.pages.upto(sequence), small_bytes=0 if self._hurry else self._small_page_bytes):
            if len(found) >= PAGES_AN_EXTENT or ids >= IDS_MAX:
                break
            ids += sum([entry.rows for entry in group if entry.columns & (ID | DUE)])
            if len(group) == 1 and group[0].segment and not group[0].due:
                found.append(Placed(group[0]))
                if len(found) % PAGES_AT_ONCE == 0:
                    await self._clock.sleep(PAUSE_SECONDS)
                continue
            for entry, page, dues in await self._coalesced(partition, group):
                found.append(Placed(entry, None if page is None else await placing.add(page), dues))
        return found

    async def _coalesced(self, partition: Partition, entries: list[PageEntry]) -> list[Sealable]:
        self._copied += sum([entry.length + PAGE_COST for entry in entries])
        if self._copied >= BYTES_MAX:
            self._copied = 0
            await self._clock.sleep(PAUSE_SECONDS)
        try:
            pages = await self._reader.pages(partition, entries, keep=False)
        except Damaged:
            return await self._one_by_one(partition, entries)
        found = coalesce(entries, pages, None if self._hurry else self._cutting(partition))
        if len(found) > len(entries):
            self._witness.page_cut()
        return found

    async def _one_by_one(self, partition: Partition, entries: list[PageEntry]) -> list[Sealable]:
        """Some of these pages cannot be read. Those in segments stay there. Raises Damaged for
        others, until they have been tried often enough: then they are lost.
        """
        found: list[Sealable] = []
        for entry in entries:
            if entry.segment:
                found.append(Sealable(entry, None, all_at_last(entry)))
                continue
            try:
                found += coalesce([entry], await self._reader.pages(partition, [entry]), None)
            except Damaged as error:
                key = partition.topic, partition.number, entry.first_offset
                self._tries[key] = self._tries.get(key, 0) + 1
                if self._tries[key] < TRIES_MAX:
                    raise
                self._note_damage(partition, error)
                found.append(Sealable(entry._replace(segment=LOST, position=0, length=0), None, all_at_last(entry)))
        return found

    def _cutting(self, partition: Partition) -> Cutting | None:
        """Which pages of a partition are cut; None if its topic is gone."""
        try:
            return Cutting(int(self._topics.by_id(partition.topic).settings.retention * 1e6), self._cut_page_bytes)
        except errors.TopicNotFound:
            return None

    async def _draft(self, partition: Partition, pages: list[Placed]) -> ExtentDraft:
        """With the hashes of everything in these pages by which it may be recognised: natural ids,
        and batches.
        """
        first, end = pages[0].entry.first_offset, pages[-1].entry.end
        producers, numbers, firsts = partition.batches.below(end, partition.deletions)
        batches = batch_hashes(producers, numbers)
        order = np.argsort(batches)
        batches, firsts = batches[order], firsts[order]
        named = partition.ids.count_below(end)
        count = named + len(batches)
        group = self._extents.room_for(partition, count) if named else None
        builder, bits = Builder(count, first), parts_of(count)
        starts = parts_in(batches, bits)
        for part in range(1 << bits):
            if bits:
                await self._clock.sleep(PAUSE_SECONDS)
            inside = slice(int(starts[part]), int(starts[part + 1]))
            builder.take(*partition.ids.part_below(end, part, bits))
            builder.take(batches[inside], firsts[inside])
            hashes = builder.sort()
            if group is not None:
                group.sieve.add(hashes)
        return ExtentDraft(partition, pages, first, end, builder.built(), joined([page.dues for page in pages]), group)

    # Snapshots

    async def snapshot(self, actors: Sequence[PartitionActor]) -> None:
        """Writes the state of some partitions as of a flush, when that flush is committed."""
        capture = Capture([actor.partition for actor in actors if actor.closed is None], self._broker)
        captured: asyncio.Future[asyncio.Future[None]] = asyncio.get_running_loop().create_future()

        def take(sequence: int) -> None:
            if not captured.done():
                capture.take(sequence)
                captured.set_result(self._flusher.commitment())

        self._flusher.at_boundary(take)
        await (await captured)
        await capture.write(self._journal, self._clock)
        self._witness.captured()

    # The journal

    def has_trimmed(self, extent: Extent) -> bool:
        """Is nothing of it in our journal any more? Another broker's is never replayed here."""
        return extent.broker != self._broker or extent.index.sequence <= self.trimmed

    def _oldest_needed(self) -> int:
        """The oldest row that a partition still needs. What became visible late may have been
        written long before.
        """
        return min((actor.partition.oldest_needed() for actor in self._topics.actors() if actor.closed is None), default=NEVER)

    async def _trim(self, sequence: int) -> None:
        last = min(sequence, self._oldest_needed()) - 1
        while self.trimmed < last:
            upto = min(self.trimmed + ROWS_A_TRIM, last)
            await self._journal.edit(Edit(trim=upto))
            self.trimmed = upto


def _steps(actors: Iterable[PartitionActor]) -> Iterable[list[PartitionActor]]:
    rest = iter([actor for actor in actors if actor.closed is None])
    while step := list(islice(rest, PARTITIONS_A_STEP)):
        yield step
