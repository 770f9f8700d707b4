"""What becomes the next extent of a partition: its pages, where they are or are going to be, and the hashes of what is in them.

A page of the journal that cannot be read keeps the seal from going on. It is tried again at the
next one; after `TRIES_MAX` it is written down as lost, so that one bad page does not let the
journal grow for ever: its offsets then answer `Corrupt`. A page of a segment stays where it is. If
it has due times it is tried as often, because the due section would delay its rows otherwise.
"""

from __future__ import annotations

import numpy as np

from bowstring import errors
from bowstring.broker.reading.page_dues import all_at_last
from bowstring.broker.reading.reading import Reading
from bowstring.broker.surroundings import Surroundings
from bowstring.broker.upkeep.coalesced_page import BYTES_MAX, Cutting, Sealable, coalesce, runs
from bowstring.broker.upkeep.placement import PAUSE_SECONDS, ExtentDraft, Placed, Placing
from bowstring.core.due_blocks import joined
from bowstring.core.id_sections import Builder, batch_hashes, parts_in, parts_of
from bowstring.core.pages import LOST, PAGES_AT_ONCE, PageEntry
from bowstring.core.partition import Partition
from bowstring.messages.schema import DUE, ID
from bowstring.ports.failures import Damaged

PAGES_AN_EXTENT = 4096
"""A partition with more pages gets several extents: with more of them each would hold up the loop."""
IDS_MAX = 1 << 20
"""Messages with ids, in an extent or before a seal is due, or a few more: one that is not sealed
takes three times the memory.
"""
PAGE_COST = 8 * 1024
"""So many bytes take as long to copy as it takes to look at a page."""
TRIES_MAX = 3


class ExtentDrafting:
    """Drafts the extents of one incarnation's seals."""

    def __init__(self, surroundings: Surroundings, reading: Reading) -> None:
        self._clock = surroundings.clock
        self._witness = surroundings.witness
        self._small_page_bytes = surroundings.tuning.small_page_bytes
        self._cut_page_bytes = surroundings.tuning.cut_page_bytes
        self._topics = reading.topics
        self._sealed_ids = reading.sealed_ids
        self._reader = reading.reader
        self._note_damage = reading.note_damage
        self._copied = 0
        """Bytes since the last pause."""
        self._tries: dict[tuple[int, int, int], int] = {}
        """How often a page of the journal could not be read, by topic, partition and offset."""

    async def pages(self, placing: Placing, partition: Partition, sequence: int, *, hurry: bool) -> list[Placed]:
        """The next pages of a partition, where they are or are going to be. Inlined and small ones
        are coalesced and written; in a hurry as few as can be.
        """
        found: list[Placed] = []
        ids = 0
        for group in runs(partition.pages.upto(sequence), small_bytes=0 if hurry else self._small_page_bytes):
            if len(found) >= PAGES_AN_EXTENT or ids >= IDS_MAX:
                break
            ids += sum([entry.rows for entry in group if entry.columns & (ID | DUE)])
            if len(group) == 1 and group[0].segment and not group[0].due:
                found.append(Placed(group[0]))
                if len(found) % PAGES_AT_ONCE == 0:
                    await self._clock.sleep(PAUSE_SECONDS)
                continue
            for entry, page, dues, is_guess in await self._coalesced(partition, group, hurry=hurry):
                found.append(Placed(entry, None if page is None else await placing.add(page), dues, is_guess))
        return found

    async def _coalesced(self, partition: Partition, entries: list[PageEntry], *, hurry: bool) -> list[Sealable]:
        self._copied += sum([entry.length + PAGE_COST for entry in entries])
        if self._copied >= BYTES_MAX:
            self._copied = 0
            await self._clock.sleep(PAUSE_SECONDS)
        try:
            pages = await self._reader.stored(partition, entries, keep=False)
        except Damaged:
            return await self._one_by_one(partition, entries)
        found = coalesce(entries, pages, None if hurry else self._cutting(partition))
        if len(found) > len(entries):
            self._witness.page_cut()
        return found

    async def _one_by_one(self, partition: Partition, entries: list[PageEntry]) -> list[Sealable]:
        """Some of these pages cannot be read. Those in segments stay there. Raises Damaged for
        those of the journal and those with due times, until they have been tried often enough: then
        the former are lost, and the rows of the latter count as due when the last of them is, as long as
        they cannot be read.
        """
        found: list[Sealable] = []
        for entry in entries:
            if entry.segment and not entry.due:
                found.append(Sealable(entry, None))
                continue
            try:
                found += coalesce([entry], await self._reader.stored(partition, [entry]), None)
            except Damaged as error:
                key = partition.topic, partition.number, entry.first_offset
                self._tries[key] = self._tries.get(key, 0) + 1
                if self._tries[key] < TRIES_MAX:
                    raise
                self._note_damage(partition, error)
                stays = entry if entry.segment else entry._replace(segment=LOST, position=0, length=0)
                found.append(Sealable(stays, None, all_at_last(entry), is_guess=entry.segment > 0))
        return found

    def _cutting(self, partition: Partition) -> Cutting | None:
        """Which pages of a partition are cut; None if its topic is gone."""
        try:
            return Cutting(int(self._topics.by_id(partition.topic).settings.retention * 1e6), self._cut_page_bytes)
        except errors.TopicNotFound:
            return None

    async def draft(self, partition: Partition, pages: list[Placed]) -> ExtentDraft:
        """The extent to be, with the hashes of everything in these pages by which it may be recognised: natural ids,
        and batches.
        """
        first, end = pages[0].entry.first_offset, pages[-1].entry.end
        producers, numbers, firsts = partition.batches.below(end, partition.deletions)
        batches = batch_hashes(producers, numbers)
        order = np.argsort(batches)
        batches, firsts = batches[order], firsts[order]
        named = partition.ids.count_below(end)
        count = named + len(batches)
        group = self._sealed_ids.room_for(partition, count) if named else None
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
        guesses = sum(page.is_guess for page in pages)
        return ExtentDraft(partition, pages, first, end, builder.built(), joined([page.dues for page in pages]), group, guesses)
