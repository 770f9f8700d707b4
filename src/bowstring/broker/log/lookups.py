"""Looking for messages that may be known: the I/O behind a partition's `Lookup`.

Hashes give candidates, from memory and from the sections of sealed pages. Each is compared with the
stored id, so that two ids that share a hash are never taken for one.

Sections within the deduplication window are known in memory. Those that are older are searched on
the disk, newest first, and only when the `Lookup` asks for what is `old`: for an id that is found
in a newer section no older one is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa

from bowstring.broker.reading.extents import Extents
from bowstring.broker.reading.page_reader import PageReader
from bowstring.broker.reading.sealed_ids import SealedIds
from bowstring.broker.witness import Witness
from bowstring.core.decisions import BatchName, Found, Ids, Lookup, Rows, SealedBatch
from bowstring.core.id_sections import batch_hashes
from bowstring.core.natural_ids import Hits
from bowstring.core.partition import MINUTE, Partition
from bowstring.core.sieve import Hashes
from bowstring.ports.extents import Extent
from bowstring.ports.failures import Damaged

Texts = Callable[[Rows], pa.Array]
"""The ids of some rows of a batch."""


class Lookups:
    """Reads what a partition has to know before it can decide."""

    def __init__(
        self, reader: PageReader, extents: Extents, sealed: SealedIds, damaged: Callable[[Partition, Damaged], None], witness: Witness
    ) -> None:
        self._reader = reader
        self._extents = extents
        self._sealed = sealed
        self._damaged = damaged
        """Called with pages that could not be read."""
        self._witness = witness

    def at_once(self, partition: Partition, lookup: Lookup, hashes: Hashes, now: int) -> Found | None:
        """What memory alone can tell: that nothing is known. This is what nearly every batch meets
        with.
        """
        owned = lookup.owned is not None and len(lookup.owned)
        if len(lookup.hits.rows) or lookup.batches or lookup.old or owned:
            return None
        if not self._sealed.surely_none(partition, hashes, now - partition.window):
            return None
        return Found(partition.moves, lookup.hits, np.empty(0, np.int64), {})

    async def look_up(self, partition: Partition, lookup: Lookup, ids: Ids | None, texts: Texts, now: int) -> Found:
        """Reads and compares. Raises Damaged where that cannot be done; if something has moved
        meanwhile it begins again.
        """
        while True:
            moves = partition.moves
            try:
                found = await self._look_up(partition, lookup, ids, texts, now)
                self._witness.looked_up(partition, found)
                return found
            except Damaged as error:
                if moves == partition.moves:
                    self._damaged(partition, error)
                    raise

    async def _look_up(self, partition: Partition, lookup: Lookup, ids: Ids | None, texts: Texts, now: int) -> Found:
        moves, hits = partition.moves, lookup.hits
        if lookup.sealed and ids is not None:
            more = await self._sealed.candidates(partition, ids.hashes, now - partition.window)
            hits = Hits(np.concatenate((hits.rows, more.rows)), np.concatenate((hits.offsets, more.offsets)))
        same, arrived = await self._compared(partition, hits, texts)
        if lookup.old and ids is not None:
            same, arrived = await self._with_old(partition, ids.hashes, (same, arrived), texts, now)
        batches = await self._batches(partition, lookup, now)
        complete = len(batches) == len(lookup.batches) or await self._is_complete(partition, lookup.batches, now)
        groups = await self._groups(partition, np.concatenate((same.offsets, lookup.owned))) if lookup.owned is not None else {}
        return Found(moves, same, arrived, batches, complete, groups)

    async def _groups(self, partition: Partition, offsets: Rows) -> dict[int, str]:
        """The owners of the messages at these offsets, as far as they are there."""
        groups = await self._reader.groups(partition, offsets)
        return {offset: group for offset, group in zip(offsets.tolist(), groups, strict=True) if group is not None}

    async def _is_complete(self, partition: Partition, names: Iterable[BatchName], now: int) -> bool:
        """Whether all was looked at: no extent has gone with time, the cleaner has left no page behind, and none of
        the batches can be in a section that is too old to be searched.
        """
        for name in names:
            known, horizon = partition.producers.get(name.producer), _horizon(partition, [name], now)
            is_old = known is not None and known.may_have_arrived_before(horizon, name.number)
            if is_old and await self._extents.older(partition, horizon):
                return False
        end = 1
        for extent in await self._extents.of(partition):
            if extent.first_offset != end or not await self._is_whole(extent):
                return False
            end = extent.end_offset
        return end == partition.sealed_end

    async def _is_whole(self, extent: Extent) -> bool:
        """Whether an extent has all the rows that it was sealed with. If its index cannot be read, it may lack some."""
        try:
            return (await self._extents.index(extent)).rows == extent.end_offset - extent.first_offset
        except Damaged:
            return False

    async def _compared(self, partition: Partition, hits: Hits, texts: Texts) -> tuple[Hits, Rows]:
        import pyarrow.compute as pc

        if not len(hits.rows):
            return hits, np.empty(0, np.int64)
        stored = await self._reader.messages(partition, hits.offsets)
        equal = pc.equal(texts(hits.rows), pa.array(stored.ids, pa.utf8()))
        same = np.asarray(equal.to_numpy(zero_copy_only=False), bool)
        return Hits(hits.rows[same], hits.offsets[same]), stored.arrived[same]

    async def _with_old(self, partition: Partition, hashes: Hashes, found: tuple[Hits, Rows], texts: Texts, now: int) -> tuple[Hits, Rows]:
        """What was found, and for each id of which no live message was, the messages in older
        sections down to one that is.
        """
        parts = [found]
        left = np.setdiff1d(np.arange(len(hashes)), _settled(partition, found[0]))
        for extent in await self._extents.older(partition, now - partition.window):
            if not len(left):
                break
            hits = await self._sealed.search(extent, hashes[left])
            hits = _retained(partition, Hits(left[hits.rows], hits.offsets))
            if len(hits.rows):
                parts.append(await self._compared(partition, hits, texts))
                left = np.setdiff1d(left, _settled(partition, parts[-1][0]))
        every = Hits(np.concatenate([hits.rows for hits, _ in parts]), np.concatenate([hits.offsets for hits, _ in parts]))
        return every, np.concatenate([arrived for _, arrived in parts])

    # Batches

    async def _batches(self, partition: Partition, lookup: Lookup, now: int) -> dict[BatchName, SealedBatch]:
        names, found = lookup.batches, dict[BatchName, SealedBatch]()
        if not names:
            return found
        hashes, horizon = _hashes_of(names), _horizon(partition, names, now)
        hits = await self._sealed.candidates(partition, hashes, horizon)
        await self._compare_batches(partition, _named(names, hits), found)
        if lookup.old:
            await self._old_batches(partition, names, horizon, found)
        return found

    async def _old_batches(
        self, partition: Partition, names: tuple[BatchName, ...], horizon: int, found: dict[BatchName, SealedBatch]
    ) -> None:
        """Those that were not found yet, among the pages that are not sealed and in older sections."""
        await self._compare_batches(partition, [(name, offset) for name in names for offset in partition.batches.find(name)], found)
        for extent in await self._extents.older(partition, horizon):
            left = tuple(name for name in names if name not in found)
            if not left:
                return
            hits = await self._sealed.search(extent, _hashes_of(left))
            await self._compare_batches(partition, _named(left, hits), found)

    async def _compare_batches(
        self, partition: Partition, candidates: Iterable[tuple[BatchName, int]], found: dict[BatchName, SealedBatch]
    ) -> None:
        """Adds to what was found the candidates that begin at their offset. Of a page that was cut
        the piece with a batch's first rows may be gone while later ones live.
        """
        for name, offset in candidates:
            for start, origin in await self._reader.origins(partition, offset):
                if (origin.producer, origin.number, start - origin.first_row) == (*name, offset):
                    found[name] = SealedBatch(offset, origin.first_row + origin.rows + origin.rest, origin.group)


def _horizon(partition: Partition, names: Iterable[BatchName], now: int) -> int:
    """What is remembered of a producer's batches reaches so far back. That goes by the arrival of its newest batch: since
    then nothing was forgotten, however long it has been silent, and wherever the clock is now.
    """
    known = (partition.producers.get(name.producer) for name in names)
    newest = (producer.newest for producer in known if producer is not None)
    return min(newest, default=now) - max(partition.window, MINUTE)


def _hashes_of(names: tuple[BatchName, ...]) -> Hashes:
    return batch_hashes(b"".join(name.producer for name in names), np.array([name.number for name in names], np.int64))


def _named(names: tuple[BatchName, ...], hits: Hits) -> Iterable[tuple[BatchName, int]]:
    return [(names[row], offset) for row, offset in zip(hits.rows.tolist(), hits.offsets.tolist(), strict=True)]


def _retained(partition: Partition, hits: Hits) -> Hits:
    """Those that retention has not taken: a section stays until all of its extent is gone."""
    stays = np.isin(hits.offsets, partition.retained.of(np.sort(hits.offsets)))
    return Hits(hits.rows[stays], hits.offsets[stays])


def _settled(partition: Partition, hits: Hits) -> Rows:
    """The rows of which a live message was found: whatever is older does not count."""
    return hits.rows[np.array([not partition.is_gone(offset) for offset in hits.offsets.tolist()], bool)]
