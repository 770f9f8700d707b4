"""Space that dead pages take is given back: what lives in a segment that is mostly dead is copied,
and the segment is used again.

Topics of different retention share segments, so a segment may hold a few pages that live for a year
among many that are gone since last week. When less than `ALIVE_MIN` of its bytes are in use, the
extents that use it are rewritten some at a time, in the order of their partitions: their pages in
it are copied, their sections written anew, and in one edit the new extents take the old ones'
place. Pages of which no row is delivered any more are left behind, unless an id in them is still
taken. When no extent uses the segment any more it is free by itself (`upkeep`).

On the way, neighbouring extents that are small are joined: a partition that gets little has one
after every seal, and a thousand of them take longer to load and to search than one.

A page that cannot be read stays where it is, and so does its segment: nothing that is damaged is
thrown away.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from bowstring.broker.disk_room import ALIVE_MIN
from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.log.log import Log
from bowstring.broker.reading.reading import Reading
from bowstring.broker.surroundings import Surroundings
from bowstring.broker.upkeep.copier import Copier
from bowstring.broker.upkeep.placement import ExtentDraft, Placed, Placing, write_sections
from bowstring.broker.upkeep.switch import Switch
from bowstring.broker.upkeep.usage import Usage
from bowstring.ports.extents import Extent, ExtentKey
from bowstring.ports.failures import Damaged
from bowstring.ports.journal import Edit

BYTES_A_TURN = 16 * 1024 * 1024
"""How much is copied before other upkeep has its turn."""
EXTENTS_A_READ = 20
SMALL_PAGES = 64
"""An extent with fewer pages is joined with its neighbours."""
JOINED_MAX = 32
CROWD = 8
"""So many small extents in a row are worth joining."""


class _Job(NamedTuple):
    """Extents of a partition that become one."""

    actor: PartitionActor
    extents: list[Extent]


class Cleaner:
    """Copies what lives out of segments that are mostly dead."""

    def __init__(
        self, surroundings: Surroundings, log: Log, reading: Reading, usage: Usage, switch: Switch, has_trimmed: Callable[[Extent], bool]
    ) -> None:
        self._journal = log.journal
        self._store = surroundings.store
        self._observer = surroundings.observer
        self._flusher = log.flusher
        self._topics = log.topics
        self._extents = reading.extents
        self._id_blocks = reading.sealed_ids.blocks
        self._due_times = reading.due_times
        self._copier = Copier(surroundings.store, surroundings.counters)
        self._usage = usage
        self._switch = switch
        self._has_trimmed = has_trimmed
        """Is nothing of an extent in our journal any more?"""
        self._given_up: set[int] = set()
        """Segments with a page that cannot be read."""
        self._joined: dict[tuple[int, int], int] = {}
        """How often a partition had been sealed when its extents were joined last."""
        self._sealed: dict[PartitionActor, None] = {}
        """Partitions that were sealed since the last turn."""

    def sealed(self, actor: PartitionActor) -> None:
        """A partition has one more extent."""
        self._sealed[actor] = None

    async def turn(self) -> None:
        """A moment's work."""
        self._copier.budget = BYTES_A_TURN
        await self._join_some()
        for segment in self._candidates():
            if self._copier.budget <= 0:
                return
            try:
                await self._clean(segment)
            except Damaged as error:
                self._given_up.add(segment)
                self._observer.note("upkeep-postponed", work="cleaning", problem=str(error))

    def _candidates(self) -> list[int]:
        """Segments to be cleaned, the emptiest first."""
        usage, sizes = self._usage, self._store.segments()
        shares = {segment: usage.of(segment) / size for segment, size in sizes.items() if segment not in self._given_up}
        wanted = [segment for segment, share in shares.items() if 0 < share < ALIVE_MIN and not usage.recent(segment)]
        return sorted(wanted, key=lambda segment: (shares[segment], segment))

    async def _clean(self, segment: int) -> None:
        """Rewrites the extents that use the segment, as far as the budget goes. The rest follows in
        the next turn.
        """
        after: ExtentKey | None = None
        while self._copier.budget > 0:
            extents = await self._journal.extents_in(segment, after, EXTENTS_A_READ)
            if not extents:
                return
            actors = [self._topics.actor(extent.topic, extent.partition) for extent in extents]
            await self._rewrite([_Job(actor, [extent]) for actor, extent in zip(actors, extents, strict=True) if actor], segment)
            after = extents[-1].key

    async def _join_some(self) -> None:
        """Joins small extents, in partitions that were sealed often enough since it was done last."""
        jobs: list[_Job] = []
        sealed, self._sealed = self._sealed, {}
        for actor in sealed:
            partition = actor.partition
            key = partition.topic, partition.number
            if actor.closed is None and partition.seals >= self._joined.get(key, 0) + CROWD:
                self._joined[key] = partition.seals
                jobs += [_Job(actor, crowd) for crowd in _crowds(await self._extents.of(partition))]
        for start in range(0, len(jobs), EXTENTS_A_READ):
            try:
                await self._rewrite(jobs[start : start + EXTENTS_A_READ], 0)
            except Damaged as error:
                self._observer.note("upkeep-postponed", work="joining extents", problem=str(error))

    async def _rewrite(self, jobs: list[_Job], segment: int) -> None:
        """Makes one extent of those of each job, with no page in the segment. They are written
        together, because every write begins on a block of the disk: extents of a few hundred bytes,
        each for itself, would leave segments behind that are as empty as before. Raises Damaged
        when all is done that can be.
        """
        damage: Damaged | None = None
        with Placing(self._store, self._usage, self._journal.fence.broker, self._flusher.committed) as placing:
            drafted: list[tuple[_Job, ExtentDraft]] = []
            empty: list[_Job] = []
            for job in jobs:
                try:
                    draft = await self._drafted(placing, job, segment)
                except Damaged as error:
                    damage = error
                    continue
                if draft is not None:
                    drafted.append((job, draft))
                elif all(self._has_trimmed(extent) for extent in job.extents):
                    empty.append(job)  # else the journal still has the pages, and would bring them back at load
            await placing.flush()
            written = [one.extent for one in await write_sections(placing, [draft for _, draft in drafted])]
            done = [*zip([job for job, _ in drafted], written, strict=True), *((job, None) for job in empty)]
            done = [(job, new) for job, new in done if job.actor.closed is None]
            if done:
                keys = [extent.key for job, _ in done for extent in job.extents]
                await self._journal.edit(Edit(drop=keys, add=[new for _, new in done if new is not None]))
            for job, new in done:
                self._switch.replaced(job.actor, job.extents, new)
        if damage is not None:
            raise damage

    async def _drafted(self, placing: Placing, job: _Job, segment: int) -> ExtentDraft | None:
        """The extent to be, None if nothing in it lives. Its pages are written when the placing is
        flushed.
        """
        pages: list[Placed] = []
        for extent in job.extents:
            index = await self._extents.index(extent)
            pages += await self._copier.copied(placing, job.actor.partition, index.state(), segment)
        if not pages:
            return None
        partition, first, end = job.actor.partition, job.extents[0].first_offset, job.extents[-1].end_offset
        hashes, dues = await self._id_blocks.joined_ids(job.extents, first), await self._due_times.all(partition, job.extents)
        dues = dues.inside([(page.entry.first_offset, page.entry.end) for page in pages])
        guesses = sum([await self._due_times.guesses_in(extent) for extent in job.extents])
        return ExtentDraft(partition, pages, first, end, hashes, dues, guesses=guesses)


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
