"""Looking for messages that may be known: the I/O behind a partition's `Lookup`.

Hashes give candidates, from memory and from the sections of sealed pages. Each is compared with what is stored, so that two ids that
share a hash are never taken for one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from bowstring.broker.reading.extents import Extents
from bowstring.broker.reading.page_reader import PageReader
from bowstring.core.decisions import BatchName, Found, Ids, Lookup, Rows, SealedBatch
from bowstring.core.id_sections import batch_hashes
from bowstring.core.natural_ids import Hits
from bowstring.core.partition import MINUTE, Partition
from bowstring.core.sieve import Hashes
from bowstring.ports.failures import Damaged

Texts = Callable[[Rows], pa.Array]
"""The ids of some rows of a batch."""


class Lookups:
    """Finds out what a partition has to know before it can decide."""

    def __init__(self, reader: PageReader, extents: Extents, damaged: Callable[[Partition, Damaged], None]) -> None:
        self._reader = reader
        self._extents = extents
        self._damaged = damaged
        """Is told what could not be read."""

    def at_once(self, partition: Partition, lookup: Lookup, hashes: Hashes, now: int) -> Found | None:
        """What memory alone can tell: that nothing is known. This is what nearly every batch meets with."""
        owned = lookup.owned is not None and len(lookup.owned)
        if len(lookup.hits.rows) or lookup.batches or owned or not self._extents.surely_none(partition, hashes, now - partition.window):
            return None
        return Found(partition.moves, lookup.hits, np.empty(0, np.int64), {})

    async def look_up(self, partition: Partition, lookup: Lookup, ids: Ids | None, texts: Texts, now: int) -> Found:
        """Reads and compares. Raises Damaged where that cannot be done; if something has moved meanwhile it begins again."""
        while True:
            moves = partition.moves
            try:
                return await self._look_up(partition, lookup, ids, texts, now)
            except Damaged as error:
                if moves == partition.moves:
                    self._damaged(partition, error)
                    raise

    async def _look_up(self, partition: Partition, lookup: Lookup, ids: Ids | None, texts: Texts, now: int) -> Found:
        moves, hits = partition.moves, lookup.hits
        if lookup.sealed and ids is not None:
            more = await self._extents.candidates(partition, ids.hashes, now - partition.window)
            hits = Hits(np.concatenate((hits.rows, more.rows)), np.concatenate((hits.offsets, more.offsets)))
        same, arrived = await self._compared(partition, hits, texts)
        batches = await self._batches(partition, lookup.batches, now)
        complete = not lookup.batches or await self._is_complete(partition)
        groups = await self._groups(partition, np.concatenate((same.offsets, lookup.owned))) if lookup.owned is not None else {}
        return Found(moves, same, arrived, batches, complete, groups)

    async def _groups(self, partition: Partition, offsets: Rows) -> dict[int, str]:
        """The owners of the messages at these offsets, as far as they are there."""
        groups = await self._reader.groups(partition, offsets)
        return {offset: group for offset, group in zip(offsets.tolist(), groups, strict=True) if group is not None}

    async def _is_complete(self, partition: Partition) -> bool:
        """Whether no extent has gone with time."""
        end = 1
        for extent in await self._extents.of(partition):
            if extent.first_offset != end:
                return False
            end = extent.end_offset
        return end == partition.sealed_end

    async def _compared(self, partition: Partition, hits: Hits, texts: Texts) -> tuple[Hits, Rows]:
        import pyarrow.compute as pc

        if not len(hits.rows):
            return hits, np.empty(0, np.int64)
        stored = await self._reader.messages(partition, hits.offsets)
        equal = pc.equal(texts(hits.rows), pa.array(stored.ids, pa.utf8()))
        same = np.asarray(equal.to_numpy(zero_copy_only=False), bool)
        return Hits(hits.rows[same], hits.offsets[same]), stored.arrived[same]

    async def _batches(self, partition: Partition, names: tuple[BatchName, ...], now: int) -> dict[BatchName, SealedBatch]:
        found: dict[BatchName, SealedBatch] = {}
        if not names:
            return found
        hashes = batch_hashes(b"".join(name.producer for name in names), np.array([name.number for name in names], np.int64))
        hits = await self._extents.candidates(partition, hashes, now - max(partition.window, MINUTE))
        for row, offset in zip(hits.rows.tolist(), hits.offsets.tolist(), strict=True):
            for first_offset, origin in await self._reader.origins(partition, offset):
                if (origin.producer, origin.number, first_offset) == (*names[row], offset):
                    found[names[row]] = SealedBatch(first_offset, origin.rows + origin.rest, origin.group)
        return found
