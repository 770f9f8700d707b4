"""Pages become extents: drafted, written to segments with their sections, synced, and only then told to the catalog."""

from __future__ import annotations

from collections.abc import Sequence

from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.log.log import Log
from bowstring.broker.reading.reading import Reading
from bowstring.broker.surroundings import Surroundings
from bowstring.broker.upkeep.extent_drafting import ExtentDrafting
from bowstring.broker.upkeep.placement import ExtentDraft, Placing, Written, write_sections
from bowstring.broker.upkeep.switch import Switch
from bowstring.broker.upkeep.usage import Usage
from bowstring.ports.journal import Edit


class PageSealing:
    """Seals the pages of some partitions at a time."""

    def __init__(self, surroundings: Surroundings, log: Log, reading: Reading, usage: Usage, switch: Switch) -> None:
        self._store = surroundings.store
        self._journal = log.journal
        self._broker = log.fence.broker
        self._sealed_ids = reading.sealed_ids
        self._usage = usage
        self._switch = switch
        self._drafting = ExtentDrafting(surroundings, reading)

    async def seal(self, actors: Sequence[PartitionActor], sequence: int, *, hurry: bool) -> None:
        """The pages of some partitions become extents."""
        with Placing(self._store, self._usage, self._broker, sequence) as placing:
            pages = [await self._drafting.pages(placing, actor.partition, sequence, hurry=hurry) for actor in actors]
            await placing.flush()
            drafts = [await self._drafting.draft(actor.partition, placed) for actor, placed in zip(actors, pages, strict=True)]
            written = await write_sections(placing, drafts)
            self._adopt_ids(drafts, written)
            await self._journal.edit(Edit(add=[extent for extent, _ in written]))
            for actor, (extent, _) in zip(actors, written, strict=True):
                self._switch.sealed(actor, extent)

    def _adopt_ids(self, drafts: Sequence[ExtentDraft], written: Sequence[Written]) -> None:
        """Ids that callers gave will be asked for again at once, so what was just made of them stays in memory."""
        for draft, (extent, blocks) in zip(drafts, written, strict=True):
            if draft.group is not None:
                self._sealed_ids.adopt(draft.partition, extent, draft.hashes, blocks, draft.group)
