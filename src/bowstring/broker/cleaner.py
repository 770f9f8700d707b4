"""Space that dead pages take is given back: what lives in a segment that is mostly dead is copied, and the segment is used again.

Topics of different retention share segments, so a segment may hold a few pages that live for a year among many that are gone since last
week. When less than `ALIVE_MIN` of its bytes are in use, the extents that use it are rewritten one by one, in the order of their
partitions: their pages in it are copied, their sections written anew, and in one edit the new extent takes the old one's place. Pages of
which no row is delivered any more are left behind. When no extent uses the segment any more it is free by itself (`upkeep`).

On the way, neighbouring extents that are small are joined: a partition that gets little has one after every seal, and a thousand of them
take longer to load and to search than one.

A page that cannot be read stays where it is, and so does its segment: nothing that is damaged is thrown away.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from bowstring.broker.placing import Draft, Placed, Placing, write_sections
from bowstring.broker.reading import reference
from bowstring.core.id_sections import joined
from bowstring.core.pages import PageEntry
from bowstring.ports.catalog import Edit, Extent, ExtentKey
from bowstring.ports.failures import Damaged

if TYPE_CHECKING:
    from bowstring.broker.actor import PartitionActor
    from bowstring.broker.incarnation import Incarnation

ALIVE_MIN = 0.4
BYTES_A_TURN = 16 * 1024 * 1024
"""How much is copied before other upkeep has its turn."""
READ_BYTES = 1024 * 1024
EXTENTS_A_READ = 20
SMALL_PAGES = 64
"""An extent with fewer pages is joined with its neighbours."""
JOINED_MAX = 32
CROWD = 8
"""So many small extents in a row are worth joining."""

_log = logging.getLogger("bowstring.cleaner")


class Cleaner:
    """Copies what lives out of segments that are mostly dead."""

    def __init__(self, incarnation: Incarnation) -> None:
        self._incarnation = incarnation
        self._given_up: set[int] = set()
        """Segments with a page that cannot be read."""
        self._joined: dict[tuple[int, int], int] = {}
        """How often a partition had been sealed when its extents were joined last."""
        self._budget = 0

    async def turn(self) -> None:
        """A moment's work."""
        self._budget = BYTES_A_TURN
        await self._join_some()
        for segment in self._candidates():
            if self._budget <= 0:
                return
            try:
                await self._clean(segment)
            except Damaged as error:
                self._given_up.add(segment)
                _log.warning("segment %#x is not cleaned, because a page in it cannot be read: %s", segment, error)

    def _candidates(self) -> list[int]:
        """Segments to be cleaned, the emptiest first."""
        usage, sizes = self._incarnation.usage, self._incarnation.store.segments()
        shares = {segment: usage.of(segment) / size for segment, size in sizes.items() if segment not in self._given_up}
        wanted = [segment for segment, share in shares.items() if 0 < share < ALIVE_MIN and not usage.recent(segment)]
        return sorted(wanted, key=lambda segment: (shares[segment], segment))

    async def _clean(self, segment: int) -> None:
        """Rewrites the extents that use the segment, as far as the budget goes. What is left over comes with the next turn."""
        after: ExtentKey | None = None
        while self._budget > 0:
            extents = await self._incarnation.catalog.extents_in(segment, after, EXTENTS_A_READ)
            if not extents:
                return
            for extent in extents:
                actor = self._incarnation.actor(extent.topic, extent.partition)
                if actor is not None and actor.closed is None:
                    await self._rewrite(actor, [extent], segment)
                if self._budget <= 0:
                    return
            last = extents[-1]
            after = ExtentKey(last.topic, last.partition, last.first_offset)

    async def _join_some(self) -> None:
        """Joins small extents, in partitions that were sealed often enough since it was done last."""
        for actor in self._incarnation.partitions():
            partition = actor.partition
            key = partition.topic, partition.number
            if actor.closed is None and partition.seals >= self._joined.get(key, 0) + CROWD:
                self._joined[key] = partition.seals
                try:
                    for crowd in _crowds(await self._incarnation.extents.of(partition)):
                        await self._rewrite(actor, crowd, 0)
                except Damaged as error:
                    _log.warning("extents of topic %d, partition %d are not joined: %s", *key, error)

    async def _rewrite(self, actor: PartitionActor, extents: list[Extent], segment: int) -> None:
        """Makes one extent of these, with no page in the segment. Raises Damaged, and then nothing has changed."""
        incarnation = self._incarnation
        with Placing(incarnation.store, incarnation.usage, incarnation.flusher.committed) as placing:
            pages: list[Placed] = []
            for extent in extents:
                index = await incarnation.extents.index(extent)
                pages += await self._copied(placing, actor, index.state(), segment)
            keys = [ExtentKey(extent.topic, extent.partition, extent.first_offset) for extent in extents]
            if not pages:
                if any(extent.index.sequence > incarnation.upkeep.sealer.trimmed for extent in extents):
                    return None  # the journal still has the pages, and would bring them back at load
                await incarnation.catalog.edit(incarnation.fence, Edit(drop=keys))
                return incarnation.replaced(actor, extents, None)
            await placing.flush()
            hashes = [await incarnation.extents.entries_of_ids(extent) for extent in extents if extent.ids is not None]
            first, end = extents[0].first_offset, extents[-1].end_offset
            draft = Draft(actor.partition, pages, first, end, joined(hashes, first))
            new = (await write_sections(placing, [draft]))[0]
            if actor.closed is not None:
                return None
            await incarnation.catalog.edit(incarnation.fence, Edit(drop=keys, add=[new]))
            return incarnation.replaced(actor, extents, new)

    async def _copied(self, placing: Placing, actor: PartitionActor, entries: list[PageEntry], segment: int) -> list[Placed]:
        """The pages that live on: those in the segment are copied."""
        partition = actor.partition
        live = [entry for entry in entries if len(partition.live(entry.first_offset, entry.end))]
        found: list[Placed] = []
        chunk: list[PageEntry] = []
        for entry in (*live, None):
            if chunk and (entry is None or entry.segment != segment or sum(page.length for page in chunk) >= READ_BYTES):
                pages = await self._incarnation.store.read([reference(page) for page in chunk])
                found += [Placed(e, await placing.add(page)) for e, page in zip(chunk, pages, strict=True)]
                self._budget -= sum(page.length for page in chunk)
                chunk = []
            if entry is not None and entry.segment == segment:
                chunk.append(entry)
            elif entry is not None:
                found.append(Placed(entry))
        return found


def _crowds(extents: list[Extent]) -> list[list[Extent]]:
    """Runs of small extents that follow each other."""
    found: list[list[Extent]] = [[]]
    for extent in extents:
        small = extent.pages < SMALL_PAGES
        if not small or len(found[-1]) >= JOINED_MAX:
            found.append([])
        if small:
            found[-1].append(extent)
    return [crowd for crowd in found if len(crowd) >= CROWD]
