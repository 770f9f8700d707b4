"""How sealed messages are recognised: by the ids sections of their extents.

Sections within the deduplication window are known in memory, by filters that say where a hash may
be; what they say is compared with the blocks of the section. Older ones are searched in the store.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bowstring.broker.reading.caches import ByteCache
from bowstring.broker.reading.extents import Extents, Key
from bowstring.broker.reading.id_blocks import IdBlocks, block_reference
from bowstring.core.id_sections import BlockPlace, Blocks, Built, Filter, find_keys, known_hashes
from bowstring.core.known_ids import Group, KnownIds, KnownSection
from bowstring.core.natural_ids import Hits
from bowstring.core.partition import MINUTE, Partition
from bowstring.core.sieve import Hashes
from bowstring.ports.clock import Clock
from bowstring.ports.extents import Extent
from bowstring.ports.store import Reference


class SealedIds:
    """The ids of the sealed messages of all partitions."""

    def __init__(self, *, extents: Extents, clock: Clock, bytes_max: int) -> None:
        self._extents = extents
        self._clock = clock
        self._ids: ByteCache[Key, KnownIds[Reference]] = ByteCache(bytes_max, touch=True)
        self.blocks = IdBlocks(extents.sections, clock, bytes_max)
        extents.told.append(self._forget)

    @property
    def bytes(self) -> int:
        """Bytes of what tells which ids are known."""
        return self._ids.bytes + self.blocks.bytes

    def surely_none(self, partition: Partition, hashes: Hashes, horizon: int) -> bool:
        """Whether memory alone tells that no message since then has one of these ids."""
        key = partition.topic, partition.number
        extents = self._extents.in_memory(partition)
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
        wanted = _sections(await self._extents.of(partition), horizon)
        known = self._ids.get((partition.topic, partition.number)) or KnownIds[Reference]()
        while missing := [section for section in wanted if known.get(section) is None]:
            await self._read_ids(partition, known, wanted[missing[0]], missing[0])
        for section, match, found, places in list(known.find(hashes, wanted)):
            keys = match.filter.keys_of(hashes[found])
            same, at = await self._compared(wanted[section], section, match.blocks, places, keys)
            rows.append(found[same])
            offsets.append(at)
        return Hits(np.concatenate(rows), np.concatenate(offsets))

    async def search(self, extent: Extent, hashes: Hashes) -> Hits:
        """Messages of an extent that may have these hashes. Nothing of it need be in memory: its
        directory is read, and the blocks that these hashes fall into.
        """
        await self._clock.sleep(0.0)  # there may be many extents, and all of this in the caches
        rows, offsets = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        if extent.ids is not None:
            directory = await self.blocks.small_directory(extent, extent.ids)
            for number, inside in directory.blocks_of(hashes):
                keys, distances = await self.blocks.block(extent, block_reference(directory.blocks.places[number], extent.ids))
                found, places = find_keys(keys, directory.keys_of(hashes[inside]))
                rows.append(inside[found])
                offsets.append(distances[places].astype(np.int64) + extent.first_offset)
        return Hits(np.concatenate(rows), np.concatenate(offsets))

    def room_for(self, partition: Partition, count: int) -> Group[Reference] | None:
        """The group that is to know a section in the making, if the others of the partition are known: its hashes are to be added to the
        sieve as they are sorted."""
        known = self._ids.get((partition.topic, partition.number))
        if known is None and partition.sealed_end > 1:
            return None  # the others were never asked for
        return (known or KnownIds[Reference]()).room_for(count)

    def adopt(self, partition: Partition, extent: Extent, built: Built, places: list[BlockPlace], group: Group[Reference]) -> None:
        """Keeps the ids of an extent that is about to be added: they are in memory now, and will be asked for."""
        known = self._ids.get((partition.topic, partition.number))
        if extent.ids is None or (known is None and partition.sealed_end > 1):
            return
        known, made = known or KnownIds[Reference](), _filter_of(built)
        known.add(group, extent.ids, KnownSection(made, Blocks(places)))
        self._keep_ids((partition.topic, partition.number), known)

    def _forget(self, partition: Partition, extents: list[Extent]) -> None:
        """Sections that are gone, or that the window has passed, are kept in memory no longer."""
        key = partition.topic, partition.number
        known = self._ids.get(key)
        if known is not None and extents:
            known.keep_only(_sections(extents, extents[-1].arrived_last - max(partition.window, MINUTE)))
            self._keep_ids(key, known)

    async def _read_ids(self, partition: Partition, known: KnownIds[Reference], extent: Extent, section: Reference) -> None:
        header, starts, blocks = await self.blocks.directory(extent, section)
        read = [await self.blocks.read_block(extent, block_reference(place, section)) for place in blocks.places]
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
            stored, distances = await self.blocks.block(extent, block_reference(blocks.places[number], section))
            at = places[inside] % blocks.entries
            same[inside] = stored[at] == keys[inside]
            offsets[inside] = distances[at].astype(np.int64) + extent.first_offset
        return same, offsets[same]


def _sections(extents: list[Extent], horizon: int) -> dict[Reference, Extent]:
    """The ids sections of the extents in which something has arrived since then."""
    return {extent.ids: extent for extent in extents if extent.ids is not None and extent.arrived_last >= horizon}


def _filter_of(built: Built) -> Filter:
    made, at = Filter(built.bits, built.starts), 0
    for keys, _ in built.blocks:
        made.fill(at, keys)
        at += len(keys)
    return made
