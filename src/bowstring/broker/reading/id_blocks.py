"""The ids sections of extents, as the store has them: a directory, and blocks of keys and distances."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bowstring.broker.reading.caches import ByteCache
from bowstring.broker.reading.section_reader import SectionReader, understood
from bowstring.broker.upkeep.placement import PAUSE_SECONDS
from bowstring.core import sections
from bowstring.core.id_sections import BlockPlace, Blocks, Builder, Built, Directory, known_hashes, parts_of
from bowstring.ports.clock import Clock
from bowstring.ports.extents import Extent
from bowstring.ports.store import Reference

Block = tuple[NDArray[np.uint32], NDArray[np.uint32]]
"""Keys and distances of some entries of an ids section."""


class IdBlocks:
    """Directories and blocks of all ids sections."""

    def __init__(self, sections: SectionReader, clock: Clock, bytes_max: int) -> None:
        self._sections = sections
        self._clock = clock
        self._directories: ByteCache[Reference, Directory] = ByteCache(bytes_max // 16, touch=True)
        self._blocks: ByteCache[Reference, Block] = ByteCache(bytes_max // 8, touch=True)

    @property
    def bytes(self) -> int:
        return self._directories.bytes + self._blocks.bytes

    async def small_directory(self, extent: Extent, section: Reference) -> Directory:
        """The directory, which stays in memory for a while."""
        found = self._directories.get(section)
        if found is None:
            header, starts, blocks = await self.directory(extent, section)
            found = Directory(header.detail, starts, blocks)
            self._directories.keep(section, found, found.bytes)
        return found

    async def block(self, extent: Extent, block: Reference) -> Block:
        """A block, which stays in memory for a while."""
        found = self._blocks.get(block)
        if found is None:
            found = await self.read_block(extent, block)
            self._blocks.keep(block, found, 2 * found[0].nbytes)
        return found

    async def read_block(self, extent: Extent, block: Reference) -> Block:
        """A block, as the store has it."""
        header, body = await self._sections.read(extent, block, sections.ID_BLOCK)
        return understood(extent, lambda: sections.decode_block(header, body))

    async def directory(self, extent: Extent, section: Reference) -> tuple[sections.SectionHeader, NDArray[np.uint32], Blocks]:
        """The directory of a section: its header, where its buckets start, and its blocks."""
        header, body = await self._sections.read(extent, section, sections.IDS)
        starts, places = understood(extent, lambda: sections.decode_directory(header, body))
        return header, starts, Blocks.of(header.count, places)

    async def joined_ids(self, extents: list[Extent], first_offset: int) -> Built:
        """One ids section of the entries of several. Of their hashes only what the filters kept is
        known, so there are no more buckets than the least of them had.
        """
        sources = [(extent, extent.ids, *await self.directory(extent, extent.ids)) for extent in extents if extent.ids is not None]
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
            keys, distances = await self.block(extent, block_reference(blocks.places[number], section))
            inside = slice(max(first - at, 0), end - at)
            found.append((max(first, at), keys[inside], distances[inside]))
        return found


def block_reference(place: BlockPlace, directory: Reference) -> Reference:
    """A block was written with its directory."""
    return Reference(place.segment, place.position, place.length, directory.sequence)
