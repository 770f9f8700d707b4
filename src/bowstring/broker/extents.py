"""Where sealed pages are, and how sealed messages are recognised: extents from the catalog, their sections from the store.

Nothing of it is loaded at the start. The extents of a partition come with the first question about it, sections when they are needed, and
both stay in caches that are bounded in bytes. Whoever seals, cleans or removes says `forget`, and the next question reads anew.

What is found here may have moved by the time it is read: the cleaner copies pages and gives the old segment back. A reader then meets bytes
of another life, which do not verify. It looks whether the partition's `moves` have gone on, and if so, asks here again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from bowstring.broker.caches import ByteCache
from bowstring.core import sections
from bowstring.core.id_sections import BLOCK_ENTRIES, Builder, Built, Entries, Filter, parts_of
from bowstring.core.natural_ids import Hits
from bowstring.core.pages import PageEntry, PageIndex
from bowstring.core.partition import Partition
from bowstring.core.sieve import Hashes, Sieve
from bowstring.ports.catalog import Catalog, Extent
from bowstring.ports.clock import Clock
from bowstring.ports.failures import Damaged
from bowstring.ports.store import Page, Reference, Store
from bowstring.settings import Settings

T = TypeVar("T")

EXTENTS_A_READ = 1000
_EXTENT_BYTES = 600
"""About what an extent takes in memory."""

Key = tuple[int, int]
"""Topic id and partition number."""


class _Ids(NamedTuple):
    """The ids section of an extent, but for the offsets."""

    filter: Filter
    blocks: list[sections.BlockPlace]


class Extents:
    """The sealed part of all partitions."""

    def __init__(self, *, catalog: Catalog, store: Store, settings: Settings, clock: Clock) -> None:
        self._catalog = catalog
        self._store = store
        self._clock = clock
        self._extents: ByteCache[Key, list[Extent]] = ByteCache(settings.memory_index_bytes // 2, touch=True)
        self._indexes: ByteCache[Reference, PageIndex] = ByteCache(settings.memory_index_bytes // 2, touch=True)
        self._ids: ByteCache[Reference, _Ids] = ByteCache(settings.memory_ids_bytes, touch=True)
        self._blocks: ByteCache[Reference, NDArray[np.uint32]] = ByteCache(settings.memory_ids_bytes // 8, touch=True)

    # Extents

    async def of(self, partition: Partition) -> list[Extent]:
        """All extents of a partition, in order."""
        key = partition.topic, partition.number
        found = self._extents.get(key)
        if found is None:
            moves, found = partition.moves, await self._read(*key)
            if moves == partition.moves:
                self._extents.keep(key, found, _EXTENT_BYTES * (1 + len(found)))
        return found

    async def _read(self, topic: int, partition: int) -> list[Extent]:
        found: list[Extent] = []
        while True:
            after = found[-1].end_offset if found else 0
            rows = await self._catalog.extents(topic, partition, after, EXTENTS_A_READ)
            found += rows
            if len(rows) < EXTENTS_A_READ:
                return found

    def forget(self, topic: int, partition: int) -> None:
        """The extents of the partition have changed."""
        self._extents.drop((topic, partition))

    # Pages

    async def entries(self, partition: Partition, offset: int, end: int, bytes_max: int, pages_max: int) -> list[PageEntry]:
        """The next sealed pages from the offset on, of one extent: about so many bytes, but at least one if there is any before `end`."""
        extents = await self.of(partition)
        at = bisect_right(extents, offset, key=lambda extent: extent.end_offset)
        while at < len(extents) and extents[at].first_offset < end:
            found = (await self.index(extents[at])).between(offset, end, bytes_max, pages_max)
            if found:
                return found
            at += 1
        return []

    async def entry_since(self, partition: Partition, moment: int) -> PageEntry | None:
        """The first sealed page with a row that arrived at that moment or later."""
        extents = await self.of(partition)
        at = bisect_left(extents, moment, key=lambda extent: extent.arrived_last)
        if at == len(extents):
            return None
        index = await self.index(extents[at])
        return index[index.arrived_before(moment)]

    async def index(self, extent: Extent) -> PageIndex:
        """The pages of an extent. Raises Damaged, naming its offsets."""
        index = self._indexes.get(extent.index)
        if index is None:
            header, body = await self._section(extent, extent.index, sections.INDEX)
            index = _understood(extent, lambda: sections.decode_index(header, body))
            self._indexes.keep(extent.index, index, len(body))
        return index

    # Ids

    def surely_none(self, partition: Partition, hashes: Hashes, horizon: int) -> bool:
        """Whether memory alone tells that no message since then has one of these ids."""
        extents = self._extents.get((partition.topic, partition.number))
        if extents is None:
            return False
        for extent in extents:
            if extent.ids is None or extent.arrived_last < horizon:
                continue
            ids = self._ids.get(extent.ids)
            if ids is None or len(ids.filter.find(hashes)[0]):
                return False
        return True

    async def candidates(self, partition: Partition, hashes: Hashes, horizon: int) -> Hits:
        """Sealed messages that have arrived since then and may have these hashes: to be compared with what is stored."""
        rows, offsets = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for extent in await self.of(partition):
            if extent.ids is None or extent.arrived_last < horizon:
                continue
            ids = await self._ids_of(extent, extent.ids)
            found, places = ids.filter.find(hashes)
            if len(found):
                rows.append(found)
                offsets.append(await self._offsets(extent, extent.ids, ids.blocks, places))
        return Hits(np.concatenate(rows), np.concatenate(offsets))

    async def joined_ids(self, extents: list[Extent], first_offset: int) -> Built:
        """One ids section of the entries of several. Of their hashes only what the filters kept is known, so there are no more buckets than
        the least of them had."""
        sources = [(extent, extent.ids, await self._ids_of(extent, extent.ids)) for extent in extents if extent.ids is not None]
        count = sum(len(ids.filter.entries.keys) for _, _, ids in sources)
        least = min((ids.filter.entries.bits for _, _, ids in sources), default=0)
        builder, bits = Builder(count, first_offset, least), min(parts_of(count), least)
        for part in range(1 << bits):
            for extent, reference, ids in sources:
                hashes, inside = ids.filter.entries.part(part, bits)
                offsets = await self._offsets(extent, reference, ids.blocks, np.arange(inside.start, inside.stop, dtype=np.int64))
                builder.take(hashes, offsets)
            builder.sort()
            if bits:
                await self._clock.sleep(0)
        return builder.built()

    async def _ids_of(self, extent: Extent, reference: Reference) -> _Ids:
        ids = self._ids.get(reference)
        if ids is None:
            header, body = await self._section(extent, reference, sections.IDS)
            starts, blocks = _understood(extent, lambda: sections.decode_directory(header, body))
            keys = [(await self._block(extent, _block_reference(place, reference)))[0] for place in blocks]
            ids = _Ids(await self._filter(Entries(header.detail, starts, np.concatenate(keys))), blocks)
            self._ids.keep(reference, ids, ids.filter.bytes)
        return ids

    async def _filter(self, entries: Entries) -> Filter:
        """With a sieve, which takes a while to make."""
        sieve, bits = Sieve(len(entries.keys)), min(parts_of(len(entries.keys)), entries.bits)
        for part in range(1 << bits):
            sieve.add(entries.part(part, bits)[0])
            if bits:
                await self._clock.sleep(0)
        return Filter(entries, sieve)

    async def _offsets(
        self, extent: Extent, reference: Reference, blocks: list[sections.BlockPlace], places: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        offsets = np.empty(len(places), np.int64)
        numbers = places // BLOCK_ENTRIES
        for number in np.flatnonzero(np.bincount(numbers)).tolist():  # np.unique imports numpy.ma, which takes 50 ms
            inside = numbers == number
            block = _block_reference(blocks[number], reference)
            distances = self._blocks.get(block)
            if distances is None:
                distances = (await self._block(extent, block))[1]
                self._blocks.keep(block, distances, distances.nbytes)
            offsets[inside] = distances[places[inside] % BLOCK_ENTRIES].astype(np.int64) + extent.first_offset
        return offsets

    async def _block(self, extent: Extent, block: Reference) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        header, body = await self._section(extent, block, sections.ID_BLOCK)
        return _understood(extent, lambda: sections.decode_block(header, body))

    # Sections

    async def _section(self, extent: Extent, reference: Reference, kind: str) -> tuple[sections.SectionHeader, memoryview]:
        try:
            page: Page = (await self._store.read([reference]))[0]
            header = sections.decode_header(page.header, kind)
        except (Damaged, sections.Unreadable) as error:
            raise _damaged(extent, error) from error
        if (header.topic, header.partition, header.first_offset) != (extent.topic, extent.partition, extent.first_offset):
            raise _damaged(extent, Exception("the section is another extent's"))
        return header, memoryview(page.body)


def _block_reference(place: sections.BlockPlace, directory: Reference) -> Reference:
    """A block was written with its directory."""
    return Reference(place.segment, place.position, place.length, directory.sequence)


def _understood(extent: Extent, decode: Callable[[], T]) -> T:
    try:
        return decode()
    except sections.Unreadable as error:
        raise _damaged(extent, error) from error


def _damaged(extent: Extent, error: Exception) -> Damaged:
    return Damaged(f"offsets {extent.first_offset} to {extent.end_offset - 1}: {error}")
