"""Reads pages: from the tail, from the cache, else from the store or the journal, verified."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bowstring.broker.reading.caches import Caches, TailKey
from bowstring.broker.reading.extents import Extents
from bowstring.broker.reading.moved_page import with_moved_dues
from bowstring.broker.witness import UNWITNESSED, Witness
from bowstring.core.pages import LOST, Origin, PageEntry, PageHeader, decode_header
from bowstring.core.partition import Partition
from bowstring.frames import reference_of
from bowstring.messages import encoding
from bowstring.ports.extents import Extent
from bowstring.ports.failures import Damaged
from bowstring.ports.journal import Journal
from bowstring.ports.store import Page, Store


class StoredMessages(NamedTuple):
    """The ids of messages at some offsets (empty if they have none of their own) and when they
    arrived.
    """

    ids: list[str]
    arrived: NDArray[np.int64]


class PageReader:
    """Reads committed pages."""

    def __init__(self, *, store: Store, journal: Journal, caches: Caches, extents: Extents, witness: Witness = UNWITNESSED) -> None:
        self._store = store
        self._journal = journal
        self._broker = journal.fence.broker
        self._caches = caches
        self._extents = extents
        self._witness = witness

    async def entries(self, partition: Partition, offset: int, end: int, bytes_max: int, pages_max: int) -> list[PageEntry]:
        """The next pages from the offset on that begin before `end`: about so many bytes, but at
        least one if there is any.
        """
        while offset < partition.sealed_end:
            moves = partition.moves
            found = await self._extents.entries(partition, offset, min(end, partition.sealed_end), bytes_max, pages_max)
            if found:
                return found
            if moves == partition.moves:  # else more may have been sealed meanwhile
                break
        return partition.pages.between(max(offset, partition.sealed_end), end, bytes_max, pages_max)

    async def unreadable(self, partition: Partition, offset: int, end: int) -> Extent | None:
        """The first extent between these offsets whose index cannot be read."""
        return await self._extents.unreadable(partition, offset, end)

    async def entry_since(self, partition: Partition, moment: int) -> PageEntry | None:
        """The first page with a row that arrived at that moment or later."""
        while True:
            moves = partition.moves
            found = await self._extents.entry_since(partition, moment)
            if found is not None:
                return found
            if moves == partition.moves:
                break
        at = partition.pages.arrived_before(moment)
        return partition.pages[at] if at < len(partition.pages) else None

    async def pages(self, partition: Partition, entries: Sequence[PageEntry], *, keep: bool = True) -> list[Page]:
        """The pages of these entries, in their order, with the due times that their rows have now.
        Raises Damaged, naming the offsets. `keep` them if others may want them soon.
        """
        pages = await self.stored(partition, entries, keep=keep)
        return [with_moved_dues(partition, entry, page) for entry, page in zip(entries, pages, strict=True)]

    async def stored(self, partition: Partition, entries: Sequence[PageEntry], *, keep: bool = True) -> list[Page]:
        """The same pages as they were published."""
        found = [self._cached(partition, entry) for entry in entries]
        missing = [at for at, page in enumerate(found) if page is None]
        if missing:
            moves = partition.moves
            try:
                read = await self._read(partition, [entries[at] for at in missing], keep)
            finally:
                self._witness.read(partition, entries, moves)
            for at, page in zip(missing, read, strict=True):
                found[at] = page
        return [page for page in found if page is not None]

    def first_of(self, partition: Partition, entries: Sequence[PageEntry], bytes_max: int) -> Sequence[PageEntry]:
        """The first of the pages, of which about so many bytes have to be read: the others are in memory."""
        size = 0
        for at, entry in enumerate(entries):
            if size >= bytes_max:
                return entries[:at]
            if self._cached(partition, entry) is None:
                size += entry.length
        return entries

    def held(self, partition: Partition, entries: Sequence[PageEntry]) -> list[Page] | None:
        """The pages of these entries if all of them are in memory, and there are any."""
        pages = self.stored_held(partition, entries)
        return None if pages is None else [with_moved_dues(partition, *both) for both in zip(entries, pages, strict=True)]

    def stored_held(self, partition: Partition, entries: Sequence[PageEntry]) -> list[Page] | None:
        """The same pages as they were published."""
        found = [page for entry in entries if (page := self._cached(partition, entry)) is not None]
        return found if found and len(found) == len(entries) else None

    def _cached(self, partition: Partition, entry: PageEntry) -> Page | None:
        page = self._caches.pages.get(reference_of(entry, self._broker))
        return page if page is not None else self._tail(partition, entry)

    def _tail(self, partition: Partition, entry: PageEntry) -> Page | None:
        """A page as it was committed; a coalesced one begins with the same offset but is another."""
        key = TailKey(partition.topic, partition.number, entry.first_offset, entry.rows)
        return self._caches.tail.get(key)

    async def _read(self, partition: Partition, entries: list[PageEntry], keep: bool) -> list[Page]:
        stored = [entry for entry in entries if entry.segment]
        inlined = [entry for entry in entries if not entry.segment]
        pages: dict[int, Page] = {}
        for port, wanted in ((self._store, stored), (self._journal, inlined)):
            if wanted:
                _refuse_lost(wanted)
                try:
                    read = await port.read([reference_of(entry, self._broker) for entry in wanted])
                except Damaged as error:
                    raise Damaged(f"offsets {wanted[0].first_offset} to {wanted[-1].end - 1}: {error}") from error
                pages.update({entry.first_offset: page for entry, page in zip(wanted, read, strict=True)})
        for entry in entries:
            self._check(partition, entry, pages[entry.first_offset])
            if keep:
                self._caches.pages.put(reference_of(entry, self._broker), pages[entry.first_offset])
        return [pages[entry.first_offset] for entry in entries]

    def _check(self, partition: Partition, entry: PageEntry, page: Page) -> None:
        header = decode_header(page.header)
        if (header.topic, header.partition, header.rows) != (partition.topic, partition.number, entry.rows):
            raise Damaged(f"the page at offset {entry.first_offset} is another partition's: {header.topic}/{header.partition}")

    # Single messages, for those who recognise them

    async def messages(self, partition: Partition, offsets: NDArray[np.int64]) -> StoredMessages:
        """The messages at these offsets, in their order; an arrival of 0 for one that is gone."""
        ids, arrived = [""] * len(offsets), np.zeros(len(offsets), np.int64)
        for entry, wanted in await self._holders(partition, offsets):
            page = (await self.pages(partition, [entry]))[0]
            header = decode_header(page.header)
            rows = offsets[wanted] - entry.first_offset
            arrived[wanted] = arrivals(header, entry)[rows]
            batch = encoding.decode(header.columns, page.body)
            if "id" in batch.schema.names:
                for at, text in zip(wanted, batch.column("id").take(pa.array(rows)).to_pylist(), strict=True):
                    ids[at] = text
        return StoredMessages(ids, arrived)

    async def groups(self, partition: Partition, offsets: NDArray[np.int64]) -> list[str | None]:
        """The producer groups that the messages at these offsets belong to, in their order; None
        where nothing is any more.
        """
        groups: list[str | None] = [None] * len(offsets)
        for entry, wanted in await self._holders(partition, offsets):
            origins = decode_header((await self.pages(partition, [entry]))[0].header).origins
            ends = entry.first_offset + np.cumsum([origin.rows for origin in origins])
            for at, origin in zip(wanted, np.searchsorted(ends, offsets[wanted], side="right").tolist(), strict=True):
                groups[at] = origins[origin].group
        return groups

    async def origins(self, partition: Partition, offset: int) -> list[tuple[int, Origin]]:
        """The origins in the page that holds the offset, or in the next one if that is gone, each
        with the offset of its first row here; none if nothing is left from there on.
        """
        for entry in await self.entries(partition, offset, max(offset + 1, partition.sealed_end), 1, 1):
            header = decode_header((await self.pages(partition, [entry]))[0].header)
            starts = entry.first_offset + np.cumsum([0, *(origin.rows for origin in header.origins)])
            return list(zip(starts.tolist(), header.origins, strict=False))
        return []

    async def _holders(self, partition: Partition, offsets: NDArray[np.int64]) -> list[tuple[PageEntry, list[int]]]:
        """The pages that hold these offsets, and which of them each does."""
        holders: list[tuple[PageEntry, list[int]]] = []
        for at in np.argsort(offsets, kind="stable").tolist():
            offset = int(offsets[at])
            if not holders or offset >= holders[-1][0].end:
                found = await self.entries(partition, offset, offset + 1, 1, 1)
                if not found:
                    continue
                holders.append((found[0], []))
            holders[-1][1].append(at)
        return holders


def arrivals(header: PageHeader, entry: PageEntry) -> NDArray[np.int64]:
    """When each row of a page arrived."""
    if entry.arrived == entry.arrived_last:
        return np.full(entry.rows, entry.arrived, np.int64)
    return np.repeat([origin.arrived for origin in header.origins], [origin.rows for origin in header.origins])


def _refuse_lost(entries: list[PageEntry]) -> None:
    for entry in entries:
        if entry.segment == LOST:
            raise Damaged(f"offsets {entry.first_offset} to {entry.end - 1} were damaged in the journal before they could be sealed")
