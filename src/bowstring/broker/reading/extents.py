"""Where sealed pages are, and how sealed messages are recognised: extents from the catalog, their
sections from the store.

Nothing of it is loaded at the start. The extents of a partition come with the first question about
it, sections when they are needed, and both stay in caches that are bounded in bytes. Code that
seals, cleans or removes calls `forget`, and the next question reads anew.

What is found here may have moved by the time it is read: the cleaner copies pages and gives the old
segment back. A reader then meets bytes of another life, which do not verify. It looks whether the
partition's `moves` have gone on, and if so, asks here again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bowstring.broker.reading.caches import ByteCache
from bowstring.broker.upkeep.placement import PAUSE_SECONDS
from bowstring.core import sections
from bowstring.core.due_blocks import DueDirectory, Dues, decode_due_block, decode_due_directory
from bowstring.core.id_sections import BlockPlace, Blocks, Builder, Built, Directory, Filter, find_keys, known_hashes, parts_of
from bowstring.core.known_ids import Group, KnownIds, KnownSection
from bowstring.core.natural_ids import Hits
from bowstring.core.pages import PageEntry, PageIndex
from bowstring.core.partition import MINUTE, Partition
from bowstring.core.sieve import Hashes
from bowstring.ports.clock import Clock
from bowstring.ports.extents import Extent
from bowstring.ports.failures import Damaged
from bowstring.ports.journal import Journal
from bowstring.ports.store import Page, Reference, Store
from bowstring.settings import Settings

T = TypeVar("T")

EXTENTS_A_READ = 1000
_EXTENT_BYTES = 600
"""About what an extent takes in memory."""

Key = tuple[int, int]
"""Topic id and partition number."""


Block = tuple[NDArray[np.uint32], NDArray[np.uint32]]
"""Keys and distances of some entries of an ids section."""


class Extents:
    """The sealed part of all partitions."""

    def __init__(self, *, journal: Journal, store: Store, settings: Settings, clock: Clock) -> None:
        self._journal = journal
        self._store = store
        self._clock = clock
        self._extents: ByteCache[Key, list[Extent]] = ByteCache(settings.memory_index_bytes // 2, touch=True)
        self._indexes: ByteCache[Reference, PageIndex] = ByteCache(settings.memory_index_bytes // 2, touch=True)
        self._ids: ByteCache[Key, KnownIds[Reference]] = ByteCache(settings.memory_ids_bytes, touch=True)
        self._directories: ByteCache[Reference, Directory] = ByteCache(settings.memory_ids_bytes // 16, touch=True)
        self._blocks: ByteCache[Reference, Block] = ByteCache(settings.memory_ids_bytes // 8, touch=True)

    @property
    def bytes(self) -> tuple[int, int]:
        """Bytes of what tells where pages are, and of what tells which ids are known."""
        return self._extents.bytes + self._indexes.bytes, self._ids.bytes + self._directories.bytes + self._blocks.bytes

    # Extents

    async def of(self, partition: Partition) -> list[Extent]:
        """All extents of a partition, in order."""
        key = partition.topic, partition.number
        found = self._extents.get(key)
        if found is None:
            moves, found = partition.moves, await self._read(*key)
            if moves == partition.moves:
                self._extents.keep(key, found, _EXTENT_BYTES * (1 + len(found)))
                self._forget_ids(partition, found)
        return found

    def _forget_ids(self, partition: Partition, extents: list[Extent]) -> None:
        """Sections that are gone, or that the window has passed, are kept in memory no longer."""
        key = partition.topic, partition.number
        known = self._ids.get(key)
        if known is not None and extents:
            known.keep_only(_sections(extents, extents[-1].arrived_last - max(partition.window, MINUTE)))
            self._keep_ids(key, known)

    async def _read(self, topic: int, partition: int) -> list[Extent]:
        found: list[Extent] = []
        while True:
            after = found[-1].end_offset if found else 0
            rows = await self._journal.extents(topic, partition, after, EXTENTS_A_READ)
            found += rows
            if len(rows) < EXTENTS_A_READ:
                return found

    def forget(self, topic: int, partition: int) -> None:
        """The extents of the partition have changed."""
        self._extents.drop((topic, partition))

    # Pages

    async def entries(self, partition: Partition, offset: int, end: int, bytes_max: int, pages_max: int) -> list[PageEntry]:
        """The next sealed pages from the offset on, of one extent: about so many bytes, but at
        least one if there is any before `end`.
        """
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

    # Due times

    async def due_directory(self, extent: Extent, section: Reference) -> DueDirectory:
        """Raises Damaged, naming its offsets."""
        header, body = await self._section(extent, section, sections.DUE)
        return _understood(extent, lambda: decode_due_directory(header, body))

    async def due_block(self, extent: Extent, block: Reference) -> Dues:
        header, body = await self._section(extent, block, sections.DUE_BLOCK)
        return _understood(extent, lambda: decode_due_block(header, body))

    # Ids

    def surely_none(self, partition: Partition, hashes: Hashes, horizon: int) -> bool:
        """Whether memory alone tells that no message since then has one of these ids."""
        key = partition.topic, partition.number
        extents = self._extents.get(key)
        if extents is None:
            return False
        wanted = _sections(extents, horizon)
        known = self._ids.get(key)
        if known is None or any(known.get(section) is None for section in wanted):
            return not wanted
        return next(known.find(hashes, wanted), None) is None

    async def candidates(self, partition: Partition, hashes: Hashes, horizon: int) -> Hits:
        """Sealed messages that have arrived since then and may have these hashes: to be compared
        with the stored ids.
        """
        rows, offsets = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        wanted = _sections(await self.of(partition), horizon)
        known = self._ids.get((partition.topic, partition.number)) or KnownIds[Reference]()
        while missing := [section for section in wanted if known.get(section) is None]:
            await self._read_ids(partition, known, wanted[missing[0]], missing[0])
        for section, match, found, places in list(known.find(hashes, wanted)):
            keys = match.filter.keys_of(hashes[found])
            same, at = await self._compared(wanted[section], section, match.blocks, places, keys)
            rows.append(found[same])
            offsets.append(at)
        return Hits(np.concatenate(rows), np.concatenate(offsets))

    async def older(self, partition: Partition, horizon: int) -> list[Extent]:
        """The extents with ids in which nothing has arrived since then, the newest first; those of
        which nothing is retained are left out.
        """
        first = partition.retained.first
        extents = reversed(await self.of(partition))
        return [extent for extent in extents if extent.ids is not None and extent.arrived_last < horizon and extent.end_offset > first]

    async def search(self, extent: Extent, hashes: Hashes) -> Hits:
        """Messages of an extent that may have these hashes. Nothing of it need be in memory: its
        directory is read, and the blocks that these hashes fall into.
        """
        await self._clock.sleep(0.0)  # there may be many extents, and all of this in the caches
        rows, offsets = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        if extent.ids is not None:
            directory = await self._small_directory(extent, extent.ids)
            for number, inside in directory.blocks_of(hashes):
                keys, distances = await self._block(extent, _block_reference(directory.blocks.places[number], extent.ids))
                found, places = find_keys(keys, directory.keys_of(hashes[inside]))
                rows.append(inside[found])
                offsets.append(distances[places].astype(np.int64) + extent.first_offset)
        return Hits(np.concatenate(rows), np.concatenate(offsets))

    async def _small_directory(self, extent: Extent, section: Reference) -> Directory:
        found = self._directories.get(section)
        if found is None:
            header, starts, blocks = await self._directory(extent, section)
            found = Directory(header.detail, starts, blocks)
            self._directories.keep(section, found, found.bytes)
        return found

    def room_for(self, partition: Partition, count: int) -> Group[Reference] | None:
        """The group that is to know a section in the making, if the others of the partition are known: its hashes are to be added to the
        sieve as they are sorted."""
        known = self._ids.get((partition.topic, partition.number))
        if known is None and partition.sealed_end > 1:
            return None  # nobody has asked for the others
        return (known or KnownIds[Reference]()).room_for(count)

    def adopt(self, partition: Partition, extent: Extent, built: Built, places: list[BlockPlace], group: Group[Reference]) -> None:
        """Keeps the ids of an extent that is about to be added: they are in memory now, and will be asked for."""
        known = self._ids.get((partition.topic, partition.number))
        if extent.ids is None or (known is None and partition.sealed_end > 1):
            return
        known, made = known or KnownIds[Reference](), _filter_of(built)
        known.add(group, extent.ids, KnownSection(made, Blocks(places)))
        self._keep_ids((partition.topic, partition.number), known)

    async def joined_ids(self, extents: list[Extent], first_offset: int) -> Built:
        """One ids section of the entries of several. Of their hashes only what the filters kept is
        known, so there are no more buckets than the least of them had.
        """
        sources = [(extent, extent.ids, *await self._directory(extent, extent.ids)) for extent in extents if extent.ids is not None]
        count = sum(header.count for _, _, header, _, _ in sources)
        least = min((header.detail for _, _, header, _, _ in sources), default=0)
        builder, bits = Builder(count, first_offset, least), min(parts_of(count), least)
        for part in range(1 << bits):
            for extent, section, header, starts, blocks in sources:
                shift = header.detail - bits
                inside = int(starts[part << shift]), int(starts[part + 1 << shift])
                for first, keys, distances in await self._entries(extent, section, blocks, *inside):
                    builder.take(known_hashes(header.detail, starts, keys, first), distances.astype(np.int64) + extent.first_offset)
            builder.sort()
            if bits:
                await self._clock.sleep(PAUSE_SECONDS)
        return builder.built()

    async def _entries(
        self, extent: Extent, section: Reference, blocks: Blocks, first: int, end: int
    ) -> list[tuple[int, NDArray[np.uint32], NDArray[np.uint32]]]:
        """Entries of a section, block by block: the place of the first one, keys and distances."""
        found: list[tuple[int, NDArray[np.uint32], NDArray[np.uint32]]] = []
        for number in range(first // blocks.entries, -(-end // blocks.entries)):
            at = number * blocks.entries
            keys, distances = await self._block(extent, _block_reference(blocks.places[number], section))
            inside = slice(max(first - at, 0), end - at)
            found.append((max(first, at), keys[inside], distances[inside]))
        return found

    async def _read_ids(self, partition: Partition, known: KnownIds[Reference], extent: Extent, section: Reference) -> None:
        header, starts, blocks = await self._directory(extent, section)
        read = [await self._read_block(extent, _block_reference(place, section)) for place in blocks.places]
        built, at = Built(header.detail, starts, read), 0
        group = known.room_for(header.count)
        for keys, _ in built.blocks:
            group.sieve.add(known_hashes(built.bits, built.starts, keys, at))
            at += len(keys)
            await self._clock.sleep(0.0)
        known.add(group, section, KnownSection(_filter_of(built), blocks))
        self._keep_ids((partition.topic, partition.number), known)

    def _keep_ids(self, key: Key, known: KnownIds[Reference]) -> None:
        self._ids.drop(key)
        self._ids.keep(key, known, known.bytes)

    async def _compared(
        self, extent: Extent, section: Reference, blocks: Blocks, places: NDArray[np.int64], keys: NDArray[np.uint32]
    ) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Which of these places hold these keys as a whole, and the offsets of those that do."""
        same, offsets = np.zeros(len(places), bool), np.zeros(len(places), np.int64)
        numbers = places // blocks.entries
        for number in np.flatnonzero(np.bincount(numbers)).tolist():  # np.unique imports numpy.ma, which takes 50 ms
            inside = numbers == number
            stored, distances = await self._block(extent, _block_reference(blocks.places[number], section))
            at = places[inside] % blocks.entries
            same[inside] = stored[at] == keys[inside]
            offsets[inside] = distances[at].astype(np.int64) + extent.first_offset
        return same, offsets[same]

    async def _block(self, extent: Extent, block: Reference) -> Block:
        found = self._blocks.get(block)
        if found is None:
            found = await self._read_block(extent, block)
            self._blocks.keep(block, found, 2 * found[0].nbytes)
        return found

    async def _read_block(self, extent: Extent, block: Reference) -> Block:
        header, body = await self._section(extent, block, sections.ID_BLOCK)
        return _understood(extent, lambda: sections.decode_block(header, body))

    async def _directory(self, extent: Extent, section: Reference) -> tuple[sections.SectionHeader, NDArray[np.uint32], Blocks]:
        header, body = await self._section(extent, section, sections.IDS)
        starts, places = _understood(extent, lambda: sections.decode_directory(header, body))
        return header, starts, Blocks.of(header.count, places)

    # Sections

    async def _section(self, extent: Extent, reference: Reference, kind: str) -> tuple[sections.SectionHeader, memoryview]:
        try:
            page: Page = (await self._store.read([reference]))[0]
            header = sections.decode_header(page.header, kind)
        except (Damaged, sections.UnreadableSection) as error:
            raise _damaged(extent, error) from error
        if (header.topic, header.partition, header.first_offset) != (extent.topic, extent.partition, extent.first_offset):
            raise _damaged(extent, Exception("the section is another extent's"))
        return header, memoryview(page.body)


def _sections(extents: list[Extent], horizon: int) -> dict[Reference, Extent]:
    """The ids sections of the extents in which something has arrived since then."""
    return {extent.ids: extent for extent in extents if extent.ids is not None and extent.arrived_last >= horizon}


def _filter_of(built: Built) -> Filter:
    made, at = Filter(built.bits, built.starts), 0
    for keys, _ in built.blocks:
        made.fill(at, keys)
        at += len(keys)
    return made


def _block_reference(place: BlockPlace, directory: Reference) -> Reference:
    """A block was written with its directory."""
    return Reference(place.segment, place.position, place.length, directory.sequence)


def _understood(extent: Extent, decode: Callable[[], T]) -> T:
    try:
        return decode()
    except sections.UnreadableSection as error:
        raise _damaged(extent, error) from error


def _damaged(extent: Extent, error: Exception) -> Damaged:
    return Damaged(f"offsets {extent.first_offset} to {extent.end_offset - 1}: {error}")
